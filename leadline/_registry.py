"""Parts by their names: Leadline's own, those that a user registers, and those that installed plugins bring."""

import inspect
import re
from collections import UserDict
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, TypeVar, overload

from leadline._checks import InvalidArgumentError, tell

PLUGINS = "leadline.plugins"
"""The group of entry points: each names a module of a package, which registers what it has when it is imported."""

_NAME = re.compile(r"[^\W\d][\w.-]*")

Kind = TypeVar("Kind", bound=type)


class PluginWarning(UserWarning):
    """A plugin could not be imported, and what it would have registered is not there.

    Examples:
        >>> import warnings
        >>> from leadline import PluginWarning
        >>> warnings.simplefilter("error", PluginWarning)  # rather an error than a note
    """


class Registry(UserDict[str, Any]):
    """The classes of one kind by their names. Plugins are imported when it is first looked into, and no sooner.

    Args:
        what: such a class is called in a sentence, and in model files.
    """

    def __init__(self, what: str):
        self.what = what
        super().__init__()

    def own(self) -> list[str]:
        """The names of Leadline's own, for what is written before there can be others."""
        return [name for name, kind in self.data.items() if is_own(kind)]

    def __getitem__(self, name: str) -> Any:
        load_plugins()
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        load_plugins()
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(self.data)

    def __len__(self) -> int:
        load_plugins()
        return len(self.data)


def is_own(kind: type) -> bool:
    """Whether a class is Leadline's own: tested as a whole, and of the version that files and checkpoints name."""
    return kind.__module__.partition(".")[0] == "leadline"


@overload
def register(cls: Kind, *, name: str | None = None) -> Kind: ...
@overload
def register(cls: None = None, *, name: str | None = None) -> Callable[[Kind], Kind]: ...
def register(cls: Any = None, *, name: str | None = None) -> Any:
    """Make a depth family, a likelihood or a block of one's own known by a name.

    Then it is what `depth=`, `likelihood=` (of what derives from a Gaussian's: `noise=`) or `block=` can be, for
    estimators, `Settings` and, where a plugin registers it, the command line; and model files hold it: they name it,
    and are read where a class is registered by that name.

    Args:
        cls: a subclass of `DepthDistribution`, `Likelihood` or `Block`. Without it, `register` is a decorator.
        name: what it shall be called; by default the class says so itself, with `name` in its body. A class that is
            defined again, as a cell of a notebook is run again, takes the place of the one before.

    Returns:
        The class.

    Examples:
        >>> import leadline
        >>> @leadline.register(name="halves")
        ... class Halves(leadline.GaussianLikelihood):
        ...     "Half a Gaussian."
        >>> leadline.DepthRegressor(noise="halves").noise
        'halves'
    """
    if cls is None:
        return lambda cls: register(cls, name=name)
    registry = getattr(cls, "registry", None)
    if not isinstance(cls, type) or not isinstance(registry, Registry):
        raise InvalidArgumentError(f"must be a subclass of DepthDistribution, Likelihood or Block, got {cls!r}.", "cls")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        raise InvalidArgumentError(f"must be a whole {registry.what}, and {cls.__name__} lacks {missing}.", "cls")
    name = vars(cls).get("name") if name is None else name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        must = "must be a word of letters, digits, dots, dashes and underscores that begins with a letter"
        raise InvalidArgumentError(f"{must}, got {name!r} for {cls.__name__}.", "name")
    taken, known = registry.data.get(name), [one for one, kind in registry.data.items() if kind is cls and one != name]
    if known:
        raise InvalidArgumentError(f"must be one alone; {cls.__name__} is registered as {known[0]!r} already.", "name")
    if taken is not None and _place(taken) != _place(cls):
        raise InvalidArgumentError(
            f"must be free, and {name!r} is the {registry.what} {'.'.join(_place(taken))} already.", "name"
        )
    if vars(cls).get("name") != name:
        cls.name = name
    registry.data[name] = cls
    return cls


def _place(kind: type) -> tuple[str, str]:
    """Where a class is defined."""
    return kind.__module__, kind.__qualname__


_lock, _loaded = RLock(), False


def load_plugins() -> None:
    """Import what installed packages have in the group `leadline.plugins`, once in a process."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True  # a plugin that looks into a registry while it is imported does not wait for itself
        for point in entry_points(group=PLUGINS):
            try:
                point.load()
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}".rstrip(".: ")
                said = f"the plugin {point.name} ({point.value}) cannot be imported, and what it registers is missing"
                tell(f"{said}: {why}.", PluginWarning)
