"""`leadline play`: the games of a server, and what their pages ask for."""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline._checks import InvalidArgumentError, check_choice, check_integer
from leadline.server.app import Page, make_page
from leadline.server.film import film, picture
from leadline.server.game import DETAILS, Frame, Game
from leadline.server.rules import Rules, choices
from leadline.training import TrainingDivergedError

MOST_GAMES = 16

IDLE, EVERY = 180.0, 45.0
"""Seconds: a game has ended that nobody asks for so long; a page that is open asks every so often."""

MOST_BYTES = 2**16
"""Of what a page says."""


class GoneError(LookupError):
    """There is no such game any more."""


@dataclass
class _Seat:
    game: Game
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: float = field(default_factory=time.monotonic)


class Games:
    """Those that are played, each by a page of its own.

    Args:
        most: at a time.
        idle: seconds after which a game has ended that nobody asks for.
    """

    def __init__(self, most: int = MOST_GAMES, idle: float = IDLE) -> None:
        self.most, self.idle = most, idle
        self._seats: dict[str, _Seat] = {}
        self._lock = threading.Lock()

    def begin(self, rules: Rules) -> str:
        """A new game; its name, which nobody guesses."""
        seat, name = _Seat(Game(rules)), secrets.token_urlsafe(12)
        with self._lock:
            now = time.monotonic()
            for old in [old for old, one in self._seats.items() if now - one.asked > self.idle]:
                del self._seats[old]
            if len(self._seats) >= self.most:
                said = f"{self.most} games are played already: close a window, and wait {self.idle / 60:g} minutes."
                raise InvalidArgumentError(said)
            self._seats[name] = seat
        return name

    def play(self, name: str, act: Callable[[Game], Any]) -> Any:
        """What a game says to somebody who does something with it, one at a time."""
        with self._lock:
            seat = self._seats.get(name)
            if seat is None or time.monotonic() - seat.asked > self.idle:
                self._seats.pop(name, None)
                raise GoneError(f"The game has ended: nobody looked at it for {self.idle / 60:g} minutes.")
            seat.asked = time.monotonic()
        with seat.lock:
            return act(seat.game)

    def __len__(self) -> int:
        return len(self._seats)


def play_page(games: Games | None = None) -> Page:
    """The page, with all that it asks for."""
    games = Games() if games is None else games

    def route(path: str, act: Callable[[Any, str], Response]) -> Route:
        async def answer(request: Request) -> Response:
            try:
                given = await _said(request)
                return await run_in_threadpool(act, given, request.path_params.get("game", ""))
            except GoneError as error:
                return JSONResponse({"said": str(error)}, 404)
            except InvalidArgumentError as error:
                return JSONResponse({"said": str(error)}, 400)
            except TrainingDivergedError as error:
                return JSONResponse({"said": f"{error} Begin again with other settings."}, 409)

        return Route(path, answer, methods=["POST"])

    def begin(given: dict[str, Any], _: str) -> Response:
        rules = Rules.of(given)
        return JSONResponse({"game": games.begin(rules), "rules": rules.to_json()})

    def frame(given: dict[str, Any], name: str) -> Response:
        check_choice("detail", given.get("detail"), DETAILS)
        n_epochs = given.get("epochs", 0)
        check_integer("epochs", n_epochs, 0, 1000)

        def act(game: Game) -> bytes:
            if n_epochs:
                game.step(n_epochs)
            seen = (_whole(given, one) for one in ("story", "rows", "points"))
            return packed(game.frame(DETAILS[given["detail"]]), game.news(*seen))

        return Response(games.play(name, act), media_type="application/octet-stream")

    def rules(given: dict[str, Any], name: str) -> Response:
        """Those that it has, or other ones: with the weights kept where they can be."""

        def act(game: Game) -> Rules:
            if given:
                wanted = Rules.of(given)
                (game.begin if game.rules.changes(wanted) else game.change)(wanted)
            return game.rules

        return JSONResponse({"rules": games.play(name, act).to_json()})

    def again(_: dict[str, Any], name: str) -> Response:
        games.play(name, lambda game: game.begin(game.rules))
        return JSONResponse({})

    def here(_: dict[str, Any], name: str) -> Response:
        games.play(name, lambda game: None)
        return JSONResponse({})

    def drawn(given: dict[str, Any], name: str) -> Response:
        dark = given.get("dark") is True
        content = games.play(name, lambda game: picture(game, dark))
        return Response(content, media_type="image/png")

    def filmed(given: dict[str, Any], name: str) -> Response:
        dark = given.get("dark") is True
        script, end = games.play(name, lambda game: (list(game.script), game.epoch))
        return Response(film(script, end, dark), media_type="image/gif")

    offered = choices() | {"every": EVERY}

    async def offer(_: Request) -> Response:
        return JSONResponse(offered)

    acts = {"frame": frame, "rules": rules, "again": again, "here": here, "picture": drawn, "film": filmed}
    routes = [Route("/choices", offer), route("/games", begin)]
    return make_page("play", [*routes, *(route(f"/games/{{game}}/{path}", act) for path, act in acts.items())])


async def _said(request: Request) -> dict[str, Any]:
    """What a page says, as JSON."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_BYTES:
            raise InvalidArgumentError(f"`settings` must be at most {MOST_BYTES} bytes of JSON.")
    try:
        given = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise InvalidArgumentError("`settings` must be JSON.") from None
    if not isinstance(given, dict):
        raise InvalidArgumentError(f"`settings` must be named values, got {given!r}.")
    return given


def _whole(given: dict[str, Any], name: str) -> int:
    value = given.get(name, 0)
    check_integer(name, value, 0, 2**63)
    return value


def packed(frame: Frame, news: dict[str, Any]) -> bytes:
    """A frame as it is sent: the length of what is said as JSON, this, and planes of the grid, a byte a point.

    Probabilities go from 0 to 255; parts of the uncertainty too, up to the ln 2 that there can be of two classes.
    """
    planes = {"mixture": frame.mixture, **{f"{depth}": plane for depth, plane in enumerate(frame.by_depth)}}
    planes |= {name: part / np.log(2) for name, part in frame.parts.items()}
    said = {
        **{name: getattr(frame, name) for name in ("epoch", "end", "means", "accuracy", "noted", "trained_at")},
        "q": frame.depth_posterior.tolist(),
        "p": frame.depth_prior.tolist(),
        "grid": len(frame.mixture),
        "planes": list(planes),
        **news,
    }
    text = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
    each = [np.rint(255 * plane.clip(0, 1)).astype(np.uint8).tobytes() for plane in planes.values()]
    return b"".join([len(text).to_bytes(4, "little"), text, *each])
