"""The main job: train on the spiral, evaluate, record."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from leadline import metrics, plots
from leadline._checks import InvalidArgumentError, check_at_least, check_integer
from leadline._version import __version__
from leadline.datasets import spiral_parts
from leadline.ensemble import (
    FREE_ENERGY,
    all_weight_kl_by_layer,
    describe_depth,
    describe_free_energy,
    evaluation_keys,
    predict_restarts,
)
from leadline.experiments.records import write_picture
from leadline.likelihoods import CategoricalLikelihood
from leadline.model import Model
from leadline.predict import depth_masses, evaluate_free_energy, predict
from leadline.pruning import effective_widths
from leadline.recipes import RECIPES, Depth, Recipe, check_temperature, depth_distributions, get_recipe
from leadline.training.checkpoint import EVERY
from leadline.training.loop import Training, run_model, train
from leadline.training.progress import Reporter

Parts = dict[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class SpiralSettings:
    """One fit to the spiral, with the paper's data and width unless said otherwise."""

    omega: float
    depth: str | int = "normal"
    recipe: str | Recipe = "leadline"
    temperature: float | Literal["auto"] | None = None
    n_restarts: int | None = None
    epochs: int | None = None
    """Of each restart. These three are the recipe's where None."""
    seed: int = 1
    width: int = 32
    n_test: int = 1024

    def resolved(self) -> "SpiralSettings":
        """The settings, checked, with nothing left to the recipe."""
        recipe = get_recipe(self.recipe)
        settings = replace(
            self,
            recipe=recipe,
            temperature=recipe.temperature if self.temperature is None else self.temperature,
            n_restarts=recipe.n_restarts if self.n_restarts is None else self.n_restarts,
            epochs=recipe.epochs if self.epochs is None else self.epochs,
        )
        if recipe.name in RECIPES and recipe != RECIPES[recipe.name]:
            raise InvalidArgumentError(f"`recipe`: a changed recipe needs a name of its own, got {recipe.name!r}.")
        check_at_least("omega", self.omega, 0)
        check_integer("seed", self.seed, 0)
        for name in ("n_restarts", "epochs", "width", "n_test"):
            check_integer(name, getattr(settings, name), 1)
        check_temperature(settings.temperature)
        depth_distributions(self.depth, recipe)
        return settings


@dataclass(frozen=True)
class SpiralRun:
    """What came of it: the record, and what a picture needs."""

    record: dict[str, Any]
    model: Model
    """The restarts, on an axis of runs."""
    parts: Parts
    probabilities: np.ndarray
    """Of the classes of the test part."""


def run_spiral(
    settings: SpiralSettings,
    report: Reporter | None = None,
    checkpoint_dir: Path | None = None,
    checkpoint_every: float = EVERY,
) -> SpiralRun:
    return run_spirals([settings], report, None, checkpoint_dir, checkpoint_every)[0]


def run_spirals(
    settings: list[SpiralSettings],
    report: Reporter | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint_dir: Path | None = None,
    checkpoint_every: float = EVERY,
) -> list[SpiralRun]:
    """Train them all side by side; they may differ in omega, depth and seed alone.

    `stop` is asked a few times a second whether to end before the time; the records then say `interrupted`. With a
    `checkpoint_dir` they go on from there the next time.
    """
    given = settings[0]
    for one in settings:
        if replace(one, omega=given.omega, depth=given.depth, seed=given.seed) != given:
            raise InvalidArgumentError(f"`settings` may differ in omega, depth and seed alone, got {given} and {one}.")
    settings = [one.resolved() for one in settings]
    common, depths = settings[0], list[Depth](one.depth for one in settings)
    parts = [spiral_parts(one.omega, one.seed, n_test=one.n_test) for one in settings]
    training = train(
        _columns([part["train"] for part in parts]),
        _columns([part["validation"] for part in parts]),
        CategoricalLikelihood(2),
        depth=common.depth if len(set(depths)) == 1 else depths,
        recipe=common.recipe,
        temperature=common.temperature,
        n_restarts=common.n_restarts,
        epochs=common.epochs,
        width=common.width,
        seeds=[one.seed for one in settings],
        checkpoint_dir=checkpoint_dir,
        checkpoint_every=checkpoint_every,
        report=report,
        on_call=None if stop is None else lambda _: stop(),
    )
    return _evaluated(settings, parts, training)


def _columns(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [x for x, _ in parts], [y for _, y in parts]


def _evaluated(settings: list[SpiralSettings], parts: list[Parts], training: Training) -> list[SpiralRun]:
    """All runs at once: one by one, a GPU would idle."""
    recipe, k, models = settings[0].recipe, training.n_restarts, training.model
    assert isinstance(recipe, Recipe)
    seeds = [one.seed for one in settings]
    (x_train, x_test), (y_train, _) = (
        [np.repeat(np.stack([part[name][i] for part in parts]), k, axis=0) for name in ("train", "test")]
        for i in range(2)
    )
    probabilities = predict(
        models, x_test, n_samples=-(-recipe.n_samples // k), key=evaluation_keys(models, seeds)
    ).reshape(len(settings), k, settings[0].n_test, -1)
    terms = evaluate_free_energy(models, x_train, y_train, key=evaluation_keys(models, seeds, FREE_ENERGY))
    masses, by_layer, widths = depth_masses(models), all_weight_kl_by_layer(models), effective_widths(models)
    models, terms, by_layer = jax.tree.map(np.asarray, (models, terms, by_layer))
    results = []
    for i, (one, part) in enumerate(zip(settings, parts, strict=True)):
        own = slice(i * k, (i + 1) * k)
        mine = lambda tree, own=own: jax.tree.map(lambda a: a[own], tree)  # noqa: E731
        prediction, y_test = probabilities[i].mean(axis=0), part["test"][1]
        record = {
            **asdict(one),
            "recipe": recipe.name,
            "temperature": float(training.temperature[i]),
            "epochs": training.epochs,
            "accuracy": metrics.accuracy(prediction, y_test),
            "nll": metrics.nll(prediction, y_test),
            "brier": metrics.brier(prediction, y_test),
            "ece": metrics.ece(prediction, y_test),
            **describe_depth(masses[own]),
            "effective_width": widths[own],
            **describe_free_energy(mine(terms), mine(by_layer)),
            "seconds": round(training.seconds, 3),
            "device": jax.devices()[0].device_kind,
            "version": __version__,
        }
        if training.validation_nll:
            record["validation_nll"] = {str(t): float(nll[i]) for t, nll in training.validation_nll.items()}
        if training.interrupted:
            record["interrupted"] = True
        results.append(SpiralRun(record, mine(models), part, prediction))
    return results


def draw(run: SpiralRun, path: Path) -> None:
    """The training data over the learned decision regions, q(L) beside its prior, and how honest the test part is."""
    from matplotlib.figure import Figure

    record, (x, y) = run.record, run.parts["train"]
    grid, extent = plots.decision_grid(x)
    k = record["n_restarts"]
    probabilities = predict_restarts(run.model, grid, 20, record["seed"])
    prior = np.asarray(run_model(run.model, 0).depth_prior.pmf())
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1, 1])
    plots.plot_decision(left, probabilities, extent, x, y, names=("x₁", "x₂")).set_aspect("equal")
    plots.plot_depth(middle, np.array(record["depth_pmf"]), prior)
    plots.plot_reliability(right, *metrics.reliability(run.probabilities, run.parts["test"][1]))
    left.set_title(f"spiral, omega = {record['omega']:g}: test accuracy {record['accuracy']:.1f}%", fontsize=11)
    middle.set_title(f"depth {record['depth_mean']:.2f} ± {record['depth_std']:.2f}", fontsize=11)
    right.set_title(f"test NLL {record['nll']:.3f}, calibration error {100 * record['ece']:.1f}%", fontsize=11)
    restarts = f"{k} restarts of " if k > 1 else ""
    figure.suptitle(
        f"recipe {record['recipe']}, depth {record['depth']}, {restarts}{record['epochs']} epochs", fontsize=10
    )
    write_picture(path, figure, dpi=120)
