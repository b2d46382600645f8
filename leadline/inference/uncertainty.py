"""Where the uncertainty of a prediction comes from: noise, weights, depth."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from leadline.inference.model import Model
from leadline.inference.montecarlo import Estimate, by_pieces, by_rows, check_asked, joined
from leadline.inference.predict import depth_masses, mixture, numbers_of_row
from leadline.likelihoods import NumberLikelihood
from leadline.likelihoods.mixture import Mixture

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Uncertainty:
    """Where the uncertainty of a prediction comes from, for every row (and output); the three parts sum to the total.

    For classes entropies in nats: noise = E[H(y | theta, L)], weights = I(y; theta | L), depth = I(y; L). For numbers
    variances: E[sigma^2], E_L Var_theta E[y | theta, L], Var_L E[y | L]. Restarts count as weights.

    Args:
        noise: what would stay if the network were known exactly.
        weights: what networks of one depth disagree about.
        depth: what networks of different depth disagree about.

    Examples:
        >>> import numpy as np
        >>> from leadline import Uncertainty
        >>> parts = Uncertainty(noise=np.array([0.25]), weights=np.array([0.125]), depth=np.array([0.0]))
        >>> parts.total
        array([0.375])
    """

    noise: np.ndarray
    weights: np.ndarray
    depth: np.ndarray
    _index: ClassVar[Any] = None

    def of_rows(self, index: Any) -> "Uncertainty":
        """The same, of rows that a frame calls so.

        Args:
            index: that of the frame.
        """
        named = replace(self)
        object.__setattr__(named, "_index", index)  # no field: it says nothing of the uncertainty
        return named

    @property
    def total(self) -> np.ndarray:
        """The sum of the parts."""
        return self.noise + self.weights + self.depth

    def to_frame(self) -> "pandas.DataFrame":
        """A row for every row: noise, weights, depth, total; of several targets with their numbers, as `noise_0`."""
        import pandas

        columns = dict[str, np.ndarray]()
        for name in ("noise", "weights", "depth", "total"):
            values = getattr(self, name)
            several = {f"{name}_{i}": column for i, column in enumerate(values.T)} if values.ndim > 1 else {}
            columns |= several or {name: values}
        return pandas.DataFrame(columns, index=self._index)


def uncertainty(
    models: Model,
    x: np.ndarray,
    *,
    n_samples: int = 100,
    key: Key[Array, " runs"],
    share: Float[np.ndarray, " runs"] | None = None,
    spread: Float[np.ndarray, " targets"] | None = None,
) -> Uncertainty:
    """The uncertainty of the restarts' common prediction, by its parts.

    Args:
        models: with a leading axis of runs, as `train` returns them.
        x: rows.
        n_samples: draws of the weights.
        key: one for every run.
        share: of each restart in the prediction; all are equal unless given.
        spread: of the prediction, which stretches all parts alike; 1 unless given.

    Returns:
        Its parts, for every row.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, uncertainty
        >>> models = init_models(1, CategoricalLikelihood(2), key=np.array([[0, 1], [0, 2]], np.uint32))
        >>> key = jax.random.split(jax.random.key(0), 2)  # one for each restart
        >>> parts = uncertainty(models, np.zeros((5, 1)), n_samples=10, key=key)
        >>> bool((parts.total <= np.log(2) + 1e-6).all())  # nats: no two classes have more
        True
    """
    x = check_asked(x, models, n_samples, key)
    q = depth_masses(models)
    share = q / len(q) if share is None else q * share[:, None]  # of each restart and depth
    if isinstance(models.likelihood, NumberLikelihood):  # moments far from 0 have no digits left for a variance

        def of_rows(x: np.ndarray) -> np.ndarray:
            return _variances(mixture(models, x, n_samples=n_samples, key=key), share[:, q.sum(axis=0) > 0])

        parts = by_rows(of_rows, x, of_row=numbers_of_row(models, n_samples))
        return Uncertainty(*np.moveaxis(parts * (1 if spread is None else np.square(spread)), 1, 0))
    return uncertainty_by_depth(models, *moments_by_depth(models, x, n_samples=n_samples, key=key), share, spread)


def moments_by_depth(
    models: Model, x: np.ndarray, *, n_samples: int = 100, key: Key[Array, " runs"]
) -> tuple[Float[np.ndarray, "runs depths rows ..."], Float[np.ndarray, "runs depths rows ..."]]:
    """What each Omega_L says alone, for every depth stored: the likelihood's moments and its noise, both the mean over
    the draws of the weights behind `predict`; zero below the deepest with mass.

    Args:
        models, x, n_samples, key: as for `predict`.

    Returns:
        Class probabilities and the entropy of the class, or E[y], E[y^2] and the variance of the noise.
    """
    x = check_asked(x, models, n_samples, key)
    pieces = by_pieces(_DepthMoments(), models, x, key=key, n_samples=np.asarray(n_samples))
    return joined(pieces, len(x), axis=2)


def uncertainty_by_depth(
    models: Model,
    moments: Float[np.ndarray, "runs depths rows ..."],
    noise: Float[np.ndarray, "runs depths rows"],
    share: Float[np.ndarray, "runs depths"] | None = None,
    spread: Float[np.ndarray, " targets"] | None = None,
) -> Uncertainty:
    """`uncertainty` of classes, from their `moments_by_depth`; the share is that of each restart and depth, q(L) over
    the number of restarts unless given."""
    if share is None:
        q = depth_masses(models)
        share = q / len(q)
    at_depth, n_depths = share.sum(axis=0), share.shape[1]
    moments = moments.astype(float)[:, :n_depths]
    of_moments = models.likelihood.uncertainty
    together = np.tensordot(share, moments, axes=2)
    total = of_moments(together)
    some = at_depth > 0
    mean = np.einsum("kl,kl...->l...", share[:, some], moments[:, some])
    mean /= at_depth[some].reshape(-1, *[1] * (mean.ndim - 1))
    given_depth = np.tensordot(at_depth[some], of_moments(mean), axes=1)
    noise = np.tensordot(share, noise.astype(float)[:, :n_depths], axes=2)
    parts = noise, np.maximum(given_depth - noise, 0.0), np.maximum(total - given_depth, 0.0)
    if spread is None or np.all(spread == 1):
        return Uncertainty(*parts)
    wider = of_moments(models.likelihood.widened(together, spread))
    stretch = np.divide(wider, total, where=total > 0, out=np.ones_like(total))
    return Uncertainty(*(stretch * part for part in parts))


def _variances(
    components: Mixture, share: Float[np.ndarray, "restarts depths"]
) -> Float[np.ndarray, "rows parts targets"]:
    """By noise, weights and depth, from the components of restarts that have such shares."""
    mean, scale = (a.reshape(len(share), -1, share.shape[1], *a.shape[1:]) for a in (components.mean, components.scale))
    at_depth, n_samples = share.sum(axis=0), mean.shape[1]
    of_each = "kl,ksl...->l..."
    given_depth = np.einsum(of_each, share / n_samples, mean)
    centre = given_depth.sum(axis=0)
    given_depth /= np.where(at_depth > 0, at_depth, 1.0)[:, None, None]
    noise, weights = (
        np.einsum(of_each, share / n_samples, np.square(a)).sum(axis=0) for a in (scale, mean - given_depth)
    )
    return np.stack([noise, weights, np.tensordot(at_depth, np.square(given_depth - centre), axes=1)], axis=1)


class _DepthMoments(Estimate):
    """The mean moments and the mean noise at every depth."""

    def read(self, fixed: Any, likelihood: Any, output: Array) -> tuple[Array, Array]:
        return likelihood.moments(output), likelihood.noise(output)

    def start(self, model: Model, x: Array, n_samples: Any) -> tuple[None, tuple[Array, Array]]:
        output = jnp.zeros((model.capacity + 1, x.shape[0], model.likelihood.n_outputs), x.dtype)
        return None, jax.tree.map(jnp.zeros_like, self.read(None, model.likelihood, output))

    def natively(self, models: Model, ask: Any) -> tuple[np.ndarray, np.ndarray]:
        return ask("moments")
