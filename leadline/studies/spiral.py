"""The paper's spirals: the problem, and the picture of a fit."""

import numpy as np

from leadline import metrics, plots
from leadline.datasets import spiral_parts
from leadline.files.directories import picture
from leadline.inference.model import run_model
from leadline.likelihoods import CategoricalLikelihood
from leadline.studies.evaluate import Fit
from leadline.training.problem import Problem


def spiral_problem(omega: float, seed: int = 1, n_test: int = 1024) -> Problem:
    """Two interleaved spirals, the paper's three samples.

    Args:
        omega: rotation speed; the larger, the harder.
        seed: of the samples.
        n_test: rows to measure on.

    Returns:
        The problem, as the network takes it.
    """
    parts = spiral_parts(omega, seed, n_test=n_test)
    about = {"omega": omega, "n_test": n_test}
    return Problem(parts["train"], parts["validation"], CategoricalLikelihood(2), test=parts["test"], about=about)


def draw(fit: Fit) -> bytes:
    """The training data over the learned decision regions, q(L) beside its prior, and how honest the test part is."""
    from dataclasses import replace

    from matplotlib.figure import Figure

    record, (x, y) = fit.record, fit.problem.train
    grid, extent = plots.decision_grid(x)
    probabilities = replace(fit.restarts, n_samples=20).moments(grid)
    prior = np.asarray(run_model(fit.restarts.models, 0).depth_prior.pmf())
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1, 1])
    plots.plot_decision(left, probabilities, extent, x, y, names=("x₁", "x₂")).set_aspect("equal")
    plots.plot_depth(middle, np.array(record.depth_pmf), prior)
    plots.plot_reliability(right, *metrics.reliability(*fit.said[:2]))
    accuracy, nll, ece = (record.measures[name] for name in ("accuracy", "nll", "ece"))
    left.set_title(f"spiral, omega = {record.omega:g}: test accuracy {metrics.in_percent(accuracy)}", fontsize=11)
    middle.set_title(f"depth {record.depth_mean:.2f} ± {record.depth_std:.2f}", fontsize=11)
    right.set_title(f"test NLL {nll:.3f}, ECE {metrics.share(ece)}", fontsize=11)
    restarts = f"{record.n_restarts} restarts of " if record.n_restarts > 1 else ""
    figure.suptitle(f"recipe {record.recipe}, depth {record.depth}, {restarts}{record.epochs} epochs", fontsize=10)
    return picture(figure, dpi=120)
