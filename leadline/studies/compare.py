"""Ours beside what else one would use: all predict the same rows, none of which they were trained on."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_consistent_length

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline._foreign import shown
from leadline.estimators import DepthClassifier, DepthRegressor
from leadline.estimators.encoder import frame_of, is_frame
from leadline.estimators.said import NoPredictionError
from leadline.files.columns import Encoding
from leadline.files.formats import learn_format
from leadline.files.learning import relearned
from leadline.inference.predict import evaluate_free_energy
from leadline.inference.restarts import evaluation_keys
from leadline.judged import UNKNOWN, OfClasses, OfNumbers
from leadline.studies.baselines import BASELINES, baseline
from leadline.studies.bouts import fight
from leadline.studies.comparison import Comparison, measured, parts_of
from leadline.studies.folds import Fold, cross_validation, kept_apart
from leadline.studies.others import say_classes, say_counts, say_numbers
from leadline.studies.runners import Runner
from leadline.training.progress import CandidateLine

Teller = Callable[[int, int, str, float | None], None]
"""Told the fold, of how many, the candidate, and the seconds left, where they are known."""


@dataclass(frozen=True)
class Outcome:
    """What came of a candidate in a fold."""

    said: OfClasses | OfNumbers | None
    """Of the rows to measure on, if there are any."""
    seconds: float
    """Of the training."""
    took: float
    """With all that was predicted, and with trainings for the sake of that."""
    learned: dict[str, Any]
    """Of one of ours, under the record's names."""


@dataclass
class Contest:
    """Candidates, and the rows that all of them are trained and measured on; with what has come of them so far.

    Args:
        candidates: estimators, not fitted, by their names; the others are set beside the first.
        x, y: rows and targets.
        folds: in which they are trained and measured on.
        task: classification or regression.
        notes: what one should know of the folds.
        encoding: how the columns of x become numbers, but for what is learned of the rows to train on; None: candidates
            take x as it is.
    """

    candidates: Mapping[str, Any]
    x: Any
    y: np.ndarray
    folds: list[Fold]
    task: str
    notes: list[str] = field(default_factory=list)
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        self.outcomes: dict[str, list[Outcome]] = {name: [] for name in self.candidates}
        self.failures: dict[str, str] = {}
        ours = [one for one in self.candidates.values() if isinstance(one, DepthRegressor)]
        self.counts = any(one._likelihood.judged == "counts" for one in ours)
        is_right = is_classifier if self.task == "classification" else is_regressor
        must = "classifiers with `predict_proba`" if self.task == "classification" else "regressors"
        for name, one in self.candidates.items():
            suits = isinstance(one, BaseEstimator) and is_right(one)
            if not suits or (self.task == "classification" and not hasattr(one, "predict_proba")):
                raise InvalidArgumentError(f"must be {must}, got {shown(repr(one))} as {name}.", "candidates")

    def run(self, tell: Teller | None = None, runner: Runner | None = None) -> None:
        """Train and measure all of them, fold by fold, or all at a time by a runner. One that fails is not tried again,
        and its error is kept; that of the first, beside whom the others are set, is raised."""
        if runner is not None:
            fight(self, runner, tell)
            return
        first = next(iter(self.candidates))
        for i, (train, kept) in enumerate(self.folds):
            x, x_kept, columns = self._encoded(train, kept)
            for name in self.candidates:
                if tell is not None:
                    tell(i, len(self.folds), name, self._seconds_left(i, name))
                if name in self.failures:
                    continue
                try:
                    self.outcomes[name].append(self._outcome(name, x, self.y[train], x_kept, self.y[kept]))
                except Exception as error:
                    if name == first and isinstance(error, NoPredictionError):
                        raise _of_table(error, kept, columns) from error
                    if name == first:
                        raise
                    self.failures[name] = f"{type(error).__name__}: {shown(str(error).strip())}"

    def measured_in(self, fold: int, name: str, watch: Any = None) -> Outcome:
        """A candidate in a fold. `watch` is told of every epoch of one of ours, and ends it by True."""
        train, kept = self.folds[fold]
        x, x_kept, columns = self._encoded(train, kept)
        try:
            return self._outcome(name, x, self.y[train], x_kept, self.y[kept], watch)
        except NoPredictionError as error:
            raise _of_table(error, kept, columns) from error

    def _encoded(self, train: np.ndarray, kept: np.ndarray) -> tuple[Any, Any, list[str]]:
        """The rows to train on and to measure on, as candidates take them, and the names of their columns."""
        parts: list[Any] = [_safe_indexing(self.x, rows) for rows in (train, kept)]
        x, x_kept = parts
        if self.encoding is None:
            return x, x_kept, []
        learned = relearned(self.encoding, x)
        return learned.encode(x)[0], learned.encode(x_kept)[0] if len(kept) else None, learned.features()

    def _seconds_left(self, fold: int, name: str) -> float | None:
        """From what the first fold took."""
        if fold == 0:
            return None
        names = [one for one in self.candidates if one not in self.failures]
        seconds = [self.outcomes[one][0].took for one in names]
        begun = names.index(name) if name in names else 0
        return sum(seconds) * (len(self.folds) - fold) - sum(seconds[:begun])

    def _outcome(self, name: str, x: Any, y: np.ndarray, x_kept: Any, y_kept: np.ndarray, watch: Any = None) -> Outcome:
        estimator: Any = clone(self.candidates[name])
        start = time.perf_counter()
        is_ours = isinstance(estimator, DepthClassifier | DepthRegressor)
        if is_ours and watch is not None and estimator.callback is None:
            estimator.callback = watch
        of_numbers = say_counts if self.counts else say_numbers
        say = say_ours if is_ours else say_classes if self.task == "classification" else of_numbers
        with self._noting(ConvergenceWarning, f"{name} had not converged when it stopped."):
            estimator.fit(x, y)
            seconds = time.perf_counter() - start
            if getattr(estimator, "cut_off_", False):
                raise KeyboardInterrupt
            said = say(estimator, x_kept, y_kept, x, y) if len(y_kept) else None
        learned: dict[str, Any] = {}
        if is_ours:
            names = ("depth_mean", "depth_std", *["free_energy"] * (len(self.folds) == 1))
            learned = {name: getattr(estimator, f"{name}_") for name in names} | {"epochs": estimator.n_iter_}
        if "free_energy" in learned:
            learned["free_energy_error"] = free_energy_error(estimator, x, y)
        if isinstance(said, OfClasses):
            said = _among(np.unique(self.y), estimator.classes_, said)
        return Outcome(said, seconds, time.perf_counter() - start, learned)

    @contextmanager
    def _noting(self, category: type[Warning], note: str) -> Iterator[None]:
        """A note instead of many such warnings; others are heard as ever."""
        heard: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always", category)
                yield
        finally:
            for one in heard:
                if not issubclass(one.category, category):
                    warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
                elif note not in self.notes:
                    self.notes.append(note)

    def comparison(self, **about: Any) -> Comparison | None:
        """Of what is finished: all candidates in as many folds, or in the first those that are through; None if none
        is."""
        left = {name: outcomes for name, outcomes in self.outcomes.items() if name not in self.failures}
        n_folds = min(map(len, left.values())) or 1
        finished = {name: outcomes[:n_folds] for name, outcomes in left.items() if outcomes}
        if not finished:
            return None
        n_measured = sum(len(kept) for _, kept in self.folds[:n_folds])
        rows = [*self._rows(finished, bool(n_measured))]
        rows += [{"candidate": name, "failed": error} for name, error in self.failures.items()]
        counts = {"n_rows": len(self.y), "n_measured": n_measured, "folds": n_folds if len(self.folds) > 1 else None}
        notes = [*_notes(self.task, len(self.folds), rows, self.counts, **counts), *self.notes]
        notes += [f"{name} failed: {error}" for name, error in self.failures.items()]
        return Comparison(rows, self.task, {**about, **counts}, notes)

    def _rows(self, finished: Mapping[str, list[Outcome]], known: bool) -> Iterator[dict[str, Any]]:
        """Of every candidate, under the names of the table's columns."""
        parts = {name: parts_of(_together(outcomes)) for name, outcomes in finished.items()} if known else {}
        first = next(iter(self.candidates))
        for name, outcomes in finished.items():
            row: dict[str, Any] = {"candidate": name}
            if known:
                row |= measured(self.task, parts[name], parts.get(first) if name != first else None)
            learned = [outcome.learned for outcome in outcomes]
            if learned[0]:
                row |= {key: float(np.mean([one[key] for one in learned])) for key in learned[0]}
                means, stds = (np.array([one[key] for one in learned]) for key in ("depth_mean", "depth_std"))
                row["depth_std"] = float(np.sqrt(np.mean(stds**2) + np.var(means)))  # of the mixture of the folds
            row["seconds"] = float(np.mean([outcome.seconds for outcome in outcomes]))
            steps = [step for _, step in getattr(self.candidates[name], "steps", [("", self.candidates[name])])]
            yield row | {"settings": " → ".join(" ".join(repr(step).split()) for step in steps)}


def compare(
    X: Any,
    y: Any,
    *,
    candidates: Mapping[str, Any] | Sequence[Any] | None = None,
    folds: int | None = None,
    test: float | None = None,
    task: str = "auto",
    random_state: int = 1,
    verbose: bool = False,
    runner: Runner | None = None,
) -> Comparison:
    """Set ours beside what else one would use, on rows that none of them was trained on.

    Args:
        X: rows by columns; a raw frame, too, for those that are given by name and for ours.
        y: a class or a number for every row.
        candidates: "leadline", "linear", "boosting", "forest", "mlp" (all of them if none are given) and estimators of
            scikit-learn's kind; or a dict of either by names of one's own. The others are set beside the first.
        folds: of a cross-validation that measures on every row once. Default: 5.
        test: the share of the rows that is kept apart to measure on instead.
        task: classification, regression, or auto: what the estimators are that were given, or y looks like.
        random_state: decides the folds, and what is random in the candidates that are given by name.
        verbose: whether a progress line is shown.
        runner: what trains candidates and folds at a time, as a `RayRunner` does. None: one after the other.

    Returns:
        The comparison: `print` shows a table, `to_frame()` gives it. A candidate that fails, but for the first, is in
        the notes and has no measures.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from leadline import DepthClassifier, compare
        >>> ours = DepthClassifier(width=4, n_restarts=1, max_iter=50, random_state=0)
        >>> said = compare(*load_iris(return_X_y=True), candidates=[ours, LogisticRegression()], folds=2)
        >>> said.to_frame().index.tolist()
        ['DepthClassifier', 'LogisticRegression']
    """
    check_consistent_length(X, y)
    if np.ndim(y) != 1:
        raise InvalidArgumentError(f"must be one class or number a row, got shape {np.shape(y)}.", "y")
    x, y = (frame_of(X) if is_frame(X) else X if hasattr(X, "shape") else np.asarray(X)), np.asarray(y)
    check_integer("random_state", random_state, 0)
    candidates = ("leadline", *BASELINES) if candidates is None else candidates
    given = dict(candidates) if isinstance(candidates, Mapping) else _named(candidates)
    for name in given.values():
        if isinstance(name, str):
            check_choice("candidates", name, ("leadline", *BASELINES))
    task = _task(task, y, [one for one in given.values() if not isinstance(one, str)])
    parts, notes = folds_of(y, task, folds, test, random_state)
    made = {
        name: make_candidate(one, task, random_state, len(parts[0][0]), raw=is_frame(X)) for name, one in given.items()
    }
    contest = Contest(made, x, y if task == "classification" else y.astype(float), parts, task, notes)
    with CandidateLine() if verbose else nullcontext() as line:
        contest.run(line, runner)
    comparison = contest.comparison(seed=random_state)
    assert comparison is not None
    return comparison


def _named(candidates: Sequence[Any]) -> dict[str, Any]:
    """By their names, or those of their types, with a number more where there are several."""
    if isinstance(candidates, str) or not len(candidates):
        raise InvalidArgumentError(f"must be a list of names and estimators, got {candidates!r}.", "candidates")
    named: dict[str, Any] = {}
    for one in candidates:
        name = kind = one if isinstance(one, str) else type(one).__name__
        i = 1
        while name in named:
            name, i = f"{kind} {i + 1}", i + 1
        named[name] = one
    return named


def make_candidate(candidate: Any, task: str, seed: int, n_rows: int, *, raw: bool = False) -> Any:
    """What has a name, made, for rows of numbers or for a raw frame; an estimator is itself."""
    if candidate == "leadline":
        return (DepthClassifier if task == "classification" else DepthRegressor)(random_state=seed)
    return baseline(candidate, task, seed, n_rows, raw=raw) if isinstance(candidate, str) else candidate


def _task(task: str, y: np.ndarray, estimators: Sequence[Any]) -> str:
    check_choice("task", task, ("auto", "classification", "regression"))
    if task == "auto" and estimators and isinstance(estimators[0], BaseEstimator):
        return "classification" if is_classifier(estimators[0]) else "regression"
    if task == "auto":
        import pandas

        frame = pandas.DataFrame({"column": np.arange(len(y)) % 2, "y": y})  # what is asked of is the target alone
        return learn_format(frame, "y").task
    return task


def folds_of(
    y: np.ndarray, task: str, folds: int | None, test: float | None, seed: int
) -> tuple[list[Fold], list[str]]:
    """The folds of a cross-validation, or the one in which a share is kept apart; and what one should know of them."""
    of_classes = task == "classification"
    if test is None:
        return cross_validation(y, 5 if folds is None else folds, seed, of_classes=of_classes)
    if folds is not None:
        raise InvalidArgumentError(f"must be left out where `test` is given, got {folds}.", "folds")
    return [kept_apart(y, test, seed, of_classes=of_classes)], []


# What is said of rows whose target is known


def say_ours(estimator: Any, x: Any, y: np.ndarray, *_: Any) -> OfClasses | OfNumbers:
    """Its own predictive distribution."""
    return estimator.said_of(x, y)


def _among(classes: np.ndarray, known: np.ndarray, said: OfClasses) -> OfClasses:
    """By all classes that there are: the folds need not know the same ones."""
    places = np.searchsorted(classes, known)
    probabilities = np.zeros((len(said.y), len(classes)))
    probabilities[:, places] = said.probabilities
    return OfClasses(probabilities, np.where(said.y == UNKNOWN, UNKNOWN, places[said.y]))


def _together(outcomes: Sequence[Outcome]) -> OfClasses | OfNumbers:
    """Of the rows of all folds."""
    said = [outcome.said for outcome in outcomes if outcome.said is not None]
    joined = [None if column[0] is None else np.concatenate(column) for column in zip(*said, strict=True)]
    return type(said[0])._make(joined)


def free_energy_error(estimator: Any, x: Any, y: np.ndarray) -> float:
    """The standard error of a free energy from 32 weight samples, from as many in batches of four."""
    standardised, y = estimator.training_rows(x, y)
    totals = []
    for i in range(8):
        keys = evaluation_keys(estimator.model_, estimator.seed_, 100 + i)
        terms = evaluate_free_energy(estimator.model_, standardised, y, n_samples=4, key=keys)
        totals.append(float(np.mean(terms.total)))
    return float(np.std(totals, ddof=1) / np.sqrt(8))


def _of_table(error: NoPredictionError, kept: np.ndarray, columns: list[str]) -> NoPredictionError:
    """The same, of the row of the table that a row of a fold is, and of a column by its name."""
    given: Any = error._given
    column = columns[error.column] if columns and isinstance(error.column, int) else error.column
    return NoPredictionError(int(kept[error.row]), column, *given[2:])


def _notes(
    task: str,
    n_folds: int,
    rows: list[dict[str, Any]],
    counts: bool,
    *,
    n_rows: int,
    n_measured: int,
    folds: int | None,
) -> list[str]:
    """What one should know to read the table."""
    finished = folds or 1
    is_ours = ["depth_mean" in row for row in rows]
    if n_folds > 1:
        stopped = f", stopped after {finished} of them" if finished < n_folds else ""
        how = f"each predicted once, in a cross-validation of {n_folds} folds{stopped}"
        notes = [f"{n_measured:,} of {n_rows:,} rows, {how}."]
    elif n_measured:
        notes = [f"{n_measured:,} of {n_rows:,} rows, kept apart from the others."]
    else:
        notes = [f"All {n_rows:,} rows were trained on: there is nothing to measure on."]
    if n_measured:
        notes.append(
            "± is the standard error over the rows, taken as independent. A difference within two of them is within "
            "noise (~); equals exceed that once in twenty times. What other rows to train on would change is not in it."
        )
    if n_measured and not all(is_ours) and task == "classification":
        notes.append("Probabilities from others than ours count as at least one in a million.")
    elif n_measured and not all(is_ours):
        rounded = ", rounded to counts" if counts else ""
        notes.append(
            "What others than ours predict is taken for the middle of a Gaussian, as wide as they err on rows of the "
            f"training part that they have not seen{rounded}."
        )
    notes += ["E[L] is the mean depth of ours, ± its standard deviation."] * any(is_ours)
    notes.append("Seconds are those of one training.")
    if n_folds == 1 and any(is_ours):
        notes.append("* is the lowest free energy, in nats of the rows trained on, ± its Monte Carlo error.")
    return notes
