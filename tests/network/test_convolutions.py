"""Convolutions against plain loops and sampling, and what every block for images can do."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    CategoricalLikelihood,
    GaussianLinear,
    InvalidArgumentError,
    Problem,
    Settings,
    UnboundedNetwork,
    outputs_by_depth,
    predict,
    prune,
    run_model,
    sample_weights,
    train,
)
from leadline.backend.device import Backend, pretending
from leadline.backend.loops import row
from leadline.backend.random import normal
from leadline.files.models import check_fits_together, describe, rebuild
from leadline.inference.model import Model
from leadline.network.blocks import BLOCKS
from leadline.network.convolutions import GaussianConvolution, Stages, convolve, pooled, stages_of, standardised
from leadline.training import init_models
from leadline.training.augmentation import Augmentation
from tests.tolerances import CLOSED_FORM, GRADIENT, MANY_SUMS, STANDARD_ERRORS

KEY = jax.random.key(0)
IMAGES = jax.random.normal(jax.random.key(1), (2, 5, 4, 3))
ACCELERATOR = Backend("gpu")
FOR_IMAGES = [name for name, kind in BLOCKS.items() if kind.takes_images]
SHAPE = (9, 10, 2)  # halved once
X = np.asarray(jax.random.normal(jax.random.key(2), (12, 180)))


def by_loops(images, weights, kernel, stride):
    """Output by output: a patch, zeros around, times the weights."""
    n, height, width, channels = images.shape
    out = np.zeros((n, -(-height // stride), -(-width // stride), len(weights)))
    for image, down, right, k in np.ndindex(*out.shape):
        for i, j, c in np.ndindex(kernel, kernel, channels):
            y, x = down * stride + i - kernel // 2, right * stride + j - kernel // 2
            if 0 <= y < height and 0 <= x < width:
                out[image, down, right, k] += images[image, y, x, c] * weights[k, (i * kernel + j) * channels + c]
    return out


@pytest.mark.parametrize("device", [Backend("cpu"), ACCELERATOR], ids=lambda one: one.platform)
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 2), (5, 3)])
def test_a_convolution_is_that_of_slow_loops(kernel, stride, device):
    weights = np.asarray(jax.random.normal(KEY, (2, kernel * kernel * 3)))
    with pretending(device):
        got = convolve(IMAGES, jnp.asarray(weights), kernel, stride)
    slow = by_loops(np.asarray(IMAGES), weights, kernel, stride)
    np.testing.assert_allclose(got, slow, rtol=CLOSED_FORM["float32"], atol=CLOSED_FORM["float32"])


@pytest.mark.parametrize("draw", ["local", "weights"])
def test_its_outputs_have_the_right_mean_and_variance(draw):
    """The mean is the convolution with the means, the variance that of the squares with the variances."""
    layer, n = GaussianConvolution(3, 2, stride=2, key=KEY, initial_scale=0.5), 4000
    draws = jax.vmap(lambda key: layer(IMAGES, key=key, draw=draw))(jax.random.split(KEY, n))
    (mean, variance), images = map(np.asarray, layer.filters.moments()), np.asarray(IMAGES)
    mean = by_loops(images, mean[:, :-1], 3, 2) + mean[:, -1]
    variance = by_loops(images**2, variance[:, :-1], 3, 2) + variance[:, -1]
    assert np.all(np.abs(draws.mean(0) - mean) <= STANDARD_ERRORS * np.sqrt(variance / n))
    assert np.all(np.abs(draws.var(0) - variance) <= STANDARD_ERRORS * variance * np.sqrt(2 / n))


def test_its_kl_is_that_of_its_filters_as_a_dense_layer():
    layer = GaussianConvolution(3, 2, key=KEY, prior="unit", initial_scale=0.1)
    assert float(layer.kl()) == float(GaussianLinear(27, 2, key=KEY, prior="unit", initial_scale=0.1).kl())


@pytest.mark.parametrize("device", [Backend("cpu"), ACCELERATOR], ids=lambda one: one.platform)
def test_its_reverse_pass_is_the_gradient(device):
    layer = GaussianConvolution(3, 2, stride=2, key=KEY, initial_scale=0.5)

    def plain(layer, images):
        (mean, variance), places = layer.filters.moments(), partial(convolve, kernel=3, stride=2)
        centre = places(images, mean[:, :-1]) + mean[:, -1]
        spread = places(images**2, variance[:, :-1]) + variance[:, -1]
        return centre + jnp.sqrt(spread) * normal(KEY, centre.shape, centre.dtype)

    def slopes(function):
        return jax.grad(lambda layer, images: jnp.sum(jnp.sin(function(layer, images))), (0, 1))(layer, IMAGES)

    with pretending(device):
        own = slopes(lambda layer, images: layer(images, key=KEY, draw="local"))
        automatic = slopes(plain)
    for one, other in zip(jax.tree.leaves(own), jax.tree.leaves(automatic), strict=True):
        np.testing.assert_allclose(one, other, rtol=GRADIENT, atol=GRADIENT)


def test_a_kernel_has_a_middle():
    with pytest.raises(InvalidArgumentError, match=r"`kernel` must be odd, so that a patch has a middle, got 4."):
        GaussianConvolution(3, 2, kernel=4, key=KEY)


def test_pooling_takes_the_largest_of_four():
    images = np.arange(15.0).reshape(1, 3, 5, 1)  # odd sides: their last places stand alone
    np.testing.assert_array_equal(pooled(jnp.asarray(images))[0, :, :, 0], [[6, 8, 9], [11, 13, 14]])


def test_an_image_is_standardised_by_itself():
    far = 100 + 10 * IMAGES
    both = standardised(jnp.concatenate([IMAGES, far]))
    np.testing.assert_allclose(both[:2], both[2:], atol=MANY_SUMS)
    np.testing.assert_allclose(both.mean((1, 2, 3)), 0, atol=MANY_SUMS)
    np.testing.assert_allclose(both.std((1, 2, 3)), 1, atol=MANY_SUMS)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((8, 8, 1), [32]), ((28, 28, 1), [8, 16, 32]), ((32, 32, 3), [8, 16, 32]), ((9, 40, 3), [16, 32])],
)
def test_stages_halve_until_eight(shape, channels):
    assert stages_of(shape, 32) == channels


# What blocks for images are to everything else


def models(block, runs=1, **options):
    """Drawn by NumPy: nothing is compiled for them."""
    words = np.stack([np.zeros(runs), np.arange(runs)], axis=1).astype(np.uint32)
    return init_models(SHAPE, CategoricalLikelihood(3), block=block, width=4, capacity=3, key=words, **options)


@pytest.fixture(scope="module", params=[FOR_IMAGES[0], pytest.param(FOR_IMAGES[1], marks=pytest.mark.slow)])
def network(request):
    return request.param, run_model(models(request.param), 0).network


@eqx.filter_jit
def depths(net, highest, draw):
    return net.depths(jnp.asarray(X), highest=jnp.asarray(highest), key=jax.random.key(9), draw=draw)


@pytest.mark.parametrize("draw", ["local", pytest.param("weights", marks=pytest.mark.slow)])
def test_packed_or_with_more_room_it_is_the_same_network(network, draw):
    name, net = network
    outputs, kl = depths(net, 3, draw)
    assert outputs.shape == (4, 12, 3)
    words = np.array([0, 4], np.uint32)
    drawn = [UnboundedNetwork(SHAPE, 3, width=4, capacity=n, block=name, key=words) for n in (3, 5)]
    for one, other in zip(*(depths(each, 3, draw) for each in drawn), strict=True):
        np.testing.assert_array_equal(one, other[:4])
    for one, other in zip((outputs, kl), depths(net.pack(), 3, draw), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.all(np.diff(np.abs(np.asarray(outputs)).sum((1, 2))) != 0)  # a depth more is another network


def test_the_kl_of_a_depth_is_that_of_its_path(network):
    _, net = network
    _, kl = depths(net, 3, "local")
    layers = [_kl(net.first.layer), *(_kl(row(net.deeper.layer, i)) for i in range(3))]
    heads = [_kl(net.first.head), *(_kl(row(net.deeper.head, i)) for i in range(3))]
    np.testing.assert_allclose(kl, np.cumsum(layers) + heads, rtol=CLOSED_FORM["float32"])


def _kl(part):
    """Of all `GaussianLinear`s in it."""
    linears = jax.tree.leaves(part, is_leaf=lambda node: isinstance(node, GaussianLinear))
    return sum(float(_kl_of_linear(one)) for one in linears)


_kl_of_linear = eqx.filter_jit(lambda linear: linear.kl())


def test_weights_that_are_drawn_are_those_behind_a_prediction(network):
    name, _ = network
    model, keys = models(name), jax.random.split(KEY, 1)
    weights = sample_weights(run_model(model, 0), n_samples=3, key=keys[0])
    outputs = outputs_by_depth(run_model(model, 0), weights, X)
    said = model.likelihood.moments(outputs).mean(axis=0)
    q = np.asarray(run_model(model, 0).depth_posterior.pmf(4))
    got = predict(model, X, n_samples=3, key=keys)[0]
    np.testing.assert_allclose(np.tensordot(q, said, axes=1), got, rtol=MANY_SUMS, atol=MANY_SUMS)


def test_a_model_file_holds_it_and_refuses_other_sizes(network):
    name, _ = network
    model, tensors = models(name), {}
    config = describe(model, "model", tensors)
    again = check_fits_together(rebuild(config, tensors))
    assert isinstance(again, Model)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    stages = again.network.first.layer
    assert isinstance(stages, Stages)
    fewer = Stages((stages.height, stages.width, stages.channels), stages.parts[:-1])
    for wrong in (fewer, again.network.deeper.layer):
        wrong = eqx.tree_at(lambda m: m.network.first.layer, again, wrong)
        with pytest.raises((ValueError, TypeError, AttributeError)):
            check_fits_together(wrong)


def test_pruning_takes_the_layers_that_are_not_used(network):
    name, _ = network
    model, keys = models(name, depth=1), jax.random.split(KEY, 1)
    pruning = prune(model, X, np.arange(12) % 3, n_samples=2, key=keys)
    assert (pruning.model.capacity, pruning.width, pruning.depth) == (1, 4, 1)
    before, after = (predict(one, X, n_samples=2, key=keys) for one in (model, pruning.model))
    np.testing.assert_array_equal(before, after)


def test_columns_and_images_are_not_mistaken_for_each_other():
    likelihood, keys = CategoricalLikelihood(2), jax.random.split(KEY, 1)
    with pytest.raises(
        InvalidArgumentError, match=r"`block` must be one that takes columns, got convolution for 64 columns."
    ):
        init_models(64, likelihood, block="convolution", key=keys)
    with pytest.raises(InvalidArgumentError, match=r"`block` must be one that takes images, got dense for 8 x 8 x 1."):
        init_models((8, 8, 1), likelihood, key=keys)


# In training

Y = np.arange(12) % 3
SMALL = {"width": 4, "n_restarts": 2, "recipe": "image", "epochs": 4, "batch_size": 5}


def problem(**more):
    return Problem((X, Y), 0.25, CategoricalLikelihood(3), shape=SHAPE, **more)


@pytest.mark.slow
@pytest.mark.parametrize("block", FOR_IMAGES)
def test_restarts_side_by_side_are_those_alone_and_images_move(block):
    """Two runs in a program, each with its own stream; images that move are another training."""
    trained = [train(problem(), Settings(block=block, **SMALL | more)) for more in ({}, {"n_restarts": 1})]
    both, alone = (one.history["validation_nll"] for one in trained)
    np.testing.assert_allclose(both[:, :1], alone, rtol=MANY_SUMS)
    moved = train(problem(), Settings(block=block, crop=2, flip=True, **SMALL)).history["validation_nll"]
    assert np.all(np.isfinite(moved))
    assert np.all(moved[-1] != both[-1])


def test_moved_images_are_shifted_mirrored_ones():
    """By the index that each image should show: within the crop, every one of its own, half of them mirrored."""
    height, width = 6, 7
    places = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)
    x = np.tile(places.reshape(1, -1), (400, 1)).astype(np.float32)
    moved = np.asarray(Augmentation((height, width, 2), crop=2, flip=True)(jnp.asarray(x), KEY))
    rows, columns = np.moveaxis(moved.reshape(400, height, width, 2), -1, 0)
    mirrored = columns[:, 0, 2] > columns[:, 0, 4]
    columns = np.where(mirrored[:, None, None], columns[:, :, ::-1], columns)
    down, right = rows[:, 3, 0] - 3, columns[:, 0, 3] - 3
    assert set(down) == set(right) == {-2, -1, 0, 1, 2}
    assert abs(mirrored.mean() - 0.5) <= STANDARD_ERRORS * 0.5 / 20
    assert abs(np.corrcoef(down, right)[0, 1]) <= STANDARD_ERRORS / 20
    at = np.clip(np.arange(height) + down[:, None], 0, height - 1)
    np.testing.assert_array_equal(rows, np.repeat(at[:, :, None], width, axis=2))
    at = np.clip(np.arange(width) + right[:, None], 0, width - 1)
    np.testing.assert_array_equal(columns, np.repeat(at[:, None], height, axis=1))


def test_what_is_no_image_is_not_moved():
    table = Problem((X, Y), 0.25, CategoricalLikelihood(3))
    with pytest.raises(InvalidArgumentError, match=r"`crop` must be 0 where rows are no images, got 2."):
        train(table, Settings(crop=2, epochs=1))


@pytest.mark.parametrize("shape", [(9, 10), (9, 10, 3), (0, 10, 2), (9.0, 10, 2)])
def test_a_shape_that_is_not_that_of_the_rows(shape):
    with pytest.raises(InvalidArgumentError, match="`shape` must"):
        Problem((X, Y), 0.25, CategoricalLikelihood(3), shape=shape)


def test_a_problem_of_another_shape_is_another_training():
    settings = Settings(block="convolution").resolved(CategoricalLikelihood(3))
    names = {settings.identity(Problem((X, Y), 0.25, CategoricalLikelihood(3), shape=shape)) for shape in (SHAPE, None)}
    assert len(names) == 2
