"""Commands that show local pages."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from leadline._checks import InvalidArgumentError
from leadline.cli.app import app, say

Port = Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1. 0: any that is free.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Whether the browser is asked to show the page.")]


def check_server(command: str) -> None:
    """Refuse where the extra `server` is not installed."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        what = f"`leadline {command}` needs {' and '.join(missing)}"
        raise InvalidArgumentError(f'{what}; `pip install "leadline[server]"` brings what it needs.')


@app.command()
def watch(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where trainings write, or wrote: one run, or many.", show_default=False),
    ],
    port: Port = 0,
    open_browser: Open = True,
) -> None:
    """Show trainings as they go, on a page of this machine.

    It follows what `spiral`, `fit`, `reproduce`, `benchmark` and `compare` write into a directory, and changes nothing
    there. Ctrl-C ends it; the trainings do not notice.

    Example: leadline watch runs
    """
    check_server("watch")
    if not folder.is_dir():
        raise InvalidArgumentError(f"`dir` must be a directory, got {folder}.")
    from leadline.server.app import give_way, serve
    from leadline.server.watch import Watcher, make_watch

    give_way()
    watcher = Watcher(folder)
    with watcher.following():
        serve(make_watch(watcher), port, open_browser, lambda address: say(f"watching {folder} at {address}"))


@app.command()
def play(port: Port = 0, open_browser: Open = True) -> None:
    """Play with depth, on a page of this machine.

    Spirals, and a network that learns how deep it must be. Whatever is chosen stands in the address. Ctrl-C ends all
    games.

    Example: leadline play
    """
    check_server("play")
    from leadline.server.app import serve
    from leadline.server.play import play_page

    serve(play_page(), port, open_browser, lambda address: say(f"play at {address}"))
