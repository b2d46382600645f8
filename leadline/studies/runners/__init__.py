"""What carries out the chunks of a sweep: one file a runner."""

from leadline._checks import InvalidArgumentError
from leadline.studies.runners.all_cores import AllCores
from leadline.studies.runners.base import Done, Failed, Runner, Slots, Work
from leadline.studies.runners.in_turn import InTurn
from leadline.studies.runners.ray import RayRunner

__all__ = ["AllCores", "Done", "Failed", "InTurn", "RayRunner", "Runner", "Slots", "Work", "runner_on"]

PLACES = "local, cores, ray, ray://HOST:PORT or auto"
"""What can be said of where to train."""


def runner_on(place: str) -> Runner | None:
    """The runner that is meant by `--on`; None leaves it to the study."""
    if place.startswith("ray://"):
        return RayRunner(place)
    named = {"local": None, "cores": AllCores(), "ray": RayRunner(), "auto": RayRunner("auto")}
    if place not in named:
        raise InvalidArgumentError(f"must be {PLACES}, got {place!r}.", "on")
    return named[place]
