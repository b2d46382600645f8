"""What carries out the chunks of a sweep: one file a runner."""

from leadline.studies.runners.all_cores import AllCores
from leadline.studies.runners.base import Done, Runner, Work
from leadline.studies.runners.in_turn import InTurn

__all__ = ["AllCores", "Done", "InTurn", "Runner", "Work"]
