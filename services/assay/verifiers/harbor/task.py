"""A Harbor task's `task.toml`: what its verifier needs, checked before anything is stored. Pure.

The form is that of Harbor 0.25 (`harbor/models/task/config.py`). Tables that are about the agent's
phase (`[agent]`, `[environment]` images, `[[verifier.collect]]`) are not ours and are skipped.

A task without `[[steps]]` is one of one step, whose name is empty.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
_LEAST: Final = {"timeout_sec": 0.001, "memory_mb": 1.0, "storage_mb": 1.0}
STEPS_MAX: Final = 16
_GATES_MAX: Final = 64
_STEP_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Narrower than Harbor's: a part of the names of artifacts."""
ALONE: Final = "reward"
"""How Harbor calls a number that stands alone."""
_OWN: Final = ("tests", "logs/verifier")
"""Directories of the grader, where no artifact may lie."""
_ROOTS: Final = ("app", "logs", "solution")
"""Directories of a task's machine that exist in the grader's box."""


class TaskError(ValueError):
    """A `task.toml` that cannot be graded here; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierStep:
    """What grading needs of a step."""

    name: str
    """Empty: the only step of a task without steps."""
    min_reward: Mapping[str, float]
    """With less than that, or without, no further step is graded."""
    timeout_s: float
    memory_bytes: int
    storage_bytes: int
    env: Mapping[str, str]
    artifacts: Sequence[str]
    """Paths without the leading slash; a directory stands for all below it."""

    def own(self, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Those of all artifacts which this step declares, by their paths on the machine."""
        prefix = f"steps/{self.name}/" if self.name else ""
        found = {name[len(prefix) :]: files[name] for name in files if name.startswith(prefix)}
        return {name: content for name, content in found.items() if self.takes(name)}

    def takes(self, name: str) -> bool:
        """Whether an artifact of this path is declared."""
        return any(name == one or name.startswith(f"{one}/") for one in self.artifacts)

    def opens(self, rewards: Mapping[str, float]) -> bool:
        """Whether the next step is graded after these rewards of this one."""
        return all(rewards.get(key, -math.inf) >= least for key, least in self.min_reward.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierTask:
    """What grading needs of a task."""

    steps: Sequence[VerifierStep]
    """At least one."""
    by_final: bool = False
    """The last graded step's rewards are the task's; otherwise the means over graded steps."""

    @property
    def has_steps(self) -> bool:
        """Whether `[[steps]]` are given."""
        return bool(self.steps[0].name)


def read_task(text: str) -> VerifierTask:
    """Read a `task.toml`.

    Raises:
        TaskError: it is malformed, or asks for what a fresh box cannot give.
    """
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"not TOML: {str(error)[:200]}") from None
    if not told.get("steps"):
        return VerifierTask(steps=(_step(told, {}, ""),))
    strategy = told.get("multi_step_reward_strategy", "mean")
    if strategy not in {"mean", "final"}:
        raise TaskError("multi_step_reward_strategy: neither mean nor final")
    return VerifierTask(steps=_steps(told), by_final=strategy == "final")


def _steps(told: Mapping[str, Any]) -> tuple[VerifierStep, ...]:
    tables = told["steps"]
    if not isinstance(tables, list) or len(tables) > STEPS_MAX:
        raise TaskError(f"steps: not a list of at most {STEPS_MAX}")
    found: list[VerifierStep] = []
    names = set()
    for table in tables:
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str) or not _STEP_NAME.fullmatch(name):
            raise TaskError(f"steps.name: not of the form {_STEP_NAME.pattern}")
        if name.casefold() in names:
            raise TaskError(f"steps.name: {name!r} occurs twice")
        names.add(name.casefold())
        try:
            found.append(_step(told, table, name))
        except TaskError as error:
            raise TaskError(f"steps.{name}: {error}") from None
    share = TIMEOUT_S_MAX / max(TIMEOUT_S_MAX, sum(one.timeout_s for one in found))
    return tuple(replace(one, timeout_s=one.timeout_s * share) for one in found)


def _step(told: Mapping[str, Any], step: Mapping[str, Any], name: str) -> VerifierStep:
    """A step; what it leaves out is that of the task."""
    above, verifier = _table(told, "verifier"), _table(step, "verifier")
    machine = (
        _table(verifier, "environment")
        or _table(above, "environment")
        or _table(told, "environment")
    )
    usual_s = _number(above, "timeout_sec", 600.0, TIMEOUT_S_MAX)
    declared = [_list(one, "artifacts") for one in (told, above, step, verifier)]
    return VerifierStep(
        name=name,
        min_reward=_gates(step.get("min_reward", {})),
        timeout_s=_number(verifier, "timeout_sec", usual_s, TIMEOUT_S_MAX),
        memory_bytes=int(_number(machine, "memory_mb", 2_048, MEMORY_BYTES_MAX / MIB) * MIB),
        storage_bytes=int(_number(machine, "storage_mb", 256, STORAGE_BYTES_MAX / MIB) * MIB),
        env={**_variables(_table(above, "env")), **_variables(_table(verifier, "env"))},
        artifacts=_paths([one for several in declared for one in several]),
    )


def _gates(told: object) -> Mapping[str, float]:
    given = told if isinstance(told, dict) else {ALONE: told}
    if len(given) > _GATES_MAX:
        raise TaskError(f"min_reward: more than {_GATES_MAX}")
    found = {}
    for key, least in given.items():
        value = _float(least)
        if math.isnan(value):
            raise TaskError("min_reward: not a number")
        found[key] = value
    return found


def _float(told: object) -> float:
    """A number as a float, infinite where it is larger than any; anything else is NaN."""
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        return math.nan
    try:
        return float(told)
    except OverflowError:
        return math.inf if told > 0 else -math.inf


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
    found = _float(told.get(key, usual))
    if not found >= _LEAST[key]:
        raise TaskError(f"{key}: not a number of at least {_LEAST[key]}")
    return min(found, most)


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
