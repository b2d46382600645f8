"""Data as training takes it: runs by rows, padded so that sets of similar size share one compiled program."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from leadline._checks import InvalidArgumentError, check_features
from leadline._numerics import bucket
from leadline.likelihoods import Likelihood


class Data(eqx.Module):
    """Rows of x and y for every run; those from `n_rows` on are padding."""

    x: Float[Array, "runs rows in"]
    y: Shaped[Array, "runs rows ..."]
    n_rows: Int[Array, ""]


def pack(name: str, x: Any, y: Any, likelihood: Likelihood, n_inputs: int | None = None) -> Data:
    """Check x [rows, in] and y [rows] (or a list of such, one per run, all of one shape) and pack them."""
    several = isinstance(x, list | tuple) and len(x) > 0 and np.ndim(x[0]) == 2
    xs, ys = ([np.asarray(one) for one in (a if several else [a])] for a in (x, y))
    if len(xs) != len(ys):
        raise InvalidArgumentError(f"`{name}` must have as many x as y, got {len(xs)} and {len(ys)}.")
    for one in xs:
        check_features(f"{name} x", one, n_inputs)
    if len({one.shape for one in xs}) > 1:
        raise InvalidArgumentError(
            f"`{name}` x must have one shape for all runs, got {sorted({one.shape for one in xs})}."
        )
    n_rows = xs[0].shape[0]
    ys = [likelihood.check_targets(f"{name} y", one, n_rows) for one in ys]
    padding = bucket(n_rows) - n_rows

    def stack(what: str, arrays: list[np.ndarray]) -> Array:
        padded = np.stack([np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)]) for a in arrays])
        with np.errstate(over="ignore"):  # what overflows is refused below
            stacked = jnp.asarray(padded, jnp.int32 if padded.dtype.kind == "i" else float)
        if not jnp.all(jnp.isfinite(stacked)):
            largest = np.abs(padded).max()
            raise InvalidArgumentError(f"`{name} {what}` must fit into {stacked.dtype}, got {largest}; rescale it.")
        return stacked

    return Data(stack("x", [one.astype(float) for one in xs]), stack("y", ys), jnp.array(n_rows, jnp.int32))
