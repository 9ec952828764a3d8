"""Where each part of a platform says that it is ready, and where it listens.

The file is there as long as the part serves. `assay.edge.lifecycle` writes it; the platform and the
commands read it.
"""

from enum import StrEnum
from pathlib import Path


class Part(StrEnum):
    """A process of the platform."""

    REWARD = "reward"
    WORKER = "worker"
    PLANNER = "planner"
    ROLLOUT = "rollout"


def ready_file(data_dir: Path, part: Part) -> Path:
    """The part's file in `data_dir`."""
    return data_dir / "run" / f"{part.value}.json"
