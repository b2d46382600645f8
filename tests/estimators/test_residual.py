"""Residual blocks wherever dense ones go: estimators, model files, checkpoints, calibration, pruning."""

import dataclasses

import jax
import numpy as np
import pytest

import leadline
from leadline import RECIPES, CategoricalLikelihood, DepthClassifier, DepthRegressor, Problem, Settings, Watch, train
from leadline.network.blocks.residual import Residual

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
SMALL = {"block": "residual", "width": 8, "n_restarts": 3, "max_iter": 60, "random_state": 0}


@pytest.fixture(scope="module")
def clf():
    return DepthClassifier(**SMALL).fit(X, Y)


def test_restarts_of_several_kinds_are_calibrated_and_uncertainty_adds_up(clf):
    assert isinstance(clf.model_.network.first, Residual)
    assert clf.restart_shares_.sum() == pytest.approx(1)
    assert np.isfinite([clf.free_energy_, clf.held_out_nll_, *clf.spread_]).all()
    p, parts = clf.predict_proba(X), clf.uncertainty(X)
    entropy = -np.sum(p * np.log(p), axis=1)
    np.testing.assert_allclose(parts.noise + parts.weights + parts.depth, entropy, atol=1e-4)


def test_a_model_file_holds_one(clf, tmp_path):
    clf.save(tmp_path / "model.safetensors")
    again = leadline.load(tmp_path / "model.safetensors")
    assert again.block == "residual"
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


@pytest.mark.slow
def test_numbers_are_learned_too():
    reg = DepthRegressor(**SMALL | {"max_iter": 200}).fit(X, X[:, 0] * X[:, 1])
    assert reg.score(X, X[:, 0] * X[:, 1]) > 0.5
    mean, std = reg.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_units_of_the_state_that_are_not_used_go(clf, tmp_path):
    widths = clf.effective_width()
    assert [len(layers) for layers in widths] == [highest + 1 for _, highest in support(clf.model_)]
    assert all(1 <= width <= 8 for layers in widths for width in layers)
    small = clf.prune(X, Y, tolerance=0.2)
    assert small.difference < 0.2
    assert small.width < 8
    assert small.model.network.first.n_units == 8  # the norm is over those that there were
    clf.model_, large = small.model, clf.model_
    try:
        clf.save(tmp_path / "small.safetensors")
        again = leadline.load(tmp_path / "small.safetensors")
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    finally:
        clf.model_ = large


def support(models):
    return np.stack(jax.vmap(lambda model: model.support())(models), axis=1)


@pytest.mark.slow
def test_a_training_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path):
    """With layers that grow on the way: q(L) starts beyond those that are stored at first."""
    recipe = dataclasses.replace(RECIPES["leadline"], name="deep", initial_depth=(12.0, 1.0))
    settings = Settings(block="residual", recipe=recipe, width=8, n_restarts=2, epochs=40)
    problem = Problem((X, Y), (X, Y), CategoricalLikelihood(2))
    alone = train(problem, settings)
    calls = iter([False, True])
    watch = Watch(checkpoint_dir=tmp_path, checkpoint_every=0.0)
    cut = train(problem, settings, watch=dataclasses.replace(watch, on_call=lambda _: next(calls)))
    assert cut.interrupted
    assert cut.model.capacity == 16
    again = train(problem, settings, watch=watch)
    for a, b in zip(jax.tree.leaves(again.model), jax.tree.leaves(alone.model), strict=True):
        np.testing.assert_array_equal(a, b)
