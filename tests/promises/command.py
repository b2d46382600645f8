"""The command line in this process."""

import contextlib
import io
import sys
import warnings
from typing import Any, NamedTuple
from unittest import mock

from leadline._checks import DataWarning


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """With one sentence, on one line, after notes."""
        *notes, last = self.err.splitlines() or [""]
        sentence = last.startswith("leadline: ") and last.endswith(".") and last.isprintable()
        return self.code == 2 and sentence and all("note: " in note for note in notes)


def leadline(*arguments: Any) -> Done:
    """Run it; whatever else it raises is for the caller."""
    from leadline.cli import main

    out, err = io.StringIO(), io.StringIO()
    given = mock.patch.object(sys, "argv", ["leadline", *map(str, arguments)])
    own = mock.patch.object(warnings, "showwarning", warnings.showwarning)  # `main` has its own
    with given, own, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default", DataWarning)  # a note, as users have it
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
