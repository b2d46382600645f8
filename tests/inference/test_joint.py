"""The model at points of its weights, against slow loops and against what the library draws by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import leadline
from leadline import (
    CategoricalLikelihood,
    GaussianLikelihood,
    GaussianLinear,
    InvalidArgumentError,
    Model,
    NormalDepth,
    UnboundedNetwork,
)
from leadline.backend.device import Backend, pretending
from leadline.backend.random import fold_in
from leadline.inference.predict import sample_outputs
from leadline.network.blocks import Dense
from tests.jaxprs import equations
from tests.tolerances import CLOSED_FORM, MANY_SUMS, STANDARD_ERRORS

KEY = jax.random.key(3)
X = np.random.default_rng(0).normal(size=(6, 3))
CLASSES, NUMBERS = np.array([0, 1, 1, 0, 1, 0]), np.linspace(-1, 1, 6)

FLOAT32 = CLOSED_FORM["float32"]


def make_model(likelihood=None, **weights):
    likelihood = likelihood or CategoricalLikelihood(2)
    network = UnboundedNetwork(3, likelihood.n_outputs, width=4, capacity=3, key=jax.random.key(0), **weights)
    return Model(network, likelihood, NormalDepth(1.7, 0.9, 0.025, 0.975), NormalDepth(0.0, 1.15))


@pytest.fixture(scope="module")
def model():
    return make_model(initial_scale=0.3)


@pytest.fixture(scope="module")
def weights(model):
    return leadline.sample_weights(model, n_samples=4, key=KEY)


def at(weights, i):
    return jax.tree.map(lambda a: a[i], weights)


def plain_outputs(weights, x):
    """Depth by depth, row by row, in NumPy."""
    layers, heads = (
        [np.asarray(getattr(weights.first, name), float), *np.asarray(getattr(weights.deeper, name), float)]
        for name in ("layer", "head")
    )
    outputs = np.zeros((len(layers), len(x), len(heads[0])))
    for depth in range(len(layers)):
        for n, row in enumerate(x):
            state = row
            for matrix in layers[: depth + 1]:
                state = matrix @ np.append(state, 1)
                state = np.where(state > 0, state, 0.1 * state)
            outputs[depth, n] = heads[depth] @ np.append(state, 1)
    return outputs


def matrices(weights):
    return [np.asarray(a, float) for part in (weights.first, weights.deeper) for a in (part.layer, part.head)]


def test_they_are_the_draws_behind_a_prediction(model, weights):
    """To the same key: what `predict` averages is what these weights put out."""
    outputs = leadline.outputs_by_depth(model, weights, X)
    assert outputs.shape == (4, 4, 6, 2)
    batch = jax.tree.map(lambda a: a[None], model)
    with pretending(Backend("cpu")):  # by JAX
        same = sample_outputs(batch, X, n_samples=4, key=KEY[None])[0]
    deepest = int(model.support()[1]) + 1
    np.testing.assert_allclose(outputs[:, :deepest], same[:, :deepest], rtol=MANY_SUMS, atol=FLOAT32)


def test_outputs_by_depth_are_plain_networks(model, weights):
    outputs = leadline.outputs_by_depth(model, weights, X)
    for i in range(4):
        np.testing.assert_allclose(outputs[i], plain_outputs(at(weights, i), X), rtol=MANY_SUMS, atol=FLOAT32)


def test_the_draws_have_the_moments_of_the_posterior(model):
    """Every weight of 4,000 draws, standardised: mean 0, variance 1, within their standard errors."""
    n = 4000
    drawn = leadline.sample_weights(model, n_samples=n, key=KEY)
    for part, place in ((model.network.first, drawn.first), (model.network.deeper, drawn.deeper)):
        for name in ("layer", "head"):
            layer = getattr(part, name)
            mean = np.concatenate([layer.weight_mean, layer.bias_mean[..., None]], axis=-1)
            raw = np.concatenate([layer.weight_raw, layer.bias_raw[..., None]], axis=-1)
            standard = (np.asarray(getattr(place, name), float) - mean) / np.log1p(np.exp(raw))
            most = stats.norm.isf(stats.norm.sf(STANDARD_ERRORS) / standard[0].size)  # of so many at once
            assert np.abs(standard.mean(axis=0)).max() < most / np.sqrt(n)
            assert np.abs((standard**2).mean(axis=0) - 1).max() < most * np.sqrt(2 / n)
            flat = standard.reshape(n, -1)
            assert np.abs(np.corrcoef(flat.T) - np.eye(flat.shape[1])).max() < (most + 1) / np.sqrt(n)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_log_joint_is_the_slow_loop(kind):
    likelihood = {"classes": CategoricalLikelihood(2), "numbers": GaussianLikelihood(1, scale=0.5)}[kind]
    model, y = make_model(likelihood, prior_scale=0.7), {"classes": CLASSES, "numbers": NUMBERS}[kind]
    weights = at(leadline.sample_weights(model, n_samples=1, key=KEY), 0)
    by_depth, log_joint = np.zeros(4), jax.jit(lambda depth: leadline.log_joint(model, weights, X, y, depth=depth))
    for depth, output in enumerate(plain_outputs(weights, X)):
        if kind == "classes":
            log_p = special.log_softmax(output, axis=1)[np.arange(6), y]
        else:
            log_p = stats.norm(output[:, 0], 0.5).logpdf(y)
        log_prior = sum(stats.norm(0, 0.7).logpdf(a).sum() for a in matrices(weights))
        # p(L) is the mass of a normal on x >= 0 between L and L + 1.
        half = stats.halfnorm(0, 1.15)
        by_depth[depth] = np.log(half.cdf(depth + 1) - half.cdf(depth)) + log_prior + log_p.sum()
        assert float(log_joint(depth)) == pytest.approx(by_depth[depth], rel=FLOAT32)
    assert float(log_joint(None)) == pytest.approx(special.logsumexp(by_depth), rel=FLOAT32)


@pytest.mark.parametrize("prior", ["unit", "weight"])
def test_log_joint_has_the_prior_as_learned(prior):
    """Another scale for every weight: the prior of the slow loop is taken from the KL's own definition of it."""
    model = make_model(prior=prior, initial_scale=0.3)
    if prior == "unit":
        scales = lambda m: [  # noqa: E731
            getattr(layer, name)
            for block in (m.network.first, m.network.deeper)
            for layer in (block.layer, block.head)
            for name in ("log_input_scale", "log_output_scale")
        ]
        model = eqx.tree_at(scales, model, [0.1 * jnp.arange(a.size).reshape(a.shape) for a in scales(model)])
    weights = at(leadline.sample_weights(model, n_samples=1, key=KEY), 0)
    log_prior = 0.0
    blocks = [model.network.first, *[jax.tree.map(lambda a, i=i: a[i], model.network.deeper) for i in range(3)]]
    points = [weights.first, *[at(weights.deeper, i) for i in range(3)]]
    for block, point in zip(blocks, points, strict=True):
        for layer, matrix in ((block.layer, point.layer), (block.head, point.head)):
            n_out, n_in = layer.weight_mean.shape
            for j in range(n_out):
                for i in range(n_in + 1):
                    if prior == "unit":
                        scale = np.exp(layer.log_output_scale[j] + (layer.log_input_scale[i] if i < n_in else 0.0))
                    else:
                        mean = layer.weight_mean[j, i] if i < n_in else layer.bias_mean[j]
                        raw = layer.weight_raw[j, i] if i < n_in else layer.bias_raw[j]
                        scale = np.hypot(mean, np.log1p(np.exp(raw)))
                    log_prior += stats.norm(0, scale).logpdf(matrix[j, i])
    with_rows = jax.jit(lambda weights: leadline.log_joint(model, weights, X, CLASSES, depth=2))(weights)
    output = plain_outputs(weights, X)[2]
    log_p = special.log_softmax(output, axis=1)[np.arange(6), CLASSES].sum()
    assert float(with_rows) == pytest.approx(log_prior + log_p + float(model.depth_prior.log_mass(2)), rel=MANY_SUMS)


def test_its_slope_is_that_of_finite_differences_and_unused_weights_have_their_prior(model, weights):
    with jax.enable_x64(True):
        model, weights = (
            jax.tree.map(lambda a: jnp.asarray(a, float) if eqx.is_inexact_array(a) else a, tree)
            for tree in (model, at(weights, 0))
        )
        target = jax.jit(lambda weights: leadline.log_joint(model, weights, X, CLASSES, depth=1))
        slope = jax.grad(target)(weights)
        h = 1e-5
        for place, index in (("first", (1, 2)), ("deeper", (0, 3, 4))):
            where = lambda w, place=place: getattr(w, place).layer  # noqa: E731
            moved = [target(eqx.tree_at(where, weights, where(weights).at[index].add(sign * h))) for sign in (1, -1)]
            assert float(where(slope)[index]) == pytest.approx(float(moved[0] - moved[1]) / (2 * h), rel=1e-6)
        for name in ("layer", "head"):
            np.testing.assert_allclose(
                getattr(slope.deeper, name)[1:], -getattr(weights.deeper, name)[1:], rtol=CLOSED_FORM["float64"]
            )


@pytest.mark.slow
def test_the_kernels_say_the_same(model, weights):
    """As on a GPU, with the kernels interpreted: the value, and the slope in every weight."""
    one = at(weights, 0)

    def target(weights):
        return leadline.log_joint(model, weights, X, CLASSES, depth=2)

    expected = jax.jit(jax.value_and_grad(target))(one)
    with pretending(Backend("gpu", has_kernels=True, interprets_kernels=True)):
        program = jax.jit(jax.value_and_grad(lambda weights: target(weights))).trace(one)
        assert any(eqn.primitive.name == "pallas_call" for eqn in equations(program.jaxpr))
        got = program.lower().compile()(one)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=MANY_SUMS, atol=MANY_SUMS)


class Pair(eqx.Module):
    """Two layers in one."""

    one: GaussianLinear
    other: GaussianLinear

    def __call__(self, x, *, key, draw):
        return self.one(x, key=fold_in(key, 0), draw=draw) * self.other(x, key=fold_in(key, 1), draw=draw)

    def kl(self):
        return self.one.kl() + self.other.kl()

    @property
    def stack(self):
        return self.one.stack

    @property
    def size(self):
        return self.one.size


class Scaled(Pair):
    """A layer, and a number that is nobody's weight."""

    other: jax.Array


class Gated(Dense):
    layer: Pair

    def __init__(self, n_in, width, n_outputs, *, key, **weights):
        super().__init__(n_in, width, n_outputs, key=key, **weights)
        self.layer = Pair(self.layer, GaussianLinear(n_in, width, key=fold_in(key, 2), **weights))


def gated(model):
    block = lambda n_in, i: Gated(n_in, 4, 2, key=jax.random.key(i))  # noqa: E731
    deeper = jax.tree.map(lambda *arrays: jnp.stack(arrays), *[block(4, i) for i in range(1, 4)])
    return eqx.tree_at(lambda m: (m.network.first, m.network.deeper), model, (block(3, 0), deeper))


def test_blocks_of_several_layers_have_points_too(model):
    model = gated(model)
    weights = leadline.sample_weights(model, n_samples=2, key=KEY)
    first, head = (np.asarray(a[0], float) for a in (weights.first.layer.one, weights.first.head))
    other = np.asarray(weights.first.layer.other[0], float)
    rows = np.column_stack([X, np.ones(6)]).T
    state = (first @ rows) * (other @ rows)
    state = np.vstack([np.maximum(0.1 * state, state), np.ones(6)])
    got = leadline.outputs_by_depth(model, weights, X)[0, 0]
    np.testing.assert_allclose(got, (head @ state).T, rtol=MANY_SUMS, atol=FLOAT32)
    assert not np.allclose(first, other)


@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_arguments_get_one_sentence(model, weights):
    one = at(weights, 0)
    batch = jax.tree.map(lambda a: a[None], model)
    other = eqx.tree_at(lambda m: m.network.first.layer, model, Scaled(model.network.first.layer, jnp.ones(())))
    for call, message in (
        (
            lambda: leadline.sample_weights(batch, key=KEY),
            "`model` must be one run's, as `leadline.run_model(models, r",
        ),
        (
            lambda: leadline.sample_weights(model, n_samples=0, key=KEY),
            "`n_samples` must be a whole number of at least",
        ),
        (
            lambda: leadline.sample_weights(other, key=KEY),
            "`model` must have layers and heads that are made of Gaussia",
        ),
        (lambda: leadline.outputs_by_depth(model, weights, X[:, :2]), "`x` must have 3 columns, got 2."),
        (
            lambda: leadline.outputs_by_depth(model, one, X),
            "`weights` must be as `sample_weights` draws them from this model, with th",
        ),
        (
            lambda: leadline.log_joint(model, weights, X, CLASSES),
            "`weights` must be as `sample_weights` draws them from this model, one of t",
        ),
        (lambda: leadline.log_joint(model, one, X, CLASSES + 1), "`y` must hold labels 0 to 1, got 2."),
        (lambda: leadline.log_joint(model, one, X, CLASSES, depth=4), "`depth` must be at most 3, got 4."),
    ):
        with pytest.raises(InvalidArgumentError) as error:
            call()
        assert str(error.value).startswith(message)
