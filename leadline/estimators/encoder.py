"""Raw tables become numbers, for our estimators and for all others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from leadline._checks import InvalidArgumentError, check_choice, tell
from leadline._foreign import shown, some
from leadline.files.columns import Encoding
from leadline.files.learning import NAMELESS, Trouble, in_one_sentence, learn_decimal, learn_encoding
from leadline.files.values import Reading

if TYPE_CHECKING:
    import pandas


class TableEncoder(TransformerMixin, BaseEstimator):
    """A raw table becomes numbers: those it has, dates, categories, and what is missing.

    Numbers, truth values (as 0 and 1) and text that reads as numbers throughout, in one and the same unit if any ($5, 5
    kg, 5 %), are numbers. Dates are days since 1970, with a sine and a cosine of the time of the year, of the week and
    of the day, as far as these differ. Other text is a category, with a column of 0 and 1 for each level, and so are
    codes that begin with zeros. Missing values become the median, or a level of their own. Ids, free text, and columns
    with a single value are left out, with a warning.

    `DepthClassifier` and `DepthRegressor` have one inside when they are given a frame; on its own it serves any other
    estimator, in a pipeline.

    Parameters
    ----------
    category : names of columns to take for categories, whatever they look like (such as zip codes without zeros).
    number : names of columns to take for numbers (such as a numeric id that means something).
    ignore : names of columns to leave out.
    na : text or numbers that mean that a value is missing, beside the usual ones, such as "unknown" or -999.
    decimal : what begins the fraction of numbers that stand there as text, "." or ","; None: what the columns show.
    impute : whether missing values are filled in; otherwise they are refused.

    Attributes
    ----------
    encoding_ : its `columns`, with their levels and what replaces a missing value.
    left_out_ : why each other column is.
    names_ : all columns in their order.
    n_features_in_ : how many there are.
    feature_names_in_ : the same names, where a frame had them.

    Examples
    --------
    >>> import pandas as pd
    >>> from leadline import TableEncoder
    >>> table = pd.DataFrame({"size": [2.0, None, 4.0, 8.0], "colour": ["red", "red", "blue", "blue"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'colour=blue', 'colour=red']
    >>> encoder.transform(table)[1]
    array([4., 0., 1.])
    """

    def __init__(
        self,
        *,
        category: Sequence[str] = (),
        number: Sequence[str] = (),
        ignore: Sequence[str] = (),
        na: Sequence[Any] = (),
        decimal: str | None = None,
        impute: bool = True,
    ):
        self.category, self.number, self.ignore = category, number, ignore
        self.na, self.decimal, self.impute = na, decimal, impute

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Learn what the columns are.

        Args:
            X: a frame of pandas or polars; or an array, whose columns are then x0, x1, ...
            y: not looked at.

        Returns:
            Itself, fitted.
        """
        said = {name: _names(name, getattr(self, name)) for name in ("category", "number", "ignore")}
        na = tuple(map(_as_text, [self.na] if isinstance(self.na, str) else self.na))
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
        frame = frame_of(X if is_frame(X) else self._array(X, reset=True))
        _check_enough(frame)
        if is_frame(X):
            learn_names(self, X, frame)
        decimal: Any = self.decimal or learn_decimal(frame, {*said["ignore"], *said["category"]})
        reading = Reading("." if isinstance(decimal, Trouble) else decimal, na)
        encoding, troubles, notes = learn_encoding(frame, reading, **said, impute=self.impute)
        troubles = [decimal, *troubles] if isinstance(decimal, Trouble) else troubles
        if troubles:
            raise InvalidArgumentError(in_one_sentence(troubles, _spelled))
        unasked = [f"`{shown(name)}` ({why})" for name, why in encoding.ignored.items() if why != "as asked"]
        if not encoding.columns:
            why = some(unasked) or "all are to be left out"
            raise InvalidArgumentError(f"must have a column to learn from, got none: {why}.", "X")
        if unasked:
            notes.append(f"columns that say nothing are left out: {', '.join(unasked)}.")
        for note in notes:
            tell(note)
        self.encoding_, self.names_ = encoding, tuple(frame.columns)
        return self

    @property
    def left_out_(self) -> dict[str, str]:
        """Why columns are."""
        check_is_fitted(self)
        return self.encoding_.ignored

    def transform(self, X: Any) -> np.ndarray:
        """The numbers of such rows, whose columns may come in any order, with others between them.

        Args:
            X: a frame with the columns that were there in `fit`, but for those left out; or an array with all of them.

        Returns:
            Float64 [rows, features].
        """
        check_is_fitted(self)
        frame = frame_of(X) if is_frame(X) else frame_of(self._array(X, reset=False), self.names_)
        if len(frame) == 0:
            raise InvalidArgumentError("must have at least one row, got none.", "X")
        x, notes = self.encoding_.encode(frame)
        for note in notes:
            tell(note)
        return x

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the numbers: `colour=red`, `when time of year sin`.

        Args:
            input_features: the names of the columns, if they are to be checked.
        """
        check_is_fitted(self)
        if input_features is not None and tuple(input_features) != self.names_:
            raise InvalidArgumentError(f"must be the names of the columns, {some(self.names_)}.", "input_features")
        return np.array(self.encoding_.features(), object)

    def options(self) -> dict[str, Any] | None:
        """Those that are not as usual; None of one that has learned already, which needs no more."""
        usual = TableEncoder().get_params()
        own = {name: value for name, value in self.get_params().items() if value != usual[name]}
        return None if hasattr(self, "encoding_") else own

    @staticmethod
    def of(encoding: Encoding, names: Sequence[str]) -> "TableEncoder":
        """One that has learned this of a frame with such columns.

        Args:
            encoding: what it has learned.
            names: of all columns of the frame, in their order.
        """
        encoder: Any = TableEncoder()
        encoder.encoding_, encoder.names_ = encoding, tuple(names)
        encoder.feature_names_in_, encoder.n_features_in_ = np.array(encoder.names_, object), len(encoder.names_)
        return encoder

    def to_json(self) -> dict[str, Any]:
        """What it has learned."""
        return {**self.encoding_.to_json(), "names": list(self.names_)}

    @staticmethod
    def from_json(content: Any) -> "TableEncoder":
        """What `to_json` said, checked.

        Args:
            content: of such a file.
        """
        given = dict(content)
        names = given.pop("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("the names of its columns are no text")
        if len(set(names)) < len(names):
            raise ValueError("two of its columns have one name")
        encoding = Encoding.from_json(given)
        if lack := {column.name for column in encoding.columns} - {*names}:
            raise ValueError(f"its table has no column {some(lack)}")
        return TableEncoder.of(encoding, names)

    def _array(self, X: Any, reset: bool) -> Any:
        """An array of anything, as a table of objects or of numbers."""
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)


def is_frame(X: Any) -> bool:
    """Whether the columns have names: a frame of pandas or polars, or of another library that interchanges them."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "__dataframe__") or hasattr(X, "get_columns"))


def frame_of(X: Any, names: Sequence[str] | None = None) -> "pandas.DataFrame":
    """A frame of pandas, whose columns are called by text, each once."""
    import pandas as pd

    if isinstance(X, np.ndarray):
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])] if names is None else list(names))
    elif hasattr(X, "get_columns"):  # polars
        frame = pd.DataFrame({column.name: _of_polars(column) for column in X.get_columns()})
    elif isinstance(X, pd.DataFrame):
        frame = X
    else:
        frame = pd.api.interchange.from_dataframe(X)
    called = [str(name).strip() or f"{NAMELESS}{i}" for i, name in enumerate(frame.columns)]
    twice = sorted({name for name in called if called.count(name) > 1}) if len(set(called)) < len(called) else []
    if twice:
        raise InvalidArgumentError(f"must name each column once, got {some(twice)} repeatedly; rename them.", "X")
    return frame.set_axis(called, axis=1)


def _of_polars(column: Any) -> Any:
    """A column that pandas understands, without pyarrow."""
    import pandas as pd

    kind = str(column.dtype)
    if kind.startswith(("Date", "Datetime")):
        return pd.Series(column.to_numpy().astype("datetime64[us]"))
    if kind.startswith(("Categorical", "Enum")):
        return pd.Series(column.to_list(), dtype="category")
    return pd.Series(column.to_numpy().astype(float) if column.dtype.is_float() else column.to_list())


def learn_names(estimator: Any, X: Any, frame: "pandas.DataFrame") -> None:
    """What scikit-learn keeps of the columns of X, which are those of `frame`."""
    _check_enough(frame)
    named = all(isinstance(name, str) for name in X.columns)
    columns: Any = frame if named else X
    validate_data(estimator, columns, skip_check_array=True)


def _check_enough(frame: "pandas.DataFrame") -> None:
    if len(frame) < 2 or len(frame.columns) == 0:
        got = f"got n_samples={len(frame)} and {len(frame.columns)} columns"
        raise InvalidArgumentError(f"must have at least two rows and a column, {got}.", "X")


def _names(option: str, names: Any) -> tuple[str, ...]:
    """Of columns."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"must be a list of names of columns, got {names!r}.", option)
    return tuple(names)


def _as_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _spelled(option: str, values: list[str]) -> str:
    """As in Python."""
    if option == "impute":
        return "TableEncoder(impute=True)"
    return f"TableEncoder({option}={values[0]!r})" if option == "decimal" else f"TableEncoder({option}={values!r})"
