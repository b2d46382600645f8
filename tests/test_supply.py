"""What Leadline is built on: ranges with two ends, versions to test them at, and licences that are named."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = [Requirement(text) for text in PROJECT["dependencies"]]


def pinned(name):
    """Name and version of every line of a file of constraints."""
    lines = [line for line in (ROOT / "constraints" / name).read_text().splitlines() if not line.startswith("#")]
    return dict(re.fullmatch(r"([A-Za-z0-9_.-]+)==([A-Za-z0-9.]+)", line).groups() for line in lines)


def ends(requirement):
    lower = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
    upper = [Version(one.version) for one in requirement.specifier if one.operator in ("<", "==")]
    return lower, upper


def test_every_dependency_has_two_ends():
    extras = [
        Requirement(text)
        for name in ("dev", "parquet", "bench", "server", "tensorboard", "mlflow")
        for text in PROJECT["optional-dependencies"][name]
    ]
    for requirement in NEEDED + extras:
        lower, upper = ends(requirement)
        assert len(lower) == 1, requirement
        assert len(upper) == 1, requirement


def test_the_lowest_versions_are_the_lower_ends():
    lowest = pinned("lowest.txt")
    expected = {requirement.name: ends(requirement)[0][0] for requirement in NEEDED}
    assert {name: Version(version) for name, version in lowest.items() if name != "jaxlib"} == expected


def test_the_developers_versions_are_in_the_ranges_and_are_versions_alone():
    versions = {name.lower().replace("_", "-"): version for name, version in pinned("development.txt").items()}
    developers = [Requirement(text) for text in PROJECT["optional-dependencies"]["dev"]]
    for requirement in NEEDED + developers:
        assert versions[requirement.name] in requirement.specifier, requirement


def test_every_licence_is_named():
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = {
        name.strip()
        for row in re.findall(r"^\| ([a-z0-9, -]+) \| (?:Apache|MIT|BSD|PSF)", page, re.M)
        for name in row.split(",")
    }
    assert {requirement.name for requirement in NEEDED} <= named
