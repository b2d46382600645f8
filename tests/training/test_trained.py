"""The history of all runs, as one table and while they train."""

import numpy as np
import pytest

from leadline import CategoricalLikelihood, Problem, Settings, Watch, train
from leadline.datasets import spiral_parts

PARTS = spiral_parts(3, seed=0, n=48)
PROBLEM = Problem(PARTS["train"], 0.25, CategoricalLikelihood(2))


@pytest.fixture(scope="module")
def followed():
    """Two seeds with two restarts each, of lengths of their own, and every word about them."""
    seen = []
    settings = [
        Settings(depth=depth, width=3, n_restarts=2, epochs=150, own_length=True, seed=seed)
        for seed, depth in ((7, 0), (4, 1))
    ]
    return train(PROBLEM, settings, watch=Watch(on_epoch=seen.append)), seen


def test_the_frame_has_a_row_for_every_epoch_and_run(followed):
    trained, _ = followed
    frame = trained.to_frame()
    assert frame.columns[:7].tolist() == ["epoch", "run", "fit", "seed", "depth", "restart", "temperature"]
    assert len(frame) == 2 * sum(trained.epochs_of_fits)
    for run, (fit, seed, depth, restart) in enumerate([(0, 7, 0, 0), (0, 7, 0, 1), (1, 4, 1, 0), (1, 4, 1, 1)]):
        own, n_epochs = frame[frame.run == run], trained.epochs_of_fits[fit]
        assert own.epoch.tolist() == list(range(1, n_epochs + 1))
        said = own[["fit", "seed", "depth", "restart"]].drop_duplicates()
        assert said.to_numpy().tolist() == [[fit, seed, depth, restart]]
        assert set(own.temperature) == {trained.temperatures[fit, restart]}
        for name, column in trained.history.items():
            if name == "depth_support":
                np.testing.assert_array_equal(own.filter(like=name), column[:n_epochs, run])
            else:
                np.testing.assert_array_equal(own[name], column[:n_epochs, run])
    assert [kind.kind for kind in frame.dtypes[:7]] == [*"iiiiiif"]


def test_progress_has_every_run_by_itself(followed):
    trained, seen = followed
    for now in (seen[0], seen[-1]):
        each = now.by_run()
        assert [int(one.restarts["seed"][0]) for one in each] == [7, 7, 4, 4]
        for run, one in enumerate(each):
            row = {name: column[now.epoch - 1, run] for name, column in trained.history.items()}
            assert (one.free_energy, one.nll, one.depth_mean) == pytest.approx(
                (row["free_energy"], row["validation_nll"], row["depth_mean"])
            )
            assert one.support == tuple(row["depth_support"])
            assert (one.epoch, one.epochs, one.seconds) == (now.epoch, now.epochs, now.seconds)
            assert one.phase == now.restarts["phase"][run]
        assert now.nll == pytest.approx(np.mean([one.nll for one in each]))
        assert now.phase == each[0].phase


def test_a_validation_part_says_how_sure_restarts_may_be_of_a_class():
    """Labels that are wrong by chance: the power under which the validation part is most probable, by a slow search."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    y = np.where(rng.random(400) < 0.25, 1 - (x[:, 0] > 0), x[:, 0] > 0).astype(int)
    problem = Problem((x[:60], y[:60]), (x[60:], y[60:]), CategoricalLikelihood(2))
    trained = train(problem, Settings(depth=1, width=8, n_restarts=2, epochs=400, temperature=0.0, seed=2))
    p = trained.restarts().moments(x[60:])
    spreads = np.geomspace(0.3, 8, 400)
    seen = []
    for spread in spreads:
        powers = p ** (1 / spread)
        said = (powers / powers.sum(axis=1, keepdims=True))[np.arange(340), y[60:]]
        seen.append(np.log(said).sum() - np.log(spread) - 0.5 / spread**2)  # beside one row that is thought
    best = spreads[np.argmax(seen)]
    calibration = trained.calibrated(problem).calibration
    assert best > 1.2  # so few rows were learned by heart
    assert calibration.spread == pytest.approx([best], rel=0.01)
    np.testing.assert_array_equal(calibration.share, [0.5, 0.5])


@pytest.mark.parametrize("recipe", ["published", "written"])
def test_the_papers_networks_are_left_as_they_are(recipe):
    problem = Problem(PARTS["train"], PARTS["validation"], CategoricalLikelihood(2))
    trained = train(problem, Settings(recipe=recipe, depth=0, width=3, epochs=2))
    assert trained.calibrated(problem).calibration is None


def test_no_rows_of_their_own_soften_nothing():
    for validation in (PARTS["train"], 0.25):
        problem = Problem(PARTS["train"], validation, CategoricalLikelihood(2))
        trained = train(problem, Settings(depth=0, width=3, n_restarts=2, epochs=2))
        assert trained.calibrated(problem).calibration is None
