"""Random numbers: known answers, JAX's own, and statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from leadline import InvalidArgumentError
from leadline.backend.random import bits, fold_in, normal, threefry
from leadline.training.epochs import _shuffled


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_is_that_of_random123(counter, key, expected):
    words = threefry(*(tuple(jnp.uint32(word) for word in pair) for pair in (key, counter)))
    assert tuple(int(word) for word in words) == expected


@pytest.mark.parametrize("data", [0, 1, 77, 2**31 - 1, jnp.array(5)])
def test_fold_in_is_jaxs(data):
    for seed in (0, 3, 2**31 + 5):
        key = jax.random.key(seed)
        expected = jax.random.key_data(jax.random.fold_in(key, data))
        np.testing.assert_array_equal(jax.random.key_data(jax.jit(fold_in)(key, data)), expected)


def test_normals_are_normal(precision):
    """400,000 of them: moments within four standard errors, the distribution by Kolmogorov and Smirnov."""
    n = 400_000
    z = np.asarray(jax.jit(lambda key: normal(key, (n // 4, 4), jnp.dtype(precision)))(jax.random.key(1)))
    assert z.dtype == precision
    assert np.all(np.isfinite(z))
    z = z.ravel().astype(float)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**power) - moment) < 4 * np.sqrt(variance / n)
    assert stats.kstest(z, "norm").pvalue > 0.001
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 4 / np.sqrt(n)
    beyond = 2 * stats.norm.sf(4)  # the tails
    assert abs(np.mean(np.abs(z) > 4) - beyond) < 4 * np.sqrt(beyond / n)


def test_other_keys_give_other_numbers():
    keys = [fold_in(jax.random.key(0), i) for i in range(50)]
    z = np.asarray(jax.vmap(lambda key: normal(key, (2000,), jnp.dtype("float32")))(jnp.stack(keys)))
    correlation = np.corrcoef(z) - np.eye(50)
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)


def test_a_key_may_be_used_for_numbers_and_for_other_keys():
    """No pair of words behind a number is a key folded from the same one, or split from it."""
    key = jax.random.key(3)
    drawn = {tuple(pair) for pair in np.stack(bits(key, (200,)), axis=1).tolist()}
    folded = {tuple(jax.random.key_data(jax.random.fold_in(key, i)).tolist()) for i in range(200)}
    split = {tuple(pair) for pair in jax.random.key_data(jax.random.split(key, 200)).tolist()}
    assert len(drawn) == len(folded) == len(split) == 200
    assert not drawn & (folded | split)


@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_the_extreme_words_are_finite_and_symmetric(word, monkeypatch, precision):
    """Whatever the hash: here it gives the same word everywhere."""
    from leadline.backend import random as _random

    dtype = jnp.dtype(precision)
    both = jnp.full(1, word, jnp.uint32), jnp.full(1, 0 if precision == "float32" else word, jnp.uint32)
    monkeypatch.setattr(_random, "threefry", lambda key, counter: both)
    z = float(normal(jax.random.key(0), (1,), dtype)[0])
    part = 2.0**-23 if precision == "float32" else 2.0**-52
    assert z == pytest.approx(np.sign(word - 1) * -stats.norm.ppf(part / 2), rel=1e-4)


def test_half_precision_is_finite():
    for dtype in (jnp.float16, jnp.bfloat16):
        z = normal(jax.random.key(0), (1000,), jnp.dtype(dtype))
        assert z.dtype == dtype
        assert np.std(z.astype(float)) == pytest.approx(1, abs=4 / np.sqrt(2000))


@pytest.mark.usefixtures("as_users_have_it")
def test_several_keys_at_once_get_one_sentence():
    keys = jax.random.split(jax.random.key(0), 3)
    for call in (lambda: fold_in(keys, 1), lambda: normal(keys, (2,), jnp.dtype("float32"))):
        with pytest.raises(InvalidArgumentError, match="`key` must be one threefry key, got shape \\(3,\\)"):
            call()


def test_a_shuffled_epoch_has_every_row_once_and_the_padding_last():
    rows = jnp.concatenate([jnp.arange(20) + 100, jnp.zeros(12, jnp.int32)])
    orders = [np.asarray(_shuffled(jnp.array(20), jax.random.key(seed), rows)) for seed in range(3)]
    for order in orders:
        assert sorted(order[:20]) == list(range(100, 120))
        assert np.all(order[20:] == 0)
        assert list(order[:20]) != list(range(100, 120))
    assert len({tuple(order) for order in orders}) == 3
