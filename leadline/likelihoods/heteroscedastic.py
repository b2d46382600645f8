"""Numbers whose noise depends on the input."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.likelihoods.numbers import GaussianNoise

MOST_SHIFT = 3.0
"""How far a network moves the raw scale of the noise, at most: a small noise to a twentieth, or to twenty times."""

OPENING = 0.3
"""The share of the schedules over which the noise becomes one that depends on the input."""

_OPEN = 1000


class HeteroscedasticLikelihood(GaussianNoise):
    """Beside the means, the network puts out how far the raw scale of the noise is moved, row by row.

    Learned from the start, such a noise explains what the network has not learned yet, and what is explained as noise
    is never learned: rows with large noise count little. So the noise is constant as long as the network learns without
    the weight KL, and gives way slowly after that.

    Args:
        n_targets: how many numbers a row has.
        scale: the noise at the start, where the network does not move it.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import HeteroscedasticLikelihood
        >>> mean, scale = HeteroscedasticLikelihood(scale=0.5).mean_and_scale(jnp.array([[2.0, 0.0], [2.0, 1.0]]))
        >>> [round(float(one), 2) for one in scale.ravel()]  # the second number of an output moves the noise
        [0.5, 0.99]
    """

    name: ClassVar[str] = "input"
    # A colder network would learn the noise. A few rows can have large gradients, and large steps lead astray; and all
    # restarts, begun alike, would settle on one depth before the weight KL has come in. So they begin one hidden layer
    # apart and are in no hurry to leave, and the rows kept apart choose.
    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {
        **GaussianNoise.recipe_changes,
        "leadline": {
            "temperature": 0.4,
            "learning_rate": 0.002,
            "initial_depth": (1.0, 0.4),
            "deepest_start": 4.0,
            "depth_learning_rate": 0.0005,
        },
    }

    opening: Int[Array, ""]
    """How much the network's say counts, in thousandths: a whole number is not learned."""

    def __init__(self, n_targets: int = 1, scale: float = 1.0):
        super().__init__(n_targets, scale)
        self.opening = jax.device_put(np.array(_OPEN, np.int32))

    @property
    def most_opening(self) -> Any:
        """What the opening comes to."""
        return _OPEN

    @property
    def n_outputs(self) -> int:
        return 2 * self.n_targets

    @property
    def least_scale(self) -> Float[Array, "*runs targets"]:
        return jax.nn.softplus(self.raw_scale - MOST_SHIFT)

    def mean_and_scale(self, output: Float[Array, "*batch out"]) -> tuple[Array, Array]:
        mean, shift = jnp.split(output, 2, axis=-1)
        shift = self.opening / _OPEN * MOST_SHIFT * jnp.tanh(shift / MOST_SHIFT)
        return mean, jax.nn.softplus(self.raw_scale + shift)

    def scheduled(self, share: Float[Array, ""]) -> "HeteroscedasticLikelihood":
        opening = jnp.round(self.most_opening * jnp.clip(share / OPENING, 0.0, 1.0)).astype(self.opening.dtype)
        return eqx.tree_at(lambda likelihood: likelihood.opening, self, opening)


class EitherNoiseLikelihood(HeteroscedasticLikelihood):
    """Of some restarts the noise stays constant, of others it does not: the rows held out say whom to believe."""

    name: ClassVar[str] = "auto"

    opens: Int[Array, ""]
    """Whether it depends on the input: 1, or 0."""

    def __init__(self, n_targets: int = 1, scale: float = 1.0):
        super().__init__(n_targets, scale)
        self.opens = jax.device_put(np.array(1, np.int32))

    @property
    def most_opening(self) -> Any:
        return _OPEN * self.opens

    def of_kind(self, kind: Any) -> "EitherNoiseLikelihood":
        opens = np.array(kind.noise == "input", np.int32)
        return eqx.tree_at(lambda one: (one.opening, one.opens), self, (_OPEN * opens, opens))
