"""One training that is followed: what it writes while it runs, and what stays of it."""

import json
import time
from contextlib import suppress
from typing import Any

from leadline._checks import WRONG
from leadline._foreign import shown
from leadline.files.checkpoints import ARGUMENTS
from leadline.files.directories import CHECKPOINTS, MODEL, RECORD
from leadline.files.lines import METRICS
from leadline.files.records import Record
from leadline.metrics import MEASURES
from leadline.report.words import depth_in_words
from leadline.server.curves import Curves
from leadline.server.places import Place
from leadline.server.tails import Tail
from leadline.training.settings import options

SILENT = 15.0
"""Seconds without a line after which a training of which nothing else is known counts as ended."""

PICTURE = "spiral.png"

SETTINGS = ("name", "omega", "split", "recipe", "depth", "width", "temperature", "n_restarts", "seed")
"""By which one tells runs apart."""

LEARNED = ("depth_mean", "depth_std", "free_energy", "validation_nll", "epochs", "seconds")
"""What one compares beside the measures."""


class Run:
    """A directory with a record, or with lines of a training that has none yet."""

    def __init__(self, place: Place, name: str):
        self._place, self.name = place, name
        self.curves = Curves()
        self.version = 0
        """Grows when anything is new."""
        self.is_wanted = False
        """Whether somebody looks at it."""
        self.status = ""
        self.record: Record | None = None
        self.arguments: dict[str, Any] = {}
        self.checkpoint: str | None = None
        """The newest, as a name in the directory that is watched."""
        self._tail = Tail(lambda: place.open(self.file(METRICS)))
        self._seen: dict[str, Any] = {}

    def file(self, name: str) -> str:
        """A file of the run, by its name in the directory that is watched."""
        return f"{self.name}/{name}" if self.name else name

    def look(self, closely: bool) -> bool:
        """Read what is new; whether there is anything. Only a close look asks for more than the lines, and the lines of
        what is finished are read when somebody wants to see them."""
        before = self.version
        if closely:
            self._look_closely()
        if self.is_wanted or self.is_running or self.record is None:
            with suppress(OSError):
                void, lines = self._tail.new(self._place.changed(self.file(METRICS)))
                if void:
                    self.curves.forget()
                self.curves.add(lines)
                self.version += bool(void or lines)
        return self.version != before

    def _look_closely(self) -> None:
        if self._is_new(RECORD):
            self.record = self._read_record()
            lines = self._place.changed(self.file(METRICS))
            if self.record is not None and self.record.history and lines is None:
                with suppress(*WRONG):
                    self.curves.add_history(self.record.history, self.record.epochs)
        if self._is_new(f"{CHECKPOINTS}/{ARGUMENTS}"):
            self.arguments = self._read_arguments() or self.arguments
        for name in (PICTURE, MODEL):
            self._is_new(name)
        own = self._place.checkpoints(self.name).get(self.file(CHECKPOINTS))
        newest = own[-1] if own else None
        if newest != self.checkpoint:
            self.checkpoint, self.version = newest, self.version + 1
        status = self._find_status()
        if status != self.status:
            self.status, self.version = status, self.version + 1

    def _is_new(self, name: str) -> bool:
        now = self._place.changed(self.file(name))
        if now == self._seen.get(name):
            return False
        self._seen[name] = now
        self.version += 1
        return True

    def stamp(self, name: str) -> str | None:
        """What tells a file of the run from the one that stood there before, if there is one."""
        seen = self._seen.get(name)
        return None if seen is None else "-".join(map(str, seen))

    def _read_record(self) -> Record | None:
        with suppress(*WRONG):
            record = Record.from_json(_json(self._place.read(self.file(RECORD))))
            return record if _is_sound(record) else None
        return None

    def _read_arguments(self) -> dict[str, Any]:
        with suppress(*WRONG):
            said = _json(self._place.read(self.file(f"{CHECKPOINTS}/{ARGUMENTS}")))
            names = {flag.replace("_", "-"): one.name for flag, one in options("command line").items()}
            return {names.get(name, name): value for name, value in said.items()} if isinstance(said, dict) else {}
        return {}

    def _find_status(self) -> str:
        """Trains it, or did it end, and how."""
        if self._place.writer(self.name):
            return "running"
        record, lines = self._seen.get(RECORD), self._place.changed(self.file(METRICS))
        if self.record is not None and record and (lines is None or record[2] >= lines[2]):
            return "interrupted" if self.record.interrupted else "finished"
        if lines is None:
            return "finished" if self.record is not None else "stopped"
        return "running" if abs(time.time() - lines[2] / 1e9) < SILENT else "stopped"

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def result(self) -> Record | None:
        """The record, unless it is of a training before the one that runs."""
        return None if self.is_running else self.record

    def title(self) -> str:
        """As the report has it."""
        said = self.result.to_json() if self.result else self.arguments
        if said.get("omega") is not None:
            return shown(f"Spiral, omega = {said['omega']:g}" if _is_number(said["omega"]) else "Spiral")
        named = [shown(said[name]) for name in ("name", "target") if said.get(name) is not None]
        return ": ".join(named) or shown(self.name or self._place.folder.resolve().name)

    def now(self) -> dict[str, Any]:
        """What changes while it trains, but for the curves."""
        curves, last = self.curves, self.curves.last
        return {
            "run": self.name,
            "title": self.title(),
            "status": self.status,
            "last": last,
            "epochs": curves.epochs if self.result is None else self.result.epochs,
            "phase": curves.restarts[0]["phase"] if curves.restarts else None,
            "left": curves.seconds_left() if self.is_running else None,
            "depth": self._depth(),
            "restarts": [
                {name: line[name] for name in ("temperature", "phase", "free_energy", "validation_nll", "depth_mean")}
                | {"depth_std": line["depth_std"], "depth_support": line["depth_support"]}
                for line in curves.restarts
            ],
            "picture": self.stamp(PICTURE) if self.result else None,
        }

    def _depth(self) -> dict[str, Any] | None:
        """q(L): that of the record is of the restarts as rows held out weigh them."""
        depth, record = self.curves.depth, self.result
        if record is None:
            return depth
        each = depth["each"] if depth else []
        weighed = len(set(record.restart_shares or ())) > 1
        more = {"prior": record.depth_prior_pmf, "weighed": weighed}
        return {"epoch": record.epochs, "mean": record.depth_pmf, "each": each, **more}

    def said(self) -> dict[str, Any] | None:
        """What the record says, for the page."""
        record = self.result
        if record is None:
            return None
        with suppress(*WRONG):
            terms = record.free_energy_terms or {}
            settings = {name: getattr(record, name) for name in SETTINGS if getattr(record, name) is not None}
            return {
                "depth_mean": record.depth_mean,
                "depth_std": record.depth_std,
                "words": depth_in_words(record),
                "measures": [
                    {"name": name, "label": one.label, "meaning": one.meaning, "value": one.show(record.measures[name])}
                    for name, one in MEASURES.items()
                    if name in record.measures
                ],
                "free_energy": record.free_energy,
                "terms": {name: terms[name] for name in ("expected_nll", "depth_kl", "weight_kl") if name in terms},
                "seconds": record.seconds,
                "settings": {
                    _NAMES.get(name, name): shown(f"{value:g}" if isinstance(value, float) else value)
                    for name, value in settings.items()
                },
                "reliability": record.reliability,
                "coverage": record.coverage_curve,
                "n_test": record.n_test,
                "columns": [shown(column.get("name")) for column in (record.columns or [])[:200]],
                "target": None if record.target is None else shown(record.target),
            }
        return None

    def entry(self) -> dict[str, Any]:
        """The run among others."""
        record, last = self.result, self.curves.last
        said = record.to_json() if record else self.arguments
        values = {name: said[name] for name in (*SETTINGS, *LEARNED, *MEASURES) if said.get(name) is not None}
        values = {name: value for name, value in values.items() if isinstance(value, str | int | float)}
        if record is None and last is not None:
            values |= {name: last[name] for name in LEARNED if last.get(name) is not None}
            values["epochs"] = last["epoch"]
        return {
            "run": self.name,
            "title": self.title(),
            "status": self.status,
            "epoch": last and last["epoch"],
            "epochs": self.curves.epochs,
            "left": self.curves.seconds_left() if self.is_running else None,
            "values": values,
        }


_NAMES = {"n_restarts": "restarts", "name": "table"}
"""Of settings, on the page."""


def _json(content: bytes) -> Any:
    """What stands in a file; what JSON does not know is null."""
    return json.loads(content, parse_constant=lambda _: None)


def _is_sound(record: Record) -> bool:
    """Whether what a page takes for numbers and lists is that."""
    lists = (record.columns or [], record.restart_shares or [], record.depth_prior_pmf or [], record.depth_pmf)
    dicts = (record.free_energy_terms or {}, record.reliability or {}, record.coverage_curve or {})
    numbers = (record.epochs, record.depth_mean, record.depth_std, *record.depth_pmf, *record.measures.values())
    return (
        all(isinstance(one, list) for one in lists)
        and all(isinstance(one, dict) for one in (*dicts, *(record.columns or ())))
        and all(map(_is_number, numbers))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
