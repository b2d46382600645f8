"""The playground of depth."""

from leadline.cli.app import app, say
from leadline.cli.pages import Open, Port, check_server


@app.command()
def play(port: Port = 0, open: Open = True) -> None:  # noqa: A002  # its flag is --open
    """Play with depth in the browser: spirals, and a network that learns how deep it must be.

    The page is for this machine alone, and ends with Ctrl-C.

    Example: leadline play --port 8000
    """
    check_server("play")
    from leadline.server.app import serve
    from leadline.server.play import play_page

    serve(play_page(), port, open, say)
