"""Prediction (eq. 10): the average over weights and depths."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from leadline.backend.compilation import jit_lightly
from leadline.backend.loops import put_row
from leadline.inference import native
from leadline.inference.free_energy import FreeEnergy, nll_of_rows, terms_by_depth
from leadline.inference.model import Model
from leadline.inference.montecarlo import Estimate, by_pieces, check_asked, joined
from leadline.likelihoods import NumberLikelihood
from leadline.likelihoods.mixture import Mixture


def predict(models: Model, x: np.ndarray, *, n_samples: int = 100, key: Key[Array, " runs"]) -> np.ndarray:
    """p(y | x) = E_q(theta, L) p(y | x, theta, L) (eq. 10), from `n_samples` draws of the weights and all depths.

    All rows see the same draws; only the depths down to the support's end are evaluated. The mean over restarts is the
    prediction of all of them: `predict(...).reshape(seeds, restarts, ...).mean(1)`.

    Args:
        models: with a leading axis of runs, as `train` returns them.
        x: rows [rows, in], or rows for every run [runs, rows, in].
        n_samples: draws of the weights.
        key: one for every run.

    Returns:
        The likelihood's moments for every run and row: class probabilities [runs, rows, classes], or the mean and the
        mean square of the targets [runs, rows, 2, outputs].

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, predict
        >>> models = init_models(1, CategoricalLikelihood(2), key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> key = jax.random.split(jax.random.key(0), 2)  # one for each restart
        >>> predict(models, np.zeros((5, 1)), n_samples=10, key=key).shape  # restarts, rows, classes
        (2, 5, 2)
    """
    x = check_asked(x, models, n_samples, key, own_rows=True)
    x = x.swapaxes(0, 1) if x.ndim == 3 else x
    return joined(by_pieces(_Moments(), models, x, key=key, n_samples=np.asarray(n_samples)), len(x), axis=1)


class _Moments(Estimate):
    """E[moments], over the weights and the depths."""

    def read(self, fixed: Any, likelihood: Any, output: Array) -> Array:
        return likelihood.moments(output)

    def start(self, model: Model, x: Array, n_samples: Any) -> tuple[Array, Array]:
        output = jnp.zeros((x.shape[0], model.likelihood.n_outputs), x.dtype)
        return model.depth_posterior.pmf(model.capacity + 1), jnp.zeros_like(model.likelihood.moments(output))

    def add(self, same: Array, total: Array, i: Array, values: Array, weight_kl: Array) -> Array:
        return total + jnp.tensordot(same, values, axes=1)

    def natively(self, models: Model, ask: Any) -> np.ndarray:
        moments, _ = ask("moments")
        return np.einsum("rd,rd...->r...", depth_masses(models).astype(moments.dtype), moments)


def log_likelihood(
    models: Model, x: np.ndarray, y: np.ndarray, *, n_samples: int = 100, key: Key[Array, " runs"]
) -> np.ndarray:
    """ln p(y | x) under eq. 10: the log of the mean over weights and depths.

    Args:
        models: with a leading axis of runs, as `train` returns them.
        x: rows.
        y: the targets.
        n_samples: draws of the weights.
        key: one for every run.

    Returns:
        Nats, for every run and row.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, log_likelihood
        >>> models = init_models(1, CategoricalLikelihood(2), key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> key = jax.random.split(jax.random.key(0), 2)  # one for each restart
        >>> x, y = np.zeros((5, 1)), np.array([0, 1, 1, 0, 0])
        >>> log_likelihood(models, x, y, n_samples=10, key=key).shape  # restarts, rows
        (2, 5)
    """
    x = check_asked(x, models, n_samples, key)
    y = models.likelihood.check_targets("y", y, len(x))
    return joined(
        by_pieces(_LogLikelihood(), models, x, (y,), key=key, n_samples=np.asarray(n_samples)), len(x), axis=1
    )


class _LogLikelihood(Estimate):
    """ln E[p(y | x)], over the weights and the depths."""

    def read(self, fixed: tuple[Array], likelihood: Any, output: Array) -> Array:
        return likelihood.log_prob(output, fixed[0])

    def start(self, model: Model, x: Array, n_samples: Any) -> tuple[Array, Array]:
        return model.depth_posterior.log_masses(model.capacity + 1), jnp.full(x.shape[0], -jnp.inf, x.dtype)

    def add(self, same: Array, total: Array, i: Array, values: Array, weight_kl: Array) -> Array:
        return jnp.logaddexp(total, jax.nn.logsumexp(same[:, None] + values, axis=0))

    def end(self, same: Array, total: Array, n_samples: Any) -> Array:
        return total - jnp.log(n_samples)

    def natively(self, models: Model, ask: Any) -> np.ndarray:
        return ask("log_likelihood")


def depth_masses(models: Model) -> np.ndarray:
    """q(L) of every run at the depths stored, [runs, depths]."""
    if native.suits(models):
        return np.exp(native.log_masses(models.depth_posterior, models.runs[0], models.capacity + 2))[:, :-1]
    q = np.asarray(_depth_masses(models), float)
    return q / q.sum(axis=1, keepdims=True)


_depth_masses = jit_lightly(jax.vmap(lambda model: model.depth_posterior.pmf(model.capacity + 1)))


def sample_outputs(
    models: Model, x: np.ndarray, *, components: bool = False, n_samples: int = 100, key: Key[Array, " runs"]
) -> PyTree[Float[np.ndarray, "runs samples depths rows ..."]]:
    """Omega_L(x), or the `components` of the predictive distribution that the likelihood makes of it, for every draw of
    the weights and every depth stored; zero below the deepest with mass."""
    x = check_asked(x, models, n_samples, key)
    return joined(by_pieces(_Outputs(components), models, x, key=key, n_samples=n_samples), len(x), axis=3)


def mixture(models: Model, x: np.ndarray, *, n_samples: int, key: Key[Array, " runs"]) -> Mixture:
    """The distribution of the numbers that are predicted, all weight samples and depths together; its components come
    restart by restart, draw by draw, and by the depths that have mass."""
    assert isinstance(models.likelihood, NumberLikelihood)
    q = depth_masses(models)
    some = q.sum(axis=0) > 0
    samples = sample_outputs(models, x, components=True, n_samples=n_samples, key=key)
    parts = [a[:, :, some].astype(float).reshape(-1, *a.shape[3:]) for a in samples]
    share = np.repeat(q[:, None, some] / (n_samples * len(q)), n_samples, axis=1).ravel()
    return models.likelihood.mixture(share, *parts)


def numbers_of_row(models: Model, n_samples: int) -> int:
    """How many each part of the components of a row's `mixture` has."""
    return models.runs[0] * n_samples * (models.capacity + 1) * models.likelihood.n_spreads


class _Outputs(Estimate):
    """All draws, side by side."""

    components: bool

    def read(self, fixed: Any, likelihood: Any, output: Array) -> PyTree:
        return likelihood.components(output) if self.components else output

    def start(self, model: Model, x: Array, n_samples: int) -> tuple[None, PyTree]:
        output = jnp.zeros((x.shape[0], model.likelihood.n_outputs), x.dtype)
        shapes = jax.eval_shape(self.read, (), model.likelihood, output)
        return None, jax.tree.map(lambda a: jnp.zeros((n_samples, model.capacity + 1, *a.shape), a.dtype), shapes)

    def add(self, same: None, total: PyTree, i: Array, values: PyTree, weight_kl: Array) -> PyTree:
        return put_row(total, values, i)

    def end(self, same: None, total: PyTree, n_samples: Any) -> PyTree:
        return total

    def natively(self, models: Model, ask: Any) -> PyTree:
        return ask("components" if self.components else "outputs")


def evaluate_free_energy(
    models: Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    n_samples: int = 32,
    key: Key[Array, " runs"],
) -> FreeEnergy:
    """The free energy of the whole data set at temperature 1, a mean over `n_samples` draws of the weights.

    Args:
        models: with a leading axis of runs, as `train` returns them.
        x: rows [rows, in], or rows for every run [runs, rows, in].
        y: their targets [rows] or [runs, rows].
        weight: a row counts as much as so many.
        n_samples: draws of the weights.
        key: one for every run.

    Returns:
        The terms of F, for every run.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, evaluate_free_energy
        >>> models = init_models(1, CategoricalLikelihood(2), key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> key = jax.random.split(jax.random.key(0), 2)  # one for each restart
        >>> x, y = np.zeros((5, 1)), np.array([0, 1, 1, 0, 0])
        >>> evaluate_free_energy(models, x, y, n_samples=10, key=key).total.shape  # a number for each restart
        (2,)
    """
    x = check_asked(x, models, n_samples, key, own_rows=True)
    check = models.likelihood.check_targets
    if x.ndim == 3:
        x, y = x.swapaxes(0, 1), np.stack([check("y", own, x.shape[1]) for own in y], axis=1)
    else:
        y = check("y", y, len(x))
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    first, *others = by_pieces(_FreeEnergy(), models, x, (y, weight), key=key, n_samples=n_samples)
    expected_nll = sum((piece.expected_nll for piece in others), first.expected_nll)
    return eqx.tree_at(lambda terms: terms.expected_nll, first, expected_nll)


class _FreeEnergy(Estimate):
    """The terms of F."""

    def read(self, fixed: tuple[Array, Array], likelihood: Any, output: Array) -> Array:
        return nll_of_rows(fixed, likelihood, output)

    def start(self, model: Model, x: Array, n_samples: Any) -> tuple[Model, FreeEnergy]:
        return model, FreeEnergy(*jnp.zeros((3,), x.dtype))

    def add(self, same: Model, total: FreeEnergy, i: Array, values: Array, weight_kl: Array) -> FreeEnergy:
        return jax.tree.map(jnp.add, total, terms_by_depth(same, values, weight_kl))

    def natively(self, models: Model, ask: Any) -> FreeEnergy:
        n_runs, n_depths = models.runs[0], models.capacity + 2
        of_both = (models.depth_posterior, models.depth_prior)
        log_q, log_p = (native.log_masses(one, n_runs, n_depths)[:, :-1] for one in of_both)
        layers, heads = native.kl_by_part(models)
        q, some = np.exp(log_q), log_q > -np.inf
        parts = (ask("nll"), np.subtract(log_q, log_p, where=some, out=np.zeros_like(q)), layers.cumsum(axis=1) + heads)
        return FreeEnergy(*((q * np.where(q > 0, part, 0.0)).sum(axis=1) for part in parts))
