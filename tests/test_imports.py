"""Data flows one way: a module imports only from rooms above its own, or from modules above it in the room."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leadline

PACKAGE = Path(leadline.__file__).parent

ROOMS = [
    *("_version", "_foreign", "_checks", "_identity", "_discovery", "_registry", "backend", "depth"),
    *("network", "likelihoods"),
    *(
        "inference",
        "judged",
        "metrics",
        "plots",
        "prediction_plots",
        "files",
        "datasets",
        "training",
        "callbacks",
        "estimators",
        "studies",
        "report",
        "server",
        "cli",
        "",
        "__main__",
    ),
]
"""From the top."""

INSIDE = {
    "backend": [
        *(
            "forks",
            "numerics",
            "native",
            "native.build",
            "native.library",
            "random",
            "sharding",
            "device",
            "compilation",
        ),
        *("loops", "kernels", ""),
    ],
    "depth": ["base", "truncation", "poisson", "normal", "matching", "*", ""],
    "network": ["layers", "convolutions", "blocks.base", "blocks.*", "blocks", "unbounded", "known", ""],
    "likelihoods": ["mixture", "base", "numbers", "classes", "counting", "robust", "*", ""],
    "inference": [
        *(
            "model",
            "native",
            "door",
            "free_energy",
            "joint",
            "recipes",
            "montecarlo",
            "predict",
            "uncertainty",
            "calibration",
            "restarts",
            "pruning",
            "",
        ),
    ],
    "files": [
        *("whole", "ours", "lines", "checkpoints", "directories", "records", "values", "columns", "learning"),
        *("formats", "tables", "models", ""),
    ],
    "training": [
        *(
            "problem",
            "settings",
            "data",
            "augmentation",
            "pace",
            "optimiser",
            "state",
            "epochs",
            "native",
            "checkpoint",
            "devices",
            "storage",
        ),
        *("growth", "drawing", "interruption", "bursts", "progress", "run", "trained", "loop", ""),
    ],
    "estimators": [
        "said",
        "encoder",
        "checks",
        "images",
        "saving",
        "base",
        "shuffling",
        "inspection",
        "classifier",
        "regressor",
        "",
        "loading",
    ],
    "studies": [
        *("evaluate", "spiral", "runners.base", "runners.*", "runners", "sweep", "reproduce", "uci", "images", "folds"),
        *("space", "search"),
        *("inspection", "tables", "baselines", "bouts", "others", "comparison", "compare", "trials", ""),
    ],
    "report": [
        *("words", "web", "pictures", "page", "summary", "reproduction", "uci", "images", "comparison", "search", ""),
    ],
    "server": [
        *("guard", "events", "app", "places", "tails", "curves", "runs", "regions", "watch"),
        *("rules", "game", "film", "play", ""),
    ],
    "cli": ["streams", "app", "options", "pages", "spirals", "tables", "compare", "sweeps", "predictions", ""],
}
"""The modules of a room, from its top; `*` is any other of a folder of parts, which know nothing of each other."""


def _name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {_name(path): path for path in PACKAGE.rglob("*.py")}


def _place(module):
    """Where a module stands: its room, and its place inside."""
    room, _, inside = module.partition(".")
    order = INSIDE.get(room, [""])
    folder = inside.rpartition(".")[0]
    part = f"{folder}.*".lstrip(".")
    return ROOMS.index(room), order.index(inside if inside in order else part)


def _imported(path):
    """Names of the leadline modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "leadline":
            module = (node.module or "").removeprefix("leadline").removeprefix(".")
            names = {f"{module}.{alias.name}".removeprefix(".") for alias in node.names}
            yield from (names & set(MODULES)) or {module}
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("leadline.") for a in node.names if a.name.startswith("leadline."))


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_import_only_from_above(module):
    upward = [other for other in _imported(MODULES[module]) if _place(other) >= _place(module)]
    assert upward == []


def test_no_module_is_long():
    long = {name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_import_leaves_heavy_libraries_alone():
    code = "import sys, leadline; print([m for m in ('matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_no_device():
    """So that `leadline --version` answers at once, and a GPU stays free."""
    code = (
        "from leadline.cli import compare, spirals; from jax._src import xla_bridge; print(len(xla_bridge._backends))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
