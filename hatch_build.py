"""Builds the engine while the package is installed; without a compiler the package is installed without it."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

BUILD = Path(__file__).parent / "leadline" / "backend" / "native" / "build.py"


class EngineHook(BuildHookInterface):
    """Adds the engine's builds to a wheel, which then is one for this kind of machine, and for every Python there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            built = runpy.run_path(str(BUILD))["build"]()
        except (RuntimeError, OSError) as error:
            self.app.display_warning(f"Leadline is installed without its engine: {error}. It works through JAX alone.")
            return
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in built]
        build_data["pure_python"] = False
        # The engine is a library of C functions that knows nothing of Python. Which systems other than this one it runs
        # on is for auditwheel to say (`make dist`), so it is not called a manylinux or musllinux wheel here.
        machine = next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
        build_data["tag"] = f"py3-none-{machine}"
