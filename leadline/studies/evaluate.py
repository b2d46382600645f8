"""What came of a training: one evaluation, one record, whoever asks."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import jax
import numpy as np

from leadline._version import __version__
from leadline.backend.device import device_name
from leadline.files.records import Record
from leadline.inference import restarts as together
from leadline.inference.predict import depth_masses, evaluate_free_energy, predict
from leadline.inference.pruning import effective_widths
from leadline.inference.recipes import get_recipe
from leadline.judged import OF_CLASSES, OF_NUMBERS, OfClasses, OfNumbers
from leadline.metrics import areas, measured
from leadline.training.loop import train
from leadline.training.problem import Problem
from leadline.training.run import Watch
from leadline.training.settings import Settings, check_own_name
from leadline.training.trained import Trained


@dataclass(frozen=True)
class Fit:
    """One fit: its record, and what a picture needs."""

    record: Record
    restarts: together.Restarts
    problem: Problem
    said: OfClasses | OfNumbers
    """Of every row of the test part."""


def run_fits(
    problems: Sequence[Problem], settings: Sequence[Settings], watch: Watch | None = None, *, brief: bool = False
) -> list[Fit]:
    """Train problems that have a test part side by side, and evaluate them (see `train` and `evaluate`)."""
    for problem, one in zip(problems, settings, strict=True):
        check_own_name(one.recipe, problem.likelihood)
    return evaluate(problems, train(problems, settings, watch=watch), brief=brief)


def evaluate(problems: Sequence[Problem], trained: Trained, *, brief: bool = False) -> list[Fit]:
    """How the restarts of every fit predict its test part, how deep they are, and what they cost.

    Args:
        problems: of the fits.
        trained: what training gave.
        brief: whether to leave out the free energy and the units in use.

    Returns:
        A fit for every problem.
    """
    classes = problems[0].likelihood.kind == "classes"
    tested = (_of_classes if classes else _of_numbers)(problems, trained)
    learned = [{}] * len(problems)
    if not brief and problems[0].weight is None:
        learned = _costs(problems, trained)
    elif not brief:
        both = zip(problems, (restarts for restarts, _, _ in tested), strict=True)
        learned = [restarts.free_energy(*problem.train, problem.weight) for problem, restarts in both]
    masses = depth_masses(trained.model)
    fits = []
    for i, (problem, (restarts, said, more)) in enumerate(zip(problems, tested, strict=True)):
        own = {
            **problem.about,
            **together.describe_depth(masses[trained.runs_of(i)], restarts.share),
            **learned[i],
            **more,
            "temperature": restarts.mean_of(trained.temperatures[i]),
            "epochs": trained.epochs_of_fits[i],
            "seconds": round(trained.seconds, 3),
            "compile_seconds": round(trained.compile_seconds, 3),
            "interrupted": trained.interrupted or None,
            **_beside(problem, restarts, said),
            "validation_nll": {str(t): float(nll[i]) for t, nll in trained.validation_nll.items()} or None,
        }
        fits.append(Fit(make_record(trained.settings[i], said, own), restarts, problem, said))
    return fits


def make_record(settings: Settings, said: OfClasses | OfNumbers | None, more: dict[str, Any]) -> Record:
    """A record: the settings, the measures of what is said of the test rows (if there are any), and more."""
    where = {"device": device_name(), "version": __version__}
    return Record(**{**settings.in_words(), **where, "measures": {} if said is None else measured(said), **more})


Tested = tuple[together.Restarts, OfClasses | OfNumbers, dict[str, Any]]


def _of_classes(problems: Sequence[Problem], trained: Trained) -> list[Tested]:
    """All runs at once: one by one, a GPU would idle."""
    k, models, seeds = trained.n_restarts, trained.model, [one.seed for one in trained.settings]
    tests = [_test(problem) for problem in problems]
    x = np.repeat(np.stack([x for x, _ in tests]), k, axis=0)
    n_samples = -(-get_recipe(trained.settings[0].recipe).n_samples // k)
    each = predict(models, x, n_samples=n_samples, key=together.evaluation_keys(models, seeds))
    fits = [trained.calibrated(problem, i) for i, problem in enumerate(problems)]
    said = [one.together(each[trained.runs_of(i)]) for i, one in enumerate(fits)]
    of = OF_CLASSES[problems[0].likelihood.judged]
    spreads = [{} if one.calibration is None else {"spread": float(one.calibration.spread[0])} for one in fits]
    return [(one, of(p, y), more) for one, p, (_, y), more in zip(fits, said, tests, spreads, strict=True)]


def _of_numbers(problems: Sequence[Problem], trained: Trained) -> list[Tested]:
    """The rows held out calibrate the restarts; the test part is looked at when all is done."""

    def of_one(i: int, problem: Problem) -> Tested:
        restarts = trained.calibrated(problem, i)
        calibration = restarts.calibration
        assert calibration is not None
        share, spread = calibration.share, calibration.spread
        mean, scale = (0.0, 1.0) if problem.units is None else (problem.units.y_mean, problem.units.y_scale)
        x, y = _test(problem)
        columns = restarts.by_mixture(lambda mixture, y: mixture.said_of(y), x, y[:, None])
        said = OF_NUMBERS[problem.likelihood.judged].of_units(columns, mean + scale * y, scale)
        more = {"spread": float(spread[0]), "largest_share": float(share.max())}
        if calibration.nll is not None:
            more["validation_ll"] = float(-calibration.nll - np.log(scale))
        return restarts, said, more

    with ThreadPoolExecutor() as pool:
        return list(pool.map(of_one, range(len(problems)), problems))


def _beside(problem: Problem, restarts: together.Restarts, said: OfClasses | OfNumbers) -> dict[str, Any]:
    """What is asked beyond the test part, where a problem has `others`."""
    if problem.others is None or not isinstance(said, OfClasses):
        return {}
    uncertainty, entropy = restarts.uncertainty(_test(problem)[0]), restarts.models.likelihood.uncertainty
    inside = entropy(said.probabilities)
    held_out = {}
    if isinstance(problem.validation, tuple):
        x, y = problem.validation
        chosen = restarts.moments(x)[np.arange(len(y)), y]
        held_out["validation_ll"] = float(np.log(np.maximum(chosen, np.finfo(np.float32).tiny)).mean())
    told = {name: auroc(inside, entropy(restarts.moments(rows))) for name, rows in problem.others.items()}
    return {
        **held_out,
        "depth_share": float(uncertainty.depth.sum() / max(uncertainty.total.sum(), np.finfo(float).tiny)),
        "auroc": told,
    }


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often, of two rows, that from outside has more of something than that from inside; ties count half.

    Args:
        inside: what the rows inside have.
        outside: what the others have.

    Returns:
        The area under the ROC curve: 0.5 where nothing is told, 1 where all are.
    """
    is_inside = np.repeat([1, 0], [len(inside), len(outside)])
    return float(areas(np.concatenate([inside, outside])[:, None], is_inside)[0][0])


def _test(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    assert problem.test is not None, "a problem is evaluated on its test part"
    return problem.test


def _costs(problems: Sequence[Problem], trained: Trained) -> list[dict[str, Any]]:
    """The free energy of every fit's training rows, and the units in use."""
    k, models, seeds = trained.n_restarts, trained.model, [one.seed for one in trained.settings]
    x, y = (np.repeat(np.stack([problem.train[i] for problem in problems]), k, axis=0) for i in range(2))
    keys = together.evaluation_keys(models, seeds, together.FREE_ENERGY)
    terms, by_layer = evaluate_free_energy(models, x, y, key=keys), together.all_weight_kl_by_layer(models)
    costs, widths = jax.tree.map(np.asarray, (terms, by_layer)), effective_widths(models)
    return [
        {"effective_width": widths[own], **together.describe_free_energy(*jax.tree.map(itemgetter(own), costs))}
        for own in map(trained.runs_of, range(len(problems)))
    ]
