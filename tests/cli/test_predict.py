"""`leadline predict` on hostile tables: a prediction is a finite number or a refusal, and none is overwritten."""

import csv

import numpy as np
import pandas as pd
import pytest

from leadline import load
from tests.promises.command import leadline

pytestmark = pytest.mark.usefixtures("as_users_have_it")

SMALL = ("--epochs", 3, "--restarts", 1, "--width", 4, "--quiet")
X = np.random.default_rng(0).normal(size=30)


def table(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def fitted(folder, target, y, **more):
    """A run, and the command that predicts other rows with it."""
    train = table(folder / "train.csv", {"x": X.tolist(), **more, target: y})
    done = leadline("fit", train, "--target", target, "--out", folder / "run", *SMALL)
    assert done.code == 0, done.err
    return [
        "predict",
        folder / "run",
        table(folder / "new.csv", {"x": [0.5, -1.0], **{k: v[:2] for k, v in more.items()}}),
    ]


def written(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


NUMBERS = ["std", "low_90", "high_90", "noise_variance", "weights_variance", "depth_variance"]
CLASSES = ["p(no)", "p(yes)", "noise_nats", "weights_nats", "depth_nats"]


@pytest.mark.parametrize(
    ("target", "columns"), [*((name, NUMBERS) for name in NUMBERS), *((name, CLASSES) for name in CLASSES)]
)
def test_no_column_of_predictions_overwrites_another(tmp_path, target, columns):
    """The target keeps its name, the column that is called so has an underscore more, and that is said."""
    y = np.where(X > 0, "yes", "no").tolist() if columns is CLASSES else (100 + X).tolist()
    done = leadline(*fitted(tmp_path, target, y), "--out", tmp_path / "p.csv")
    assert done.code == 0, done.err
    assert done.err == f"note: the target is called `{target}`, so the other column of that name is `{target}_`.\n"
    header, *rows = written(tmp_path / "p.csv")
    assert header == [target, *(f"{name}_" if name == target else name for name in columns)]
    if columns is CLASSES:
        assert all(row[0] in ("yes", "no") for row in rows)
    else:
        assert all(95 < float(row[0]) < 105 for row in rows)


def test_names_with_any_characters_come_back(tmp_path):
    """A carriage return alone, too."""
    y = np.where(X > 0, "a\rb", 'c"d,\n').tolist()
    done = leadline(*fitted(tmp_path, "two\nlines", y), "--out", tmp_path / "p.csv")
    assert done.code == 0, done.err
    header, *rows = written(tmp_path / "p.csv")
    assert header[:3] == ["two\nlines", "p(a\rb)", 'p(c"d,)']
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("offset", "spread"), [(1.7e9, 100.0), (-1.7e9, 1e-3), (1e100, 1e90), (1e-100, 1e-104), (0.0, 1e-140), (1e15, 8.0)]
)
def test_what_is_written_is_within_a_thousandth_of_a_deviation(tmp_path, offset, spread):
    asked = fitted(tmp_path, "y", (offset + spread * X).tolist())
    assert leadline(*asked, "--out", tmp_path / "p.csv", "--quiet").code == 0
    header, *rows = written(tmp_path / "p.csv")
    got = dict(zip(header, np.array(rows, float).T, strict=True))
    model = load(tmp_path / "run" / "model.safetensors")
    new = pd.DataFrame({"x": [0.5, -1.0]})
    mean, std = model.predict(new, return_std=True)
    low, high = model.predict_interval(new).T
    for name, value in {"y": mean, "low_90": low, "high_90": high}.items():
        assert np.all(np.abs(got[name] - value) <= 1e-3 * std), name
    np.testing.assert_allclose(got["std"], std, rtol=1e-5)


def test_probabilities_stay_short(tmp_path):
    asked = fitted(tmp_path, "y", np.where(X > 0, "yes", "no").tolist())
    assert leadline(*asked, "--out", tmp_path / "p.csv", "--quiet").code == 0
    _, *rows = written(tmp_path / "p.csv")
    assert max(len(cell) for row in rows for cell in row) <= 11  # 1.23456e-07


@pytest.mark.parametrize("y", [(100 + X).tolist(), np.where(X > 0, "yes", "no").tolist()])
@pytest.mark.parametrize("cell", ["1e39", "-1e300", "1e308"])
def test_a_cell_too_far_away_is_refused_by_row_and_column(tmp_path, y, cell):
    asked = fitted(tmp_path, "y", y, more=np.roll(X, 1).tolist())
    table(tmp_path / "new.csv", {"more": ["0", "0", cell], "x": ["1", "2", "3"]})
    done = leadline(*asked, "--out", tmp_path / "p.csv")
    assert done.refused, done
    assert "Column `more` must hold numbers" in done.err
    assert "in row 3" in done.err
    assert not (tmp_path / "p.csv").exists()


def test_a_far_row_that_would_be_kept_apart_is_refused_before_training(tmp_path):
    """Else its measures would not be numbers when all is trained; trained on, it is nothing special."""
    done = []
    for row in range(30):
        x = X.tolist()
        x[row] = 1e300
        path = table(tmp_path / "train.csv", {"x": x, "y": (100 + X).tolist()})
        done.append(leadline("fit", path, "--target", "y", "--out", tmp_path / f"run{row}", *SMALL))
        if done[-1].code:
            assert done[-1].refused, done[-1]
            assert done[-1].err.endswith(f"in row {row + 1}; correct that value.\n")
    assert sum(one.code == 2 for one in done) == 3  # a tenth
    assert sum(one.code == 0 for one in done) == 27


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_a_target_whose_variances_no_float_holds_is_refused_at_the_door(tmp_path, unit):
    path = table(tmp_path / "train.csv", {"x": X.tolist(), "y\n": (unit * X).tolist()})
    done = leadline("fit", path, "--target", "y", "--out", tmp_path / "run", *SMALL)
    assert done.refused, done
    assert "whose square no float holds; take another unit." in done.err
