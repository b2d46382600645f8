"""What a fitted network goes by: which columns, how its answer moves with them, and which rows are hard and why."""

import abc
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from leadline import metrics, plots, prediction_plots
from leadline._checks import InvalidArgumentError, check_integer
from leadline.estimators.base import DepthEstimator
from leadline.estimators.encoder import frame_of, is_frame
from leadline.estimators.shuffling import (
    Dependence,
    Importance,
    chosen,
    givers,
    grid_of,
    in_calls,
    place_of,
    replaced,
    standard_error,
)
from leadline.judged import inside
from leadline.plots import axes_or_new

if TYPE_CHECKING:  # at run time inside the functions: it is slow to import
    import pandas
    from matplotlib.axes import Axes

MOST_ROWS = 1000
"""That are looked at; of more, so many are chosen, always the same."""

LOOKS, MOST_REPEATS = 20_000, 10
"""Rows that are predicted for all importances together, about, and how often a column is shuffled at most."""

GRID_ROWS = 100
"""That have each value of a column in turn, behind a partial dependence."""

SURE = 0.9, 0.99
"""A network was sure, and wrong, if it gave a wrong class so much, or if a number lies outside such an interval."""

MORE_DATA, NO_DATA = "more data like this would help", "no data will help"
LOOK = "it was sure, and wrong: look at the row"


def verdict(noise: float, weights: float, depth: float, missed: bool) -> str:
    """Whether more data would help: where the networks disagree (weights and depth) more than each is unsure by itself
    (noise). A row that was surely something else is another matter."""
    return LOOK if missed else MORE_DATA if weights + depth > noise else NO_DATA


class Inspected(DepthEstimator):
    """An estimator that tells what it goes by."""

    @abc.abstractmethod
    def _nll_of_rows(self, X: Any, y: Any) -> np.ndarray:
        """−ln p(y | x), row by row."""

    @abc.abstractmethod
    def _answers(self, X: Any) -> tuple[list[str], np.ndarray]:
        """What is predicted, by name: [rows, classes or targets]."""

    @abc.abstractmethod
    def tell(self, X: Any, y: Any, said: Any = None) -> dict[str, np.ndarray]:
        """Of every row the truth, the prediction and how sure it is, the NLL, the parts of the uncertainty, and whether
        it was `missed` surely; `said` is what `said_of` gives, where that is known.

        Args:
            X: rows that were not trained on.
            y: their targets.
            said: what `said_of` gives for them, where that is known.
        """

    def importance(self, X: Any, y: Any, *, n_repeats: int | None = None) -> Importance:
        """How much the prediction of rows rests on every column: by how much their NLL rises when it is shuffled.

        Each row takes the value of another one, never its own. Rows that were not trained on tell what is of use; at
        most MOST_ROWS are taken. The standard errors take in both the rows and the values that they are given.

        Args:
            X: rows that were not trained on.
            y: their targets.
            n_repeats: how many other values every row is given; from 1 to 10 unless given, so that 20,000 rows or so
                are predicted.

        Returns:
            For each column, in their order, nats per row.
        """
        y, (names, blocks) = np.asarray(y), self._columns()
        check_consistent_length(X, y)
        places = chosen(len(y), min(MOST_ROWS, max(50, LOOKS // len(names))), self._known(y))
        if len(places) < 2:
            raise InvalidArgumentError(f"must have two rows to shuffle, got {len(places)}.", "X")
        x, y, n, encoded = self._raw(X)[places], y[places], len(places), self._of_encoded()
        fitting = int(np.clip(LOOKS // (n * len(names)), 1, min(MOST_REPEATS, n - 1)))
        n_repeats = fitting if n_repeats is None else n_repeats
        check_integer("n_repeats", n_repeats, 1, n - 1)
        giver = givers(n, n_repeats)
        after = in_calls(
            lambda table: encoded._nll_of_rows(table, np.concatenate([y] * (len(table) // n))),
            (replaced(x, block, other) for block in blocks for other in giver),
            n,
        ).reshape(len(names), n_repeats, n)
        rise = after - encoded._nll_of_rows(x, y)
        errors = np.array([standard_error(of_column, giver) for of_column in rise])
        return Importance(names, rise.mean(axis=(1, 2)), errors, n, n_repeats)

    def partial_dependence(self, X: Any, column: int | str) -> Dependence:
        """What would be predicted on average if all rows had the same value in a column, for some of its values.

        Args:
            X: rows; at most 100 of them are taken.
            column: by name or by place.

        Returns:
            The mean over the rows for up to 12 values, and how far single networks lie apart.
        """
        (names, blocks), x, encoded = self._columns(), self._raw(X), self._of_encoded()
        place = place_of(names, column)
        values = self._values(X, x, place)
        at, in_order = grid_of(values)
        rows = x[chosen(len(x), GRID_ROWS)]
        table = np.concatenate([replaced(rows, blocks[place], np.full(len(rows), one), x) for one in at])
        outputs, answers = encoded._answers(table)
        mean = answers.reshape(len(at), len(rows), -1).mean(axis=1)
        share, draws = self._restarts.means_of_draws(encoded._checked(table), np.repeat(np.arange(len(at)), len(rows)))
        centre = np.tensordot(share, draws, axes=1)
        deviation = np.sqrt(np.tensordot(share, np.square(draws - centre), axes=1)) * self._units.y_scale
        return Dependence(names[place], values[at], outputs, mean, deviation, in_order)

    def _columns(self) -> tuple[list[str], list[slice]]:
        """The columns that it looks at, by name, and the numbers that each became."""
        check_is_fitted(self)
        if self.image_shape_ is not None:
            raise InvalidArgumentError("must have columns, and the model was fitted to images.", "X")
        if self.encoder_ is None:
            n = self.model_.network.n_inputs
            names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(n)])
            return [str(name) for name in names], [slice(i, i + 1) for i in range(n)]
        columns = self.encoder_.encoding_.columns
        ends = np.cumsum([0, *(len(column.features()) for column in columns)]).tolist()
        return [column.name for column in columns], list(map(slice, ends, ends[1:]))

    def _values(self, X: Any, x: np.ndarray, place: int) -> np.ndarray:
        """Of one of these columns, as they are understood."""
        if self.encoder_ is None:
            return x[:, place]
        encoding = self.encoder_.encoding_
        column = encoding.columns[place]
        return column.values(
            frame_of(X if is_frame(X) else np.asarray(X), self.encoder_.names_)[column.name], encoding.reading
        )

    def _of_encoded(self) -> Any:
        """The same for rows that are numbers already, such as `_raw` gives."""
        same = copy(self)
        same.encoder_, same.n_features_in_ = None, self.model_.network.n_inputs
        same.__dict__.pop("feature_names_in_", None)
        return same

    def hardest(self, X: Any, y: Any, n: int = 5) -> "pandas.DataFrame":
        """The rows whose prediction is most uncertain, and those that are most surprising (of the highest NLL).

        More data would help where the networks disagree: where the parts of the uncertainty that are due to weights and
        depth are more than the noise, which stays. A row that was surely wrong (a wrong class of probability 0.9, a
        number outside the 99 % interval) should be looked at.

        Args:
            X: rows.
            y: their targets.
            n: how many.

        Returns:
            A line for each, by the index of X: why it is there, what `tell` says of it, and a verdict.
        """
        import pandas

        check_integer("n", n, 1)
        told = self.tell(X, y)
        places, because = hardest(told, n)
        table = pandas.DataFrame({"because": because} | {name: column[places] for name, column in told.items()})
        table.index = X.index[places] if hasattr(X, "iloc") else pandas.Index(places)
        table["verdict"] = list(map(verdict, table["noise"], table["weights"], table["depth"], table["missed"]))
        return table

    def _known(self, y: np.ndarray) -> np.ndarray:
        """The places of targets that have a probability."""
        return np.arange(len(y))

    def plot_importance(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """The rise of the NLL for every column that is shuffled, the most important on top.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        said = self.importance(X, y)
        return prediction_plots.plot_importance(axes_or_new(ax), said.columns, said.increase, said.error)

    def plot_partial_dependence(self, X: Any, column: int | str, ax: "Axes | None" = None) -> "Axes":
        """The mean prediction against the value of a column, with a band of two deviations of single networks.

        Args:
            X: rows.
            column: by name or by place.
            ax: to draw in; new ones unless given.
        """
        said = self.partial_dependence(X, column)
        some_outputs = prediction_plots.moving([said.mean])
        return prediction_plots.plot_dependence(
            *(axes_or_new(ax), said.column, said.plain_values(), said.mean, said.deviation),
            outputs=said.outputs,
            some=some_outputs,
            in_order=said.in_order,
            of_classes=hasattr(self, "classes_"),
            least=0.0 if self.model_.likelihood.judged == "counts" else None,
        )

    def plot_uncertainty(self, X: Any, ax: "Axes | None" = None) -> "Axes":
        """The uncertainty of every row by its parts, the most certain row first.

        Args:
            X: rows.
            ax: to draw in; new ones unless given.
        """
        parts = self.uncertainty(X)
        if parts.noise.ndim > 1:
            raise InvalidArgumentError(f"`plot_uncertainty` draws one target, got {parts.noise.shape[1]}.")
        unit = "nats" if hasattr(self, "classes_") else "variance"
        return prediction_plots.plot_uncertainty(axes_or_new(ax), parts.noise, parts.weights, parts.depth, unit)


class InspectedClasses(Inspected):
    """Of classes."""

    classes_: np.ndarray
    predict_proba: Callable[[Any], np.ndarray]
    said_of: Callable[[Any, Any], metrics.OfClasses]

    def _nll_of_rows(self, X: Any, y: Any) -> np.ndarray:
        return -metrics.log_probability(*self.said_of(X, y))

    def _known(self, y: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(y, self.classes_))

    def _answers(self, X: Any) -> tuple[list[str], np.ndarray]:
        return [str(label) for label in self.classes_], self.predict_proba(X)

    def tell(self, X: Any, y: Any, said: Any = None) -> dict[str, np.ndarray]:
        """Of every row the truth, the prediction and its probability, the NLL, the parts of the uncertainty in nats,
        and whether it was `missed` surely."""
        said, parts, y = said or self.said_of(X, y), self.uncertainty(X), np.asarray(y)
        top, sure = said.probabilities.argmax(axis=1), said.probabilities.max(axis=1)
        with np.errstate(divide="ignore"):
            nll = -metrics.log_probability(*said)
        about = {"truth": y, "prediction": self.classes_[top], "probability": sure, "nll": nll}
        missed = (top != said.y) & (sure >= SURE[0])
        return about | {"noise": parts.noise, "weights": parts.weights, "depth": parts.depth, "missed": missed}

    def plot_confusion(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """How many rows of each class are taken for each.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        said = self.said_of(X, y)
        return prediction_plots.plot_confusion(axes_or_new(ax), metrics.confusion(*said), self._answers(X)[0])

    def plot_roc(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """Rows of a class that are found against others that are taken for it, for every class against the rest.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        said, names = self.said_of(X, y), list(map(str, self.classes_))
        return prediction_plots.plot_roc(axes_or_new(ax), said.probabilities, said.y, names)


class InspectedNumbers(Inspected):
    """Of numbers."""

    y_mean_: Any
    y_scale_: Any
    predict: Callable[..., Any]
    predict_interval: Callable[[Any, float], np.ndarray]
    log_likelihood: Callable[[Any, Any], np.ndarray]
    said_of: Callable[[Any, Any], metrics.OfNumbers]

    def _nll_of_rows(self, X: Any, y: Any) -> np.ndarray:
        return -self.log_likelihood(X, y)

    def _answers(self, X: Any) -> tuple[list[str], np.ndarray]:
        mean = self.predict(X).reshape(len(X), -1)
        return [f"y{i}" for i in range(mean.shape[1])] if mean.shape[1] > 1 else ["y"], mean

    def tell(self, X: Any, y: Any, said: Any = None) -> dict[str, np.ndarray]:
        """Of every row the truth, the prediction and its standard deviation, the NLL, the parts of the variance, and
        whether it was `missed` surely."""
        self._check_one_target()
        said, parts = said or self.said_of(X, y), self.uncertainty(X)
        mean, std = self.predict(X, return_std=True)
        about = {"truth": np.asarray(y, float), "prediction": mean, "std": std, "nll": -said.log_mixture}
        missed = said.level > SURE[1]
        return about | {"noise": parts.noise, "weights": parts.weights, "depth": parts.depth, "missed": missed}

    def _check_one_target(self) -> None:
        if np.ndim(self.y_mean_) > 0:
            raise InvalidArgumentError(f"must be one number for every row, got {np.size(self.y_mean_)} targets.", "y")

    def plot_predictions(self, X: Any, y: Any, ax: "Axes | None" = None, coverage: float = 0.9) -> "Axes":
        """What is predicted against what is true, with intervals that hold so much.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
            coverage: of the intervals, between 0 and 1.
        """
        self._check_one_target()
        low, high = self.predict_interval(X, coverage).T
        given = np.asarray(y, float), self.predict(X), low, high
        return prediction_plots.plot_predictions(axes_or_new(ax), *given, coverage=coverage)

    def plot_residuals(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """True less predicted values against the predicted ones.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        self._check_one_target()
        return prediction_plots.plot_residuals(axes_or_new(ax), np.asarray(y, float), self.predict(X))

    def plot_coverage(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """The share of rows inside central intervals against their level, on rows that were not trained on.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        levels, said = np.linspace(0.05, 0.95, 19), self.said_of(X, y)
        observed = np.array([inside(said, level).mean() for level in levels])
        return plots.plot_coverage(axes_or_new(ax), levels, observed, len(said.level))


def hardest(told: dict[str, np.ndarray], n: int) -> tuple[np.ndarray, list[str]]:
    """The places of the n most uncertain rows, and then of the n most surprising ones that are not among them, the
    worst first; and why each is there."""
    by = {"uncertain": told["noise"] + told["weights"] + told["depth"], "surprising": told["nll"]}
    why: dict[int, str] = {}
    for name, values in by.items():
        for place in np.argsort(-values, kind="stable")[:n].tolist():
            why[place] = f"{why[place]}, {name}" if place in why else name
    return np.array(list(why), int), list(why.values())
