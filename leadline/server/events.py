"""Server-sent events: what is new goes to everybody who has a page open."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import StreamingResponse

HEARTBEAT = 10.0
"""Seconds of silence after which a page is told that there is nothing new."""

PER_PAGE = 0.01
"""Seconds at least from one answer to the next for every page that is open: many hear less often, so that a training
beside them has its cores."""

RECONNECT = 1000
"""Milliseconds until a page that was cut off asks again."""


class Event(NamedTuple):
    """Something new."""

    name: str
    data: Any
    """What JSON can say, or the JSON itself."""
    id: str | None = None
    """Where a page that was cut off goes on: it comes back with the last that it has heard."""

    def text(self) -> str:
        """The JSON, on one line."""
        if isinstance(self.data, str):
            return self.data
        return json.dumps(self.data, separators=(",", ":"), allow_nan=False)

    def encoded(self) -> bytes:
        """As it is sent."""
        where = "" if self.id is None else f"id: {self.id}\n"
        return f"{where}event: {self.name}\ndata: {self.text()}\n\n".encode()


class Bell:
    """Says to all who wait that there is something new; rung from any thread, and waited for by any number."""

    def __init__(self) -> None:
        self.rung = 0
        """How often."""
        self.closed = False
        """Whether nothing will come any more."""
        self.pages = 0
        """Open ones, that wait for it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()

    def ring(self) -> None:
        """There is something new."""
        self.rung += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """There will be nothing new."""
        self.closed = True
        self.ring()

    async def wait(self, heard: int, seconds: float) -> bool:
        """Whether it has rung more often than so, at once or within so many seconds."""
        self._loop = asyncio.get_running_loop()
        one = asyncio.Event()
        self._waiting.add(one)
        try:
            if self.rung == heard:
                async with asyncio.timeout(seconds):
                    await one.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(one)
        return True

    def _wake(self) -> None:
        for one in self._waiting:
            one.set()


News = Callable[[str | None], Iterable[Event]]
"""What is new since the event with that `id`; since the beginning with None. Quick, for it holds up all others."""


def stream(request: Request, bell: Bell, news: News, pause: float = 0.0) -> StreamingResponse:
    """An answer that does not end as long as the page is open.

    Every page reads at its own pace: one that is slow hears later of more at once, and holds nobody up.

    Args:
        request: whoever asks; the browser says in it what it has heard already.
        bell: rings when there is news.
        news: what is new for a page that has heard so far.
        pause: seconds at least from one answer to the next, for a few pages.
    """
    last = request.headers.get("last-event-id")

    async def events() -> AsyncIterator[bytes]:
        heard, since = -1, last
        yield f"retry: {RECONNECT}\n\n".encode()
        bell.pages += 1
        try:
            while not bell.closed:
                if not await bell.wait(heard, HEARTBEAT):
                    yield b"event: alive\ndata: {}\n\n"
                    continue
                heard = bell.rung
                new = list(news(since))
                if new:
                    since = next((one.id for one in reversed(new) if one.id is not None), since)
                    yield b"".join(one.encoded() for one in new)
                await asyncio.sleep(max(pause, PER_PAGE * bell.pages))
        finally:
            bell.pages -= 1
        yield b"event: closed\ndata: {}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
