"""The page of a record: read as a browser would, and checked against numbers worked out elsewhere."""

import dataclasses
import json
import re
import time
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from leadline._checks import InvalidArgumentError
from leadline.files.records import Record
from leadline.report import page as pages
from leadline.report.words import depth_in_words, duration
from tests.cli.test_spirals import SCHEMA


def page(record):
    return pages.page(Record.from_json(record))


NASTY = '<script>alert("1")</script> & <b>'
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """The elements of a page, and its text; a tag that is not closed, or closed twice, is an error."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join("".join(self.words).replace("\N{NO-BREAK SPACE}", " ").split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open and "svg" not in self.open:
            self.words.append(data + (" " if data.strip() else ""))

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)

    def has_row(self, *cells):
        """Whether a table has the cells side by side."""
        return re.search(r"\s+".join(map(re.escape, cells)), self.text) is not None


def common():
    t = np.linspace(0, 1, 20)[:, None] * np.ones(2)
    terms = {"expected_nll": 100 - 50 * t, "depth_kl": 1 + t, "weight_kl": 300 - 99 * t}
    history = {"free_energy": sum(terms.values()), **terms, "depth_mean": 2 * t, "depth_std": 1 - t / 2}
    history["validation_nll"] = 0.7 - 0.5 * t
    history["depth_support"] = np.stack([0 * t, 3 + 0 * t], axis=-1)
    return {
        "recipe": "leadline", "depth": "normal", "width": 32, "temperature": 0.15, "n_restarts": 2, "epochs": 5000,
        "seed": 7, "n_rows": 1140, "n_test": 114,
        "depth_pmf": [0.0, 0.04, 0.94, 0.02], "depth_prior_pmf": [0.6, 0.3, 0.07, 0.03], "depth_mean": 1.98,
        "depth_std": 0.2441, "depth_mode": 2, "depth_support": [1, 3], "effective_width": [[14, 9, 6, 2], [13, 9, 7]],
        "free_energy": 498.2371, "seconds": 132.4, "device": "cpu", "version": "9.8.7",
        "free_energy_terms": {"expected_nll": 27.8123, "depth_kl": 2.6831, "weight_kl": 467.7417},
        "history": {name: column.tolist() for name, column in history.items()},
        "settings": {"depth": "normal", "max_iter": None, "random_state": 7},
    }  # fmt: skip


def classification():
    return {
        **common(), "name": "tumours.csv", "task": "classification", "target": "diagnosis", "n_features": 5,
        "columns": [
            {"name": "radius", "words": "number"}, {"name": "area", "words": "number"},
            {"name": "clinic", "words": "category of 3: Ayr, Bute, Cork"},
        ],
        "classes": ["benign", "malignant"], "class_shares": {"benign": 0.627, "malignant": 0.373},
        "accuracy": 97.3684, "nll": 0.07627, "brier": 0.03741, "ece": 0.0187,
        "reliability": {"rows": [0, 14, 100], "confidence": [None, 0.6, 0.98], "right": [None, 0.5, 0.97]},
        "roc_auc": 0.9931, "pr_auc": 0.9877, "errors": {"accuracy": 1.53, "nll": 0.0213, "roc_auc": 0.00421},
        "confusion": {"rows": [72, 42], "predicted": [73, 41], "right": [71, 40], "pairs": [[1, 0, 2], [0, 1, 1]],
                      "roc_auc": [0.9931, None], "pr_auc": [0.995, 0.9877]},
        **inspected(), "hardest": [
            {"row": 513, "because": "uncertain, surprising", "truth": "benign", "prediction": "malignant",
             "probability": 0.61, "nll": 0.942, "noise": 0.3, "weights": 0.15, "depth": 0.3, "missed": False,
             "verdict": "more data like this would help"},
            {"row": 7, "because": "surprising", "truth": "unknown", "prediction": "benign", "probability": 0.993,
             "nll": None, "noise": 0.03, "weights": 0.01, "depth": 0.0, "missed": True,
             "verdict": "it was sure, and wrong: look at the row"},
        ],
        "dependence": [
            {"column": "clinic", "values": ["Ayr", "Bute", "Cork"], "in_order": False, "outputs": ["malignant"],
             "mean": [[0.2], [0.4], [0.3]], "deviation": [[0.02], [0.3], [0.01]]},
            {"column": "area", "values": [143, 250.5, 2501.0], "in_order": True, "outputs": ["malignant"],
             "mean": [[0.2], [0.4], [0.9]], "deviation": [[0.02], [0.03], [0.2]]},
        ],
    }  # fmt: skip


def inspected():
    """What classes and numbers have alike."""
    return {
        "train_nll": 0.0512, "uncertainty": {"noise": [0.3, 0.1], "weights": [0.1, 0.05], "depth": [0.01, 0.04]},
        "importance": {"columns": ["radius", "area", "clinic"], "increase": [0.02, 0.31, -0.001],
                       "error": [0.01, 0.05, 0.002], "n_rows": 114, "n_repeats": 20},
    }  # fmt: skip


def regression():
    return {
        **common(), "name": "concrete.csv", "task": "regression", "target": "strength", "n_features": 2,
        "columns": [{"name": "water", "words": "number"}, {"name": "age", "words": "number"}],
        "rmse": 4.9123, "ll_mixture": -2.871, "coverage_50": 0.534, "coverage_90": 0.87, "coverage_95": 0.94,
        "target_std": 16.72, "coverage_curve": {"level": [0.1, 0.5, 0.9], "observed": [0.1, 0.53, 0.7]},
        "mae": 3.62, "r2": 0.9137, "errors": {"rmse": 0.412, "ll_mixture": 0.0612, "coverage_90": 0.03}, **inspected(),
        "predictions": {"truth": [20.0, 30.0], "mean": [22.0, 27.5], "low": [15.0, 19.0], "high": [29.0, 36.0]},
        "hardest": [
            {"row": 12, "because": "uncertain", "truth": 30.0, "prediction": 27.5, "std": 4.321, "nll": 3.2,
             "noise": 12.0, "weights": 6.0, "depth": 2.0, "missed": False, "verdict": "no data will help"},
        ],
        "dependence": [
            {"column": "age", "values": [1, 28, 90], "in_order": True, "outputs": ["strength"],
             "mean": [[10.0], [30.0], [40.0]], "deviation": [[1.0], [0.5], [2.0]]},
        ],
    }  # fmt: skip


def spiral():
    more = {"n_rows", "depth_prior_pmf", "history", "settings"}
    record = {name: value for name, value in common().items() if name not in more}
    return {**record, "omega": 10.0, "accuracy": 99.90234, "nll": 0.00712, "brier": 0.0021, "ece": 0.0031}


RECORDS = {"classification": classification, "regression": regression, "spiral": spiral}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_page_stands_alone_and_is_sound(kind):
    text = page(json.loads(json.dumps(RECORDS[kind](), allow_nan=False)))
    read = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en-GB"}) in read.elements
    assert read.count("h1") == read.count("title") == 1
    assert read.count("script") == read.count("link") == read.count("img") == 0
    assert "://" not in text
    assert "@import" not in text
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {*re.findall(r"url\(#(.*?)\)", text), *re.findall(r'href="#(.*?)"', text)}
    assert used
    assert used <= set(ids)
    assert not any("src" in attributes for _, attributes in read.elements)
    for tag, attributes in read.elements:
        assert "href" not in attributes
        assert attributes.get("xlink:href", "#").startswith("#")
        if tag == "svg":
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"]) > 20
        if tag == "th":
            assert attributes["scope"] in ("row", "col")


def test_the_spiral_of_these_tests_needs_no_more_than_the_command_writes():
    assert set(spiral()) <= SCHEMA


def test_pictures_take_the_colours_of_the_page():
    text = page(classification())
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "currentColor" in drawn
    assert "#000000" not in drawn
    names = set(re.findall(r"var\(--(\w+),", drawn))
    assert names == {"depth", "weights", "data", "prior", "guide"}
    dark = text[text.index("prefers-color-scheme: dark") : text.index("* {")]
    assert all(f"--{name}:" in dark for name in names)


def test_a_classification_in_numbers():
    read = Page(page(classification()))
    shares = np.array([0.627, 0.373])
    assert "predicts diagnosis from 3 columns and is right for 97.4 % of 114 rows" in read.text
    assert "guessing would be right for 62.7 %" in read.text
    assert "1.98 ± 0.24" in read.text
    assert read.has_row("97.4 %", "± 1.5 %", "62.7 %", "always answering “benign”")
    assert read.has_row("0.0763", "± 0.021", f"{stats.entropy(shares):.3f}")
    assert read.has_row("0.0374", f"{1 - np.sum(shares**2):.3f}")
    assert read.has_row("ECE", "Calibration error: how far confidence and accuracy lie apart, on average.", "1.9 %")
    assert "It was right for 91.2 % of the rows, 93.3 % sure on average: chance explains the difference." in read.text
    assert read.count("svg") == 10
    for value in ("27.8", "2.68", "468", "498"):
        assert value in read.text
    layers = "first", "13 to 14", "100 %", "L = 1", "9", "100 %", "L = 2", "6 to 7", "96 %", "L = 3", "2", "2 %"
    assert read.has_row(*layers)
    assert "The prior gave this depth 7 %." in read.text
    assert "Two networks were trained side by side for 5,000 epochs each" in read.text
    assert "1,140 rows, of which 114 were held out" in read.text
    assert read.has_row("radius", ",", "area", "number", "clinic", "category of 3: Ayr, Bute, Cork")
    assert "3 columns, which became 5 numbers" in read.text
    assert "DepthClassifier(depth='normal', max_iter=None, random_state=7)" in read.text
    assert "Leadline 9.8.7 on cpu; the training took 2 min 12 s." in read.text
    assert "leadline predict DIR new.csv" in read.text
    assert "interrupted" not in read.text


def test_a_regression_in_numbers():
    read = Page(page(regression()))
    assert "typical error of 4.91 on 114 rows" in read.text
    assert "always answering the mean would err by 16.7" in read.text
    baseline = -stats.norm(scale=16.72).entropy()
    surprise = "Surprise: the mean of −ln(density at the true value), in nats per row. Lower is better."
    assert read.has_row("NLL", surprise, "2.87", "± 0.061", f"{-baseline:.2f}", "one normal curve")  # fmt: skip
    assert read.has_row("RMSE", "Typical error: the root of the mean squared error, in the target’s own units.",
                        "4.91", "± 0.41", "16.7", "always answering the mean")  # fmt: skip
    assert read.has_row("0.914", "0.0", "always answering the mean")
    for level, share, ends in [(50, "53.4 %", "41 to 59"), (90, "87.0 %", "84 to 96"), (95, "94.0 %", "91 to 99")]:
        meaning = f"Rows whose true value lies inside their {level} % interval."
        assert read.has_row(f"Coverage at {level} %", meaning, share, f"{ends} %", "if honest, 95 times in 100")
    why = "Uncertain: no data will help.", "noise 60 %, weights 30 %, depth 10 %"
    assert read.has_row("12", "30", "27.5", "± 4.32", "3.20", *why)
    assert "Outside the 99 % interval, a row should be looked at" in read.text
    assert read.count("svg") == 10
    assert "should hold 90 % held 70.0 % of the true values: too few, by more than chance explains." in read.text
    assert "DepthRegressor(" in read.text
    assert "Accuracy" not in read.text
    assert "which became" not in read.text


def test_what_is_right_and_wrong_of_a_classification():
    read = Page(page(classification()))
    assert read.has_row("How often a row of a class gets a higher probability of it than another row. 1 is perfect.",
                        "0.993", "± 0.0042", "0.500", "by chance")  # fmt: skip
    assert read.has_row("0.988", "0.373", "by chance")
    assert read.has_row("benign", "72", "98.6 %", "97.3 %", "0.993", "0.995")  # 71 of 72, 71 of 73
    assert read.has_row("malignant", "42", "95.2 %", "97.6 %", "–", "0.988")
    alt = [attributes["aria-label"] for tag, attributes in read.elements if tag == "svg"]
    assert "Confusion matrix: 111 of 114 rows lie on the diagonal." in alt
    assert any("The largest: area 0.310, radius 0.0200, clinic −0.00100." in one for one in alt)


def test_columns_that_are_left_out_are_among_what_it_was_given():
    table = {"ignored": {"id": "an id: another number in every row", "x": "a single value", "y": "a single value"}}
    read = Page(page({**classification(), "table": table}))
    assert "3 columns, which became 5 numbers, and three left out." in read.text
    assert read.has_row(
        "id", "left out (an id: another number in every row)", "x", ",", "y", "left out (a single value)"
    )
    assert "left out" not in Page(page(classification())).text


def test_of_many_classes_those_are_drawn_that_move():
    record = classification()
    record["dependence"] = [{**record["dependence"][1], "outputs": [*"abcd"], "mean": [[0.1] * 4] * 3,
                             "deviation": [[0.01] * 4] * 3}]  # fmt: skip
    assert "move most" not in Page(page(classification())).text
    record |= {"classes": [*"abcde"], "confusion": None}
    assert "Of 5 classes, the four that move most." in Page(page(record)).text


def test_why_it_is_unsure():
    read = Page(page(classification()))
    assert "Of the uncertainty about the test rows, 67 % is noise, 25 % is that of the weights and 8 %" in read.text
    why = "Uncertain, surprising: more data like this would help.", "noise 40 %, weights 20 %, depth 40 %"
    assert read.has_row("513", "benign", "malignant", "61.0 % sure", "0.942", *why)
    look = "Surprising: it was sure, and wrong: look at the row."
    assert read.has_row("7", "unknown", "benign", "99.3 % sure", "∞", look)


@pytest.mark.parametrize("n", [21, 300])
def test_of_many_classes_the_page_shows_some(n):
    right = [5] * n
    right[3] = 2
    given = {"rows": [5] * n, "predicted": [5] * n, "right": right, "pairs": [[3, 17, 2], [3, 0, 1]],
             "roc_auc": [0.9] * n, "pr_auc": [0.8] * n}  # fmt: skip
    names = [f"kind {i}" for i in range(n)]
    read = Page(page({**classification(), "classes": names, "confusion": given}))
    assert read.has_row("True", "Predicted", "Rows", "kind 3", "kind 17", "2", "kind 3", "kind 0", "1")
    assert read.has_row("PR AUC", "kind 3", "5", "40.0 %", "40.0 %")  # the lowest recall comes first
    assert f"Of {n} classes, those with the lowest recall." in read.text
    assert read.count("svg") == 9
    assert "kind 20" not in read.text


def test_a_record_without_what_it_goes_by_has_a_page():
    """As older ones are."""
    new = (
        "errors",
        "confusion",
        "importance",
        "dependence",
        "uncertainty",
        "hardest",
        "train_nll",
        "roc_auc",
        "pr_auc",
    )
    read = Page(page({name: value for name, value in classification().items() if name not in new}))
    assert read.count("svg") == 5  # the validation part among them
    assert "±: one standard error" not in read.text
    for title in ("What it goes by", "Where it is unsure", "Class by class"):
        assert title not in read.text


def test_names_that_no_font_of_matplotlib_has_are_no_warning():
    record = classification()
    record["importance"]["columns"] = ["半径", "$\\q$", "_x"]
    record["classes"] = ["良性", "$\\frac{1}{"]
    text = page(record)
    assert "半径" in text
    assert "良性" in text
    assert "$\\q$" in text


def test_a_spiral_has_a_page_of_what_there_is():
    read = Page(page(spiral()))
    assert "Spiral, omega = 10" in read.text
    assert "right for 99.90 % of 114 rows" in read.text
    assert read.has_row("0.00712", "0.693", "tossing a coin")
    assert "Two hidden layers beyond the first are most probable (94 %)" in read.text
    assert "What it was given" not in read.text
    assert "leadline predict" not in read.text
    assert read.count("svg") == 1


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_without_a_test_part_the_page_says_so(kind):
    record = RECORDS[kind]()
    optional = {
        "accuracy", "nll", "brier", "ece", "reliability", "rmse", "ll_mixture", "coverage_50", "coverage_90",
        "coverage_95", "target_std", "coverage_curve", "n_test", "history", "settings", "roc_auc", "pr_auc", "errors",
        "confusion", "importance", "dependence", "uncertainty", "hardest", "train_nll", "mae", "r2", "predictions",
    }  # fmt: skip
    record = {name: value for name, value in record.items() if name not in optional}
    read = Page(page(record))
    assert "No rows were held out for a test" in read.text
    assert "How well it predicts" not in read.text
    assert "How honest it is" not in read.text
    assert "1,140 rows." in read.text


def test_what_the_user_wrote_is_text_and_nothing_else():
    record = classification()
    record |= {"name": NASTY, "target": NASTY, "device": NASTY, "recipe": NASTY}
    record["columns"] = [{"name": NASTY, "words": NASTY}]
    record["class_shares"] = {NASTY: 0.9, "b": 0.1}
    record["settings"] = {"depth": NASTY}
    text = page(record)
    read = Page(text)
    assert read.count("script") == read.count("b") == 0
    assert "<script" not in text
    assert read.text.count(NASTY) >= 8


@pytest.mark.parametrize("field", ["width", "effective_width"])
def test_what_should_be_a_number_is_text_too(field):
    record = classification()
    read = Page(page({**record, field: NASTY if field == "width" else [[NASTY] * 4]}))
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in Page(page(record)).elements]
    assert NASTY in read.text


def test_a_page_of_many_columns_takes_no_minute():
    columns = [{"name": f"c{i}", "words": f"category of {i}"} for i in range(10_000)]
    begin = time.process_time()
    assert Page(page({**classification(), "columns": columns})).has_row("c9999", "category of 9999")
    assert time.process_time() - begin < 4


def test_a_page_forbids_scripts_and_all_from_outside():
    """By a policy that stands before anything that it is about."""
    read = Page(page(classification()))
    policies = [a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]
    tags = [tag for tag, _ in read.elements]
    assert set(tags[: tags.index("style")]) == {"html", "head", "meta", "title"}


def test_an_interrupted_training_is_no_final_result():
    read = Page(page({**classification(), "interrupted": True}))
    assert "Training was interrupted after 5,000 epochs: this is not the final result." in read.text


def test_a_fixed_depth_is_not_called_learned():
    record = {**classification(), "depth": 2, "depth_pmf": [0.0, 0.0, 1.0], "effective_width": [[3, 3, 3]]}
    read = Page(page(record))
    assert "The depth was fixed beforehand: two hidden layers beyond the first." in read.text
    assert "that it learned" not in read.text
    assert read.count("svg") == 8  # no picture of the depth, nor of its learning


@pytest.mark.parametrize(
    ("pmf", "words"),
    [
        ([0, 0.02, 0.94, 0.04], "Two hidden layers beyond the first are most probable (94 %); "
         "one or three are possible (6 % together)."),
        ([0.1, 0.9], "One hidden layer beyond the first is most probable (90 %); none is possible (10 %)."),
        ([0.0, 0.1, 0.9], "Two hidden layers beyond the first are most probable (90 %); one is possible (10 %)."),
        ([0.9, 0.06, 0.04], "The first hidden layer alone is most probable (90 %); one or two more are possible "
         "(10 % together)."),
        ([0.999, 0.001], "The first hidden layer alone is all but certain (more than 99 %)."),
        ([0.0, 1.0], "One hidden layer beyond the first is all but certain (100 %)."),
        ([0.2, 0.25, 0.3, 0.25], "Two hidden layers beyond the first are the likeliest (30 %), without a majority; "
         "anything from none to three is possible (70 % together)."),
        ([0.2, 0, 0, 0.6, 0.2], "Three hidden layers beyond the first are most probable (60 %); "
         "none or four are possible (40 % together)."),
        ([0] * 14 + [0.7, 0.3], "14 hidden layers beyond the first are most probable (70 %); 15 are possible (30 %)."),
    ],
)  # fmt: skip
def test_the_depth_in_words(pmf, words):
    record = {**common(), "depth_pmf": pmf, "depth_mode": int(np.argmax(pmf))}
    assert depth_in_words(Record.from_json(record)) == words


def test_the_page_does_not_depend_on_the_readers_matplotlib():
    with mpl.rc_context({"text.color": "red", "axes.edgecolor": "red", "font.size": 30, "svg.fonttype": "path"}):
        other = page(classification())
        assert mpl.rcParams["text.color"] == "red"
    assert other == page(classification())


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    path, record = tmp_path / "page.html", Record.from_json(classification())
    assert pages.write_page(record, path) == path
    before = path.read_bytes()
    assert before.decode() == page(classification())
    with pytest.raises(InvalidArgumentError, match="the record does not hold what Leadline writes"):
        pages.write_page(dataclasses.replace(record, depth_pmf="half a record"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InvalidArgumentError, match="`out`: cannot write"):
        pages.write_page(record, tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.01, "less than 0.1 seconds"), (0.06, "0.1 seconds"), (75, "1 min 15 s"), (7260, "2 h 1 min")],
)
def test_the_time_in_words(seconds, words):
    assert duration(seconds) == words
