"""A Harbor task's `task.toml`: what its verifier needs, checked before anything is stored. Pure.

The form is that of Harbor 0.25 (`harbor/models/task/config.py`). Tables that are about the agent's
phase (`[agent]`, `[environment]` images, `[[verifier.collect]]`) are not ours and are skipped.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.core.errors import InvalidRequest
from assay.sandbox.launchers.collect import check_name
from assay.sandbox.port import MIB

TASK_CHARS_MAX: Final = 200_000
TIMEOUT_S_MAX: Final = 3_600.0
MEMORY_BYTES_MAX: Final = 8_192 * MIB
STORAGE_BYTES_MAX: Final = 4_096 * MIB
_VARIABLES_MAX: Final = 64
_ARTIFACTS_MAX: Final = 256
_OWN: Final = ("tests", "logs/verifier")
"""Directories of the grader, where no artifact may lie."""
_ROOTS: Final = ("app", "logs", "solution")
"""Directories of a task's machine that exist in the grader's box."""


class TaskError(ValueError):
    """A `task.toml` that cannot be graded here; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierTask:
    """What grading needs of a task."""

    timeout_s: float
    memory_bytes: int
    storage_bytes: int
    env: Mapping[str, str]
    artifacts: Sequence[str]
    """Paths without the leading slash; a directory stands for all below it."""

    def takes(self, name: str) -> bool:
        """Whether an artifact of this name is declared."""
        return any(name == one or name.startswith(f"{one}/") for one in self.artifacts)


def read_task(text: str) -> VerifierTask:
    """Read a `task.toml`.

    Raises:
        TaskError: it is malformed, or asks for what a fresh box cannot give.
    """
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"not TOML: {str(error)[:200]}") from None
    if "steps" in told:
        raise TaskError("steps: tasks of several steps are not graded")
    verifier, machine = _table(told, "verifier"), _table(told, "environment")
    if verifier.get("environment"):
        machine = _table(verifier, "environment")
    return VerifierTask(
        timeout_s=_number(verifier, "timeout_sec", 600.0, TIMEOUT_S_MAX),
        memory_bytes=int(_number(machine, "memory_mb", 2_048, MEMORY_BYTES_MAX / MIB) * MIB),
        storage_bytes=int(_number(machine, "storage_mb", 256, STORAGE_BYTES_MAX / MIB) * MIB),
        env=_variables(_table(verifier, "env")),
        artifacts=_paths([*_list(told, "artifacts"), *_list(verifier, "artifacts")]),
    )


def _table(told: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = told.get(key, {})
    if not isinstance(found, dict):
        raise TaskError(f"{key}: not a table")
    return found


def _list(told: Mapping[str, Any], key: str) -> list[Any]:
    found = told.get(key, [])
    if not isinstance(found, list) or len(found) > _ARTIFACTS_MAX:
        raise TaskError(f"{key}: not a list of at most {_ARTIFACTS_MAX}")
    return found


def _number(told: Mapping[str, Any], key: str, usual: float, most: float) -> float:
    """A positive number; storage and memory beyond what a box has are given in part."""
    found = told.get(key, usual)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not found > 0:
        raise TaskError(f"{key}: not a positive number")
    return min(float(found), most)


def _variables(told: Mapping[str, Any]) -> Mapping[str, str]:
    if len(told) > _VARIABLES_MAX:
        raise TaskError(f"verifier.env: more than {_VARIABLES_MAX}")
    for name, value in told.items():
        if not name.isidentifier() or not isinstance(value, str) or "\0" in value:
            raise TaskError(f"verifier.env.{name[:64]}: not a variable")
        if "${" in value:
            raise TaskError(f"verifier.env.{name[:64]}: asks for a variable of the host")
    return dict(told)


def _paths(declared: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_path(one) for one in declared)


def _path(declared: object) -> str:
    source = declared.get("source") if isinstance(declared, dict) else declared
    if not isinstance(source, str) or not source.startswith("/"):
        raise TaskError("artifacts: not an absolute path")
    try:
        name = check_name(source.strip("/"), "artifacts")
    except InvalidRequest as error:
        raise TaskError(f"artifacts: {error.message}") from None
    if name.split("/")[0] not in _ROOTS:
        raise TaskError(f"artifacts: {source[:200]!r} is not below /{', /'.join(_ROOTS)}")
    if any(f"{name}/".startswith(f"{own}/") or f"{own}/".startswith(f"{name}/") for own in _OWN):
        raise TaskError(f"artifacts: {source[:200]!r} would hold the grader's own files")
    return name
