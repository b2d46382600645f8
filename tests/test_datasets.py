"""The spiral against its definition."""

import os
import warnings

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.datasets import load_uci, spiral, spiral_parts, uci_splits


def test_points_lie_on_the_spiral_up_to_the_noise():
    """Unwind every point: away from the centre its distance from the spiral is the noise, sd 0.02 in each direction."""
    x, y = spiral(50_000, 3.0, np.random.default_rng(0))
    radius = np.hypot(*x.T)
    far = radius > 0.3
    angle = 3.0 * radius * np.pi / 2
    side = np.where(y == 1, 1, -1)
    direction = side[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # Near the arm the offset across it is Gaussian with sd 0.02 times the factor of the moving angle.
    across = (x[:, 0] * -direction[:, 1] + x[:, 1] * direction[:, 0])[far]
    expected = 0.02 * np.sqrt(1 + (3.0 * np.pi / 2 * radius[far]) ** 2)
    assert np.std(across / expected) == pytest.approx(1, rel=0.02)
    assert np.mean(y) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(50_000))


def test_radius_is_the_root_of_a_uniform():
    x, _ = spiral(50_000, 0.0, np.random.default_rng(0))
    square = x[:, 0] ** 2 + x[:, 1] ** 2
    assert np.mean(square) == pytest.approx(0.5 + 2 * 0.02**2, abs=4 * np.sqrt(1 / 12 / 50_000))


def test_parts_are_independent_and_depend_on_the_seed():
    one, again, other = spiral_parts(10, 1), spiral_parts(10, 1), spiral_parts(10, 2)
    assert list(one) == ["train", "validation", "test"]
    assert all(x.shape == (1024, 2) and y.shape == (1024,) for x, y in one.values())
    np.testing.assert_array_equal(one["test"][0], again["test"][0])
    assert not np.any(one["train"][0] == one["test"][0])
    assert not np.any(one["train"][0] == other["train"][0])


@pytest.mark.parametrize(
    ("n", "omega", "message"),
    [
        (10, -1.0, "`omega` must be at least 0, got -1.0."),
        (10, float("nan"), "`omega` must be finite, got nan."),
        (0, 1.0, "`n` must be a whole number of at least 1, got 0."),
    ],
)
def test_wrong_arguments_get_one_sentence(n, omega, message):
    with pytest.raises(InvalidArgumentError) as error:
        spiral(n, omega, np.random.default_rng(0))
    assert str(error.value) == message


def test_the_uci_sets_have_their_published_sizes_and_their_parts_are_all_of_the_rows(shared):
    sizes = {
        "bostonHousing": (506, 13),
        "concrete": (1030, 8),
        "naval-propulsion-plant": (11934, 16),
        "yacht": (308, 6),
    }
    for name, (n_rows, n_columns) in sizes.items():
        assert uci_splits(shared / "data" / "uci", name) == 20
        parts = load_uci(shared / "data" / "uci", name, split=19)
        assert parts["train"][0].shape[1] == parts["test"][0].shape[1] == n_columns
        assert len(parts["train"][1]) + len(parts["test"][1]) == n_rows
        assert len(parts["test"][1]) == pytest.approx(n_rows / 10, abs=1)


def test_a_split_is_the_rows_and_columns_that_the_files_name(tmp_path):
    folder = tmp_path / "toy"
    folder.mkdir()
    data = np.arange(12.0).reshape(4, 3)
    files = {"data": data, "index_features": [[2.0, 0.0]], "index_target": [1.0], "n_splits": [1.0]}
    files |= {"index_train_0": [3.0, 0.0, 1.0], "index_test_0": [2.0]}
    for name, numbers in files.items():
        np.savetxt(folder / f"{name}.txt", numbers)
    parts = load_uci(tmp_path, "toy", 0)
    np.testing.assert_array_equal(parts["train"][0], [[11, 9], [2, 0], [5, 3]])
    np.testing.assert_array_equal(parts["train"][1], [10, 1, 4])
    np.testing.assert_array_equal(parts["test"][1], [7])
    wrong = {
        ("index_test_0", "[9.0]"): "must hold whole numbers from 0 to 3, got 9",
        ("index_test_0", "[0.0]"): "split 0 in .* has rows in both of its parts",
        ("index_target", "[0.0, 1.0]"): "must name one column, got 2",
        ("data", "[[1.0, np.nan, 2.0]]"): "must hold numbers, all of them finite",
    }
    for name in ("index_features", "index_train_0", "data"):
        path = folder / f"{name}.txt"
        for kind, why in (("pipe", "it is no regular file"), ("device", "it is no r"), ("holes", "there are holes")):
            path.unlink()
            if kind == "pipe":
                os.mkfifo(path)
            elif kind == "device":
                path.symlink_to("/dev/zero")
            else:
                path.touch()
                os.truncate(path, 2**40)
            with pytest.raises(InvalidArgumentError, match=why if kind == "holes" or name != "data" else "with a data"):
                load_uci(tmp_path, "toy", 0)
        path.unlink()
        np.savetxt(path, files[name])
    for (name, numbers), message in wrong.items():
        np.savetxt(folder / f"{name}.txt", eval(numbers))
        with pytest.raises(InvalidArgumentError, match=message):
            load_uci(tmp_path, "toy", 0)
        np.savetxt(folder / f"{name}.txt", files[name])
    (folder / "data.txt").write_text("")
    with warnings.catch_warnings(action="error"), pytest.raises(InvalidArgumentError, match="must hold numbers"):
        load_uci(tmp_path, "toy", 0)
    (folder / "data.txt").write_text("1 2\nthree 4\n")
    with pytest.raises(InvalidArgumentError, match=r"data.txt cannot be read: .*three"):
        load_uci(tmp_path, "toy", 0)
    with pytest.raises(InvalidArgumentError, match=r"`name` must be one of toy with a data.txt, got 'boston'"):
        load_uci(tmp_path, "boston", 0)
    with pytest.raises(InvalidArgumentError, match="`split` must be at most 0, got 1"):
        load_uci(tmp_path, "toy", 1)
