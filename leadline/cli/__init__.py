"""The command line: arguments in, one call, text out."""

import sys
import warnings

from leadline._version import __version__
from leadline.cli.streams import INTERRUPTED, forgive

__all__ = ["main"]

_LOADING = "leadline: loading ..."


def main() -> None:
    """Run the command line: what needs nothing is answered at once, and who has to wait sees why."""
    if sys.argv[1:] == ["--version"]:
        print(f"leadline {__version__}")
        return
    forgive()
    waiting = sys.stderr is not None and sys.stderr.isatty() and "--quiet" not in sys.argv
    if waiting:
        print(_LOADING, end="\r", file=sys.stderr, flush=True)
    try:
        with warnings.catch_warnings(record=True) as early:  # what is said meanwhile is shown as all else
            from leadline.cli import compare, pages, predictions, spirals, sweeps, tables  # noqa: F401  # they hang themselves on the app
            from leadline.cli.app import run
            from leadline.training.interruption import ending_like_ctrl_c
    except KeyboardInterrupt:
        print("leadline: interrupted; nothing was written.", file=sys.stderr)
        sys.exit(INTERRUPTED)

    if waiting:
        print(" " * len(_LOADING), end="\r", file=sys.stderr, flush=True)
    with ending_like_ctrl_c():
        run(early)
