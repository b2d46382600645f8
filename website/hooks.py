"""What MkDocs does for this site beside what `mkdocs.yml` says.

The pages of the reference are made from what `leadline` exports, pages of docs/ that the navigation does not name are
added to its end, and what documents link to elsewhere in the repository (a result, a source file) becomes a page or a
file of the site.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import leadline

ROOT = Path(__file__).resolve().parents[1]

GROUPS = {
    "estimators": "Estimators",
    "training": "Problems, settings, training",
    "inference": "Models and what they say",
    "depth": "Distributions over depth",
    "likelihoods": "Likelihoods",
    "network": "Networks",
    "studies": "Comparing",
    "_checks": "Errors and warnings",
}
"""Titles of the pages of the reference, by the rooms that the names come from; others are called by their names."""

AS_THEY_ARE = {".png", ".json", ".csv", ".md"}
"""Files of the repository that a browser shows, and pages; others are shown as code."""

LINK = re.compile(r"(\]\()([^()\s#]+)((?:#[^()\s]*)?\))")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)

_places: dict[str, str] = {}
"""Of pages that are not in docs/, where they stand in the repository."""


def names_by_group() -> dict[str, list[str]]:
    """What is exported."""
    groups: dict[str, list[str]] = {room: [] for room in GROUPS}
    for name, place in leadline._PLACE_OF.items():
        groups.setdefault(place.partition(".")[0], []).append(name)
    return {room: sorted(names, key=str.lower) for room, names in groups.items() if names}


def in_site(path: str) -> str | None:
    """The place in the site of a place in the repository; None where nothing is there."""
    whole = ROOT / path
    if path.startswith("docs/") and whole.is_file():
        return path.removeprefix("docs/")
    if whole.is_dir():
        return f"repository/{path}/README.md"
    if whole.is_file():
        return f"repository/{path}" + ("" if whole.suffix in AS_THEY_ARE else ".md")
    return None


def links(text: str, place: str) -> list[str]:
    """The places in the repository that a page links to."""
    prose = CODE.sub("", text)
    found = [target for _, target, _ in LINK.findall(prose) if ":" not in target]
    return [os.path.normpath(os.path.join(os.path.dirname(place), target)) for target in found]


def from_repository(files: Files, config: Any, asked: list[str]) -> None:
    """Add the places that documents link to, and what is linked to there."""
    while asked:
        place = asked.pop()
        uri, whole = in_site(place), ROOT / place
        if uri is None or not uri.startswith("repository/") or files.get_file_from_path(uri):
            continue
        if whole.is_dir() and (whole / "README.md").is_file():
            whole /= "README.md"
        if whole.suffix == ".md":
            _places[uri] = str(whole.relative_to(ROOT))
            files.append(File.generated(config, uri, content=whole.read_text()))
            asked += links(whole.read_text(), _places[uri])
        elif whole.suffix in AS_THEY_ARE:
            files.append(File.generated(config, uri, abs_src_path=str(whole)))
        else:
            files.append(File.generated(config, uri, content=f"# `{place}`\n\n{shown(whole)}\n"))


def shown(path: Path) -> str:
    """A file as code, or what there is in a folder."""
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if one.suffix in (".py", ".h", ".cpp"))
        return "\n".join(f"- `{name}`" for name in names)
    return f"````{path.suffix[1:]}\n{path.read_text()}\n````"


def reference_pages() -> Iterator[tuple[str, str, str]]:
    """Of each page of the reference its place, its title and its text."""
    for room, names in names_by_group().items():
        inherited = "\n      inherited_members: true" if room == "estimators" else ""
        entries = [f"::: leadline.{name}\n    options:\n      heading_level: 2{inherited}\n" for name in names]
        title = GROUPS.get(room, room)
        yield f"reference/{room.strip('_')}.md", title, "\n".join([f"# {title}", "", *entries])
    for name in leadline._MODULES:
        options = "    options:\n      show_root_heading: false\n      heading_level: 2\n"
        yield f"reference/{name}.md", f"leadline.{name}", f"# leadline.{name}\n\n::: leadline.{name}\n{options}"


def on_files(files: Files, config: Any) -> Files:
    """Add what is not in docs/, and complete the navigation."""
    pages = list(files.documentation_pages())
    asked = [place for page in pages for place in links(page.content_string, f"docs/{page.src_uri}")]
    from_repository(files, config, asked)
    reference = []
    for uri, title, text in reference_pages():
        files.append(File.generated(config, uri, content=text))
        reference.append({title: uri})
    listed = str(config.nav)
    others = sorted(page.src_uri for page in pages if f"'{page.src_uri}'" not in listed)
    config.nav = [*config.nav, *([{"More": others}] if others else []), {"API reference": reference}]
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links out of docs/ lead to where that is in the site."""
    uri = page.file.src_uri
    place = _places.get(uri, f"docs/{uri}")

    def moved(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        to = None if ":" in target else in_site(os.path.normpath(os.path.join(os.path.dirname(place), target)))
        return link[0] if to is None else before + os.path.relpath(to, os.path.dirname(uri) or ".") + after

    parts = CODE.split(markdown)
    return "".join(part if CODE.fullmatch(part) else LINK.sub(moved, part) for part in parts)


def on_post_build(config: Any) -> None:
    """Every public name is in the reference, with a word about it."""
    names = [name for group in names_by_group().values() for name in group]
    pages = "".join(page.read_text() for page in Path(config.site_dir, "reference").rglob("*.html"))
    if missing := [name for name in names if f'id="leadline.{name}"' not in pages]:
        raise PluginError(f"the reference lacks {', '.join(missing)}")
    if silent := [name for name in names if not getattr(leadline, name).__doc__]:
        raise PluginError(f"there is no docstring of {', '.join(silent)}")
