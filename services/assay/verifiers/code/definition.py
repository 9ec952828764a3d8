"""The pipelines `code.python` and `code.cpp`: settings, references, stages.

References may be written in the product's own form (`tests`, `calls`, `asserts`) or as the data
sets write them; both give the same model:

* verl, TACO, APPS, CodeContests: `{"inputs": [...], "outputs": [...], "fn_name"?, "assert_case"?}`
* SandboxFusion: a list of `{"input": {"stdin"}, "output": {"stdout"}}` under `test`
* HumanEval: `{"prompt", "entry_point", "test"}`
* MBPP: `{"test_list": [...], "test_setup_code"?}`
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from pydantic import Field, field_validator, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB, Limits
from assay.verifiers.code.compare import OutputComparison, OutputRule
from assay.verifiers.code.programs import BlockChoice, Extraction
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
)

PYTHON_RUN: Final = StageName("python.run")
CPP_COMPILE: Final = StageName("cpp.compile")
CPP_RUN: Final = StageName("cpp.run")
TESTS_MAX: Final = 10_000
_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
_TOTAL_CPU_S_MAX: Final = 300.0


class CodeSettings(PipelineSettings):
    """What both languages have."""

    extraction: Extraction = Extraction.AUTO
    """Where in the response the program is."""
    block: BlockChoice = BlockChoice.LAST
    """Which block, where there are several in the right language."""
    cpu_s: float = Field(default=4.0, gt=0, le=60)
    """CPU time of one test. Wall time is bounded at three times that plus two seconds."""
    total_cpu_s: float = Field(default=60.0, gt=0, le=_TOTAL_CPU_S_MAX)
    """CPU time of all tests of one response."""
    memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB, le=8_192 * MIB)
    """Memory of the program's whole process tree."""
    output_bytes: int = Field(default=32 * MIB, gt=0, le=256 * MIB)
    """Bytes that the program may write to stdout, and to stderr."""
    partial_credit: bool = False
    """Reward the fraction of tests passed. All tests are then run."""
    stop_at_first_failure: bool = True
    """Do not run the tests after the first that fails; has no effect with `partial_credit`."""
    compare: OutputRule = OutputRule.TOKENS
    """What of white space in stdout counts."""
    ignore_case: bool = False
    """Take upper and lower case in stdout for the same."""
    stdout_float_tolerance: float = Field(default=0.0, ge=0, le=1)
    """Absolute or relative error that a number in stdout may have; 0 = digits are text."""

    @property
    def runs_all(self) -> bool:
        """Whether a failed test is followed by others."""
        return self.partial_credit or not self.stop_at_first_failure

    @property
    def comparison(self) -> OutputComparison:
        """How outputs are compared."""
        return OutputComparison(
            rule=self.compare,
            ignore_case=self.ignore_case,
            float_tolerance=self.stdout_float_tolerance,
        )

    def limits(self, cpu_s: float) -> Limits:
        """Bounds of a run that may use `cpu_s`; wall time is the safety net."""
        return Limits(
            cpu_s=cpu_s,
            wall_s=wall_limit_s(cpu_s),
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
        )


def wall_limit_s(cpu_s: float) -> float:
    """Wall time for work that may use `cpu_s` on a machine that it shares."""
    return 3 * cpu_s + 2


class PythonSettings(CodeSettings):
    """Settings of `code.python`."""

    value_float_tolerance: float = Field(default=1e-6, ge=0, le=1)
    """Absolute or relative error that a float returned by a call may have."""


class CppSettings(CodeSettings):
    """Settings of `code.cpp`."""

    standard: str = Field(default="c++17", pattern=r"^(c|gnu)\+\+(11|14|17|20|23)$")
    """`-std=` of the compiler."""
    optimize: str = Field(default="2", pattern=r"^[0123s]$")
    """`-O` of the compiler."""
    compile_cpu_s: float = Field(default=20.0, gt=0, le=120)
    """CPU time of the compilation."""
    compile_memory_bytes: int = Field(default=1_024 * MIB, ge=128 * MIB, le=8_192 * MIB)
    """Memory of the compilation."""


class IoTest(Reference):
    """One run of the program."""

    stdin: str = ""
    """What it reads."""
    stdout: str
    """What it has to write."""


class CallCase(Reference):
    """One call of a function."""

    args: tuple[Any, ...] = ()
    """Positional arguments."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments."""
    expected: Any
    """The result."""
    alternatives: tuple[Any, ...] = ()
    """Other results that pass."""


class CallTests(Reference):
    """Calls of one function, compared outside the sandbox."""

    function: str = Field(pattern=_NAME, max_length=200)
    """Its name; `Class.method` is called on a new object. A function that the program does not
    define is looked for in its class `Solution`."""
    cases: tuple[CallCase, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """In order; they share one process."""


class AssertTests(Reference):
    """Test code that runs apart from the program and calls it by messages."""

    code: tuple[str, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """Each entry is a test; they share one namespace. One passes when it raises nothing."""
    setup: str = ""
    """Run before them; sees nothing of the program."""
    functions: tuple[str, ...] = Field(default=(), max_length=100)
    """Names that mean the program's even where `setup` or Python define them too."""
    prompt: str = ""
    """The beginning of the program, which the response continues or repeats."""

    @field_validator("code", "setup", "prompt", mode="after")
    @classmethod
    def _no_nul(cls, text: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if any("\0" in part for part in ([text] if isinstance(text, str) else text)):
            raise ValueError("code holds a NUL character")
        return text


class CppReference(Reference):
    """Reference of `code.cpp`."""

    tests: tuple[IoTest, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """Runs of the program."""

    @model_validator(mode="before")
    @classmethod
    def _from_data_set(cls, data: Any) -> Any:  # noqa: ANN401 - whatever the caller sent
        return _read_data_set(data) if isinstance(data, dict) else data


class PythonReference(Reference):
    """Reference of `code.python`: exactly one of the three."""

    tests: tuple[IoTest, ...] = Field(default=(), max_length=TESTS_MAX)
    """Runs of the program with stdin and stdout."""
    calls: CallTests | None = None
    """Calls of a function with JSON arguments and results."""
    asserts: AssertTests | None = None
    """Test code."""

    @model_validator(mode="before")
    @classmethod
    def _from_data_set(cls, data: Any) -> Any:  # noqa: ANN401 - whatever the caller sent
        return _read_data_set(data) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _exactly_one(self) -> "PythonReference":
        given = [bool(self.tests), self.calls is not None, self.asserts is not None]
        if sum(given) != 1:
            raise ValueError("give exactly one of tests, calls, asserts")
        return self


def _read_data_set(data: dict[str, Any]) -> dict[str, Any]:
    """Turn the form of a known data set into ours; leave anything else as it is."""
    if isinstance(data.get("assert_case"), list) and data["assert_case"]:
        return {"asserts": {"code": data["assert_case"]}}
    if isinstance(data.get("inputs"), list) and isinstance(data.get("outputs"), list):
        return _inputs_and_outputs(data)
    if isinstance(data.get("test_list"), list):
        code = [*data["test_list"], *data.get("challenge_test_list", [])]
        return {"asserts": {"code": code, "setup": data.get("test_setup_code", "")}}
    if isinstance(data.get("entry_point"), str) and isinstance(data.get("test"), str):
        return _human_eval(data)
    if isinstance(data.get("test"), list):
        return {"tests": [_sandbox_fusion_case(case) for case in data["test"]]}
    return data


def _human_eval(data: dict[str, Any]) -> dict[str, Any]:
    name, prompt = data["entry_point"], data.get("prompt", "")
    return {
        "asserts": {
            "code": [f"{data['test']}\ncheck({name})\n"],
            "setup": prompt,
            "functions": [name],
            "prompt": prompt,
        }
    }


def _sandbox_fusion_case(case: Any) -> Any:  # noqa: ANN401 - the model judges what is no case
    try:
        return {"stdin": case["input"]["stdin"], "stdout": case["output"]["stdout"]}
    except (TypeError, KeyError):
        return case


def _inputs_and_outputs(data: dict[str, Any]) -> dict[str, Any]:
    inputs, outputs = data["inputs"], data["outputs"]
    if len(inputs) != len(outputs):
        message = f"{len(inputs)} inputs and {len(outputs)} outputs"
        raise ValueError(message)
    pairs = list(zip(inputs, outputs, strict=True))
    name = data.get("fn_name")
    if name:
        cases = [_call_case(given, wanted) for given, wanted in pairs]
        return {"calls": {"function": name, "cases": cases}}
    return {"tests": [{"stdin": _text(i), "stdout": _text(o)} for i, o in pairs]}


def _text(value: Any) -> Any:  # noqa: ANN401 - the model judges what is no text
    """Some data sets write lines as a list."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _call_case(given: Any, wanted: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Arguments as a list, or as text with one JSON value a line; the result likewise.

    APPS wraps some results in a list of one, so that the inner value passes as well.
    """
    args = [json.loads(line) for line in given.split("\n")] if isinstance(given, str) else given
    expected = json.loads(wanted) if isinstance(given, str) and isinstance(wanted, str) else wanted
    inner = expected if isinstance(expected, list) and len(expected) == 1 else []
    return {"args": args, "expected": expected, "alternatives": inner}


def define_pipelines(_settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipelines `code.python` and `code.cpp`."""
    timeout_s = wall_limit_s(_TOTAL_CPU_S_MAX) + 120
    python_run = StageDefinition(
        spec=StageSpec(
            name=PYTHON_RUN, resources=Resources(memory_bytes=1_024 * MIB), timeout_s=timeout_s
        ),
        handler="assay.verifiers.code.python_stage:PythonRunHandler",
        runs_untrusted_code=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.python"),
            description="A Python program passes its tests: stdin and stdout, calls, or asserts.",
            stages=(PYTHON_RUN,),
        ),
        stages=(python_run,),
        settings=PythonSettings,
        reference=PythonReference,
        example_reference={"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]},
    )
    cpp_compile = StageDefinition(
        spec=StageSpec(
            name=CPP_COMPILE, resources=Resources(memory_bytes=2_048 * MIB), timeout_s=480.0
        ),
        handler="assay.verifiers.code.cpp_stages:CompileHandler",
        runs_untrusted_code=True,
    )
    cpp_run = StageDefinition(
        spec=StageSpec(
            name=CPP_RUN, resources=Resources(memory_bytes=1_024 * MIB), timeout_s=timeout_s
        ),
        handler="assay.verifiers.code.cpp_stages:RunHandler",
        runs_untrusted_code=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.cpp"),
            description="A C++ program, compiled once, passes its tests.",
            stages=(CPP_COMPILE, CPP_RUN),
        ),
        stages=(cpp_compile, cpp_run),
        settings=CppSettings,
        reference=CppReference,
        example_reference={"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]},
    )
