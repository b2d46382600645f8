"""The main job: train on the spiral, evaluate, record."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline import metrics, plots
from leadline._checks import check_at_least, check_integer
from leadline._version import __version__
from leadline.datasets import spiral_parts
from leadline.free_energy import weight_kl_by_layer
from leadline.likelihoods import CategoricalLikelihood
from leadline.model import Model
from leadline.predict import evaluate_free_energy, predict
from leadline.recipes import depth_distributions, get_recipe
from leadline.training.loop import run_model, train
from leadline.training.progress import Reporter

# Random streams of the evaluation: the seed's key, folded with what the draw is for (training uses 0 and 1).
_TEST, _FREE_ENERGY = 2, 3


@dataclass(frozen=True)
class SpiralSettings:
    """One training on the spiral, as in the paper unless said otherwise."""

    omega: float
    depth: str | int = "normal"
    recipe: str = "published"
    epochs: int = 20_000
    seed: int = 1
    width: int = 32

    def check(self) -> None:
        check_at_least("omega", self.omega, 0)
        check_integer("epochs", self.epochs, 1)
        check_integer("seed", self.seed, 0)
        check_integer("width", self.width, 1)
        depth_distributions(self.depth, get_recipe(self.recipe))


@dataclass(frozen=True)
class SpiralRun:
    """What came of it: the record, and the model with its data for a picture."""

    record: dict[str, Any]
    model: Model
    parts: dict[str, tuple[np.ndarray, np.ndarray]]


def run_spiral(settings: SpiralSettings, report: Reporter | None = None) -> SpiralRun:
    settings.check()
    recipe = get_recipe(settings.recipe)
    parts = spiral_parts(settings.omega, settings.seed)
    training = train(
        parts["train"],
        parts["validation"],
        CategoricalLikelihood(2),
        depth=settings.depth,
        recipe=recipe,
        epochs=settings.epochs,
        width=settings.width,
        seeds=[settings.seed],
        report=report,
    )
    x_test, y_test = parts["test"]
    probabilities = predict(training.model, x_test, n_samples=recipe.n_samples, key=_key(settings.seed, _TEST))[0]
    record = {
        **asdict(settings),
        "epochs": training.epochs,
        "temperature": recipe.temperature,
        "accuracy": metrics.accuracy(probabilities, y_test),
        "nll": metrics.nll(probabilities, y_test),
        "brier": metrics.brier(probabilities, y_test),
        "ece": metrics.ece(probabilities, y_test),
        **depth_summary(run_model(training.model, 0)),
        **_free_energy(training.model, parts["train"], _key(settings.seed, _FREE_ENERGY)),
        "seconds": round(training.seconds, 3),
        "device": jax.devices()[0].device_kind,
        "version": __version__,
    }
    if training.interrupted:
        record["interrupted"] = True
    return SpiralRun(record, training.model, parts)


def depth_summary(model: Model) -> dict[str, Any]:
    """q(L) under the record's names."""
    lowest, highest = (int(end) for end in model.support())
    pmf = np.asarray(model.depth_posterior.pmf(model.capacity + 1), float)[: highest + 1]
    depth = np.arange(len(pmf))
    mean = float(pmf @ depth)
    return {
        "depth_pmf": pmf.tolist(),
        "depth_mean": mean,
        "depth_std": float(np.sqrt(pmf @ (depth - mean) ** 2)),
        "depth_mode": int(pmf.argmax()),
        "depth_support": [lowest, highest],
    }


def draw(run: SpiralRun, path: Path) -> None:
    """The training data over the learned decision regions, and q(L) beside its prior."""
    from matplotlib.figure import Figure

    record, (x, y) = run.record, run.parts["train"]
    grid, extent = plots.decision_grid(x)
    probability = predict(run.model, grid, n_samples=20, key=_key(record["seed"], _TEST))[0, :, 1]
    prior = np.asarray(run_model(run.model, 0).depth_prior.pmf())
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    plots.plot_decision(left, probability, extent, x, y)
    plots.plot_depth(right, np.array(record["depth_pmf"]), prior)
    left.set_title(f"spiral, omega = {record['omega']:g}: test accuracy {record['accuracy']:.1f}%", fontsize=11)
    right.set_title(f"depth {record['depth_mean']:.2f} ± {record['depth_std']:.2f}", fontsize=11)
    figure.suptitle(f"recipe {record['recipe']}, depth {record['depth']}, {record['epochs']} epochs", fontsize=10)
    figure.savefig(path, dpi=120)


def _free_energy(model: Model, train: tuple[np.ndarray, np.ndarray], key: jax.Array) -> dict[str, Any]:
    terms = evaluate_free_energy(model, *train, key=key)
    one_model = run_model(model, 0)
    highest = int(one_model.support()[1])
    by_layer = jax.jit(weight_kl_by_layer)(one_model)
    return {
        "free_energy": float(terms.expected_nll[0] + terms.depth_kl[0] + terms.weight_kl[0]),
        "free_energy_terms": {
            "expected_nll": float(terms.expected_nll[0]),
            "depth_kl": float(terms.depth_kl[0]),
            "weight_kl": float(terms.weight_kl[0]),
            "weight_kl_by_layer": {name: np.asarray(kl)[: highest + 1].tolist() for name, kl in by_layer.items()},
        },
    }


def _key(seed: int, purpose: int) -> jax.Array:
    return jnp.stack([jax.random.fold_in(jax.random.key(seed), purpose)])
