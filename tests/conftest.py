"""Shapes and types in signatures are enforced in the tests, and only there."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

# Compiled programs, the same for all workers and checkouts: with a bound on their size JAX locks the directory.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leadline-tests"
)
os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(2**31)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import jaxtyping
import pytest
from jaxtyping import install_import_hook

import tests.typechecker  # noqa: F401

with install_import_hook("leadline", "tests.typechecker.checked"):
    import leadline  # noqa: F401

import hypothesis
import jax

hypothesis.settings.register_profile("no deadline", deadline=None)  # an example takes as long as the machine lets it
hypothesis.settings.load_profile("no deadline")

SHARED = Path(__file__).resolve().parents[2] / "shared"


LONG = (
    *("test_training", "test_conformance", "test_docs", "test_kernels", "test_seams", "test_native"),
    *("test_compilation", "test_spirals", "test_recipes", "test_compare", "test_free_energy", "test_families"),
    *("test_unbounded", "test_normal", "test_reproduce", "test_tables", "test_follow", "test_fuzz"),
    *("test_files", "test_residual", "test_ray", "test_registry", "test_convolutions", "test_sharding", "test_deep"),
)


def pytest_collection_modifyitems(items):
    """The files that take long begin first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: next((i for i, name in enumerate(LONG) if item.path.stem == name), len(LONG)))


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    """Run a test in both precisions; gives the name of the float type."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


@pytest.fixture
def as_users_have_it():
    """Without the tests' type checks: what a wrong argument gets in real life."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def leadline_here(monkeypatch, capsys, as_users_have_it):
    """The command line in this process, which is sooner there, for what ends before anything is trained."""
    from leadline.cli import main

    def run(*arguments, cwd):
        monkeypatch.setattr(sys, "argv", ["leadline", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # `main` has its own
        monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(arguments, end.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def shared():
    """The directory with the paper, for the tests that compare with it."""
    if not SHARED.exists():
        pytest.skip(f"needs {SHARED.name}/ beside the project, which is not there")
    return SHARED
