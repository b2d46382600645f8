"""Run what the documents run, from top to bottom, and put what it prints in the place of what they say it prints.

python -m benchmarks.printed [docs/tutorial-tables.md ...]
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib

from tests.test_docs import ANY_BLOCK, BLOCK, COMMAND, PAGES, ROOT, elided, run_command, run_python


def rewritten(text: str, folder: Path) -> str:
    """A page with what its blocks print now; commands of which nothing is said are not run."""
    namespace, parts, end = {"__name__": "__main__"}, [], 0

    def put(printed: str, start: int, stop: int) -> None:
        nonlocal end
        parts.extend([text[end:start], re.sub(" +$", "", elided(printed, text[start:stop]), flags=re.MULTILINE)])
        end = stop

    for block in ANY_BLOCK.finditer(text):
        code, said, commands = block.groups()
        printed = "" if code is None else run_python(code, namespace)
        if said is not None:
            put(printed, *block.span(2))
        for command in COMMAND.finditer(commands or ""):
            start, stop = (block.start(3) + place for place in command.span(2))
            if text[start:stop].strip():
                put(run_command(command[1], folder), start, stop)
    return "".join([*parts, text[end:]])


if __name__ == "__main__":
    matplotlib.use("Agg")
    pages = [Path(name).resolve() for name in sys.argv[1:]] or [
        page for page in PAGES if BLOCK.search(page.read_text())
    ]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            page.write_text(rewritten(page.read_text(), Path(folder)))
            os.chdir(ROOT)
        print(page.name)
