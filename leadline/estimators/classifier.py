"""The network as scikit-learn's classifier."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from leadline import metrics, plots
from leadline._checks import InvalidArgumentError, check_weights, tell
from leadline.estimators.base import estimator
from leadline.estimators.inspection import InspectedClasses
from leadline.judged import OF_CLASSES
from leadline.likelihoods import CategoricalLikelihood, Likelihood, get_likelihood
from leadline.plots import axes_or_new
from leadline.training.problem import Problem
from leadline.training.trained import Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@estimator
class DepthClassifier(ClassifierMixin, InspectedClasses):
    """A Bayesian neural network that learns its own depth, for classes.

    Parameters
    ----------
    likelihood : "categorical"; "ordinal": the classes are in order, that of an ordered pandas categorical, else their
        sorted one, and the network learns one number per row and thresholds between the classes (cumulative logits);
        or the name of another likelihood of classes.
    class_weight : None; a dict from class to weight: a row of a class counts as so many; or "balanced": all classes
        together count alike. The probabilities are then those of rows that are weighted so.
    {inherited}

    Attributes
    ----------
    classes_ : in the order of the columns of `predict_proba`.
    depth_pmf_ : q(L), the mixture over the restarts, for L = 0, 1, ...
    depth_mean_ : E[L] under it.
    depth_std_ : its standard deviation.
    depth_mode_ : its most probable depth.
    depth_support_ : the lowest and the highest depth with mass.
    free_energy_ : nats, all training rows, at temperature 1.
    free_energy_terms_ : its terms, by name.
    history_ : arrays [epochs, restarts] by name; `history_.to_frame()` is a table.
    n_iter_ : the epochs done.
    interrupted_ : whether the training was ended before its time, by a callback or in the command line.
    fit_seconds_ : not in a model file.
    n_features_in_ : columns of what it was fitted to; of images the numbers of one.
    image_shape_ : height, width and channels of the images that it was fitted to; None of a table.
    feature_names_in_ : their names, where they have any.
    encoder_ : what turns frames into numbers; None where it was fitted to an array.
    validation_nll_ : for every temperature tried, where one was chosen.
    restart_shares_ : of each restart in a prediction, as the rows held out say; equal ones where there were none.
    restart_temperatures_ : what each restart was trained at; by these shares, the mean is `temperature_`.
    spread_ : of all restarts together, as these rows say: the probabilities are softened to p^(1 / spread).
    held_out_nll_ : nats per row that was held out, as calibrated; None where there were none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from leadline import DepthClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = DepthClassifier(width=8, n_restarts=2, max_iter=200, random_state=0).fit(X, y)  # small, to be quick
    >>> clf.score(X, y) > 0.9
    True
    >>> clf.predict_proba(X).shape
    (150, 3)
    >>> round(float(clf.depth_pmf_.sum()), 3)  # q(L) is a distribution over the depths
    1.0
    """

    likelihood: Any = CategoricalLikelihood.name
    class_weight: Any = None

    @property
    def _likelihood(self) -> type[Likelihood]:
        return get_likelihood("classes", self.likelihood)

    def problem(self, X: Any, y: Any, sample_weight: Any = None) -> Problem:
        """What `fit` learns from such rows, which are checked."""
        kind, given = cast("Any", self._likelihood), y
        x, y, weight = self._checked_rows(X, y, sample_weight)
        labels = y.tolist() if y.dtype == object else []
        kinds = {"str" if isinstance(label, str) else type(label).__name__ for label in labels}
        if "str" in kinds and len(kinds) > 1:
            raise InvalidArgumentError(f"must hold labels of one type, got {', '.join(sorted(kinds))}.", "y")
        check_classification_targets(y)
        y = np.array(labels) if labels else y  # of NumPy's own types, as a model file has them
        classes = np.unique(y)
        if kind.judged == "ranks":
            classes = _in_order(given, classes)
        labels = _labels(y, classes)
        if len(classes) < 2:
            raise InvalidArgumentError(f"must hold at least two classes, got one class: {classes.tolist()}.", "y")
        if self.warm_start and hasattr(self, "classes_") and not np.array_equal(classes, self.classes_):
            raise InvalidArgumentError(
                f"must have the classes of the last fit for a warm start, {self.classes_.tolist()}, "
                f"got {classes.tolist()}.",
                "y",
            )
        by_class = compute_class_weight(self.class_weight, classes=classes, y=y, sample_weight=weight)
        likelihood, weight = kind(len(classes)), weight * by_class[labels]
        check_weights("class_weight", weight)
        return self._problem(x, labels, weight, likelihood, classes=classes)

    def _take(self, problem: Problem, trained: Trained) -> None:
        super()._take(problem, trained)
        self.classes_ = problem.about["classes"]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes (eq. 10), the mean over restarts, weight samples and depths.

        Args:
            X: rows.

        Returns:
            [rows, classes], in the order of `classes_`.
        """
        probabilities = self._said(lambda x: self._restarts.moments(x).astype(float), X)
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`.

        Args:
            X: rows.

        Returns:
            [rows, classes].
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row.

        Args:
            X: rows.

        Returns:
            Of every row its class, as `fit` was given it.
        """
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def training_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the network itself takes them: standardised inputs, and classes by number."""
        return self._checked(X), self._labels(y)

    def _targets(self, problem: Problem, y: Any) -> np.ndarray:
        return _labels(y, problem.about["classes"])

    def _labels(self, y: Any) -> np.ndarray:
        return _labels(y, self.classes_)

    def said_of(self, X: Any, y: Any) -> metrics.OfClasses:
        """What is said of rows, for the measures (`leadline.metrics`); those of a class that it was not trained on
        count as wrong.

        Args:
            X: rows that were not trained on.
            y: their targets.
        """
        probabilities, y = self.predict_proba(X), np.asarray(y)
        known = np.isin(y, self.classes_)
        if not known.all():
            got = f"{np.sum(~known)} of {len(y)} rows are of classes that were not trained on"
            such = f"such as {y[~known].tolist()[0]!r}"
            tell(f"{got}, {such}: they count as wrong, and the NLL is infinite.")
        places = np.full(len(y), metrics.UNKNOWN)
        places[known] = _labels(y[known], self.classes_)
        return OF_CLASSES[self.model_.likelihood.judged](probabilities, places)

    def plot_reliability(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """Accuracy against confidence on rows that were not trained on.

        Args:
            X: rows that were not trained on.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        return plots.plot_reliability(axes_or_new(ax), *metrics.reliability(self.predict_proba(X), self._labels(y)))

    def plot_decision(self, X: Any, y: Any, ax: "Axes | None" = None) -> "Axes":
        """The rows over what the network makes of their plane; X must have two columns.

        Args:
            X: rows.
            y: their targets.
            ax: to draw in; new ones unless given.
        """
        x = self._raw(X)
        if x.shape[1] != 2:
            raise InvalidArgumentError(f"must have two columns to draw its plane, got {x.shape[1]}.", "X")
        grid, extent = plots.decision_grid(x)
        probabilities = self._restarts.moments(self._units.inputs(grid))
        first, second = map(str, getattr(self, "feature_names_in_", ("x1", "x2")))
        words = {"classes": [str(name) for name in self.classes_], "names": (first, second)}
        return plots.plot_decision(axes_or_new(ax), probabilities, extent, x, self._labels(y), **words)


def _labels(y: Any, classes: np.ndarray) -> np.ndarray:
    """The numbers of the classes."""
    y = np.asarray(y)
    unknown = y[~np.isin(y, classes)]
    if len(unknown):
        raise InvalidArgumentError(f"must hold the classes {classes.tolist()}, got {unknown.tolist()[0]!r}.", "y")
    order = np.argsort(classes, kind="stable")
    return order[np.searchsorted(classes, y, sorter=order)]


def _in_order(y: Any, classes: np.ndarray) -> np.ndarray:
    """The classes that there are in the order that they are meant to have: that of an ordered pandas categorical, or
    sorted."""
    kind: Any = getattr(y, "dtype", None)
    if getattr(kind, "ordered", False):
        return np.array([one for one in np.asarray(kind.categories) if one in classes], classes.dtype)
    if classes.dtype.kind in "UO" and len(classes) > 2:
        order, way_out = " < ".join(map(str, classes)), "for another, give an ordered pandas categorical"
        tell(f"`y` has classes of text, which are taken to be in the order of the alphabet, {order}; {way_out}.")
    return classes
