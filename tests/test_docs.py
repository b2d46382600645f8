"""The documents: their Python runs from top to bottom and prints what they say, and their links lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from leadline.depth import FAMILIES
from leadline.likelihoods import LIKELIHOODS
from leadline.network.blocks import BLOCKS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# A block of Python, and the block of text right after it, if there is one: what it prints.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
NUMBERS = re.compile(r"(?:[-+]?\d[\d.,]*(?:e[-+]?\d+)?[,;\s]*)+")


def name(page):
    return str(page.relative_to(ROOT))


def words(printed):
    """The text without its numbers, which differ from machine to machine, and so may how many there are in a list."""
    return re.sub(r"\s+", " ", NUMBERS.sub("# ", printed)).strip()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name)
def test_python_runs(page, tmp_path, monkeypatch):
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    text, namespace = page.read_text(), {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        code, said = block.groups()
        lines_before = text.count("\n", 0, block.start(1))  # so that an error names the line of the page
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * lines_before + code, name(page), "exec"), namespace)
        if said is not None:
            assert words(printed.getvalue()) == words(said), f"{name(page)}, line {lines_before}"
    pyplot.close("all")


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


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page):
    missing = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        target, _, heading = link.partition("#")
        path = page.parent / target if target else page
        if not re.match("[a-z]+:", link) and (not path.exists() or (heading and heading not in anchors(path))):
            missing.append(link)
    assert not missing
