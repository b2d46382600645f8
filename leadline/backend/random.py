"""Random numbers in as few operations as possible: many small draws make up a training step.

Threefry-2x32 with 20 rounds (Salmon et al. 2011), which is also JAX's default generator. JAX's own functions hash in
loops, which XLA's CPU backend runs slowly for small arrays and compiles slowly for all; here a draw is one kernel.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from leadline._checks import InvalidArgumentError
from leadline.backend.native import library
from leadline.backend.numerics import AnyArray

AnyKey = Key[Array, ""] | UInt32[np.ndarray, " 2"]
"""JAX's, or its two words where nothing is compiled."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


Words = tuple[UInt32[AnyArray, "..."], UInt32[AnyArray, "..."]]


def threefry(key: Words, counter: Words) -> Words:
    """The two words that the two words of the counter become under the two words of the key."""
    words = (*key, key[0] ^ key[1] ^ _PARITY)
    x, y = counter[0] + words[0], counter[1] + words[1]
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x = x + y
            y = ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance))) ^ x
        x, y = x + words[(i + 1) % 3], y + words[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _words(key: Key[Array, ""]) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    data = jax.random.key_data(key)
    if data.shape != (2,):
        raise InvalidArgumentError(
            f"`key` must be one threefry key, got shape {data.shape[:-1]} of keys of {data.shape[-1]} words; "
            "use `jax.random.key(seed, impl='threefry2x32')`, and `jax.vmap` over several."
        )
    return data[0], data[1]


def words_of(seed: int) -> UInt32[np.ndarray, " 2"]:
    """The two words of `jax.random.key(seed)`: a key where nothing is compiled."""
    if 0 <= seed < 2**31:
        return np.array([0, seed], np.uint32)
    return np.asarray(jax.random.key_data(jax.random.key(seed, impl="threefry2x32")))


def fold_in(key: Any, data: int | Int[Array, ""]) -> Any:
    """`jax.random.fold_in`, bit for bit, for compiled programs (one by one, its operations take long), and for keys as
    NumPy's words, [..., 2]."""
    if isinstance(key, np.ndarray):
        rows = key.reshape(-1, 2)
        counter = np.zeros(len(rows), np.uint32), np.full(len(rows), data, np.uint32)
        return np.stack(threefry((rows[:, 0], rows[:, 1]), counter), axis=-1).reshape(key.shape)
    data = jnp.asarray(data).astype(jnp.uint32)
    return jax.random.wrap_key_data(jnp.stack(fold_words(_words(key), data)), impl="threefry2x32")


def bits(key: Key[Array, ""], shape: tuple[int, ...]) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Two random words for every number.

    Those of number i are the hash of (1, i), and `fold_in` (like `jax.random.split`) hashes (0, i): a key may be used
    for both.
    """
    index = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    return _bits(_words(key), index)


def _bits(words: tuple[Array, Array], index: UInt32[Array, "..."]) -> tuple[Array, Array]:
    return threefry(words, (jnp.ones_like(index), index))


def normal(key: AnyKey, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[AnyArray, "..."]:
    """Standard normals, by the inverse of their distribution function; not those of `jax.random.normal`.

    For a key as NumPy's words they are the engine's, in single precision.
    """
    if isinstance(key, np.ndarray):
        return library.normals(key, math.prod(shape)).reshape(shape)
    x, y = bits(key, shape)
    if dtype == jnp.float64:
        whole = (x >> np.uint32(6)).astype(dtype) * 2.0**26 + (y >> np.uint32(6)).astype(dtype)
        return _quantile(whole, 52)
    return _single(x, y).astype(dtype)


def normals_at(words: tuple[Array, Array], index: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """The numbers `index` of `normal`, in single precision, from the two words of a key; for kernels."""
    return _single(*_bits(words, index))


def fold_words(words: tuple[Array, Array], data: UInt32[Array, ""]) -> tuple[Array, Array]:
    """`fold_in` for the two words of a key."""
    return threefry(words, (jnp.zeros_like(data), data))


def _single(x: UInt32[Array, "..."], y: UInt32[Array, "..."]) -> Float[Array, "..."]:
    return _quantile(((x ^ y) >> np.uint32(9)).astype(jnp.float32), 23)


def _quantile(whole: Float[Array, "..."], digits: int) -> Float[Array, "..."]:
    """The normal quantile of a uniform number of so many binary digits."""
    # Midpoints of equal parts of (-1, 1): symmetric, and never an end, where the inverse is infinite.
    uniform = (whole + 0.5) * 2.0 ** (1 - digits) - 1
    return math.sqrt(2) * jax.lax.erf_inv(uniform)
