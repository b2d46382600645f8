"""What all likelihoods of classes share."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int

from leadline._checks import InvalidArgumentError
from leadline.likelihoods.base import Likelihood
from leadline.likelihoods.mixture import softened


class ClassLikelihood(Likelihood):
    """P(y | output) for a class 0 .. n_classes - 1; a subclass says how an output becomes `log_probabilities`."""

    kind: ClassVar[str] = "classes"
    judged: ClassVar[str] = "classes"

    n_classes: eqx.AbstractVar[int]

    @abc.abstractmethod
    def log_probabilities(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch classes"]:
        """ln P(y | output) for every class.

        Args:
            output: of the network.
        """

    def log_prob(self, output: Float[Array, "*batch out"], y: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        chosen = y[..., None] == jnp.arange(self.n_classes)
        return jnp.sum(jnp.where(chosen, self.log_probabilities(output), 0.0), axis=-1)

    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch classes"]:
        """The class probabilities."""
        return jnp.exp(self.log_probabilities(output))

    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch"]:
        """The entropy of the class."""
        log_p = self.log_probabilities(output)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def probabilities(self, outputs: Float[np.ndarray, "runs *batch out"]) -> Float[np.ndarray, "runs *batch classes"]:
        """Of the likelihoods of several runs.

        Args:
            outputs: of each.
        """
        return np.asarray(jax.vmap(lambda one, output: one.moments(output))(self, outputs))

    def uncertainty(self, moments: np.ndarray) -> np.ndarray:
        """The entropy of the class."""
        return scipy.special.entr(moments).sum(axis=-1)

    def widened(self, moments: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Softened probabilities."""
        return softened(moments, spread[0])

    def change(self, expected: np.ndarray, got: np.ndarray, spread: np.ndarray) -> float:
        """Of a class probability."""
        return float(np.max(np.abs(self.widened(got, spread) - self.widened(expected, spread))))

    def labels(self, y: np.ndarray) -> np.ndarray:
        return y

    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        return float(scipy.special.entr(np.bincount(y, weight) / weight.sum()).sum())

    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        y = np.asarray(y)
        if y.shape != (n_rows,):
            raise InvalidArgumentError(f"must hold one label for each of {n_rows} rows, got shape {y.shape}.", name)
        numbers = y.dtype.kind in "iubf"
        wrong = y[~((y >= 0) & (y < self.n_classes) & (y == np.round(y)))] if numbers else y
        if len(wrong):
            raise InvalidArgumentError(f"must hold labels 0 to {self.n_classes - 1}, got {wrong[0]}.", name)
        return y.astype(np.int32)
