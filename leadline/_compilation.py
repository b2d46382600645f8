"""How programs are compiled."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

P = ParamSpec("P")
T = TypeVar("T")


def jit_lightly(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`eqx.filter_jit` for what runs briefly: half to two thirds of the compile time, for slower code."""
    return eqx.filter_jit(function, compiler_options={"xla_backend_optimization_level": 1}, **options)  # pyright: ignore[reportCallIssue]
