"""Which settings to try: all combinations of some lists, or some that are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_entries, check_integer, check_number
from leadline.training.settings import Settings, options


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, of which some are drawn: evenly, or with `log` evenly in their logarithms."""

    low: float
    high: float
    log: bool = False

    def draw(self, rng: np.random.Generator) -> float | int:
        """One of them: a whole number where both ends are."""
        if isinstance(self.low, int) and isinstance(self.high, int) and not self.log:
            return int(rng.integers(self.low, self.high, endpoint=True))
        low, high = (math.log(one) if self.log else one for one in (self.low, self.high))
        drawn = float(rng.uniform(low, high))
        drawn = float(f"{math.exp(drawn) if self.log else drawn:.4g}")  # as it can be said again
        return round(drawn) if isinstance(self.low, int) and isinstance(self.high, int) else drawn


Choices = Mapping[str, Sequence[Any] | Range]
"""Of every setting by its name."""


def choices_of(said: Mapping[str, Any]) -> Choices:
    """What a plan says of settings by their names on the command line: a value, a list, or a range as a table with
    `low`, `high` and perhaps `log`."""
    known, read = options("command line"), {}
    for name, value in said.items():
        if name not in known or name == "seed":
            names = ", ".join(one for one in known if one != "seed")
            raise InvalidArgumentError(f"`settings` must be of {names}, got {name!r}.")
        if isinstance(value, Mapping):
            value = _range(name, value)
        elif not isinstance(value, list | tuple):
            value = (value,)
        if not isinstance(value, Range):
            check_entries(name, tuple(value))
        read[known[name].name] = value
    return read


def _range(name: str, said: Mapping[str, Any]) -> Range:
    if not {"low", "high"} <= said.keys() <= {"low", "high", "log"}:
        raise InvalidArgumentError(f"must have `low`, `high` and perhaps `log`, got {', '.join(said)}.", name)
    for end in ("low", "high"):
        check_number(name, said[end])
    least = 0 if said.get("log") else -math.inf
    if not least < said["low"] < said["high"]:
        above = ", and both above 0" if said.get("log") else ""
        raise InvalidArgumentError(f"must have `low` below `high`{above}, got {said['low']} and {said['high']}.", name)
    return Range(said["low"], said["high"], bool(said.get("log")))


def every(choices: Choices, base: Settings | None = None) -> list[Settings]:
    """All combinations.

    Args:
        choices: of the settings.
        base: has all others.
    """
    for name, one in choices.items():
        if isinstance(one, Range):
            raise InvalidArgumentError("must be a list where nothing is drawn; give `random` for a range.", name)
    lists: Any = choices.values()
    return [_made(base, choices, values) for values in product(*lists)]


def some(choices: Choices, n: int, seed: int, base: Settings | None = None) -> list[Settings]:
    """So many combinations, no two alike; all of them where there are no more.

    Args:
        choices: of the settings.
        n: how many.
        seed: of the draws.
        base: has all others.
    """
    check_integer("random", n, 1)
    lists = [one for one in choices.values() if not isinstance(one, Range)]
    if len(lists) == len(choices) and math.prod(map(len, lists)) <= n:
        return every(choices, base)
    rng, drawn = np.random.default_rng(seed), dict[tuple[Any, ...], None]()
    for _ in range(100 * n):  # ranges of whole numbers may have fewer
        each = (
            one.draw(rng) if isinstance(one, Range) else one[int(rng.integers(len(one)))] for one in choices.values()
        )
        drawn[tuple(each)] = None
        if len(drawn) == n:
            break
    return [_made(base, choices, values) for values in drawn]


def _made(base: Settings | None, choices: Choices, values: Sequence[Any]) -> Settings:
    return replace(base or Settings(), **dict(zip(choices, values, strict=True)))
