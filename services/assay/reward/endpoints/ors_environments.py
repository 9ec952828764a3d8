"""Environments of the Open Reward Standard: a pipeline, and the tasks that are judged by it.

Every pipeline is an environment whose tasks the client brings (`{"prompt", "reference"}`). Those of
`reward.environments` have tasks of their own, from a file; their references stay here. A name that
ends in `.tool` is the same environment for harnesses that know no terminal tool: its tool is an
ordinary one, which the model calls.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from assay.config.settings import EnvironmentSettings
from assay.core.errors import InvalidRequest, NotFound
from assay.core.tools.labels import reference_of
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.port import PipelineDefinition

TOOL: Final = "submit"
ARGUMENT: Final = "response"
AS_TOOL: Final = ".tool"
SPLITS: Final = ("train", "validation", "test")
ROWS_MAX: Final = 2_000_000


class TasksUnusableError(ValueError):
    """A file of tasks cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A task: what is asked, and what the response is judged by."""

    prompt: Sequence[Mapping[str, str]]
    """Messages with `role` and `content`."""
    reference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """See the module's text."""

    name: str
    definition: PipelineDefinition
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    problems: Mapping[str, Sequence[Problem]] = field(default_factory=lambda: MappingProxyType({}))
    """By split."""
    terminal: bool = True
    """Whether its tool is called by the harness, with the last message; otherwise by the model."""

    def split(self, name: str) -> Sequence[Problem]:
        """The tasks of a split.

        Raises:
            InvalidRequest: there is no such split.
        """
        if name not in self.problems:
            known = ", ".join(self.problems) or "none: tasks come with the session"
            raise InvalidRequest(f"split: {name!r}; there are {known}", field="split")
        return self.problems[name]

    def problem(self, split: str, index: int) -> Problem:
        """One task.

        Raises:
            InvalidRequest: there is no such task.
        """
        tasks = self.split(split)
        if not 0 <= index < len(tasks):
            raise InvalidRequest(f"index: {index}; there are {len(tasks)} tasks", field="index")
        return tasks[index]

    def problem_of(self, spec: Mapping[str, Any]) -> Problem:
        """The task of a specification: a place in a split, or prompt and reference.

        Raises:
            InvalidRequest: it is neither.
        """
        split, index = spec.get("split"), spec.get("index")
        if self.problems and isinstance(split, str) and isinstance(index, int):
            return self.problem(split, index)
        if "reference" not in spec:
            message = "task_spec.reference: what the response is judged by is missing"
            raise InvalidRequest(message, field="task_spec.reference")
        prompt = _messages(spec.get("prompt", ""), "task_spec.prompt")
        return Problem(prompt=prompt, reference=reference_of(spec["reference"]))

    def tools(self) -> dict[str, Any]:
        """`ListToolsOutput` of the standard."""
        description = f"Submit the final response. {self.definition.spec.description}"
        tool = {
            "name": TOOL,
            "description": description,
            "input_schema": {
                "type": "object",
                "properties": {
                    ARGUMENT: {"type": "string", "description": "The complete final response."}
                },
                "required": [ARGUMENT],
            },
        }
        ends = {"name": TOOL, "arg": ARGUMENT, "description": description}
        return {
            "tools": [] if self.terminal else [tool],
            "terminal_tool": ends if self.terminal else None,
            "supports_score_group": True,
            "message_block_types": ["text", "image", "reasoning", "tool_call", "tool_result"],
        }


class Environments:
    """All environments by name."""

    def __init__(
        self,
        pipelines: Sequence[PipelineDefinition],
        configured: Mapping[str, EnvironmentSettings],
    ) -> None:
        """Read the files of tasks.

        Raises:
            TasksUnusableError: a file, or a pipeline that is named, cannot be used.
        """
        known = {str(one.spec.name): one for one in pipelines}
        self._first = next(iter(configured), "")
        self._all = {name: Environment(name=name, definition=known[name]) for name in known}
        for name, settings in configured.items():
            definition = known.get(settings.pipeline)
            if definition is None:
                message = f"reward.environments.{name}: no pipeline {settings.pipeline!r}"
                raise TasksUnusableError(message)
            parse_settings(definition, json.dumps(settings.settings).encode())
            self._all[name] = Environment(
                name=name,
                definition=definition,
                settings=settings.settings,
                problems=_read(settings.tasks, definition),
            )

    @property
    def names(self) -> list[str]:
        """The default one first."""
        return sorted(self._all, key=lambda name: (name != self._first, name))

    def get(self, path: str, deployment: str) -> Environment:
        """The environment that a path or, without one, the header `X-Deployment` names.

        An unknown deployment is the default environment, as clients of a single one name anything.

        Raises:
            NotFound: there is none.
        """
        if path:
            found = self._named(path)
        else:
            found = self._named(deployment.rpartition("/")[2]) or self._all.get(self._first)
        if found is None:
            known = ", ".join(self.names)
            message = f"environment: {path or deployment!r}; there are {known}"
            raise NotFound(message, field="environment")
        return found

    def _named(self, name: str) -> Environment | None:
        found = self._all.get(name)
        if found is None and name.endswith(AS_TOOL):
            plain = self._all.get(name.removesuffix(AS_TOOL))
            return None if plain is None else replace(plain, name=name, terminal=False)
        return found


def _read(path: Path, definition: PipelineDefinition) -> Mapping[str, Sequence[Problem]]:
    found: dict[str, list[Problem]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if number > ROWS_MAX:
                raise TasksUnusableError(f"{path}: more than {ROWS_MAX} rows")
            try:
                split, problem = _row(json.loads(line))
                parse_reference(definition, json.dumps(problem.reference).encode())
            except (ValueError, TypeError, KeyError, InvalidRequest) as error:
                raise TasksUnusableError(f"{path}:{number}: {error}") from None
            found.setdefault(split, []).append(problem)
    if not found:
        raise TasksUnusableError(f"{path}: no rows")
    return found


def _row(row: Mapping[str, Any]) -> tuple[str, Problem]:
    split = row.get("split", SPLITS[0])
    if not isinstance(split, str):
        raise InvalidRequest("split: must be a text", field="split")
    prompt = _messages(row["prompt"], "prompt")
    return split, Problem(prompt=prompt, reference=reference_of(row["reference"]))


def _messages(prompt: object, field_name: str) -> Sequence[Mapping[str, str]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and all(
        isinstance(one, Mapping)
        and one.get("role") in {"system", "user", "assistant"}
        and isinstance(one.get("content"), str)
        for one in prompt
    ):
        return [{"role": one["role"], "content": one["content"]} for one in prompt]
    raise InvalidRequest(f"{field_name}: text, or messages with role and content", field=field_name)
