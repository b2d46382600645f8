"""Prediction (eq. 10): the average over weights and depths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from leadline._checks import InvalidArgumentError, check_features, check_integer
from leadline._compilation import jit_lightly
from leadline._random import fold_in
from leadline.free_energy import FreeEnergy, free_energy
from leadline.model import Model, check_fits
from leadline.network import Readout


def rows_at_once() -> int:
    """Rows are predicted in pieces of this size: memory does not grow with their number, and a cache can hold one."""
    return 1024 if jax.default_backend() == "cpu" else 16384


SMALLER = (64, 1024, 4096)
"""The size of a piece where there are only so many rows: a few sizes, so that there are few programs."""


def predict(models: Model, x: np.ndarray, *, n_samples: int = 100, key: Key[Array, " runs"]) -> np.ndarray:
    """p(y | x) = E_q(theta, L) p(y | x, theta, L) (eq. 10), from `n_samples` draws of the weights and all depths.

    Returns the likelihood's moments for every run and row: class probabilities [runs, rows, classes], or the mean and
    the mean square of the targets [runs, rows, 2, outputs]. All rows see the same draws. `models` and `key` have a
    leading axis of runs; only the depths down to the support's end are evaluated. The mean over restarts is the
    prediction of all of them: `predict(...).reshape(seeds, restarts, ...).mean(1)`. The runs may have rows of their
    own: x [runs, rows, in].
    """
    x = _checked(x, models, n_samples, key, own_rows=True)
    x = x.swapaxes(0, 1) if x.ndim == 3 else x
    return _by_pieces(_predict_piece, models, (x,), key, jnp.array(n_samples))


def log_likelihood(
    models: Model, x: np.ndarray, y: np.ndarray, *, n_samples: int = 100, key: Key[Array, " runs"]
) -> np.ndarray:
    """ln p(y | x) under eq. 10, in nats, for every run and row: the log of the mean over weights and depths."""
    x = _checked(x, models, n_samples, key)
    y = models.likelihood.check_targets("y", y, len(x))
    return _by_pieces(_log_likelihood_piece, models, (x, y), key, jnp.array(n_samples))


def _by_pieces(
    function: Callable[..., PyTree],
    models: Model,
    rows: tuple[np.ndarray, ...],
    key: Array,
    n_samples: Any,
    axis: int = 1,
) -> Any:
    """`function(models, *rows, key, n_samples, highest)`, a bounded number of rows at a time.

    `axis` is that of the rows in what it gives.
    """
    n_rows, highest, pieces = len(rows[0]), _deepest(models), []
    for start in range(0, n_rows, rows_at_once()):
        piece = [_padded(a[start : start + rows_at_once()]) for a in rows]
        values = function(models, *piece, key, n_samples, highest)
        some = (slice(None),) * axis + (slice(n_rows - start),)
        pieces.append(jax.tree.map(lambda a, some=some: np.asarray(a)[some], values))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=axis), *pieces)


@jit_lightly
def _predict_piece(
    models: Model,
    x: Float[Array, "rows *runs in"],
    key: Key[Array, " runs"],
    n_samples: Int[Array, ""],
    highest: Int[Array, ""],
) -> Float[Array, "runs rows ..."]:
    def one_run(model: Model, key: Key[Array, ""], x: Float[Array, "rows in"]) -> Float[Array, "rows ..."]:
        q = model.depth_posterior.pmf(model.capacity + 1)

        def add_sample(i: Array, total: Array) -> Array:
            moments = _read_depths(model, x, _moments, None, fold_in(key, i), highest)
            return total + jnp.tensordot(q, moments, axes=1)

        start = jnp.zeros_like(model.likelihood.moments(jnp.zeros((x.shape[0], model.likelihood.n_outputs), x.dtype)))
        return jax.lax.fori_loop(0, n_samples, add_sample, start) / n_samples

    return jax.vmap(one_run, (0, 0, _runs_axis(x)))(models, key, x)


@jit_lightly
def _log_likelihood_piece(
    models: Model,
    x: Float[Array, "rows in"],
    y: Array,
    key: Key[Array, " runs"],
    n_samples: Int[Array, ""],
    highest: Int[Array, ""],
) -> Float[Array, "runs rows"]:
    def one_run(model: Model, key: Key[Array, ""]) -> Float[Array, " rows"]:
        log_q = model.depth_posterior.log_masses(model.capacity + 1)

        def add_sample(i: Array, total: Array) -> Array:
            log_p = _read_depths(model, x, read_log_prob, y, fold_in(key, i), highest)
            return jnp.logaddexp(total, jax.nn.logsumexp(log_q[:, None] + log_p, axis=0))

        start = jnp.full(x.shape[0], -jnp.inf, x.dtype)
        return jax.lax.fori_loop(0, n_samples, add_sample, start) - jnp.log(n_samples)

    return jax.vmap(one_run)(models, key)


@dataclass(frozen=True)
class Uncertainty:
    """Where the uncertainty of a prediction comes from, for every row (and output); the three parts sum to the total.

    For classes entropies in nats: noise = E[H(y | theta, L)], weights = I(y; theta | L), depth = I(y; L). For numbers
    variances: E[sigma^2], E_L Var_theta E[y | theta, L], Var_L E[y | L]. Restarts count as weights.
    """

    noise: np.ndarray
    weights: np.ndarray
    depth: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return self.noise + self.weights + self.depth


def uncertainty(
    models: Model,
    x: np.ndarray,
    *,
    n_samples: int = 100,
    key: Key[Array, " runs"],
    share: Float[np.ndarray, " runs"] | None = None,
) -> Uncertainty:
    """The uncertainty of the restarts' common prediction, by its parts; each has its share in it, or all are equal."""
    x = _checked(x, models, n_samples, key)
    moments, noise = _by_pieces(_depth_moments_piece, models, (x,), key, jnp.array(n_samples), axis=2)
    q = depth_masses(models)
    share = q / len(q) if share is None else q * share[:, None]  # of each restart and depth
    at_depth = share.sum(axis=0)
    moments = moments.astype(float)[:, : q.shape[1]]
    spread = run_likelihood(models).spread
    total = spread(np.tensordot(share, moments, axes=2))
    some = at_depth > 0
    mean = np.einsum("kl,kl...->l...", share[:, some], moments[:, some])
    mean /= at_depth[some].reshape(-1, *[1] * (mean.ndim - 1))
    given_depth = np.tensordot(at_depth[some], spread(mean), axes=1)
    noise = np.tensordot(share, noise.astype(float)[:, : q.shape[1]], axes=2)
    return Uncertainty(noise, np.maximum(given_depth - noise, 0.0), np.maximum(total - given_depth, 0.0))


def depth_masses(models: Model) -> np.ndarray:
    """q(L) of every run at the depths stored, [runs, depths]."""
    return np.asarray(_depth_masses(models), float)


@jit_lightly
def _depth_masses(models: Model) -> Float[Array, "runs depths"]:
    return jax.vmap(lambda model: model.depth_posterior.pmf(model.capacity + 1))(models)


def run_likelihood(models: Model) -> Any:
    """One run's likelihood, for its methods that do not depend on the run."""
    return jax.tree.map(lambda a: a[0], models.likelihood)


def read_output(fixed: None, likelihood: PyTree, output: Float[Array, "batch out"]) -> Array:
    return output


def read_mean_and_scale(fixed: None, likelihood: PyTree, output: Float[Array, "batch out"]) -> tuple[Array, Array]:
    """Of the numbers to predict."""
    return likelihood.mean_and_scale(output)


def sample_outputs(
    models: Model, x: np.ndarray, read: Readout = read_output, *, n_samples: int = 100, key: Key[Array, " runs"]
) -> PyTree[Float[np.ndarray, "runs samples depths rows ..."]]:
    """What is read off Omega_L(x) for `n_samples` draws of the weights and every depth stored; zero below the deepest
    with mass."""
    x = _checked(x, models, n_samples, key)
    return _by_pieces(partial(_outputs_piece, read), models, (x,), key, n_samples, axis=3)


@jit_lightly
def _outputs_piece(
    read: Readout,
    models: Model,
    x: Float[Array, "rows in"],
    key: Key[Array, " runs"],
    n_samples: int,
    highest: Int[Array, ""],
) -> PyTree[Float[Array, "runs samples depths rows ..."]]:
    def one_run(model: Model, key: Key[Array, ""]) -> PyTree:
        one_sample = lambda i: _read_depths(model, x, read, None, fold_in(key, i), highest)  # noqa: E731
        return jax.lax.map(one_sample, jnp.arange(n_samples))

    return jax.vmap(one_run)(models, key)


@jit_lightly
def _depth_moments_piece(
    models: Model,
    x: Float[Array, "rows in"],
    key: Key[Array, " runs"],
    n_samples: Int[Array, ""],
    highest: Int[Array, ""],
) -> tuple[Float[Array, "runs depths rows ..."], Float[Array, "runs depths rows ..."]]:
    """The mean moments and the mean noise at every depth."""

    def one_run(model: Model, key: Key[Array, ""]) -> PyTree:
        def add_sample(i: Array, total: PyTree) -> PyTree:
            values = _read_depths(model, x, _moments_and_noise, None, fold_in(key, i), highest)
            return jax.tree.map(jnp.add, total, values)

        output = jnp.zeros((model.capacity + 1, x.shape[0], model.likelihood.n_outputs), x.dtype)
        start = jax.tree.map(jnp.zeros_like, _moments_and_noise(None, model.likelihood, output))
        return jax.tree.map(lambda a: a / n_samples, jax.lax.fori_loop(0, n_samples, add_sample, start))

    return jax.vmap(one_run)(models, key)


def _moments_and_noise(fixed: None, likelihood: PyTree, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
    return likelihood.moments(output), likelihood.noise(output)


def _read_depths(
    model: Model, x: Array, readout: Readout, fixed: PyTree, key: Key[Array, ""], highest: Array
) -> PyTree[Float[Array, "depths rows ..."]]:
    """What every head says under one draw of the weights, down to the deepest that is needed."""
    values, _ = model.network.depths(x, readout, fixed, model.likelihood, highest=highest, key=key, noise="weights")
    return values


def _moments(fixed: None, likelihood: PyTree, output: Float[Array, "batch out"]) -> Array:
    return likelihood.moments(output)


def read_log_prob(y: Array, likelihood: PyTree, output: Float[Array, "batch out"]) -> Array:
    return likelihood.log_prob(output, y)


def evaluate_free_energy(
    models: Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    n_samples: int = 32,
    key: Key[Array, " runs"],
) -> FreeEnergy:
    """The free energy of the whole data set at temperature 1, a mean over `n_samples` draws of the weights; per run.

    A row counts as much as `weight` such rows. The runs may have rows of their own: x [runs, rows, in], y [runs, rows].
    """
    x = _checked(x, models, n_samples, key, own_rows=True)
    if x.ndim == 3:
        y = np.stack([models.likelihood.check_targets("y", own, x.shape[1]) for own in y])
        x, y = x.swapaxes(0, 1), y.swapaxes(0, 1)
    else:
        y = models.likelihood.check_targets("y", y, len(x))
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    highest = _deepest(models)
    total = None
    for start in range(0, len(x), rows_at_once()):
        piece, targets, row_weight = (_padded(a[start : start + rows_at_once()]) for a in (x, y, weight))
        terms = _evaluate_piece(models, piece, targets, row_weight, key, n_samples, highest)
        if total is None:
            total = terms
        else:
            total = eqx.tree_at(lambda t: t.expected_nll, total, total.expected_nll + terms.expected_nll)
    assert total is not None
    return total


@jit_lightly
def _evaluate_piece(
    models: Model,
    x: Array,
    y: Array,
    row_weight: Array,
    key: Key[Array, " runs"],
    n_samples: int,
    highest: Int[Array, ""],
) -> FreeEnergy:
    def one_run(model: Model, key: Key[Array, ""], x: Array, y: Array) -> FreeEnergy:
        def one_sample(key: Key[Array, ""]) -> FreeEnergy:
            return free_energy(model, x, y, key=key, noise="weights", row_weight=row_weight, highest=highest)

        terms = jax.lax.map(one_sample, jax.random.split(key, n_samples))
        return jax.tree.map(lambda a: a.mean(0), terms)

    own_rows = _runs_axis(x)
    return jax.vmap(one_run, (0, 0, own_rows, own_rows))(models, key, x, y)


def _runs_axis(x: Float[Array, "rows *runs in"]) -> int | None:
    """The axis of runs, where they have rows of their own."""
    return 1 if x.ndim == 3 else None


def _checked(x: np.ndarray, models: Model, n_samples: int, key: Array, own_rows: bool = False) -> np.ndarray:
    check_integer("n_samples", n_samples, 1)
    if len(models.runs) != 1 or key.shape != models.runs:
        raise InvalidArgumentError(
            f"`models` and `key` must have one axis of runs, got shapes {models.runs} and {key.shape}; "
            "take the models as `train` returns them, and `jax.random.split(key, number of runs)`."
        )
    x = np.asarray(x)
    if own_rows and x.ndim == 3 and len(x) == len(key):
        check_features("x", x.reshape(-1, x.shape[-1]), models.network.n_inputs)
    else:
        check_features("x", x, models.network.n_inputs)
    return x


@jit_lightly
def _highest(models: Model) -> Int[Array, " runs"]:
    return jax.vmap(lambda model: model.support()[1])(models)


def _deepest(models: Model) -> Int[Array, ""]:
    """The deepest depth that any run needs."""
    return check_fits("models", _highest(models), models.capacity).max()


def _padded(a: np.ndarray) -> Array:
    size = next((size for size in SMALLER if len(a) <= size < rows_at_once()), rows_at_once())
    padding = size - len(a)
    a = np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)])
    return jnp.asarray(a, jnp.int32 if a.dtype.kind in "iu" else float)
