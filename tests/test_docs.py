"""The documents: their Python runs from top to bottom and prints what they say, so do their commands, and their links
lead somewhere. `python -m benchmarks.printed` writes down what is printed now."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.depth import FAMILIES
from leadline.likelihoods import LIKELIHOODS
from leadline.network.blocks import BLOCKS
from tests.tolerances import PRINTED

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "results").glob("*/README.md"))]

# A block of Python, and the block of text right after it, if there is one: what it prints.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
# The same, or a block of commands with what they print in between.
ANY_BLOCK = re.compile(BLOCK.pattern + r"|^```console\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
NUMBERS = re.compile(r"(?:[-+\u2212]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?[.,;\s]*)+")
NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
OF_THE_MACHINE = re.compile(r"\d[\d.]* (?:s|ms|GB)\b(?: to \d[\d.]* s\b)?|^seconds.*$", re.MULTILINE)
"""Times and sizes, which are others elsewhere, where a range may be one number; so is the last column of a table that
ends with `seconds`."""
TIMED_TABLE = re.compile(r"^.*seconds\n(?:.*\S.*\n)+", re.MULTILINE)


def name(page):
    return str(page.relative_to(ROOT))


def of_every_machine(printed):
    """Without times and sizes, and bars."""
    printed = re.sub(r" *\u2588+", "", OF_THE_MACHINE.sub("", printed))
    return TIMED_TABLE.sub(lambda table: re.sub(r" +\S+$", "", table[0], flags=re.MULTILINE), printed)


def words(printed):
    """The text without its numbers."""
    return re.sub(r"\s+", " ", NUMBERS.sub("# ", of_every_machine(printed))).strip()


def numbers(printed):
    """The numbers in a text, in their order."""
    found = NUMBER.findall(of_every_machine(printed))
    return [float(number.replace(",", "").replace("\N{MINUS SIGN}", "-")) for number in found]


def elided(printed, said):
    """Of what was printed as many lines as are said before a line of dots, and as many as after it."""
    lines, shown = printed.splitlines(keepends=True), said.splitlines(keepends=True)
    dots = [i for i, line in enumerate(shown) if line.strip() == "..."]
    if not dots:
        return printed
    after = len(shown) - dots[0] - 1
    return "".join([*lines[: dots[0]], shown[dots[0]], *lines[len(lines) - after :]])


def check_printed(printed, said, where):
    """The words are the same, and the numbers within the tolerance."""
    printed = elided(printed, said)
    assert words(printed) == words(said), where
    assert numbers(printed) == pytest.approx(numbers(said), **PRINTED), where


def run_python(code, namespace, before=0, page="page"):
    """What it prints; an error names the line of the page."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * before + code, page, "exec"), namespace)
    return printed.getvalue()


def run_command(command, folder):
    """What a command line prints in a folder, where `leadline` is ours."""
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    (tools / "leadline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leadline "$@"\n')
    (tools / "leadline").chmod(0o755)
    paths = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | paths, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of one's own, and no windows."""
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    pyplot.close("all")


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name)
def test_python_runs(page, here):
    text, namespace = page.read_text(), {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        code, said = block.groups()
        before = text.count("\n", 0, block.start(1))
        printed = run_python(code, namespace, before, name(page))
        if said is not None:
            check_printed(printed, said, f"{name(page)}, line {before}")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if "\n$ leadline" in page.read_text()], ids=name)
def test_commands_print_what_is_said(page, here, as_users_have_it):
    """Those of which a page says what they print, after the Python above them; the others may take hours."""
    text, namespace, checked = page.read_text(), {"__name__": "__main__"}, 0
    for block in ANY_BLOCK.finditer(text):
        code, _, commands = block.groups()
        if code is not None:
            run_python(code, namespace)
        for command, said in COMMAND.findall(commands or ""):
            if said.strip():
                check_printed(run_command(command, here), said, f"{name(page)}: {command}")
                checked += 1
    assert checked


@pytest.fixture(autouse=True)
def _what_a_page_adds_goes_with_it():
    registries = FAMILIES, LIKELIHOODS, BLOCKS
    before = [dict(one.data) for one in registries]
    yield
    for one, names in zip(registries, before, strict=True):
        one.data = names


def anchors(page):
    """What GitHub calls the headings."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name)
def test_links_lead_to_files_and_headings(page):
    missing = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        target, _, heading = link.partition("#")
        path = page.parent / target if target else page
        if not re.match("[a-z]+:", link) and (not path.exists() or (heading and heading not in anchors(path))):
            missing.append(link)
    assert not missing
