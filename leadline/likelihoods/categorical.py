"""One of several classes (eq. 1b)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int

from leadline._checks import check_integer
from leadline.likelihoods.classes import ClassLikelihood


class CategoricalLikelihood(ClassLikelihood):
    """Cat(y | softmax(output)); y is a class 0 .. n_classes - 1.

    Args:
        n_classes: how many there are.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import CategoricalLikelihood
        >>> CategoricalLikelihood(4).moments(jnp.zeros((1, 4))).tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """

    name: ClassVar[str] = "categorical"

    n_classes: int = eqx.field(static=True)

    def __init__(self, n_classes: int):
        check_integer("n_classes", n_classes, 2)
        self.n_classes = n_classes

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def log_probabilities(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch out"]:
        return jax.nn.log_softmax(output, axis=-1)

    def log_prob(self, output: Float[Array, "*batch out"], y: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        chosen = y[..., None] == jnp.arange(self.n_classes)
        return jnp.sum(jnp.where(chosen, output, 0.0), axis=-1) - jax.nn.logsumexp(output, axis=-1)

    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch out"]:
        """The class probabilities."""
        return jax.nn.softmax(output, axis=-1)

    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch"]:
        """The entropy of the class."""
        return -jnp.sum(jax.nn.softmax(output, axis=-1) * jax.nn.log_softmax(output, axis=-1), axis=-1)

    def probabilities(self, outputs: Float[np.ndarray, "*batch out"]) -> Float[np.ndarray, "*batch out"]:
        return scipy.special.softmax(outputs, axis=-1)
