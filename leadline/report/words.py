"""Numbers and depths in words."""

from typing import Any

import numpy as np

from leadline.files.records import Record


def depth_in_words(record: Record) -> str:
    """What q(L) says, for a reader who does not know that L = 0 has one layer of hidden units already."""
    pmf, mode = np.array(record.depth_pmf), int(record.depth_mode)
    subject, be = f"{count(mode)} hidden {'layer' if mode == 1 else 'layers'} beyond the first", "are"
    if mode <= 1:
        subject, be = subject if mode else "the first hidden layer alone", "is"
    if not is_learned(record):
        return f"The depth was fixed beforehand: {subject}."
    subject = subject[0].upper() + subject[1:]
    others = [int(k) for k in np.flatnonzero(pmf >= 0.005) if k != mode]
    if not others:
        return f"{subject} {be} all but certain ({percent(pmf[mode])})."
    verdict = f"{be} most probable ({percent(pmf[mode])})"
    if pmf[mode] < 0.5:
        verdict = f"{be} the likeliest ({percent(pmf[mode])}), without a majority"
    together = percent(pmf[others].sum()) + (" together" if len(others) > 1 else "")
    return f"{subject} {verdict}; {_possible(others, mode)} possible ({together})."


def restarts_in_words(record: Record) -> str:
    """Whom the rows held out believe, and how much surer or softer the answer was made; nothing where none were."""
    shares, temperatures = record.restart_shares or [], record.restart_temperatures or []
    if len(shares) != len(temperatures):
        return ""
    of_each: dict[float, float] = {}
    for temperature, share in sorted(zip(temperatures, shares, strict=True), reverse=True):
        of_each[temperature] = of_each.get(temperature, 0.0) + share
    said = []
    if len(of_each) > 1:
        *rest, last = (f"{percent(share)} from those at temperature {t:g}" for t, share in of_each.items())
        said.append(
            "Rows that a network was not trained on said how much to believe each: of an answer, "
            f"{', '.join(rest)} and {last} (the warmer, the closer to the prior)."
        )
    spread = record.spread or 1.0
    if abs(spread - 1) >= 0.005:
        by = f"{100 * abs(spread - 1):.0f} %"
        of_classes = f"{'softened' if spread > 1 else 'sharpened'}: logits divided by {spread:.2f}"
        of_numbers = f"{'widened' if spread > 1 else 'narrowed'} by {by}"
        by_which = "the same rows" if shares else "the validation part"
        how = of_classes if record.classes or "accuracy" in record.measures else of_numbers
        said.append(f"The answers together were {how}, by {by_which}.")
    return " ".join(said)


def is_learned(record: Record) -> bool:
    """Whether the depth was, or was given."""
    return not isinstance(record.depth, int)


def _possible(others: list[int], mode: int) -> str:
    low, high = min(*others, mode), max(*others, mode)
    if len(others) > 2 and len(others) == high - low:
        return f"anything from {count(low)} to {count(high)} is"
    *rest, last = map(count, others)
    words = f"{', '.join(rest)} or {last}" if rest else last
    return f"{words}{' more' if mode == 0 else ''} {'is' if others in ([0], [1]) else 'are'}"


def count(n: int) -> str:
    """A small number in letters."""
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return words[n] if n < len(words) else str(n)


def percent(share: float) -> str:
    """A share of 1, in whole percents that never say none or all where it is not so."""
    if 0.995 <= share < 1:
        return "more than 99 %"
    return "less than 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def capital(text: str) -> str:
    """As it begins a line."""
    return text[:1].upper() + text[1:]


def plural(n: int, noun: str) -> str:
    """So many of a thing."""
    return f"{n:,} {noun}" if n != 1 else f"one {noun.removesuffix('s')}"


def duration(seconds: float) -> str:
    """In the units that one would say."""
    if seconds < 0.05:
        return "less than 0.1 seconds"
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def range_of_widths(by_restart: list[list[int]]) -> list[list[int]]:
    """The units in use of every layer, restart by restart; one that is less deep does not count."""
    deepest = max(map(len, by_restart))
    return [[widths[layer] for widths in by_restart if layer < len(widths)] for layer in range(deepest)]


def from_to(numbers: list[int], words: str) -> str:
    """One number, or the least and the most."""
    return str(numbers[0]) if min(numbers) == max(numbers) else f"{min(numbers)}{words}{max(numbers)}"


PARTS = {"noise": "noise", "weights": "that of the weights", "depth": "that of the depth"}
"""Of the uncertainty."""


def value(thing: Any) -> str:
    """A class, or a number in a few digits."""
    return f"{thing:,.4g}" if isinstance(thing, float) else str(thing)


def shares_of_uncertainty(record: Record) -> dict[str, float]:
    """Of the parts, on average over the test rows; the largest first."""
    given = record.uncertainty or {}
    parts = {name: float(np.nanmean(np.array(given[name], float))) for name in ("noise", "weights", "depth")}
    total = sum(parts.values()) or 1.0
    return {name: part / total for name, part in sorted(parts.items(), key=lambda item: -item[1])}


def shares_of_row(row: dict[str, Any]) -> dict[str, float]:
    """Of the parts of one row's uncertainty."""
    parts = {name: float(row[name] or 0.0) for name in ("noise", "weights", "depth")}
    total = sum(parts.values()) or 1.0
    return {name: part / total for name, part in parts.items()}


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Its lines."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
