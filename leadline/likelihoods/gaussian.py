"""Numbers with one noise for all rows (eq. 1a)."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from leadline._checks import check_integer
from leadline.backend.numerics import softplus
from leadline.likelihoods.numbers import GaussianNoise


class GaussianLikelihood(GaussianNoise):
    """N(y | output, diag(scale^2)), one learned noise scale per output.

    Args:
        n_outputs: how many numbers a row has.
        scale: the noise at the start.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import GaussianLikelihood
        >>> print(GaussianLikelihood(scale=0.5).noise(jnp.array([[2.0]])).round(3))  # a variance
        [[0.25]]
    """

    name: ClassVar[str] = "constant"
    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {
        **GaussianNoise.recipe_changes,
        "leadline": {"temperature": 1.0},  # a colder network would learn the noise
    }

    def __init__(self, n_outputs: int = 1, scale: float = 1.0):
        check_integer("n_outputs", n_outputs, 1)
        super().__init__(n_outputs, scale)

    @property
    def n_outputs(self) -> int:
        return self.n_targets

    @property
    def scale(self) -> Float[Array, "*runs out"]:
        """The standard deviation of the noise."""
        return softplus(self.raw_scale)

    @property
    def noise_scale(self) -> Float[Array, "*runs out"]:
        return self.scale

    @property
    def least_scale(self) -> Float[Array, "*runs out"]:
        return self.scale

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        return output, jnp.broadcast_to(self.scale, output.shape)
