"""Adam with a count per layer, against Adam written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leadline import CategoricalLikelihood, NormalDepth, init_models, run_model
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


def test_each_layer_counts_its_own_steps_and_rests_outside_the_support():
    depth = (NormalDepth(), NormalDepth(2.0, 0.5, 0.025, 0.975))
    models = init_models(
        2, CategoricalLikelihood(2), depth=depth, recipe="published", width=3, key=jnp.stack([jax.random.key(0)])
    )
    model = start = run_model(models, 0).pack()
    state = init_optimiser(model)
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
        )

    def check(place, active, rate=RATE):
        adam, value = Adam(rate), np.asarray(place(start.unpack()), np.float64)
        for gradients, use in zip(gradients_seen, active, strict=True):
            if use:
                value = adam.step(value, np.asarray(place(gradients.unpack()), np.float64))
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
