"""A fit to one's own table: evaluated on rows kept apart, recorded, and used to predict."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline import metrics
from leadline._checks import InvalidArgumentError, UnfinishedWarning, check_choice, tell
from leadline._foreign import shown, some
from leadline.backend.device import n_threads
from leadline.backend.numerics import mean_and_scale
from leadline.estimators import DepthClassifier, DepthRegressor
from leadline.estimators.encoder import TableEncoder
from leadline.estimators.said import NoPredictionError, check_said
from leadline.files.formats import TableFormat, TargetKind, lacks_target, targets
from leadline.files.records import Record
from leadline.inference import native
from leadline.inference.model import run_model
from leadline.judged import OfClasses, OfCounts, OfNumbers, inside, one_rate
from leadline.studies.evaluate import make_record
from leadline.studies.folds import kept_apart
from leadline.studies.inspection import inspected
from leadline.training.pace import MIN_LOOKS, MIN_STEPS, SCHEDULED
from leadline.training.settings import Settings, options

if TYPE_CHECKING:
    import pandas

HISTORY_ROWS = 200
"""Epochs that a record keeps of the history."""

NOT_RECORDED = ("callback", "checkpoint_dir", "checkpoint_every", "encoder", "verbose")
"""Parameters that decide nothing about the result; what an encoder has learned is the record's `table`."""

LEARNED = ("free_energy", "depth_mean", "depth_std", "depth_mode", "free_energy_terms", "temperature")
"""What a record and an estimator call alike, but for the underscore."""

KINDS: dict[str, TargetKind] = {"b": "boolean", "U": "text", "O": "text"}
"""Of targets, by the type of the labels, if they are no numbers."""

FARTHEST = 1e30
"""Standard deviations from the other rows beyond which a row that is kept apart could not be measured on."""

FEW_TO_MEASURE_ON = 10
"""Rows kept apart."""

Estimator = DepthClassifier | DepthRegressor


@dataclass(frozen=True)
class Parts:
    """The rows to train on and the rows kept apart: their columns as they come, their targets, and their places in the
    table."""

    x: "pandas.DataFrame"
    y: np.ndarray
    x_test: "pandas.DataFrame"
    y_test: np.ndarray
    rows: np.ndarray | None = None
    rows_test: np.ndarray | None = None
    weight: np.ndarray | None = None
    """What the rows to train on count, if not all the same."""


def split(
    frame: "pandas.DataFrame", fmt: TableFormat, test: float, seed: int, weight: np.ndarray | None = None
) -> Parts:
    """Keep a share of the rows apart; classes in proportion where they have enough rows, and of every class at least
    one to train on."""
    x, y = fmt.encoding.encode(frame)[0], targets(frame, fmt)
    columns = frame.drop(columns=fmt.target)

    def parts(train: np.ndarray, kept: np.ndarray) -> Parts:
        counts = None if weight is None else weight[train]
        return Parts(columns.iloc[train], y[train], columns.iloc[kept], y[kept], train, kept, counts)

    train, kept = kept_apart(y, test, seed, of_classes=fmt.task == "classification")
    mean, scale = mean_and_scale(x[train])
    far = np.zeros_like(x)
    with np.errstate(over="ignore"):
        far[kept] = (x[kept] - mean) / scale
    with naming_cells():
        check_said(np.where(np.abs(far) < FARTHEST, 0.0, np.inf), (x,), (far,), fmt.encoding.features())
    return parts(train, kept)


def warn_of_test_part(parts: Parts, task: str) -> None:
    """Say where the rows kept apart say little."""
    n, said = len(parts.x_test), ""
    unseen = np.setdiff1d(parts.y, parts.y_test) if task == "classification" and n else np.empty(0)
    if 0 < n < FEW_TO_MEASURE_ON:
        only = "one row is" if n == 1 else f"{n} rows are"
        said = f"Only {only} kept apart: what is measured on them says little; give more with a larger `test`."
    elif len(unseen):
        said = f"Of class {some(unseen)} no row is kept apart: nothing that is measured says how it is predicted."
    if said:
        tell(said)


@contextmanager
def naming_cells() -> Iterator[None]:
    """Rows and columns in a sentence as they are counted and called in the table."""
    try:
        yield
    except NoPredictionError as error:
        if error.column is None:
            raise
        must = f"Column `{shown(error.column)}` must hold numbers near enough for finite predictions"
        raise InvalidArgumentError(f"{must}, got {error.got}, in row {error.row + 1}; correct that value.") from error


def make_estimator(
    task: str,
    settings: Settings,
    *,
    likelihood: str | None = None,
    noise: str = "auto",
    class_weight: str | None = None,
    encoder: TableEncoder | None = None,
    verbose: bool = False,
) -> Estimator:
    """An estimator with such settings, checked, so that nothing is begun that cannot be finished."""
    if task == "classification" and noise != "auto":
        raise InvalidArgumentError(f"is that of a number, and the target is a class, got {noise!r}.", "noise")
    if task == "regression" and class_weight is not None:
        raise InvalidArgumentError(
            f"is that of classes, and the target is a number, got {class_weight!r}.", "class_weight"
        )
    if class_weight is not None:
        check_choice("class_weight", class_weight, ["balanced"])
    said = {name: getattr(settings, one.name) for name, one in options("estimator").items()}
    said |= {"random_state": settings.seed, "encoder": encoder, "verbose": verbose}
    said |= {} if likelihood is None else {"likelihood": likelihood}
    if task == "classification":
        estimator = DepthClassifier(**said, class_weight=class_weight)
    else:
        estimator = DepthRegressor(**said, noise=noise)
    settings.resolved(estimator._likelihood)
    return estimator


def expected_cost(parts: Parts, fmt: TableFormat, estimator: Estimator) -> tuple[float, float, float]:
    """The least and the most seconds that a fit usually takes on a CPU, and its memory in bytes; rough.

    A core of the engine does 20 multiplications in a nanosecond; an ordinary table needs as many steps as `OwnLength`
    makes at least, or ten times as many. Without the engine there is one core, a step costs 2 ms more, and compilation
    takes 15 s.
    """
    settings = estimator.settings().resolved(estimator._likelihood)
    n_restarts, width = settings.n_restarts or 1, settings.width
    n_rows, n_inputs = len(parts.x), len(fmt.encoding.features())
    n_outputs = len(np.unique(parts.y)) if fmt.task == "classification" else 1
    assert isinstance(settings.batch_size, int)
    batch = min(n_rows, settings.batch_size)
    products = 12 * n_restarts * batch * width * (n_inputs + 3 * (width + n_outputs))
    steps_per_epoch = -(-n_rows // batch)
    memory = 3e8 + 40 * n_rows * n_inputs + 300 * n_restarts * width * (n_inputs + 8 * width)
    by_engine = native.knows(estimator._likelihood)
    begin, more, cores = (0.2, 1e-4, min(n_restarts, n_threads())) if by_engine else (15, 0.002, 1)
    steps = (1 + SCHEDULED) * max(MIN_STEPS, MIN_LOOKS * steps_per_epoch)
    least = steps * (more + products / 20e9) / cores
    return begin + least, begin + 10 * least, memory


def record_of(estimator: Estimator, parts: Parts, fmt: TableFormat, name: str) -> Record:
    """The settings, how the rows kept apart are predicted, and what was learned, under the record's names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfinishedWarning)  # which the record says
        said = estimator.said_of(parts.x_test, parts.y_test) if len(parts.x_test) else None
    more = {
        "name": name,
        "task": fmt.task,
        "target": fmt.target,
        "columns": [{"name": column.name, "words": column.words()} for column in fmt.encoding.columns],
        "table": fmt.to_json(),
        "n_rows": len(parts.x) + len(parts.x_test),
        "n_test": len(parts.x_test),
        "n_features": len(fmt.encoding.features()),
        "seed": estimator.random_state,
        "epochs": estimator.n_iter_,
        "seconds": round(estimator.fit_seconds_, 3),
        "interrupted": estimator.interrupted_ or None,
        **_curves(said, parts.y_test),
        **inspected(
            *(estimator, (parts.x, parts.y), (parts.x_test, parts.y_test), said),
            target=fmt.target,
            places=parts.rows_test,
        ),
        **_learned(estimator, LEARNED),
        "depth_pmf": estimator.depth_pmf_.tolist(),
        "depth_prior_pmf": _prior(estimator, len(estimator.depth_pmf_)),
        "depth_support": list(estimator.depth_support_),
        "effective_width": estimator.effective_width(),
        "validation_nll": estimator.validation_nll_ or None,
        **_weighed(estimator),
        "history": _thinned(estimator.history_),
        "settings": {key: value for key, value in estimator.get_params(deep=False).items() if key not in NOT_RECORDED},
    }
    if isinstance(estimator, DepthClassifier):
        more["classes"] = [str(label) for label in estimator.classes_]
        more["class_shares"] = {str(label): float(np.mean(parts.y == label)) for label in estimator.classes_}
    return make_record(estimator.settings().resolved(estimator._likelihood), said, more)


def _weighed(estimator: Estimator) -> dict[str, Any]:
    """What the rows held out say of the restarts, where there were any."""
    if estimator.held_out_nll_ is None:
        return {}
    lists = {name: getattr(estimator, f"{name}_") for name in ("restart_shares", "restart_temperatures")}
    return {name: a.round(4).tolist() for name, a in lists.items()} | {"spread": float(estimator.spread_[0])}


def _learned(estimator: Estimator, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(estimator, f"{name}_") for name in names}


def _curves(said: OfClasses | OfNumbers | None, y: np.ndarray) -> dict[str, Any]:
    """How honest the predictions are, in more than one number."""
    if said is None:
        return {}
    if isinstance(said, OfClasses):
        rows, confidence, right = (np.nan_to_num(column).tolist() for column in metrics.reliability(*said))
        return {"reliability": {"rows": rows, "confidence": confidence, "right": right}}
    levels = [round(0.05 * i, 2) for i in range(1, 20)]
    observed = [float(np.mean(inside(said, level))) for level in levels]
    return {"coverage_curve": {"level": levels, "observed": observed}, **_of_one_answer(said, y)}


def _of_one_answer(said: OfNumbers, y: np.ndarray) -> dict[str, Any]:
    """What is to be known of numbers to say what one answer for all rows would give."""
    known: dict[str, Any] = {"target_std": float(np.std(y))}
    return known | ({"one_rate": one_rate(y)} if isinstance(said, OfCounts) else {})


def _prior(estimator: Estimator, least: int) -> list[float]:
    """p(L) as far as it has one part in a thousand, or q(L) any mass."""
    pmf = np.asarray(run_model(estimator.model_, 0).depth_prior.pmf(), float)
    return pmf[: max(least, int(np.flatnonzero(pmf > 1e-3).max()) + 1)].tolist()


def _thinned(history: dict[str, np.ndarray]) -> dict[str, Any]:
    n = len(history["free_energy"])
    rows = np.unique(np.linspace(0, n - 1, min(n, HISTORY_ROWS)).round().astype(int))
    return {name: np.round(np.asarray(column[rows], float), 5).tolist() for name, column in history.items()}


def predictions(estimator: Estimator, x: Any, target: str, *, as_text: bool = True) -> dict[str, Any]:
    """The columns of a table of predictions: the target's, and others, one of which has an underscore more where the
    target has its name. As text, numbers have six digits, or as many as tell a thousandth of the deviation."""
    said = in_digits if as_text else lambda values, std=None: values
    parts = estimator.uncertainty(x)
    if isinstance(estimator, DepthClassifier):
        probabilities = estimator.predict_proba(x)
        unit, predicted = "nats", estimator.classes_[probabilities.argmax(axis=1)]
        others = {f"p({label})": said(probabilities[:, i]) for i, label in enumerate(estimator.classes_)}
    else:
        mean, std = estimator.predict(x, return_std=True)
        below, above = estimator.predict_interval(x, 0.9).T
        unit, predicted = "variance", said(mean, std)
        others = {"std": said(std), "low_90": said(below, std), "high_90": said(above, std)}
    others |= {f"{name}_{unit}": said(getattr(parts, name)) for name in ("noise", "weights", "depth")}
    return {target: predicted} | {f"{name}_" if name == target else name: column for name, column in others.items()}


def format_of(estimator: Estimator) -> TableFormat:
    """How the tables of an estimator are read that was fitted to one."""
    if estimator.encoder_ is None:
        raise InvalidArgumentError("`run` holds a model of plain numbers, which has no table; fit it to a frame.")
    kind: TargetKind = "number"
    if isinstance(estimator, DepthClassifier):
        kind = KINDS.get(estimator.classes_.dtype.kind, "number")
    task = "classification" if isinstance(estimator, DepthClassifier) else "regression"
    return TableFormat(estimator.encoder_.encoding_, estimator.target_name_ or "prediction", task, kind)


def measured_on(estimator: Estimator, frame: "pandas.DataFrame") -> tuple[dict[str, float], dict[str, Any]]:
    """How the rows of a table are predicted that have a target, and what is to be known about them."""
    fmt = format_of(estimator)
    known = frame.loc[~lacks_target(frame, fmt)]
    if len(known) == 0:
        raise InvalidArgumentError(f"The table must have rows with a `{shown(fmt.target)}` to measure on, got none.")
    y = targets(known, fmt)
    about: dict[str, Any] = {"n_test": len(known)}
    said = estimator.said_of(known, y)
    if isinstance(said, OfNumbers):
        about |= _of_one_answer(said, y)
    if isinstance(estimator, DepthClassifier):
        about["class_shares"] = {str(label): float(np.mean(y == label)) for label in estimator.classes_}
    return metrics.measured(said), {**about, "errors": metrics.standard_errors(said)}


def in_digits(values: np.ndarray, std: np.ndarray | None = None) -> list[str]:
    """Six digits of each, or more: until what is written is off by less than a thousandth of `std`."""
    if std is None:
        return [f"{value:.6g}" for value in values]
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.nan_to_num(np.log10(np.abs(values)) - np.log10(std), nan=0.0, posinf=17.0, neginf=0.0) + 5
    numbers = zip(values.tolist(), np.clip(digits, 6, 17).astype(int), strict=True)
    return [f"{value:.{n}g}" if n < 17 else repr(value) for value, n in numbers]
