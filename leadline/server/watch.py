"""Follow all trainings in a directory, for everybody who looks: one thread reads, and every page hears of it."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from leadline._foreign import shown
from leadline.files.checkpoints import epochs_of
from leadline.files.ours import is_ours
from leadline.metrics import MEASURES
from leadline.server.app import Page, make_page
from leadline.server.events import Bell, Event, stream
from leadline.server.places import Place, number
from leadline.server.regions import Regions
from leadline.server.runs import LEARNED, PICTURE, SETTINGS, Run

EVERY = 0.05
"""Seconds from one look at the lines of the trainings that run to the next."""

CLOSELY = 1.0
"""Seconds from one look at all else to the next."""

PAUSE = 0.05
"""Seconds at least between two words to a page."""

MOST_TOLD = 64
"""Answers that are kept for pages that ask the same."""


class Watcher:
    """What there is in a directory, kept up to date by a thread of its own."""

    def __init__(self, folder: Path):
        self.place, self.bell = Place(folder), Bell()
        self.runs: dict[str, Run] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.under_way: list[dict[str, Any]] = []
        """Trainings of a sweep, by their checkpoints."""
        self.is_there = True
        self.version = 0
        """Grows when the list of all has changed."""
        self.lock = threading.Lock()
        self._told: dict[tuple[str | None, str | None], tuple[int, list[Event]]] = {}
        self._stopped = threading.Event()
        self._seen: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @contextmanager
    def following(self) -> Iterator[None]:
        """As long as somebody may look."""
        self.look(closely=True)
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _follow(self) -> None:
        closely = time.monotonic()
        while True:
            begin = time.monotonic()
            due = begin - closely >= CLOSELY
            closely = begin if due else closely
            self.look(due)
            took = time.monotonic() - begin
            if self._stopped.wait(max(EVERY, 4 * took)):  # a fifth of a core at most
                return

    def look(self, closely: bool) -> None:
        """Read what is new, and ring where there is anything."""
        with self.lock:
            before = self.version
            if closely:
                self._look_around()
            some = [run for run in self.runs.values() if closely or run.is_running]
            self.version += sum(run.look(closely) for run in some)
            if self.version != before:
                self.bell.ring()

    def open(self, name: str) -> bool:
        """Read all of a run that somebody wants to see; whether there is such a run."""
        with self.lock:
            run = self.runs.get(name)
            if run is not None:
                run.is_wanted = True
                while run.look(closely=False):
                    self.version += 1
            return run is not None

    def _look_around(self) -> None:
        is_there = self.place.is_there
        runs, tables = self.place.find()
        if is_there != self.is_there or set(runs) != set(self.runs):
            self.is_there, self.version = is_there, self.version + 1
            self.runs = {name: self.runs.get(name) or Run(self.place, name) for name in runs}
        for name in (*tables, *self.tables):
            now = self.place.changed(name)
            if now != self._seen.get(name):
                self._seen[name], self.version = now, self.version + 1
                rows = self.place.rows(name) if now else []
                self.tables.pop(name, None)
                if rows:
                    self.tables[name] = {"name": shown(name), "rows": [_row(row) for row in rows]}
                    self.tables = dict(sorted(self.tables.items()))
        under_way = [
            {"name": folder.rpartition("/")[2], "epoch": epochs_of(files[-1].rpartition("/")[2])}
            for folder, files in self.place.checkpoints("").items()
            if "" not in self.runs
        ]
        if under_way != self.under_way:
            self.under_way, self.version = under_way, self.version + 1

    def about(self) -> dict[str, Any]:
        """What the page has to know of names."""
        measures = {name: {"label": one.label, "better": one.better} for name, one in MEASURES.items()}
        return {
            "folder": shown(self.place.folder),
            "settings": ["candidate", *SETTINGS],
            "learned": list(LEARNED),
            "measures": measures,
        }

    def news(self, run: str | None, since: str | None) -> list[Event]:
        """What is new of one run, or of the list of all. Pages that have heard the same are told the same: it is put
        together, and written as JSON, once for all of them."""
        with self.lock:
            version, told = self._told.get((run, since), (-1, []))
            if version != self.version:
                new = self._all_news(since) if run is None else self._run_news(run, since)
                told = [one._replace(data=one.text()) for one in new]
                if len(self._told) >= MOST_TOLD:
                    self._told.clear()
                self._told[run, since] = self.version, told
            return told

    def _all_news(self, since: str | None) -> list[Event]:
        """The list of all, where it has changed."""
        if since == str(self.version):
            return []
        said = {
            "is_there": self.is_there,
            "runs": [run.entry() for run in self.runs.values()],
            "tables": list(self.tables.values()) if self.is_there else [],
            "under_way": self.under_way,
        }
        return [Event("all", said, str(self.version))]

    def _run_news(self, name: str, since: str | None) -> list[Event]:
        """Its curves from the point on that the page has, and all that is small."""
        run = self.runs.get(name)
        if run is None:
            return [] if since == "gone" else [Event("gone", {"folder": not self.is_there}, "gone")]
        version, generation, n = _cursor(since)
        if version == run.version:
            return []
        curves = run.curves
        anew = generation != curves.generation or n > len(curves.points)
        said = {"now": run.now(), "anew": anew, "points": curves.since(0 if anew else n), "record": run.said()}
        said["regions"] = Regions.source(run)
        return [Event("run", said, f"{run.version}.{curves.generation}.{len(curves.points)}")]


def _cursor(since: str | None) -> tuple[int, int, int]:
    """The version, the generation of the curves and the points that a page has heard of."""
    found = re.fullmatch(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})", since or "")
    return (int(found[1]), int(found[2]), int(found[3])) if found else (-1, -1, 0)


def _row(row: dict[str, str]) -> dict[str, Any]:
    return {shown(name): number(shown(value)) for name, value in row.items() if name and value not in (None, "")}


def make_watch(watcher: Watcher) -> Page:
    """The page that shows it."""
    regions = Regions(watcher.place)

    def known(request: Request) -> Run | None:
        """The run that is asked for: a name is looked up, and never a path."""
        with watcher.lock:
            return watcher.runs.get(request.query_params.get("run", ""))

    async def about(request: Request) -> Response:
        return JSONResponse(watcher.about())

    async def everything(request: Request) -> Response:
        return stream(request, watcher.bell, partial(watcher.news, None), pause=0.5)

    async def one(request: Request) -> Response:
        name = request.query_params.get("run", "")
        if not await run_in_threadpool(watcher.open, name):
            return _refused()
        return stream(request, watcher.bell, partial(watcher.news, name), pause=PAUSE)

    async def picture(request: Request) -> Response:
        run = known(request)
        content = None if run is None else await run_in_threadpool(_picture, watcher.place, run)
        return _refused() if content is None else Response(content, media_type="image/png")

    async def drawn(request: Request) -> Response:
        run = known(request)
        if run is None:
            return _refused()
        said = await run_in_threadpool(regions.of, run)
        return Response(status_code=204) if said is None else JSONResponse(said)  # a checkpoint may just have gone

    routes = [("about", about), ("all", everything), ("one", one), ("picture", picture), ("regions", drawn)]
    return make_page("watch", [Route(f"/{name}", answer) for name, answer in routes], [watcher.bell])


def _refused() -> Response:
    return PlainTextResponse("There is no such run in the directory.\n", 404)


def _picture(place: Place, run: Run) -> bytes | None:
    try:
        name = run.file(PICTURE)
        return place.read(name) if is_ours(place.path(name)) else None
    except OSError:
        return None
