"""Adam with a count per layer, against Adam written out; and any other of optax's, with a schedule."""

import itertools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import leadline
from leadline import RECIPES, CategoricalLikelihood, DepthClassifier, NormalDepth, init_models, run_model
from leadline.inference.recipes import ADAM
from leadline.training.optimiser import init_optimiser, update
from tests.tolerances import CLOSED_FORM

RATE, DEPTH_RATE = 0.01, 0.002


class Adam:
    """Kingma & Ba (2015), algorithm 1."""

    def __init__(self, rate):
        self.rate, self.m, self.v, self.t = rate, 0.0, 0.0, 0

    def step(self, value, gradient):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        return value - self.rate * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)


class Lion:
    """Chen et al. (2023), algorithm 2, without decay of the weights."""

    def __init__(self, rate):
        self.rate, self.m = rate, 0.0

    def step(self, value, gradient):
        direction = np.sign(0.8 * self.m + 0.2 * gradient)
        self.m = 0.95 * self.m + 0.05 * gradient
        return value - self.rate * direction


@pytest.mark.parametrize(("optimiser", "plain"), [(ADAM, Adam), (optax.scale_by_lion(0.8, 0.95), Lion)])
def test_each_layer_counts_its_own_steps_and_rests_outside_the_support(optimiser, plain):
    depth = (NormalDepth(), NormalDepth(2.0, 0.5, 0.025, 0.975))
    models = init_models(
        2, CategoricalLikelihood(2), depth=depth, recipe="published", width=3, key=jnp.stack([jax.random.key(0)])
    )
    model = start = run_model(models, 0).pack()
    state = init_optimiser(model, optimiser)
    # The support moves: layers enter, heads leave and return, and their counts with them.
    supports = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 2), (0, 4)]
    step = eqx.filter_jit(update)
    gradients_seen = []
    for k, (lowest, highest) in enumerate(supports):
        params = eqx.filter(model, eqx.is_inexact_array)
        gradients = jax.tree.map(lambda a, k=k: jnp.sin(jnp.arange(a.size, dtype=a.dtype) + k).reshape(a.shape), params)
        gradients_seen.append(gradients)
        model, state = step(
            model,
            gradients,
            state,
            (RATE, DEPTH_RATE),
            (jnp.array(lowest), jnp.array(highest)),
            jnp.array(True),
            highest=jnp.array(highest),
            optimiser=optimiser,
        )

    def check(place, active, rate=RATE):
        own, value = plain(rate), np.asarray(place(start.unpack()), np.float64)
        for gradients, use in zip(gradients_seen, active, strict=True):
            if use:
                value = own.step(value, np.asarray(place(gradients.unpack()), np.float64))
        np.testing.assert_allclose(place(model.unpack()), value, rtol=CLOSED_FORM["float32"], atol=1e-6)

    always = [True] * len(supports)
    check(lambda m: m.network.first.layer.weight_mean, always)
    check(lambda m: m.network.first.head.bias_raw, [low == 0 for low, _ in supports])
    check(lambda m: m.depth_posterior.loc, always, DEPTH_RATE)
    check(lambda m: m.depth_posterior.raw_scale, always, DEPTH_RATE)
    for i in range(8):
        depth = i + 1
        check(lambda m, i=i: m.network.deeper.layer.weight_raw[i], [depth <= high for _, high in supports])
        check(lambda m, i=i: m.network.deeper.head.weight_mean[i], [low <= depth <= high for low, high in supports])
    assert state.deeper["layer"].count.tolist() == [6, 5, 3, 1, 0, 0, 0, 0]
    assert state.deeper["head"].count.tolist() == [5, 5, 3, 1, 0, 0, 0, 0]


LION = replace(
    RECIPES["written"],
    name="lion",
    optimiser=optax.scale_by_lion(b1=0.8, b2=0.95),
    schedule=optax.cosine_decay_schedule(1.0, 1),
    keep="last",
    learning_rate=0.01,
)
X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)


def test_a_training_takes_any_optimiser_and_schedule():
    """Each step of Lion moves each weight by the rate of its time, up or down: after three, by one of eight sums."""
    likelihood = CategoricalLikelihood(2)
    key = jnp.stack([jax.random.key(0)])
    start = init_models(2, likelihood, depth=1, recipe=LION, width=3, key=key)
    problem = leadline.Problem((X, Y), (X, Y), likelihood)
    settings = leadline.Settings(depth=1, recipe=LION, width=3, epochs=3, seed=0)
    trained = leadline.train(problem, settings, start=start)
    rates = 0.01 * 0.5 * (1 + np.cos(np.pi * np.arange(3) / 3))
    sums = np.array([np.dot(signs, rates) for signs in itertools.product((-1, 1), repeat=3)])
    for place in (lambda m: m.network.first.layer, lambda m: m.network.deeper.layer, lambda m: m.network.deeper.head):
        for name in ("weight_mean", "weight_raw", "bias_mean", "bias_raw"):
            before, after = (np.asarray(getattr(place(m), name), float)[0] for m in (start, trained.model))
            moved = after - before
            if place(start).weight_mean.ndim == 4:  # of the stack, the first alone is used at depth 1
                assert np.all(moved[1:] == 0)
                moved = moved[0]
            assert np.abs(moved[..., None] - sums).min(axis=-1).max() < 1e-6
    assert np.all(trained.model.network.first.head.weight_mean == start.network.first.head.weight_mean)


def test_an_estimator_takes_them_too_and_its_file_does_not_need_them(tmp_path):
    clf = DepthClassifier(recipe=LION, width=4, n_restarts=1, max_iter=60, learning_rate_init=0.02, random_state=0)
    clf.fit(X, Y)
    assert clf.score(X, Y) > 0.9
    clf.save(tmp_path / "m.safetensors")
    again = leadline.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
