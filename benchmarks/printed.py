"""Run the Python of the documents from top to bottom, and put what it prints in the place of what they say it prints.

python -m benchmarks.printed [docs/tutorial-tables.md ...]
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib

from tests.test_docs import BLOCK, PAGES, ROOT


def rewritten(text: str) -> str:
    """A page with what its blocks print now."""
    namespace, parts, end = {"__name__": "__main__"}, [], 0
    for block in BLOCK.finditer(text):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block[1], "<page>", "exec"), namespace)
        if block[2] is not None:
            parts += [text[end : block.start(2)], re.sub(" +$", "", printed.getvalue(), flags=re.MULTILINE)]
            end = block.end(2)
    return "".join([*parts, text[end:]])


if __name__ == "__main__":
    matplotlib.use("Agg")
    pages = [Path(name).resolve() for name in sys.argv[1:]] or [
        page for page in PAGES if BLOCK.search(page.read_text())
    ]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            page.write_text(rewritten(page.read_text()))
            os.chdir(ROOT)
        print(page.name)
