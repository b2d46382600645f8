"""Data flows one way: a module imports only from modules above it."""

import ast
import subprocess
import sys
from pathlib import Path

import leadline

PACKAGE = Path(leadline.__file__).parent

ORDER = [
    "_version",
    "_checks",
    "_files",
    "_compilation",
    "_numerics",
    "_random",
    "_loops",
    "_kernels",
    "distributions.base",
    "distributions.normal",
    "distributions.poisson",
    "distributions.categorical",
    "distributions.fixed",
    "distributions",
    "distributions.side_by_side",
    "layers",
    "likelihoods",
    "network",
    "model",
    "free_energy",
    "recipes",
    "predict",
    "pruning",
    "metrics",
    "training.data",
    "training.pace",
    "training.optimiser",
    "training.state",
    "training.epochs",
    "training.checkpoint",
    "training.storage",
    "training.interruption",
    "training.progress",
    "training.run",
    "training.loop",
    "training",
    "mixture",
    "calibration",
    "ensemble",
    "modelfile",
    "plots",
    "estimators",
    "loading",
    "datasets",
    "tables",
    "experiments",
    "experiments.records",
    "experiments.spiral",
    "experiments.reproduce",
    "experiments.uci",
    "experiments.table",
    "report",
    "report.page",
    "report.reproduction",
    "report.summary",
    "report.uci",
    "cli",
    "",
]


def _name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _imported(path):
    """Names of the leadline modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "leadline":
            module = (node.module or "").removeprefix("leadline").removeprefix(".")
            names = {f"{module}.{alias.name}".removeprefix(".") for alias in node.names}
            yield from (names & set(ORDER)) or {module}
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("leadline.") for a in node.names if a.name.startswith("leadline."))


def test_every_module_has_its_place():
    assert sorted(_name(path) for path in PACKAGE.rglob("*.py")) == sorted(ORDER)


def test_modules_import_only_from_above():
    upward = [
        f"{_name(path) or 'leadline'} imports {imported}"
        for path in PACKAGE.rglob("*.py")
        for imported in _imported(path)
        if ORDER.index(imported) >= ORDER.index(_name(path))
    ]
    assert upward == []


def test_import_leaves_heavy_libraries_alone():
    code = "import sys, leadline; print([m for m in ('matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
