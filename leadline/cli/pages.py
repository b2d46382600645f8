"""Commands that show local pages."""

from importlib.util import find_spec
from typing import Annotated

import typer

from leadline._checks import InvalidArgumentError

Port = Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1. 0: any that is free.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Whether the browser is asked to show the page.")]


def check_server(command: str) -> None:
    """Refuse where the extra `server` is not installed."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        what = f"`leadline {command}` needs {' and '.join(missing)}"
        raise InvalidArgumentError(f'{what}; `pip install "leadline[server]"` brings what it needs.')
