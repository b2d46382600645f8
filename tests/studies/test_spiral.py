"""It learns."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from leadline import RECIPES, CategoricalLikelihood, InvalidArgumentError, Settings, metrics, predict
from leadline.datasets import spiral_parts
from leadline.studies.evaluate import run_fits
from leadline.studies.spiral import spiral_problem
from tests.training_of import train_on


def test_a_short_training_separates_an_easy_spiral():
    """A small initial scale and little weight KL learn omega = 5 within 150 epochs; 0.5 would be guessing."""
    recipe = dataclasses.replace(RECIPES["written"], initial_scale=0.05, temperature=0.1)
    parts = spiral_parts(5, seed=0)
    rows = parts["train"], parts["validation"]
    result = train_on(*rows, CategoricalLikelihood(2), recipe=recipe, epochs=150, seeds=[0])
    x, y = parts["test"]
    probabilities = predict(result.model, x, n_samples=50, key=jnp.stack([jax.random.key(1)]))[0]
    assert metrics.accuracy(probabilities, y) > 97
    assert metrics.nll(probabilities, y) < 0.15
    assert result.history["free_energy"][-1] < result.history["free_energy"][0]


def test_only_what_may_differ_trains_side_by_side_and_a_changed_recipe_says_so():
    one = Settings()
    with pytest.raises(InvalidArgumentError, match="`settings` may differ in depth and seed alone"):
        run_fits([spiral_problem(5)] * 2, [one, dataclasses.replace(one, epochs=7)])
    changed = dataclasses.replace(RECIPES["leadline"], warm_up=0.5)
    with pytest.raises(InvalidArgumentError, match="a changed recipe needs a name of its own, got 'leadline'"):
        run_fits([spiral_problem(5)], [Settings(recipe=changed)])


@pytest.mark.slow
def test_published_recipe_on_an_easy_spiral():
    """The figure: 100 % and depth 0.44 at omega = 5."""
    record = run_fits([spiral_problem(5)], [Settings(recipe="published")])[0].record
    assert record.measures["accuracy"] >= 99.7
    assert record.depth_mean == pytest.approx(0.45, abs=0.08)


@pytest.mark.slow
def test_published_recipe_on_a_hard_spiral():
    """The figure: 86.33 +- 1.90 % and depth 3.00 +- 0.00 at omega = 25."""
    record = run_fits([spiral_problem(25, 2)], [Settings(recipe="published", seed=2)])[0].record
    assert record.measures["accuracy"] == pytest.approx(86.33, abs=3 * 1.90)
    assert record.depth_mean == pytest.approx(3, abs=1e-3)
    assert record.depth_std == pytest.approx(0, abs=1e-3)
