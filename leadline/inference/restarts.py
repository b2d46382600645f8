"""The restarts of one fit, taken together: what they predict, how deep they are, what they cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from leadline.backend.compilation import jit_lightly
from leadline.backend.numerics import AnyArray, as_float
from leadline.backend.random import fold_in, words_of
from leadline.depth import CategoricalDepth, DepthDistribution, FixedDepth
from leadline.depth.side_by_side import side_by_side
from leadline.inference import native, predict
from leadline.inference.calibration import (
    MOST_ROWS,
    Calibration,
    HeldOut,
    calibrate,
    no_calibration,
    weighed_depths,
)
from leadline.inference.free_energy import FreeEnergy, weight_kl_by_layer
from leadline.inference.model import Model
from leadline.inference.montecarlo import MOST_NUMBERS, by_rows
from leadline.inference.uncertainty import Uncertainty, uncertainty
from leadline.likelihoods import ClassLikelihood, NumberLikelihood
from leadline.likelihoods.mixture import ClassMixture, Mixture

# A run's random stream: its seed's key, folded with what the draw is for (`training/loop.py` has others).
_TEST, FREE_ENERGY, _RESTART = 2, 3, 4

_NONE = -1e4
"""The logit of a depth without mass: a finite number, which files hold."""


def restart_keys(seed: int, n_restarts: int) -> UInt32[np.ndarray, "restarts 2"]:
    """The words of their keys: the first restart is the seed's own run; the others have streams of their own."""
    key = words_of(seed)
    return np.stack([key, *[fold_in(fold_in(key, _RESTART), k) for k in range(1, n_restarts)]])


def evaluation_keys(models: Model, seed: int | list[int], purpose: int = _TEST) -> Key[Array, " runs"]:
    """For the restarts of one fit, or of several with their seeds."""
    seeds = seed if isinstance(seed, list) else [seed]
    words = np.concatenate([restart_keys(seed, models.runs[0] // len(seeds)) for seed in seeds])
    return keys_of(fold_in(words, purpose))


def keys_of(words: UInt32[AnyArray, "runs 2"]) -> Key[Array, " runs"]:
    """The keys that have these words."""
    return jax.random.wrap_key_data(words, impl="threefry2x32")


@dataclass(frozen=True)
class Restarts:
    """The networks of one fit, and how they answer together."""

    models: Model
    """On an axis of runs."""
    seed: int
    n_samples: int
    """Weight samples behind a prediction, which the restarts divide among them."""
    calibration: Calibration | None = None
    """How much to believe each, and how wide they are together; None: all alike, as they are."""

    @property
    def samples_each(self) -> int:
        """Weight samples of every restart."""
        return -(-self.n_samples // self.models.runs[0])

    @property
    def share(self) -> np.ndarray | None:
        """Of each in a prediction; None where all are equal."""
        return None if self.calibration is None else self.calibration.share

    def mean_of(self, values: np.ndarray) -> float:
        """Of something that each has, by their shares."""
        return float(values.mean() if self.share is None else self.share @ values)

    def keys(self, purpose: int = _TEST) -> Key[Array, " runs"]:
        """Of the draws behind a prediction."""
        return evaluation_keys(self.models, self.seed, purpose)

    def moments(self, x: np.ndarray) -> np.ndarray:
        """The likelihood's moments of the prediction: class probabilities, or E[y] and E[y^2]."""
        return self.together(predict.predict(self.models, x, n_samples=self.samples_each, key=self.keys()))

    def together(self, each: np.ndarray) -> np.ndarray:
        """What they predict together, from the moments that each predicts."""
        if self.calibration is None:
            return each.mean(0)
        return self.models.likelihood.widened(
            np.tensordot(self.calibration.share, each, axes=1), self.calibration.spread
        )

    def uncertainty(self, x: np.ndarray) -> Uncertainty:
        """By its parts."""
        calibration = self.calibration or no_calibration(self.models.runs[0], self.models.likelihood.n_spreads)
        draws = {"n_samples": self.samples_each, "key": self.keys()}
        return uncertainty(self.models, x, **draws, share=calibration.share, spread=calibration.spread)

    def mixture(self, x: np.ndarray) -> Mixture:
        """The distribution of the numbers that are predicted, all weight samples and depths together."""
        mixture = self._mixture(self.models, x, self.keys())
        assert isinstance(mixture, Mixture)
        return mixture if self.calibration is None else self.calibration.of(mixture)

    def _mixture(self, models: Model, x: np.ndarray, keys: Key[Array, " runs"]) -> Mixture | ClassMixture:
        """What some of the restarts predict, not calibrated: a mixture whose components come restart by restart."""
        n = self.samples_each
        if not isinstance(models.likelihood, NumberLikelihood):
            each = predict.predict(models, x, n_samples=n, key=keys)
            return ClassMixture(np.full(len(each), 1 / len(each)), each)
        return predict.mixture(models, x, n_samples=n, key=keys)

    def means_of_draws(
        self, x: np.ndarray, group: Int[np.ndarray, " rows"]
    ) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, "draws groups outputs"]]:
        """What single draws of restart, weights and depth predict: the share of each, and its mean over the rows of
        every group (0, 1, ..., in order), of the class probabilities (not softened) or of the means of the numbers."""
        q, n = predict.depth_masses(self.models), self.samples_each
        some = q.sum(axis=0) > 0
        share = np.full(len(q), 1 / len(q)) if self.share is None else self.share
        share = np.repeat(share[:, None, None] * q[:, None, some] / n, n, axis=1).ravel()
        of_row = predict.numbers_of_row(self.models, n) * self.models.likelihood.n_outputs
        at_once, sums = max(1, MOST_NUMBERS // of_row), []
        for start in range(0, len(x), at_once):
            rows = slice(start, start + at_once)
            if isinstance(self.models.likelihood, NumberLikelihood):
                means = self.mixture(x[rows]).mean
            else:
                assert isinstance(self.models.likelihood, ClassLikelihood)
                outputs = predict.sample_outputs(self.models, x[rows], n_samples=n, key=self.keys())[:, :, some]
                each = self.models.likelihood.probabilities(outputs)
                means = each.reshape(-1, *each.shape[3:])
            groups, first = np.unique(group[rows], return_index=True)
            sums.append((groups, np.add.reduceat(means, first, axis=1, dtype=float)))
        total = np.zeros((len(share), group[-1] + 1, sums[0][1].shape[2]))
        for groups, of_groups in sums:
            total[:, groups] += of_groups
        return share, total / np.bincount(group)[:, None]

    def by_mixture(self, function: Callable[..., np.ndarray], x: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """`function(mixture, *columns)` for the distributions predicted for x, a bounded number of rows at a time."""
        of_row = predict.numbers_of_row(self.models, self.samples_each)
        return by_rows(lambda x, *columns: function(self.mixture(x), *columns), x, *columns, of_row=of_row)

    def calibrated(self, parts: Sequence["Part"], kind: Int[np.ndarray, " restarts"]) -> "Restarts":
        """By rows held out, each part from one restart of every kind; by none, all alike, as they are."""
        likelihood, words = self.models.likelihood, native.key_words(self.keys())
        if not parts:
            return replace(self, calibration=no_calibration(len(kind), likelihood.n_spreads))

        def held_out(part: Part) -> HeldOut:
            x, y = part.x[:MOST_ROWS], likelihood.check_targets("y", part.y, len(part.x))[:MOST_ROWS]
            mixture = self._mixture(self.models.some(part.runs), x, keys_of(words[part.runs]))
            return HeldOut(mixture, kind[part.runs], y.reshape(len(y), -1), part.weight[:MOST_ROWS])

        return replace(self, calibration=calibrate([held_out(part) for part in parts], kind, likelihood.n_spreads))

    def weighed(self, parts: Sequence["Part"], kind: Int[np.ndarray, " restarts"], n_depths: int) -> "Restarts":
        """The same networks with q(L) as rows held out have it, each part from one restart of every kind."""
        q, words = predict.depth_masses(self.models)[:, :n_depths], native.key_words(self.keys())

        def log_density(part: Part) -> np.ndarray:
            """[kinds, depths, rows]"""
            models, draws = self.models.some(part.runs), {"n_samples": self.samples_each}
            given = part.x[:MOST_ROWS], part.y[:MOST_ROWS]
            fixed = [_of_all(models, FixedDepth(depth)) for depth in range(q.shape[1])]
            each = [predict.log_likelihood(one, *given, **draws, key=keys_of(words[part.runs])) for one in fixed]
            return np.where(q[part.runs, :, None] > 0, np.stack(each, axis=1).astype(float), -np.inf)

        log_densities = np.concatenate([log_density(part) for part in parts], axis=2)
        new = weighed_depths(log_densities, np.concatenate([part.weight[:MOST_ROWS] for part in parts]), q, kind)
        return replace(self, models=_with_depths(self.models, new))

    def depth(self) -> dict[str, Any]:
        """q(L), the mixture over the restarts, under the record's names."""
        return describe_depth(predict.depth_masses(self.models), self.share)

    def free_energy(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> dict[str, Any]:
        """The free energy of the data and its terms, means over the restarts, under the record's names."""
        terms = predict.evaluate_free_energy(self.models, x, y, weight=weight, key=self.keys(FREE_ENERGY))
        return describe_free_energy(terms, all_weight_kl_by_layer(self.models))


def _with_depths(models: Model, masses: Float[np.ndarray, "restarts depths"]) -> Model:
    """With these as q(L)."""
    logits = np.log(masses, out=np.full_like(masses, _NONE), where=masses > 0)
    posterior = _of_all(models, CategoricalDepth(masses.shape[1] - 1)).depth_posterior
    posterior = eqx.tree_at(lambda q: q.logits, posterior, as_float(logits))
    return eqx.tree_at(lambda one: one.depth_posterior, models, posterior)


def _of_all(models: Model, posterior: DepthDistribution) -> Model:
    """With one q(L) for all."""
    posterior = side_by_side([posterior] * models.runs[0])
    return eqx.tree_at(lambda one: one.depth_posterior, models, posterior)


class Part(NamedTuple):
    """Rows, and the restarts that were not trained on them."""

    runs: slice
    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def describe_depth(masses: np.ndarray, share: np.ndarray | None = None) -> dict[str, Any]:
    """The depth under the record's names, from q(L) of every restart, [restarts, depths], and the share of each."""
    pmf = np.trim_zeros(masses.mean(0) if share is None else share @ masses, "b")
    depth = np.arange(len(pmf))
    mean = float(pmf @ depth)
    return {
        "depth_pmf": pmf.tolist(),
        "depth_mean": mean,
        "depth_std": float(np.sqrt(pmf @ (depth - mean) ** 2)),
        "depth_mode": int(pmf.argmax()),
        "depth_support": [int(np.flatnonzero(pmf)[0]), len(pmf) - 1],
    }


def describe_free_energy(terms: FreeEnergy, by_layer: dict[str, Any]) -> dict[str, Any]:
    """The free energy under the record's names, from the terms and the weight KL of every restart."""
    names = ("expected_nll", "depth_kl", "weight_kl")
    mean = {name: float(np.mean(getattr(terms, name))) for name in names}
    layers = {name: np.trim_zeros(np.asarray(kl).mean(0), "b").tolist() for name, kl in by_layer.items()}
    return {"free_energy": sum(mean.values()), "free_energy_terms": {**mean, "weight_kl_by_layer": layers}}


def all_weight_kl_by_layer(models: Model) -> dict[str, Any]:
    """`weight_kl_by_layer` for every run."""
    if not native.suits(models):
        return _weight_kl_by_layer(models)
    q = predict.depth_masses(models)
    layers, heads = native.kl_by_part(models)
    return {"layers": q[:, ::-1].cumsum(axis=1)[:, ::-1] * layers, "heads": q * heads}


_weight_kl_by_layer = jit_lightly(jax.vmap(weight_kl_by_layer))
