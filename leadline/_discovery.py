"""A folder of parts: whoever adds a file to it adds a part."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules


def import_all(package: str, path: Sequence[str]) -> None:
    """Import every module of a package, so that what they define is known by name."""
    for name in sorted(module.name for module in iter_modules(list(path))):
        import_module(f"{package}.{name}")
