"""The restarts of one fit, taken together: what they predict, how deep they are, what they cost."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from leadline._compilation import jit_lightly
from leadline.calibration import MOST_ROWS, Calibration, calibrate
from leadline.free_energy import FreeEnergy, weight_kl_by_layer
from leadline.mixture import GaussianMixture
from leadline.model import Model
from leadline.predict import (
    depth_masses,
    evaluate_free_energy,
    predict,
    read_mean_and_scale,
    rows_at_once,
    sample_outputs,
)
from leadline.training.loop import restart_keys

# Random streams of the evaluation: the seed's key, folded with what the draw is for (training uses the others).
TEST, FREE_ENERGY = 2, 3


def evaluation_keys(models: Model, seed: int | list[int], purpose: int = TEST) -> Key[Array, " runs"]:
    """For the restarts of one fit, or of several with their seeds."""
    seeds = seed if isinstance(seed, list) else [seed]
    keys = jnp.stack([key for seed in seeds for key in restart_keys(seed, models.runs[0] // len(seeds))])
    return jax.vmap(lambda key: jax.random.fold_in(key, purpose))(keys)


def samples_each(models: Model, n_samples: int) -> int:
    """Weight samples of every restart, for so many in all."""
    return -(-n_samples // models.runs[0])


def predict_restarts(
    models: Model, x: np.ndarray, n_samples: int, seed: int, share: np.ndarray | None = None
) -> np.ndarray:
    """The mean prediction of the restarts, which divide the weight samples among them; each has its share in it, or all
    are equal."""
    each = predict(models, x, n_samples=samples_each(models, n_samples), key=evaluation_keys(models, seed))
    return each.mean(0) if share is None else np.tensordot(share, each, axes=1)


def calibration_of(
    models: Model, x: np.ndarray, y: np.ndarray, n_samples: int, seed: int, weight: np.ndarray | None = None
) -> Calibration:
    """Of the restarts, by rows that none of them was trained on."""
    x, y = x[:MOST_ROWS], models.likelihood.check_targets("y", y, len(x))[:MOST_ROWS]
    weight = np.ones(len(x)) if weight is None else weight[:MOST_ROWS]
    return calibrate(predictive_mixture(models, x, n_samples, seed), y, weight, models.runs[0])


def predictive_mixture(
    models: Model, x: np.ndarray, n_samples: int, seed: int, calibration: Calibration | None = None
) -> GaussianMixture:
    """The distribution of the numbers that the restarts predict, all weight samples and depths together."""
    n = samples_each(models, n_samples)
    q = depth_masses(models)
    some = q.sum(axis=0) > 0
    samples = sample_outputs(models, x, read_mean_and_scale, n_samples=n, key=evaluation_keys(models, seed))
    mean, scale = (a[:, :, some].astype(float).reshape(-1, *a.shape[3:]) for a in samples)
    mixture = GaussianMixture(np.repeat(q[:, None, some] / (n * len(q)), n, axis=1).ravel(), mean, scale)
    return mixture if calibration is None else calibration.of(mixture)


def by_mixture(
    function: Callable[..., np.ndarray],
    models: Model,
    n_samples: int,
    seed: int,
    calibration: Calibration,
    x: np.ndarray,
    *columns: np.ndarray,
) -> np.ndarray:
    """`function(mixture, *columns)` for the distributions predicted for x, a bounded number of rows at a time."""
    pieces = []
    for start in range(0, len(x), rows_at_once()):
        rows = slice(start, start + rows_at_once())
        mixture = predictive_mixture(models, x[rows], n_samples, seed, calibration)
        pieces.append(function(mixture, *(column[rows] for column in columns)))
    return np.concatenate(pieces)


def depth_summary(models: Model, share: np.ndarray | None = None) -> dict[str, Any]:
    """q(L), the mixture over the restarts, under the record's names."""
    return describe_depth(depth_masses(models), share)


def describe_depth(masses: np.ndarray, share: np.ndarray | None = None) -> dict[str, Any]:
    """The same from q(L) of every restart, [restarts, depths], and the share of each."""
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


def free_energy_summary(
    models: Model, x: np.ndarray, y: np.ndarray, seed: int, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """The free energy of the data and its terms, means over the restarts, under the record's names."""
    terms = evaluate_free_energy(models, x, y, weight=weight, key=evaluation_keys(models, seed, FREE_ENERGY))
    return describe_free_energy(terms, all_weight_kl_by_layer(models))


def describe_free_energy(terms: FreeEnergy, by_layer: dict[str, Any]) -> dict[str, Any]:
    """The same from the terms and the weight KL of every restart."""
    names = ("expected_nll", "depth_kl", "weight_kl")
    mean = {name: float(np.mean(getattr(terms, name))) for name in names}
    return {
        "free_energy": sum(mean.values()),
        "free_energy_terms": {
            **mean,
            "weight_kl_by_layer": {
                name: np.trim_zeros(np.asarray(kl).mean(0), "b").tolist() for name, kl in by_layer.items()
            },
        },
    }


all_weight_kl_by_layer = jit_lightly(jax.vmap(weight_kl_by_layer))
"""`weight_kl_by_layer` for every run."""
