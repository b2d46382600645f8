"""Shapes and types in signatures are enforced in the tests, and only there."""

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

import tests.typechecker  # noqa: F401

with install_import_hook("leadline", "tests.typechecker.checked"):
    import leadline  # noqa: F401

import jax

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    """Run a test in both precisions; gives the name of the float type."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


@pytest.fixture(scope="session")
def shared():
    """The directory with the paper, for the tests that compare with it."""
    if not SHARED.exists():
        pytest.skip(f"needs {SHARED.name}/ beside the project, which is not there")
    return SHARED
