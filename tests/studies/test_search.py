"""Settings on problems: what is tried, what is said to be best, and what is not trained again."""

import numpy as np
import pytest

from leadline import CategoricalLikelihood, InvalidArgumentError, Problem, Settings, sweep
from leadline.files.records import read_rows
from leadline.report.search import page
from leadline.studies import sweep as sweep_module
from leadline.studies.evaluate import run_fits
from leadline.studies.search import TABLE, Plan
from leadline.studies.space import Range, choices_of, every, some

X = np.linspace(-1, 1, 40)[:, None]
ROWS = X, (np.abs(X[:, 0]) > 0.5).astype(int)
STEPS = Problem(ROWS, 0.2, CategoricalLikelihood(2), test=ROWS, about={"name": "steps"})
BASE = Settings(n_restarts=1, epochs=3, width=2)


def test_every_combination_is_tried():
    tried = every(choices_of({"width": [2, 4], "depth": ["normal", 1], "restarts": 1}), BASE)
    assert [(one.width, one.depth, one.n_restarts) for one in tried] == [
        *((2, "normal", 1), (2, 1, 1)),
        *((4, "normal", 1), (4, 1, 1)),
    ]


def test_drawn_settings_are_different_and_the_same_for_a_seed():
    choices = choices_of({"width": [2, 4, 8], "learning_rate": {"low": 1e-3, "high": 0.1, "log": True}})
    drawn = some(choices, 30, 1)
    assert drawn == some(choices, 30, 1) != some(choices, 30, 2)
    assert len({(one.width, one.learning_rate) for one in drawn}) == 30
    assert all(1e-3 <= one.learning_rate <= 0.1 for one in drawn)
    logs = np.log([one.learning_rate for one in some(choices, 400, 3)])
    uniform = (np.log(1e-3) + np.log(0.1)) / 2, np.log(100) / np.sqrt(12)
    assert abs(logs.mean() - uniform[0]) < 4 * uniform[1] / np.sqrt(400)
    assert {one.width for one in some({"width": (2, 4)}, 9, 1)} == {2, 4}
    assert {Range(1, 3).draw(np.random.default_rng(i)) for i in range(50)} == {1, 2, 3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"breadth": [1]}, "`settings` must be of .*, got 'breadth'"),
        ({"width": []}, "`width` must have at least one entry"),
        ({"width": {"low": 4, "high": 2}}, "`width` must have `low` below `high`, got 4 and 2"),
        ({"learning_rate": {"low": 0, "high": 1, "log": True}}, "and both above 0, got 0 and 1"),
        ({"width": {"from": 4}}, "`width` must have `low`, `high` and perhaps `log`, got from"),
        ({"width": {"low": 2, "high": 4}}, "`width` must be a list where nothing is drawn; give `random` for a range"),
    ],
)
def test_wrong_choices_get_one_sentence(settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        every(choices_of(settings))


def test_rows_are_those_of_single_fits_and_the_best_is_the_best(tmp_path, monkeypatch):
    tried = [Settings(n_restarts=1, epochs=3, width=w, seed=s) for w in (2, 4) for s in (1, 2)]
    swept = sweep(STEPS, tried, out=tmp_path)
    frame = swept.to_frame()
    for one in tried:
        [fit] = run_fits([STEPS], [one])
        [row] = frame[(frame.width == one.width) & (frame.seed == one.seed)].to_dict("records")
        assert {name: row[name] for name in fit.record.measures} == fit.record.measures
    means = frame.groupby("width").nll.mean()
    assert [int(one.asked["width"]) for one in swept.ranking] == list(means.sort_values().index)
    assert swept.best.width == means.idxmin()
    spread = frame[frame.width == swept.best.width].nll.std() / np.sqrt(2)
    assert swept.ranking[0].error == pytest.approx(spread)
    assert (
        sweep(STEPS, tried, out=tmp_path, by="accuracy").ranking[0].mean == frame.groupby("width").accuracy.mean().max()
    )
    before = read_rows(tmp_path / f"{TABLE}.csv")
    more = sweep(STEPS, [*tried, Settings(n_restarts=1, epochs=3, width=8)], out=tmp_path)
    now = read_rows(tmp_path / f"{TABLE}.csv")
    assert [row for row in now if row["width"] != "8"] == before
    assert len(now) == len(more.rows) == 5
    assert more.ranking[-1].runs == 1  # fewer than the others: not among the best
    assert len(sweep(STEPS, tried[:2], out=tmp_path).rows) == 2


def test_what_diverges_is_named_by_its_settings_and_the_others_are_there():
    huge = Problem((1e30 * X, ROWS[1]), 0.2, CategoricalLikelihood(2), test=ROWS)
    with pytest.warns(match="diverge"):
        swept = sweep({"huge": huge, "steps": STEPS}, BASE)
    assert len(swept.rows) == 1
    assert "name huge" in swept.failures
    assert "depth normal, block dense, width 2" in swept.failures
    assert "Missing:" in page(swept)


def test_the_page_shows_the_settings_in_their_order():
    swept = sweep(STEPS, [Settings(n_restarts=1, epochs=3, width=w, depth=d) for w in (2, 4) for d in (0, "normal")])
    text = page(swept)
    assert 'name="generator" content="leadline"' in text
    order = [
        text.index(f'<th scope="row">{one.asked["depth"]}</th><td>{one.asked["width"]}</td>') for one in swept.ranking
    ]
    assert order == sorted(order)
    assert len(order) == 4


@pytest.mark.parametrize(
    ("problems", "how", "message"),
    [
        ([], {}, "`problems` must be of one kind of target, got 0"),
        (Problem(ROWS, 0.2, CategoricalLikelihood(2)), {}, r"`problems` must have rows to measure on \(`test`\)"),
        (STEPS, {"by": "rmse"}, "`by` must be one of accuracy, nll, .*, got 'rmse'"),
    ],
)
def test_wrong_arguments_get_one_sentence(problems, how, message):
    with pytest.raises(InvalidArgumentError, match=message):
        sweep(problems, BASE, **how)
    with pytest.raises(InvalidArgumentError, match="`width` must be a whole number of at least 1, got 0"):
        sweep(STEPS, [Settings(width=0)])


def test_side_by_side_are_settings_that_differ_in_depth_and_seed(tmp_path):
    tried = [Settings(n_restarts=1, epochs=3, width=w, depth=d, seed=s) for w in (2, 4) for s in (1, 2) for d in (0, 1)]
    chunks = Plan([STEPS], tried).sweep().missing(tmp_path, sweep_module.Slots(1, 100))
    assert sorted(len(chunk) for chunk in chunks) == [4, 4]
    assert [len({job.settings.width for job in chunk}) for chunk in chunks] == [1, 1]
    assert [len(chunk) for chunk in Plan([STEPS], tried).sweep().missing(tmp_path, sweep_module.Slots(4, 100))] == [
        1
    ] * 8
