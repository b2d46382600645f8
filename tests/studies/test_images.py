"""The benchmark on images, on made-up sets: what is learned, told apart, chosen and written."""

import csv

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from leadline import InvalidArgumentError
from leadline.files.records import read_rows, write_rows
from leadline.report.images import best_of, published, spread, write_comparison
from leadline.studies import images
from leadline.studies.evaluate import auroc
from leadline.studies.images import COLUMNS, SETS, ImageSettings, image_problem
from tests.cli.test_spirals import leadline
from tests.test_datasets import idx


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Three classes of digits that are bars at three places, clothes that are noise, and photographs of ten colours."""
    path, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        (path / name).mkdir()
        for called, n in (("train", 90), ("t10k", 40)):
            labels = rng.integers(3, size=n).astype(np.uint8)
            images = rng.integers(80, size=(n, 6, 6)).astype(np.uint8)
            if name == "mnist":
                images[np.arange(n), :, 2 * labels] = 250
            (path / name / f"{called}-images-idx3-ubyte").write_bytes(idx(images))
            (path / name / f"{called}-labels-idx1-ubyte").write_bytes(idx(labels))
    (path / "cifar10").mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        labels = np.arange(20) % 10
        colours = np.repeat(20 * labels[:, None] + rng.integers(20, size=(20, 3)), 1024, axis=1)
        rows = np.concatenate([labels[:, None], colours], axis=1).astype(np.uint8)
        (path / "cifar10" / f"{name}.bin").write_bytes(rows.tobytes())
    return path


def test_a_problem_has_its_parts_in_the_units_of_its_channels(sets):
    problem = image_problem(sets, "mnist", seed=1)
    assert problem.shape == (6, 6, 1)
    (x, y), (x_held, y_held), (x_test, y_test) = problem.train, problem.validation, problem.test
    assert (len(x), len(x_held), len(x_test)) == (81, 9, 40)
    both = np.concatenate([x, x_held])
    np.testing.assert_allclose([both.mean(), both.std()], [0, 1], atol=1e-5)
    for rows, labels in ((x, y), (x_held, y_held), (x_test, y_test)):  # the bar is where the class says
        np.testing.assert_array_equal(rows.reshape(-1, 6, 6).mean(1).argmax(1), 2 * labels)
    other = image_problem(sets, "mnist", seed=2)
    assert not np.array_equal(other.train[1], y)
    np.testing.assert_array_equal(other.test[1], y_test)


def test_others_are_of_the_test_part_or_another_set(sets):
    problem = image_problem(sets, "mnist", seed=1)
    assert set(problem.others) == {"fashion-mnist", "turned"}
    clothes = problem.units.inputs(images._read(sets, "fashion-mnist")["test"][0].reshape(40, -1))
    np.testing.assert_allclose(problem.others["fashion-mnist"], clothes, rtol=1e-5)
    photographs = image_problem(sets, "cifar10", seed=1)
    of_test = photographs.units.x_scale * photographs.test[0]
    noise = photographs.units.x_scale * photographs.others["noise"] - of_test
    assert noise.std() == pytest.approx(255 * images.NOISE, rel=0.1)  # a little is cut at black
    blurred = photographs.others["blur"].reshape(-1, 32, 32, 3)
    np.testing.assert_allclose(blurred, photographs.test[0].reshape(-1, 32, 32, 3), atol=1e-3)  # of one colour each


def test_a_pair_of_classes_is_a_problem_of_two(sets):
    problem = image_problem(sets, "cifar10-cat-dog", seed=1, rows=8)
    assert problem.likelihood.n_classes == 2
    assert len(problem.train[0]) + len(problem.validation[0]) == 8
    assert problem.about["n_rows"] == 8
    assert set(problem.test[1]) == {0, 1}


def test_the_area_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(9, size=50) / 9, rng.integers(3, 12, size=30) / 9  # with ties
    y = np.repeat([0, 1], [50, 30])
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(y, np.concatenate([inside, outside])))
    assert auroc(np.zeros(5), np.ones(4)) == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"names": ("svhn",)}, "`names` must be one of mnist, .*, got 'svhn'"),
        ({"depths": ("norml",)}, "`depth` must be one of normal, .*, got 'norml'"),
        ({"grid": (0, -1)}, "`depth` must be a whole number of at least 0, got -1"),
        ({"grid": ()}, "`grid` must have at least one entry"),
        ({"block": "dense"}, "`block` must be one of convolution, residual-convolution, got 'dense'"),
        ({"rows": 3}, "`rows` must be a whole number of at least 20, got 3"),
    ],
)
def test_wrong_settings_are_one_sentence(how, message, sets):
    with pytest.raises(InvalidArgumentError, match=f"^{message}"):
        ImageSettings(sets, **how)


def test_a_set_that_is_not_there_is_said_before_anything_is_trained(tmp_path):
    with pytest.raises(InvalidArgumentError, match="`path` must be a directory with the file train-images-idx3-ubyte"):
        ImageSettings(tmp_path, names=("mnist",))


# Tables and the page


def row(name="mnist", seed=1, depth="normal", accuracy=99.0, validation_ll=-0.1, depth_mean=1.5, seconds=60.0):
    given = dict.fromkeys(COLUMNS, 0.5) | {"name": name, "seed": seed, "depth": depth, "accuracy": accuracy}
    given |= {"validation_ll": validation_ll, "depth_mean": depth_mean, "seconds": seconds, "block": "convolution"}
    return {column: str(value) for column, value in (given | {"width": 8, "max_epochs": 3, "n_rows": 90}).items()}


@pytest.fixture
def tables(tmp_path):
    seeds = (1, 2)
    for prefix in ("", "deterministic-"):
        for depth, likelihoods in ((0, (-0.3, -0.1)), (2, (-0.2, -0.2))):
            lines = [row(seed=seed, depth=depth, validation_ll=likelihoods[seed - 1]) for seed in seeds]
            write_rows(tmp_path / f"{prefix}{depth}.csv", lines)
    pairs = [
        row(name, seed, depth_mean=mean)
        for name, mean in zip(SETS, (1.0, 2.0, 3.0, 0.5, 4.0), strict=True)
        for seed in seeds
    ]
    write_rows(tmp_path / "normal.csv", [*pairs])
    return tmp_path


def test_an_ensemble_is_of_the_depth_that_held_out_rows_prefer(tables, sets):
    asked = ImageSettings(sets, names=("mnist",), grid=(0, 2), seeds=(1, 2), block="convolution", width=8, epochs=3)
    sweep = asked.ensembles(tables)
    assert [(job.settings.depth, job.settings.seed, job.settings.n_restarts) for job in sweep.jobs] == [
        (2, 1, 5),
        (0, 2, 5),
    ]
    assert ImageSettings(sets, members=0).ensembles(tables) is None
    assert len(asked.sweep().jobs) == 2 * (1 + 2 + 2)


def test_tables_of_other_settings_are_refused(tables, sets):
    asked = ImageSettings(sets, names=("mnist",), grid=(0,), block="convolution", width=16, epochs=3)
    with pytest.raises(InvalidArgumentError, match=r"`out`: .* has runs of mnist with width 8, got 16; choose another"):
        asked.sweep().missing(tables)
    asked = ImageSettings(sets, names=("mnist",), grid=(0,), block="convolution", width=8, epochs=3, rows=50)
    with pytest.raises(
        InvalidArgumentError, match=r"`out`: .* has runs of mnist with n_rows 90, got 50; choose another"
    ):
        asked.sweep().missing(tables)


def test_the_comparison_sets_ours_beside_each_other_and_the_published(tables):
    page = write_comparison(tables).read_text()
    assert page.startswith("# Images: ours beside the published\n")
    lines = page.splitlines()
    assert any(line.startswith("| DUN, published | 0.4 ± 0.0 | 0.015 ± 0.004 | 0.006") for line in lines)
    assert any(line.startswith("| normal | 1.00 ± 0.00 |") for line in lines)
    grid = next(line for line in lines if line.startswith("| mnist | 0, 2 |"))
    assert grid == "| mnist | 0, 2 | 2, 0 | 1.00 ± 0.00 | 0.0500 ± 0.0707 | 0.50 |"
    assert "| cifar10-automobile-deer | 0.50 ± 0.00 |" in lines
    assert "| cifar10-cat-dog | 4.00 ± 0.00 |" in lines


def test_the_best_depth_is_chosen_seed_by_seed():
    rows = [row(seed=1, depth=0, validation_ll=-1.0), row(seed=1, depth=2, validation_ll=-0.5), row(seed=2, depth=0)]
    assert [(one["seed"], one["depth"]) for one in best_of(rows)] == [("1", "2"), ("2", "0")]
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"


def test_the_published_numbers_are_those_of_the_paper(shared):
    """Line by line of its table."""
    text = (shared / "peers" / "dun_images.tex").read_text()
    assert len(published()) == 3 * 3 * 5
    for (name, measure, _), value in published().items():
        number, _, error = value.partition(" ± ")
        assert f"${number} \\scriptstyle \\pm {error}$" in text, (name, measure)
    assert published()["cifar10", "error", "DUN"] == "0.056 ± 0.002"
    assert published()["mnist", "ll", "Ensemble"] == "-0.010 ± 0.000"


@pytest.mark.slow
def test_the_command_trains_writes_and_goes_on(sets, tmp_path):
    given = ("--data", sets, "--names", "mnist", "--block", "convolution", "--width", 4, "--grid", "0", "--members", 2)
    command = ("benchmark", "images", "--out", "out", *given, "--epochs", 30, "--quiet", "--seeds")
    done = leadline(*command, "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = {
        name: read_rows(tmp_path / "out" / f"{name}.csv") for name in ("normal", "0", "deterministic-0", "ensemble")
    }
    for rows in tables.values():
        [one] = rows
        assert float(one["accuracy"]) > 60
        assert 0 <= float(one["depth_share"]) <= 1
        assert 0 <= float(one["auroc_fashion-mnist"]) <= 1
        assert one["auroc_blur"] == ""
    assert float(tables["0"][0]["depth_share"]) == 0
    assert "ensemble of these" in (tmp_path / "out" / "comparison.md").read_text()
    before = (tmp_path / "out" / "normal.csv").read_text()
    assert leadline(*command, "1,2", cwd=tmp_path).returncode == 0
    with (tmp_path / "out" / "normal.csv").open() as file:
        assert [one["seed"] for one in csv.DictReader(file)] == ["1", "2"]
    assert (tmp_path / "out" / "normal.csv").read_text().startswith(before)
