"""How an output of the network becomes a probability of the target (eq. 1), and the likelihoods by their names."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Shaped

from leadline._checks import check_choice
from leadline._registry import Registry, is_own

LIKELIHOODS = Registry("likelihood")
"""Those that have a name, by it: what `likelihood`, and for Gaussians `noise`, can be."""


class Likelihood(eqx.Module):
    """p(y | output); learnable parameters are floating-point array fields.

    Beside it stands all that depends on what is predicted: how targets are checked and scaled, what a prediction is,
    how uncertain it is, and by which measures it is judged.

    Examples:
        >>> import jax.numpy as jnp
        >>> from leadline import CategoricalLikelihood
        >>> likelihood = CategoricalLikelihood(2)
        >>> output, y = jnp.array([[0.0, 0.0], [0.0, 2.0]]), jnp.array([0, 1])
        >>> [round(float(one), 3) for one in likelihood.log_prob(output, y)]
        [-0.693, -0.127]
    """

    registry: ClassVar[Registry] = LIKELIHOODS
    name: ClassVar[str] = ""
    kind: ClassVar[str] = "numbers"
    """`classes` or `numbers`: which estimator it serves."""
    judged: ClassVar[str] = "numbers"
    """`classes`, `ranks` (of classes in order), `numbers` or `counts`: by which measures it is judged
    (`leadline.metrics`)."""
    argument: ClassVar[str] = "likelihood"
    """Of the estimator: what takes the name."""
    common_validation: ClassVar[bool] = False
    """Whether all restarts hold out the same rows, which then calibrate them."""
    recipe_changes: ClassVar[dict[str, dict[str, Any]]] = {}
    """What recipes change for such targets, by their names."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if is_own(cls) and cls.__dict__.get("name"):
            LIKELIHOODS.data[cls.name] = cls

    @staticmethod
    def scaling(y: np.ndarray, weight: np.ndarray | None = None) -> tuple[Any, Any] | None:
        """What is subtracted from the targets, and what they are divided by, before the network sees them; None where
        they are no numbers.

        Args:
            y: the targets.
            weight: how much each row counts.
        """
        return None

    def starting(self, y: np.ndarray, weight: np.ndarray) -> "Likelihood":
        """The likelihood with what is learned of it as training begins.

        Args:
            y: targets as the network takes them.
            weight: how much each row counts.
        """
        return self

    @property
    @abc.abstractmethod
    def n_outputs(self) -> int:
        """How many numbers the network puts out for a row."""

    @property
    def n_spreads(self) -> int:
        """In how many ways a prediction can be wider (`widened`)."""
        return 1

    @abc.abstractmethod
    def log_prob(self, output: Float[Array, "*batch out"], y: Shaped[Array, "..."]) -> Float[Array, "*batch"]:
        """ln p(y | output), a number per data point.

        Args:
            output: what the network puts out, a row per data point.
            y: the targets.
        """

    @abc.abstractmethod
    def moments(self, output: Float[Array, "*batch out"]) -> Float[Array, "..."]:
        """What is averaged over weights and depths to predict (eq. 10).

        Args:
            output: what the network puts out, a row per data point.
        """

    @abc.abstractmethod
    def noise(self, output: Float[Array, "*batch out"]) -> Float[Array, "..."]:
        """What stays uncertain when weights and depth are known: an entropy in nats, or a variance per output.

        Args:
            output: what the network puts out, a row per data point.
        """

    @abc.abstractmethod
    def uncertainty(self, moments: np.ndarray) -> np.ndarray:
        """That of a prediction, from its averaged moments, in the units of `noise`.

        Args:
            moments: means over weights and depths.
        """

    @abc.abstractmethod
    def widened(self, moments: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The averaged moments of a prediction that is so much wider.

        Args:
            moments: means over weights and depths.
            spread: how many times as wide.
        """

    @abc.abstractmethod
    def change(self, expected: np.ndarray, got: np.ndarray, spread: np.ndarray) -> float:
        """How much a prediction of such a spread has changed, at most, from the moments before and after (see
        `prune`).

        Args:
            expected: the moments before.
            got: those after.
            spread: of the prediction.
        """

    def scheduled(self, share: Float[Array, ""]) -> "Likelihood":
        """The likelihood at a share of the recipe's schedules: a family may be something simpler at first.

        Args:
            share: of the training that is done, 0 to 1.
        """
        return self

    def of_kind(self, kind: Any) -> "Likelihood":
        """What restarts of such a kind (`Recipe.kinds`) are trained with.

        Args:
            kind: an entry of `Recipe.kinds`.
        """
        return self

    @abc.abstractmethod
    def labels(self, y: np.ndarray) -> np.ndarray | None:
        """The classes, where there are any: parts of the data are to have them in proportion.

        Args:
            y: checked targets.
        """

    @abc.abstractmethod
    def nll_of_guessing(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Nats per row of the best prediction that does not look at x.

        Args:
            y: checked targets.
            weight: how much each row counts.
        """

    @abc.abstractmethod
    def check_targets(self, name: str, y: Any, n_rows: int) -> np.ndarray:
        """The targets as training takes them, or one sentence about what is wrong with them.

        Args:
            name: what the user calls them.
            y: the targets as they were given.
            n_rows: how many there must be.
        """


def likelihoods_of(kind: str, argument: str = "likelihood") -> dict[str, type[Likelihood]]:
    """What an argument of the estimator for `classes` or `numbers` can be, by name."""
    return {name: one for name, one in LIKELIHOODS.items() if (one.kind, one.argument) == (kind, argument)}


def get_likelihood(kind: str, name: Any) -> type[Likelihood]:
    """That of `classes` or `numbers` which has the name."""
    named = likelihoods_of(kind)
    check_choice("likelihood", name, named)
    return named[name]
