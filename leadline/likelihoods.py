"""How an output of the network becomes a probability of the target (eq. 1)."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int, Shaped

from leadline._checks import InvalidArgumentError, check_integer, check_positive
from leadline._numerics import softplus_inverse


class Likelihood(eqx.Module):
    """p(y | output); learnable parameters are floating-point array fields."""

    @property
    @abc.abstractmethod
    def n_outputs(self) -> int:
        """How many numbers the network puts out for a row."""

    @abc.abstractmethod
    def log_prob(self, output: Float[Array, "*batch out"], y: Shaped[Array, "..."]) -> Float[Array, "*batch"]:
        """ln p(y | output), a number per data point."""

    @abc.abstractmethod
    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "..."]:
        """What is averaged over weights and depths to predict (eq. 10)."""

    @abc.abstractmethod
    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "..."]:
        """What stays uncertain when weights and depth are known: an entropy in nats, or a variance per output."""

    @abc.abstractmethod
    def spread(self, moments: np.ndarray) -> np.ndarray:
        """The uncertainty of a prediction, from its averaged moments, in the units of `noise`."""

    def early(self, share: Float[Array, ""]) -> "Likelihood":
        """The likelihood at a share of the recipe's schedules: a family may be something simpler at first."""
        return self

    @abc.abstractmethod
    def labels(self, y: np.ndarray) -> np.ndarray | None:
        """The classes, where there are any: parts of the data are to have them in proportion."""

    @abc.abstractmethod
    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Nats per row of the best prediction that does not look at x."""

    @abc.abstractmethod
    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        """The targets as training takes them, or one sentence about what is wrong with them."""


class CategoricalLikelihood(Likelihood):
    """Cat(y | softmax(output)) (eq. 1b); y is a class 0 .. n_classes - 1."""

    n_classes: int = eqx.field(static=True)

    def __init__(self, n_classes: int):
        check_integer("n_classes", n_classes, 2)
        self.n_classes = n_classes

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def log_prob(self, output: Float[Array, "*batch out"], y: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        chosen = y[..., None] == jnp.arange(self.n_classes)
        return jnp.sum(jnp.where(chosen, output, 0.0), axis=-1) - jax.nn.logsumexp(output, axis=-1)

    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch out"]:
        """The class probabilities."""
        return jax.nn.softmax(output, axis=-1)

    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch"]:
        """The entropy of the class."""
        return -jnp.sum(jax.nn.softmax(output, axis=-1) * jax.nn.log_softmax(output, axis=-1), axis=-1)

    def spread(self, moments: np.ndarray) -> np.ndarray:
        return scipy.special.entr(moments).sum(axis=-1)

    def labels(self, y: np.ndarray) -> np.ndarray:
        return y

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        return float(scipy.special.entr(np.bincount(y, weight) / weight.sum()).sum())

    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        y = np.asarray(y)
        if y.shape != (n_rows,):
            raise InvalidArgumentError(f"`{name}` must hold one label for each of {n_rows} rows, got shape {y.shape}.")
        numbers = y.dtype.kind in "iubf"
        wrong = y[~((y >= 0) & (y < self.n_classes) & (y == np.round(y)))] if numbers else y
        if len(wrong):
            raise InvalidArgumentError(f"`{name}` must hold labels 0 to {self.n_classes - 1}, got {wrong[0]}.")
        return y.astype(np.int32)


class RegressionLikelihood(Likelihood):
    """N(y | mean, diag(scale^2)) (eq. 1a) for `n_targets` numbers; a subclass says how an output has mean and scale."""

    @property
    @abc.abstractmethod
    def n_targets(self) -> int:
        """How many numbers a row has to predict."""

    @property
    @abc.abstractmethod
    def least_scale(self) -> Float[Array, "*runs targets"]:
        """The smallest noise that there can be."""

    @abc.abstractmethod
    def mean_and_scale(
        self, output: Float[Array, "*batch out"]
    ) -> tuple[Float[Array, "*batch targets"], Float[Array, "*batch targets"]]:
        """Of y, given the output."""

    def log_prob(self, output: Float[Array, "*batch out"], y: Float[Array, "*batch targets"]) -> Float[Array, "*batch"]:
        mean, scale = self.mean_and_scale(output)
        if y.shape != mean.shape:
            raise InvalidArgumentError(f"`y` must have the shape of the predicted means, {mean.shape}, got {y.shape}.")
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, mean, scale), axis=-1)

    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch 2 targets"]:
        """E[y] and E[y^2]; averaged, they give the predictive mean and variance."""
        mean, scale = self.mean_and_scale(output)
        return jnp.stack([mean, jnp.square(mean) + jnp.square(scale)], axis=-2)

    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch targets"]:
        return jnp.square(self.mean_and_scale(output)[1])

    def spread(self, moments: np.ndarray) -> np.ndarray:
        return moments[..., 1, :] - np.square(moments[..., 0, :])

    def labels(self, y: np.ndarray) -> None:
        return None

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        variance = np.average(np.square(y - np.average(y, axis=0, weights=weight)), axis=0, weights=weight)
        return float(np.sum(0.5 * np.log(2 * np.pi * np.e * np.maximum(variance, 1e-12))))

    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        y = np.asarray(y, float)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape != (n_rows, self.n_targets):
            raise InvalidArgumentError(
                f"`{name}` must hold {self.n_targets} numbers for each of {n_rows} rows, got shape {y.shape}."
            )
        if not np.all(np.isfinite(y)):
            raise InvalidArgumentError(f"`{name}` must be finite, got {y[~np.isfinite(y)][0]}.")
        return y


class GaussianLikelihood(RegressionLikelihood):
    """N(y | output, diag(scale^2)), one learned noise scale per output."""

    raw_scale: Float[Array, " out"]

    def __init__(self, n_outputs: int = 1, scale: float = 1.0):
        check_integer("n_outputs", n_outputs, 1)
        check_positive("scale", scale)
        self.raw_scale = jnp.full(n_outputs, softplus_inverse(jnp.asarray(scale, float)))

    @property
    def n_outputs(self) -> int:
        return self.raw_scale.shape[-1]

    @property
    def n_targets(self) -> int:
        return self.n_outputs

    @property
    def scale(self) -> Float[Array, "*runs out"]:
        return jax.nn.softplus(self.raw_scale)

    @property
    def least_scale(self) -> Float[Array, "*runs out"]:
        return self.scale

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        return output, jnp.broadcast_to(self.scale, output.shape)


MOST_SHIFT = 3.0
"""How far a network moves the raw scale of the noise, at most: a small noise to a twentieth, or to twenty times."""

OPENING = 0.3
"""The share of the schedules over which the noise becomes one that depends on the input."""

_OPEN = 1000


class HeteroscedasticLikelihood(RegressionLikelihood):
    """The noise depends on the input: beside the means, the network puts out how far the raw scale is moved, row by
    row.

    Learned from the start, such a noise explains what the network has not learned yet, and what is explained as noise
    is never learned: rows with large noise count little. So the noise is constant as long as the network learns without
    the weight KL, and gives way slowly after that.
    """

    raw_scale: Float[Array, " targets"]
    opening: Int[Array, ""]
    """How much the network's say counts, in thousandths: a whole number is not learned."""

    def __init__(self, n_targets: int = 1, scale: float = 1.0):
        check_integer("n_targets", n_targets, 1)
        check_positive("scale", scale)
        self.raw_scale = jnp.full(n_targets, softplus_inverse(jnp.asarray(scale, float)))
        self.opening = jnp.array(_OPEN, jnp.int32)

    @property
    def n_outputs(self) -> int:
        return 2 * self.n_targets

    @property
    def n_targets(self) -> int:
        return self.raw_scale.shape[-1]

    @property
    def least_scale(self) -> Float[Array, "*runs targets"]:
        return jax.nn.softplus(self.raw_scale - MOST_SHIFT)

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        mean, shift = jnp.split(output, 2, axis=-1)
        shift = self.opening / _OPEN * MOST_SHIFT * jnp.tanh(shift / MOST_SHIFT)
        return mean, jax.nn.softplus(self.raw_scale + shift)

    def early(self, share: Float[Array, ""]) -> "HeteroscedasticLikelihood":
        opening = jnp.round(_OPEN * jnp.clip(share / OPENING, 0.0, 1.0)).astype(self.opening.dtype)
        return eqx.tree_at(lambda likelihood: likelihood.opening, self, opening)
