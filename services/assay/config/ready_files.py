"""The files in which each part of a platform says that it is ready and where it listens.

A file exists as long as its part serves. `assay.edge.lifecycle` writes it; the platform and the
commands read it.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import Final

REPLACES: Final = "_ASSAY_REPLACES"
"""Environment variable of a part that was started again: `<part>:<reason>`, for its metrics."""


class Part(StrEnum):
    """A process of the platform."""

    REWARD = "reward"
    WORKER = "worker"
    PLANNER = "planner"
    ROLLOUT = "rollout"


def ready_file(data_dir: Path, part: Part) -> Path:
    """Path of the part's file in `data_dir`."""
    return data_dir / "run" / f"{part.value}.json"


def living(ready: Path) -> dict[str, str] | None:
    """The content of a ready file, unless its part has ended or was killed."""
    try:
        content: dict[str, str] = json.loads(ready.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content if Path(f"/proc/{content['pid']}").exists() else None


def planner_of(data_dir: Path, address: str) -> str:
    """Where a planner listens (gRPC): at `address`, if there is one, or as the file says; empty:
    none does."""
    if address:
        return address
    planner = living(ready_file(data_dir, Part.PLANNER))
    return planner["grpc"] if planner is not None else ""
