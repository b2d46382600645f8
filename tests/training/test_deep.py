"""Networks of tens of layers: q(L) starts at depth 40, and room is made for them."""

import dataclasses

import numpy as np
import pytest

from leadline import RECIPES, CategoricalLikelihood, Problem, Settings, train
from leadline.datasets import spiral_parts


def from_forty(block, omega, n, width, epochs):
    parts = spiral_parts(omega, seed=0, n=n)
    problem = Problem(parts["train"], parts["validation"], CategoricalLikelihood(2))
    recipe = dataclasses.replace(RECIPES["leadline"], name="deep", initial_depth=(40.0, 2.0), batch_size=min(n, 256))
    trained = train(problem, Settings(block=block, recipe=recipe, width=width, n_restarts=1, epochs=epochs))
    assert trained.model.capacity == 64
    for name in ("free_energy", "expected_nll", "depth_kl", "weight_kl", "validation_nll"):
        assert np.isfinite(trained.history[name]).all()
    assert trained.history["depth_mean"][-1] > 30
    return trained.history["validation_nll"][-1]


def test_forty_residual_layers_train_to_a_finite_free_energy_and_learn():
    assert from_forty("residual", omega=3, n=128, width=8, epochs=100) < 0.5  # of ln 2 at the start


@pytest.mark.slow
def test_forty_dense_layers_learn_nothing_of_a_faster_spiral():
    assert from_forty("dense", omega=10, n=1024, width=32, epochs=300) > 0.65
