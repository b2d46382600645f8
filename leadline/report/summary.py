"""A record in a few lines of text."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from leadline.files.records import Record
from leadline.metrics import MEASURES
from leadline.report.words import from_to, plural, range_of_widths, restarts_in_words

BAR = 30


def summarise(record: Record) -> list[str]:
    """Lines: the measures with their standard errors, free energy, q(L) as a bar per depth, seconds."""
    lines = summarise_measures(record.measures, record.to_json())
    if lines and record.n_test:
        were = "was" if record.n_test == 1 else "were"
        lines.append(entry("", f"on {plural(record.n_test, 'rows')} that {were} not used for training"))
    return lines + _learned(record)


def summarise_measures(measures: Mapping[str, float], about: Mapping[str, Any]) -> list[str]:
    """A line for each, with its standard error and beside what a simpler answer would give, as far as these are known
    of the rows."""
    lines, errors = [], about.get("errors") or {}
    for name, value in measures.items():
        measure = MEASURES[name]
        guess = measure.guess(about)
        against = f" ({guess[1]}: {measure.show(guess[0])})" if guess else ""
        scatter = f" ± {measure.show_error(errors[name])}" if name in errors else ""
        lines.append(entry(f"test {measure.label}", f"{measure.show(value)}{scatter}{against}"))
    return lines


def entry(name: str, text: str) -> str:
    """What is said, and of what, as in a table."""
    return f"{name:21s} {text}"


def _learned(record: Record) -> list[str]:
    lines = []
    if terms := record.free_energy_terms:
        parts = f"{terms['expected_nll']:.1f} expected NLL + {terms['depth_kl']:.2f} depth KL + "
        total = f"{record.free_energy:.1f} nats on the training data: {parts}{terms['weight_kl']:.1f} weight KL"
        lines.append(entry("free energy", total))
    lines.append(entry("depth", f"{record.depth_mean:.2f} ± {record.depth_std:.2f}"))
    lowest, highest = record.depth_support
    for depth in range(lowest, highest + 1):
        mass = record.depth_pmf[depth]
        lines.append(f"  L = {depth:<3d} {mass:6.3f}  {'█' * round(BAR * mass)}")
    tried = ", ".join(f"{t}: {nll:.4f}" for t, nll in (record.validation_nll or {}).items())
    chosen = f" (lowest validation NLL of {tried})" if tried else ""
    lines.append(entry("temperature", f"{record.temperature:.3g}{chosen}"))
    if said := restarts_in_words(record):
        lines += [entry("restarts" if i == 0 else "", part) for i, part in enumerate(wrap(said, 100))]
    if record.effective_width:
        widths = ", ".join(from_to(layer, "-") for layer in range_of_widths(record.effective_width))
        lines.append(entry("units in use", f"{widths} of {record.width} per layer, from the input on"))
    restarts = f"{record.n_restarts} restarts of " if record.n_restarts > 1 else ""
    seconds = f"{record.seconds:.1f}" if record.seconds >= 1 else f"{record.seconds:.2g}"
    lines.append(entry("seconds", f"{seconds} ({restarts}{record.epochs} epochs, {record.device})"))
    if record.interrupted:
        lines.append(f"stopped by Ctrl-C after {record.epochs} epochs")
    return lines
