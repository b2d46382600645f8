"""Numbers that ordinary formulas would lose: small differences, far tails, positive parameters."""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline._checks import is_traced
from leadline.backend.forks import is_forked

if TYPE_CHECKING:
    AnyArray = Any
else:
    AnyArray = Array | np.ndarray  # where nothing is compiled, NumPy's do what JAX's would


def as_float(value: Any) -> Float[Array, "..."]:
    """As JAX keeps a number or an array of them, in its default precision; without a program where it is known."""
    if is_traced(value):
        return jnp.asarray(value, float)
    return jax.device_put(np.asarray(value, jax.dtypes.canonicalize_dtype(float)))


def at_least(values: Float[Array, "*shape"], least: Any) -> Float[Array, "*shape"]:
    """The larger of the values and the least that they may be."""
    return jnp.maximum(values, least) if is_traced(values) or is_traced(least) else as_float(np.maximum(values, least))


Precision = Literal["float32", "bfloat16"]
"""Of the factors of a matrix product. Its sums, and all other numbers, are in JAX's default precision."""


def computing_in(precision: Precision) -> AbstractContextManager[None]:
    """What is traced inside multiplies matrices so (`product`)."""
    return jax.default_matmul_precision("bfloat16") if precision == "bfloat16" else nullcontext()


def rounds_factors() -> bool:
    """Whether matrices are multiplied in bfloat16."""
    return jax.config.jax_default_matmul_precision == "bfloat16"  # pyright: ignore[reportAttributeAccessIssue]


def product(a: Float[AnyArray, "out in"], b: Float[Array, "in batch"]) -> Float[Array, "out batch"]:
    """a @ b, of factors that are rounded to bfloat16 where that is asked for (`computing_in`), and sums that are not.

    JAX has that algorithm on a GPU alone; on a CPU, which multiplies the rounded numbers as it does others, the same
    comes of it."""
    if not rounds_factors():
        return a @ b
    a, b = (jax.lax.reduce_precision(jnp.asarray(factor), exponent_bits=8, mantissa_bits=7) for factor in (a, b))
    return jnp.matmul(a, b, precision=jax.lax.DotAlgorithmPreset.BF16_BF16_F32)


def softplus(x: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
    """ln(1 + exp(x)); after a fork by NumPy."""
    return np.logaddexp(np.asarray(x), np.float32(0)) if is_forked() and not is_traced(x) else jax.nn.softplus(x)


def softplus_inverse(y: Float[AnyArray, "*shape"]) -> Float[Array, "*shape"]:
    """The x with softplus(x) = y, for y > 0."""
    return y + jnp.log(-jnp.expm1(-y)) if is_traced(y) else as_float(_raw(np.asarray(y)))


def raw_of(scale: float) -> np.floating:
    """The same of a number that is known, as NumPy keeps it in JAX's default precision."""
    return _raw_of(scale, jax.dtypes.canonicalize_dtype(float))


@lru_cache
def _raw_of(scale: float, dtype: np.dtype) -> np.floating:
    return _raw(dtype.type(scale))


def _raw(known: Any) -> Any:
    return known + np.log(-np.expm1(-known))


def log_softplus(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """ln softplus(x), also where softplus(x) is 0 to the precision of the floats: x itself, there."""
    low = x < -15
    return jnp.where(low, x, jnp.log(jax.nn.softplus(jnp.where(low, 0.0, x))))


@jax.custom_jvp
def log_sub_exp(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(exp(a) - exp(b)) for a > b; -inf, with gradient zero, for a <= b."""
    some = a > b
    gap = jnp.where(some, a, 1.0) - jnp.where(some, b, 0.0)
    log_share = jnp.where(gap < jnp.log(2.0), jnp.log(-jnp.expm1(-gap)), jnp.log1p(-jnp.exp(-gap)))
    return jnp.where(some, a + log_share, -jnp.inf)


@log_sub_exp.defjvp
def _log_sub_exp_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (a, b), (da, db) = primals, tangents
    value = log_sub_exp(a, b)
    some = a > b
    safe = jnp.where(some, value, 0.0)
    by_a = jnp.where(some, jnp.exp(jnp.where(some, a, 0.0) - safe), 0.0)
    by_b = jnp.where(some, jnp.exp(jnp.where(some, b, 0.0) - safe), 0.0)
    return value, by_a * da - by_b * db


@jax.custom_jvp
def log_ndtr(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log of the standard normal CDF Phi, to the precision of the floats in the lower tail, of 1 in the upper."""
    return _log_ndtr(z)[0]


@log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value, slope = _log_ndtr(primals[0])
    return value, slope * tangents[0]


def _log_ndtr(z: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """ln Phi(z) and its derivative phi(z) / Phi(z).

    `jax.scipy.special.log_ndtr` loses this derivative far below zero, and takes longer to compile.
    """
    far = z < (-12 if z.dtype == jnp.float32 else -20)
    z_far, z_near = jnp.where(far, z, -20.0), jnp.where(far, 0.0, z)
    log_phi = -0.5 * jnp.square(z) - 0.5 * math.log(2 * math.pi)
    # Phi(z) = phi(z) / -z * series, asymptotically
    w = 1 / jnp.square(z_far)
    series = 1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w))))
    log_near = jnp.log(0.5 * jax.lax.erfc(-math.sqrt(0.5) * z_near))
    value = jnp.where(far, log_phi - jnp.log(-z_far) + jnp.log(series), log_near)
    slope = jnp.where(far, -z_far / series, jnp.exp(log_phi - log_near))
    return value, slope


def mean_and_scale(values: np.ndarray, weight: np.ndarray | None = None) -> tuple[Any, Any]:
    """What to subtract and to divide by to standardise columns, or one column: their means and standard deviations.

    Where nothing varies but the last digits, the scale is 1, or so large that they vanish. Squares are taken in units
    of the largest deviation where they would leave the range of a float.
    """
    mean = np.average(values, axis=0, weights=weight)
    largest = np.abs(values - mean).max(axis=0)
    unit = np.where((largest > 1e100) | ((largest > 0) & (largest < 1e-100)), largest, 1.0)
    deviation = unit * np.sqrt(np.average(((values - mean) / unit) ** 2, axis=0, weights=weight))
    varies = deviation > 10 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(varies, deviation, np.maximum(1.0, 1e-12 * np.abs(mean)))


def bucket(n_rows: int) -> int:
    """`n_rows` rounded up to 32 or one of four sizes per doubling: tables of similar size share a compiled program."""
    step = 32 if n_rows <= 32 else 2 ** (n_rows.bit_length() - 3)
    return -(-n_rows // step) * step
