"""One of several classes that are in order."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

from leadline._checks import check_integer
from leadline.backend.numerics import as_float, softplus_inverse
from leadline.likelihoods.classes import ClassLikelihood

LEAST_GAP = 1e-3
"""Between two thresholds as training begins, in units of the logistic distribution: a class that no row has is thin."""


class OrdinalLikelihood(ClassLikelihood):
    """P(y <= k | output) = sigmoid(threshold_k - output), with learned thresholds that rise: cumulative logits.

    The network puts out one number, the place of a row on a line; a class is the stretch between two thresholds.
    """

    name: ClassVar[str] = "ordinal"
    judged: ClassVar[str] = "ranks"

    raw: Float[Array, " thresholds"]
    """The first threshold, and the softplus inverse of how much higher each other one lies than the one before."""

    def __init__(self, n_classes: int):
        check_integer("n_classes", n_classes, 2)
        self.raw = _raw(np.arange(1, n_classes) / n_classes)

    @property
    def n_classes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.raw.shape[-1] + 1

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def thresholds(self) -> Float[Array, "*runs thresholds"]:
        """From the lowest to the highest."""
        return jnp.cumsum(jnp.concatenate([self.raw[..., :1], jax.nn.softplus(self.raw[..., 1:])], axis=-1), axis=-1)

    def log_probabilities(self, output: Float[Array, "*batch out"]) -> Float[Array, "*batch classes"]:
        """Of sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), a digit of which is never lost: a - b
        is the stretch between the thresholds, wherever the row is."""
        a = self.thresholds - output
        gap = jax.nn.softplus(self.raw[1:])
        around = [(0, 0)] * (a.ndim - 1)
        upper = jnp.pad(jax.nn.log_sigmoid(a), [*around, (0, 1)])
        lower = jnp.pad(jax.nn.log_sigmoid(-a), [*around, (1, 0)])
        return upper + lower + jnp.pad(jnp.log(-jnp.expm1(-gap)), (1, 1))

    def starting(self, y: np.ndarray, weight: np.ndarray) -> "OrdinalLikelihood":
        """With the thresholds of the classes' shares, half a row more in each."""
        rows = np.bincount(y.astype(int), weight, minlength=self.n_classes) + 0.5
        return eqx.tree_at(lambda one: one.raw, self, _raw(rows.cumsum()[:-1] / rows.sum()))


def _raw(cumulative: np.ndarray) -> Float[Array, " thresholds"]:
    """Of thresholds that lie at such probabilities."""
    thresholds = scipy.special.logit(cumulative)
    gaps = np.maximum(np.diff(thresholds), LEAST_GAP)
    return as_float(np.concatenate([thresholds[:1], np.asarray(softplus_inverse(gaps), float)]))
