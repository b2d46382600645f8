"""One of several classes (eq. 1b)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int

from leadline._checks import InvalidArgumentError, check_integer
from leadline.likelihoods.base import Likelihood
from leadline.likelihoods.mixture import softened


class CategoricalLikelihood(Likelihood):
    """Cat(y | softmax(output)); y is a class 0 .. n_classes - 1.

    Args:
        n_classes: how many there are.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import CategoricalLikelihood
        >>> CategoricalLikelihood(4).moments(jnp.zeros((1, 4))).tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """

    kind: ClassVar[str] = "classes"

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
