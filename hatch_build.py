"""Builds the engine while the package is installed; without a compiler the package is installed without it."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path(__file__).parent / "leadline" / "backend" / "native" / "build.py"


class EngineHook(BuildHookInterface):
    """Adds the engine's builds to a wheel, which then is one for this kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            built = runpy.run_path(str(BUILD))["build"]()
        except (RuntimeError, OSError) as error:
            self.app.display_warning(f"Leadline is installed without its engine: {error}. It works through JAX alone.")
            return
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in built]
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
