"""The pipelines `run.python` and `run.cpp`: run the response as a program and report what it did.

They use the stages of `code.python` and `code.cpp`: the same pools, boxes, limits and compiled
programs. A program that ends with exit code 0 gets `reward_pass`. Everything else that it did is in
the report (`report.py`), which is kept for a caller who names the call.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field, field_validator

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName
from assay.core.pipeline import PipelineSpec
from assay.sandbox.launchers.collect import check_name
from assay.sandbox.port import MIB, Limits
from assay.verifiers.code.definition import (
    CPP_COMPILE,
    CPP_COMPILE_STAGE,
    CPP_RUN,
    CPP_RUN_STAGE,
    PYTHON_RUN,
    PYTHON_RUN_STAGE,
)
from assay.verifiers.code.settings import PROGRAM_FILE
from assay.verifiers.packages import program_tools
from assay.verifiers.port import PipelineDefinition, Reference, Tools

RUN_PYTHON: Final = PipelineName("run.python")
RUN_CPP: Final = PipelineName("run.cpp")
FILES_MAX: Final = 256
FILES_BYTES_MAX: Final = 16 * MIB
"""Content of all given files, and of all files in a report."""
OUTPUT_BYTES_MAX: Final = 16 * MIB
PROGRAM_FILES: Final = frozenset(
    {PROGRAM_FILE, "program.py", "program.jar", "program.js", "program.sh"}
)
"""Names of programs in their boxes."""


class ProgramRun(Reference):
    """One run of the response as a program."""

    call: str = Field(default="", max_length=128)
    """Name of this call, hard to guess; its report is kept for a short time. Empty: not kept."""
    stdin: str = ""
    """Standard input."""
    files: dict[Annotated[str, Field(max_length=256)], str] = Field(
        default_factory=dict, max_length=FILES_MAX
    )
    """Relative path -> content in base64: files beside the program."""
    collect: tuple[Annotated[str, Field(max_length=256)], ...] = Field(
        default=(), max_length=FILES_MAX
    )
    """Relative paths of files to report after the run."""
    cpu_s: float = Field(default=10.0, gt=0, le=300)
    """CPU time of the program."""
    blocked_s: float = Field(default=10.0, gt=0, le=120)
    """Time that it may sleep or be blocked by itself; waiting for a core never counts."""
    memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB, le=8_192 * MIB)
    """Memory of its whole process tree."""
    output_bytes: int = Field(default=8 * MIB, gt=0, le=OUTPUT_BYTES_MAX)
    """Bytes that it may write to stdout, and as many to stderr."""
    compile_cpu_s: float = Field(default=20.0, gt=0, le=120)
    """CPU time of the compilation."""

    @field_validator("files", mode="after")
    @classmethod
    def _readable(cls, files: dict[str, str]) -> dict[str, str]:
        total = 0
        for name, content in files.items():
            _plain(name, "files")
            try:
                total += len(base64.b64decode(content, validate=True))
            except binascii.Error:
                raise ValueError(f"{name!r} is not base64") from None
        if total > FILES_BYTES_MAX:
            raise ValueError(f"more than {FILES_BYTES_MAX} bytes")
        return files

    @field_validator("collect", mode="after")
    @classmethod
    def _plain_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            _plain(name, "collect")
        return names

    def limits(self) -> Limits:
        """Bounds of the run."""
        return Limits(
            cpu_s=self.cpu_s,
            blocked_s=self.blocked_s,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
        )

    def contents(self) -> dict[str, bytes]:
        """The files as bytes."""
        return {name: base64.b64decode(content) for name, content in self.files.items()}


def _plain(name: str, field: str) -> None:
    try:
        check_name(name, field)
    except InvalidRequest as error:
        raise ValueError(error.message) from None
    if name in PROGRAM_FILES:
        raise ValueError(f"{name!r} is the program itself")


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipelines `run.python` and `run.cpp`."""
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=RUN_PYTHON,
            description="Runs a Python program; passes if it ends with exit code 0.",
            stages=(PYTHON_RUN,),
        ),
        stages=(PYTHON_RUN_STAGE,),
        reference=ProgramRun,
        tools=program_tools(settings),
        example_reference={"stdin": "2 3\n"},
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=RUN_CPP,
            description="Compiles a C++ program once and runs it; passes if it ends with exit "
            "code 0.",
            stages=(CPP_COMPILE, CPP_RUN),
        ),
        stages=(CPP_COMPILE_STAGE, CPP_RUN_STAGE),
        reference=ProgramRun,
        tools=Tools(programs=("g++",)),
        example_reference={"stdin": "2 3\n"},
    )
