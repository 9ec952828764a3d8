"""The pipeline `harbor`: Harbor tasks, graded in a fresh box from declared artifacts."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import Field, PrivateAttr, field_validator, model_validator

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.launchers.collect import check_name
from assay.sandbox.port import MIB
from assay.verifiers.harbor.task import STEPS_MAX, TASK_CHARS_MAX, VerifierTask, read_task
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

HARBOR_RUN: Final = StageName("harbor.run")
TEST_SCRIPT: Final = "test.sh"
_FILES_MAX: Final = 512
_FILES_BYTES_MAX: Final = 16 * MIB
_TIMEOUT_S: Final = 72_000.0
"""Two runs, three times each at most, of the longest `timeout_sec` (that of all steps together) on
a busy machine."""

Files = dict[Annotated[str, Field(max_length=256)], str]


class HarborSettings(PipelineSettings):
    """Settings of `harbor`. `reward_pass` has no effect: the task's tests write the reward;
    `reward_fail` is for a response with which they write none, though with others they do."""

    reward_key: str = Field(default="reward", min_length=1, max_length=64)
    """Which number of a `reward.json` with several is the reward."""


class HarborReference(Reference):
    """Reference of `harbor`: the parts of a task's directory that its verifier needs."""

    task: str = Field(max_length=TASK_CHARS_MAX)
    """The text of `task.toml`."""
    tests: Files = Field(default_factory=dict, max_length=_FILES_MAX)
    """The directory `tests`: relative path -> content in base64; with `test.sh`, unless each step
    has one."""
    steps: dict[Annotated[str, Field(max_length=256)], Files] = Field(
        default_factory=dict, max_length=STEPS_MAX
    )
    """Of a task with steps: name -> its directory `steps/NAME/tests`, which lies over `tests`."""
    response_file: str = Field(default="", max_length=256)
    """Absolute path of a declared artifact that the response's text becomes; empty: none."""
    control: Files = Field(default_factory=dict, max_length=_FILES_MAX)
    """Artifacts of a solved task, in base64, named as a request's. Where the tests write no reward
    they are tried with these, to tell whose fault that is. Empty: with no artifacts."""
    _task: VerifierTask = PrivateAttr()

    @field_validator("tests", "control", mode="after")
    @classmethod
    def _readable(cls, files: Files) -> Files:
        _check_size(files)
        return files

    @field_validator("steps", mode="after")
    @classmethod
    def _all_readable(cls, steps: dict[str, Files]) -> dict[str, Files]:
        if sum(map(len, steps.values())) > _FILES_MAX:
            raise ValueError(f"more than {_FILES_MAX} files")
        _check_size({f"{step}/{name}": steps[step][name] for step in steps for name in steps[step]})
        return steps

    @model_validator(mode="after")
    def _whole(self) -> "HarborReference":
        self._task = read_task(self.task)
        unknown = self.steps.keys() - {step.name for step in self._task.steps}
        if unknown:
            raise ValueError(f"steps: the task has no step {min(unknown)!r}")
        for step in self._task.steps:
            if TEST_SCRIPT not in {**self.tests, **self.steps.get(step.name, {})}:
                where = f"tests, steps.{step.name}" if step.name else "tests"
                raise ValueError(f"{where}: no {TEST_SCRIPT}")
        if self.response_file and self._task.has_steps:
            raise ValueError("response_file: the task has steps")
        if self.response_file and not self._task.steps[0].takes(self.response_file.strip("/")):
            raise ValueError("response_file: not among the task's artifacts")
        return self

    @property
    def verifier(self) -> VerifierTask:
        """What grading needs of the task."""
        return self._task

    def test_files(self, step: str) -> Mapping[str, bytes]:
        """The tests of a step, at their places in the box."""
        files = {**self.tests, **self.steps.get(step, {})}
        return {f"tests/{name}": base64.b64decode(told) for name, told in files.items()}

    def control_files(self) -> Mapping[str, bytes]:
        """The artifacts of a solved task."""
        return {name: base64.b64decode(told) for name, told in self.control.items()}


def _check_size(files: Mapping[str, str]) -> None:
    """Refuse names that are not plain paths, contents that are not base64, and too many bytes.

    Raises:
        ValueError: one of these; the message names the file.
    """
    total = 0
    for name, content in files.items():
        try:
            check_name(name, "files")
            total += len(base64.b64decode(content, validate=True))
        except InvalidRequest as error:
            raise ValueError(error.message) from None
        except (binascii.Error, ValueError):
            raise ValueError(f"{name!r} is not base64") from None
    if total > _FILES_BYTES_MAX:
        raise ValueError(f"more than {_FILES_BYTES_MAX} bytes")


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `harbor`."""
    del settings
    stage = StageDefinition(
        spec=StageSpec(
            name=HARBOR_RUN,
            resources=Resources(memory_bytes=2_048 * MIB),
            timeout_s=_TIMEOUT_S,
            on_demand=True,
        ),
        handler="assay.verifiers.harbor.stage:HarborHandler",
        runs_untrusted_code=True,
    )
    script = b'grep -qx 42 /app/answer.txt; echo "$((1 - $?))" > /logs/verifier/reward.txt\n'
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("harbor"),
            description="A Harbor task's tests judge declared artifacts in a fresh box.",
            stages=(HARBOR_RUN,),
        ),
        stages=(stage,),
        settings=HarborSettings,
        reference=HarborReference,
        takes_artifacts=True,
        tools=Tools(programs=("bash",)),
        example_reference={
            "task": 'artifacts = ["/app/answer.txt"]\n[verifier]\ntimeout_sec = 60\n',
            "tests": {TEST_SCRIPT: base64.b64encode(script).decode()},
            "response_file": "/app/answer.txt",
        },
    )
