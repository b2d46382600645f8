"""Networks of tens of layers: they grow, and with residual blocks they learn."""

import dataclasses

import numpy as np
import pytest

from leadline import RECIPES, CategoricalLikelihood, PoissonDepth, Problem, Settings, Watch, train
from leadline.datasets import spiral_parts

PARTS = spiral_parts(3, seed=0, n=128)
PROBLEM = Problem(PARTS["train"], PARTS["validation"], CategoricalLikelihood(2))
START = (40.0, 2.0)


def from_forty(block, epochs, width=8):
    """A training whose q(L) starts at depth 40."""
    recipe = dataclasses.replace(RECIPES["leadline"], name="deep", initial_depth=START, batch_size=128)
    trained = train(PROBLEM, Settings(block=block, recipe=recipe, width=width, n_restarts=1, epochs=epochs))
    assert trained.model.capacity == 64
    for name in ("free_energy", "expected_nll", "depth_kl", "weight_kl", "validation_nll"):
        assert np.isfinite(trained.history[name]).all()
    return trained


def test_forty_residual_layers_train_to_a_finite_free_energy_and_learn():
    trained = from_forty("residual", 100)
    assert trained.history["depth_mean"][-1] > 30
    assert trained.history["validation_nll"][-1] < 0.5  # of ln 2 at the start


@pytest.mark.slow
def test_forty_dense_layers_do_not_learn():
    assert from_forty("dense", 1000).history["validation_nll"][-1] > 0.65


def test_residual_layers_grow_to_sixty_four():
    """Whose q(L) runs down: a prior far below, and a fast rate."""
    diving = dataclasses.replace(
        RECIPES["leadline"], name="diving", temperature=0.0, depth_learning_rate=0.3, batch_size=128
    )
    pair, capacities = (PoissonDepth(500.0), PoissonDepth(3.0, 0.95)), []
    settings = Settings(depth=pair, block="residual", recipe=diving, width=4, n_restarts=1, epochs=60)
    watch = Watch(on_call=lambda state: capacities.append(state.capacity))
    trained = train(PROBLEM, settings, watch=watch)
    assert trained.model.capacity == 64
    assert {16, 32, 64} <= set(capacities) | {trained.model.capacity}
    assert np.isfinite(trained.history["free_energy"]).all()
