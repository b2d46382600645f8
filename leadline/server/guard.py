"""What stands before every page: who may ask, and what a browser is told about the answer."""

import secrets
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
"""Nobody on another machine is heard."""

NAMES = (HOST, "localhost")
"""How this machine may be called by who asks; any other name is one that points here by a trick (DNS rebinding)."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts, styles and data are our own files; nothing stands inside the page, and nothing comes from elsewhere."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer."""


def new_token() -> str:
    """A secret that nobody guesses."""
    return secrets.token_urlsafe(32)


class Guard:
    """Lets requests through whose address begins with the token, and which are meant for this machine.

    All that a page asks for is relative to its own address, so every request carries the token; what is inside sees
    paths without it.
    """

    def __init__(self, inside: ASGIApp, token: str):
        self._inside, self._token = inside, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or have it answered."""
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope) or self._inside
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """What is said instead, if anything; else the token leaves the path."""
        if scope["type"] != "http":
            return PlainTextResponse("Only HTTP is spoken here.\n", 403)
        headers, token = Headers(scope=scope), scope["path"].removeprefix("/").partition("/")[0]
        if _name_in(f"//{headers.get('host', '')}") not in NAMES:
            return PlainTextResponse(f"This page is for this machine alone: call it {HOST}.\n", 403)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return PlainTextResponse("Another page may not ask this one.\n", 403)
        if not secrets.compare_digest(token.encode(errors="replace"), self._token.encode()):
            return PlainTextResponse("The token in the address is wrong: copy the whole address again.\n", 403)
        if scope["path"] == f"/{self._token}":  # what a page asks for is relative to its folder
            return RedirectResponse(f"/{self._token}/")
        scope["root_path"] = f"/{self._token}"
        return None


def _name_in(address: str) -> str | None:
    """The name of the machine, without its port; None where it is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
