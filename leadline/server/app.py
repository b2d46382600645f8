"""A local page: its application, and the process that serves it."""

import contextlib
import os
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from leadline._checks import InvalidArgumentError, check_integer
from leadline.report.web import COLOURS
from leadline.server.events import Bell
from leadline.server.guard import HOST, Guard, new_token

LESS_URGENT = 10
"""Than a training on the same cores: what is added to the niceness of a process that only looks on."""

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Page:
    """A page that can be served."""

    app: ASGIApp
    """With the guard before it."""
    token: str
    bells: Sequence[Bell]
    """Of its streams, which end when they are closed."""

    def address(self, port: int) -> str:
        """Where the browser finds it."""
        return f"http://{HOST}:{port}/{self.token}/"


def make_page(name: str, routes: Sequence[BaseRoute] = (), bells: Sequence[Bell] = ()) -> Page:
    """A page with all its files.

    Args:
        name: `pages/NAME.html` is the page. It may ask for any file in `pages`, by addresses relative to its own, and
            for `style.css`, the one of the report.
        routes: what else it may ask for; `Route("/events", ...)` is `events` on the page.
        bells: of the streams among these.
    """
    token = new_token()
    contents = {one.name: (one.read_bytes(), _kind(one.name)) for one in _FILES.iterdir() if _kind(one.name)}
    contents["style.css"] = (style().encode(), _KINDS["css"])
    contents[""] = contents[f"{name}.html"]

    async def answer(request: Request) -> Response:
        content, kind = contents.get(request.path_params["file"], (None, None))
        if content is None:
            return PlainTextResponse("There is no such page.\n", 404)
        return Response(content, media_type=kind)

    app = Starlette(routes=[*routes, Route("/{file:path}", answer)])
    return Page(Guard(app, token), token, bells)


_FILES = files("leadline.server") / "pages"


def _kind(name: str) -> str | None:
    return _KINDS.get(name.rpartition(".")[2])


def style() -> str:
    """That of the report, with the colours of its pictures."""
    colours = " ".join(f"--{name}: {colour};" for name, colour in COLOURS.items())
    return f":root {{ {colours} }}\n{(files('leadline.report') / 'style.css').read_text()}"


def give_way() -> None:
    """Let trainings on this machine go first, where its system knows of such a thing: of this process, from now on."""
    if hasattr(os, "nice"):
        os.nice(LESS_URGENT)


def serve(page: Page, port: int, open_browser: bool, say: Callable[[str], Any]) -> None:
    """Serve a page until Ctrl-C.

    Args:
        page: with all that it needs.
        port: on 127.0.0.1; 0 is any that is free.
        open_browser: whether the user's browser is asked to show it.
        say: told the address, as soon as it answers.
    """
    with listening(port) as listener:
        address = page.address(listener.getsockname()[1])

        def ready() -> None:
            say(address)
            if open_browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server = Server(page, ready)
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again when all is put away
            server.run(sockets=[listener])


def listening(port: int) -> socket.socket:
    """A socket of this machine alone."""
    check_integer("port", port, 0, 65535)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        said = f"{port} cannot be used: {error.strerror or error}; choose another, or 0 for any that is free."
        raise InvalidArgumentError(said, "port") from error
    return listener


class Server(uvicorn.Server):
    """Serves a page, and ends its streams when it ends."""

    def __init__(self, page: Page, ready: Callable[[], Any] = lambda: None):
        quiet = {"log_level": "error", "access_log": False, "server_header": False, "date_header": False}
        super().__init__(uvicorn.Config(page.app, lifespan="off", timeout_graceful_shutdown=2, **quiet))
        self._page, self._ready = page, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it answers."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody has to wait for a stream."""
        for bell in self._page.bells:
            bell.close()
        await super().shutdown(sockets)
