"""SandboxFusion's `/run_code` and `/submit` as requests. Pure.

A `/run_code` is one request of `run.LANGUAGE`. A `/submit` is one request of `code.LANGUAGE`, or
one per test with `run_all_cases`. Fields that are unknown are
ignored, as SandboxFusion does; what cannot be done is refused by name.
"""

import base64
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assay.core.errors import InvalidRequest, field_path
from assay.core.tools.response import response_bytes
from assay.reward.drafts import Message, RequestDraft, ScoreDraft
from assay.sandbox.port import MIB
from assay.verifiers.code.source.choices import CPP, PYTHON, BlockChoice, Extraction
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import report_key
from assay.verifiers.languages.language import LANGUAGES as OTHERS
from assay.verifiers.languages.language import C


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How a language of SandboxFusion is run here."""

    name: str
    """In the names of our pipelines."""
    words: frozenset[str]
    """Words after the fence of its blocks."""
    compiled: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of `code.NAME`: SandboxFusion compiles C and C++ without optimization."""


_UNOPTIMIZED: Final = MappingProxyType({"optimize": "0"})
_NAMES: Final = {"nodejs": "javascript"}
LANGUAGES: Final[Mapping[str, Runs]] = {
    "python": Runs(name="python", words=PYTHON, compiled=False),
    "cpp": Runs(name="cpp", words=CPP, compiled=True, settings=_UNOPTIMIZED),
    **{
        asked: Runs(
            name=language.name,
            words=language.words,
            compiled=language.is_compiled,
            settings=_UNOPTIMIZED if language is C else {},
        )
        for asked in ("c", "java", "nodejs", "typescript", "go", "rust", "bash")
        for language in [OTHERS[_NAMES.get(asked, asked)]]
    },
}
"""By SandboxFusion's name; `c` is not one of them, and taken."""
NOT_HERE: Final = frozenset(
    {
        *("go_test", "php", "csharp", "sql", "cuda", "lua", "R", "perl", "D_ut", "ruby", "scala"),
        *("julia", "pytest", "junit", "kotlin_script", "jest", "verilog", "python_gpu", "lean"),
        *("swift", "racket"),
    }
)
"""Languages of SandboxFusion that are not run here."""
UNAVAILABLE: Final = "is a language of SandboxFusion that is not run here"
TIME_S_MAX: Final = 120.0
MEMORY_MIB_DEFAULT: Final = 1_024
MEMORY_MIB_LEAST: Final = 64
COMPILE_S_DEFAULT: Final = 20.0
"""CPU time of a compilation that sets no limit; SandboxFusion's 10 s are wall time."""
WAIT_S: Final = 8.0
"""A call of `/run_code` is answered by 504 after this and its own limits: the machine is busy. verl
waits two seconds longer, and tries again after a 504 only."""
SUBMIT_WAIT_S: Final = 300.0
"""As much for `/submit`, beside the limits of one test."""
FLOAT_TOLERANCE: Final = 1e-5
TEST_TEXT_CHARS_MAX: Final = 1_000
_NAMES_THERE: Final = {"memory_bytes": "memory_limit_MB", "collect": "fetch_files"}
"""Fields of a run -> SandboxFusion's."""
_JUDGES: Final = {
    "CommonOJDataset": "stdio",
    "HumanEvalDataset": "humaneval",
    "EvoEvalDataset": "humaneval",
    "MBPPDataset": "mbpp",
    "MHPPDataset": "asserts",
    "AiderBenchmarkDataset": "aider",
    "PalMathDataset": "palmath",
}
_KINDS: Final = {
    "aider_benchmark_v1": "AiderBenchmarkDataset",
    "bigcodebench": "HumanEvalDataset",
    "evoeval": "EvoEvalDataset",
    "humaneval_python": "HumanEvalDataset",
    "shadow_humaneval_python": "HumanEvalDataset",
    "mbpp": "MBPPDataset",
    "mhpp": "MHPPDataset",
    "palmath": "PalMathDataset",
}
"""Of SandboxFusion's own data sets, whose requests name no kind; others are `CommonOJDataset`."""
_UNINDENTED: Final = re.compile(r"\n(?=[^\s])")
_PAL_SETUP: Final = """
import math

def same(found, wanted):
    try:
        value, aim = (float(str(one).replace(",", "")) for one in (found, wanted))
    except ValueError:
        return str(found).strip() == wanted.strip()
    return any(math.isclose(value, one, rel_tol=1e-4) for one in (aim, aim / 100, aim * 100))
"""
"""PAL-Math's own comparison, of numbers and of texts."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class RunCodeBody(_Body):
    """`RunCodeRequest` of SandboxFusion."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    run_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1  # noqa: N815 - SandboxFusion's name
    files: dict[str, str | None] = Field(default_factory=dict)
    fetch_files: list[str] = Field(default_factory=list)


class TestConfigBody(_Body):
    """`TestConfig` of SandboxFusion."""

    __test__ = False

    dataset_type: str | None = None
    language: str | None = None
    compile_timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    run_timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    custom_extract_logic: str | None = None
    provided_data: dict[str, Any] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class SubmitBody(_Body):
    """`SubmitRequest` of SandboxFusion."""

    dataset: str
    id: int | str
    completion: str
    config: TestConfigBody


def run_message(body: object) -> Message:
    """One `/run_code`.

    Raises:
        InvalidRequest: a field is wrong, or the language cannot be run.
    """
    asked = RunCodeBody.model_validate(body)
    language = _language(asked.language, "language")
    run_s = min(asked.run_timeout, TIME_S_MAX)
    memory_mib = asked.memory_limit_MB if asked.memory_limit_MB > 0 else MEMORY_MIB_DEFAULT
    run = _program_run(
        call=secrets.token_hex(16),
        stdin=asked.stdin or "",
        files={name: content for name, content in asked.files.items() if content is not None},
        collect=tuple(asked.fetch_files),
        cpu_s=run_s,
        blocked_s=run_s,
        memory_bytes=max(memory_mib, MEMORY_MIB_LEAST) * MIB,
        compile_cpu_s=min(max(asked.compile_timeout, COMPILE_S_DEFAULT), TIME_S_MAX),
    )
    program = response_bytes(asked.code)
    context = {
        "language": asked.language,
        "pipeline": f"run.{language.name}",
        "report": report_key(program, run),
        "wait_s": WAIT_S + min(asked.compile_timeout, TIME_S_MAX) + run_s,
    }
    draft = RequestDraft("run", "", program, run.model_dump_json().encode())
    return Message(
        score=ScoreDraft(pipeline=f"run.{language.name}"),
        requests=[draft],
        context=json.dumps(context),
    )


def _program_run(**given: Any) -> ProgramRun:  # noqa: ANN401 - its fields are checked there
    """The run of a call, refused by the names that the caller knows."""
    try:
        return ProgramRun(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name, *inside = map(str, first["loc"])
        field_name = field_path((_NAMES_THERE.get(name, name), *inside))
        raise _refused(field_name, first["msg"]) from None


def submit_message(body: object) -> Message:
    """One `/submit`.

    Raises:
        InvalidRequest: a field is wrong, the data set is not given, or its kind is not judged.
    """
    asked = SubmitBody.model_validate(body)
    config = asked.config
    if config.custom_extract_logic:
        message = "code of a caller is not run to find a program; send the program in a block"
        raise _refused("config.custom_extract_logic", message)
    named = config.dataset_type or _KINDS.get(asked.dataset, "CommonOJDataset")
    kind = _JUDGES.get(named)
    if kind is None:
        known = ", ".join(_JUDGES)
        raise _refused("config.dataset_type", f"{config.dataset_type!r}; judged are {known}")
    row = config.provided_data
    if row is None:
        message = f"no data set {asked.dataset!r} is stored here; send the row"
        raise _refused("config.provided_data", message)
    if kind == "stdio":
        return _stdio_message(asked, row)
    reference = _assert_reference(kind, row)
    return _message(asked, "python", [reference], tests=[], settings={"preamble": "standard"})


def _stdio_message(asked: SubmitBody, row: Mapping[str, Any]) -> Message:
    language = asked.config.language or ""
    found = _language(language, "config.language")
    tests = _parsed(row, "test")
    if not isinstance(tests, list) or not tests:
        raise _refused("config.provided_data.test", "a list with at least one test")
    cases = [_case(test, at) for at, test in enumerate(tests)]
    several = asked.config.extra.get("run_all_cases") is True
    references = [{"tests": [case]} for case in cases] if several else [{"tests": cases}]
    settings = {
        "compare": "lines",
        "ignore_case": True,
        "stdout_float_tolerance": FLOAT_TOLERANCE,
        **found.settings,
    }
    return _message(asked, language, references, tests=tests, settings=settings)


def _case(test: object, at: int) -> Mapping[str, str]:
    try:
        stdin, stdout = test["input"]["stdin"], test["output"]["stdout"]  # type: ignore[index]
    except (TypeError, KeyError, IndexError):
        stdin = stdout = None
    if not isinstance(stdin, str) or not isinstance(stdout, str):
        field = f"config.provided_data.test[{at}]"
        raise _refused(field, 'of the form {"input": {"stdin": ""}, "output": {"stdout": ""}}')
    return {"stdin": stdin, "stdout": stdout}


def _assert_reference(kind: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind == "humaneval":
        name = row.get("entry_point") or _labels(row).get("entry_point")
        prompt = row.get("prompt", row.get("content", ""))
        if row.get("language", "python") not in ("python", "py"):
            raise _refused("config.provided_data.language", "only python is judged by asserts")
        name, test = _text(name, "entry_point"), _text(row.get("test"), "test")
        if "def check(" not in test:  # BigCodeBench: test cases of `unittest`
            return _unittest(test, name, prompt)
        return {"prompt": prompt, "entry_point": name, "test": test}
    if kind == "mbpp":
        setup = row.get("test_setup_code") or _labels(row).get("test_setup_code") or ""
        return {"test_list": _parsed(row, "test_list"), "test_setup_code": setup}
    if kind in ("aider", "palmath"):
        [(name, content)] = _one_asset(row)
        if kind == "aider":
            return _aider_reference(name, content)
        return _palmath_reference(content)
    return {"asserts": {"code": [_text(row.get("test"), "test")]}}


def _unittest(test: str, name: str, prompt: str = "") -> Mapping[str, Any]:
    return {"asserts": {"code": [test], "functions": [name], "prompt": prompt}}


def _one_asset(row: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The file that judges a row of this kind, and its text."""
    test = _parsed(row, "test")
    assets = test.get("asset") if isinstance(test, Mapping) else None
    if not isinstance(assets, Mapping) or len(assets) != 1:
        raise _refused("config.provided_data.test", "must have one file in `asset`")
    [(name, packed)] = assets.items()
    try:
        return [(str(name), base64.b64decode(packed, validate=True).decode())]
    except (ValueError, TypeError):
        raise _refused("config.provided_data.test", f"{name!r} is not a text in Base64") from None


def _aider_reference(file: str, test: str) -> Mapping[str, Any]:
    """The module that the test imports is the program."""
    module = file.removesuffix(".py").removesuffix("_test")
    ours = re.sub(rf"(?m)^from {re.escape(module)} import", "from solution import", test)
    return {"asserts": {"code": [ours]}}


def _palmath_reference(answer: str) -> Mapping[str, Any]:
    """What `solution()` returns is compared with the answer."""
    try:
        wanted = str(json.loads(answer)["gt"])
    except (ValueError, TypeError, KeyError):
        raise _refused("config.provided_data.test", 'no `{"gt": ...}` in its file') from None
    code = f"assert same(solution(), {wanted!r})"
    return {"asserts": {"code": [code], "functions": ["solution"], "setup": _PAL_SETUP}}


def prepare() -> None:
    """Import what finds programs: that compiles some hundred patterns, and few ask for it."""
    import_module("assay.verifiers.code.source.programs")


def _message(
    asked: SubmitBody,
    language: str,
    references: Sequence[Mapping[str, Any]],
    *,
    tests: Sequence[Any],
    settings: Mapping[str, Any],
) -> Message:
    found = LANGUAGES[language]
    completion = _completion(asked) if settings.get("preamble") else asked.completion
    from assay.verifiers.code.source.programs import program_of  # see `prepare`

    program = program_of(completion, Extraction.AUTO, BlockChoice.FIRST, found.words)
    run_s = min(asked.config.run_timeout or 20.0, 60.0)
    limits: dict[str, Any] = {"cpu_s": run_s, "blocked_s": run_s, "extraction": "raw"}
    if found.compiled:
        limits["compile_cpu_s"] = min(
            max(asked.config.compile_timeout or 0.0, COMPILE_S_DEFAULT), TIME_S_MAX
        )
    context = {
        "id": asked.id,
        "compiled": found.compiled,
        "extracted": program or "",
        "tests": [] if asked.config.extra.get("return_full_case") else _shortened(tests),
        "each": len(references) > 1,
        "wait_s": SUBMIT_WAIT_S + run_s,
    }
    response = response_bytes(program or "")
    return Message(
        score=ScoreDraft(
            pipeline=f"code.{found.name}",
            settings_json=json.dumps({**settings, **limits}, sort_keys=True).encode(),
        ),
        requests=[
            RequestDraft(f"t{at}", "", response, json.dumps(reference).encode())
            for at, reference in enumerate(references)
        ],
        context=json.dumps(context),
    )


def _completion(asked: SubmitBody) -> str:
    """As HumanEval's protocol takes one that continues its prompt: up to the end of the body."""
    text = asked.completion
    continues = text.lstrip("\r\n")[:1] in {" ", "\t"}
    if asked.config.extra.get("is_freeform") or not continues or "```" in text:
        return text
    begun = text.lstrip("\r\n")
    return begun[: ends.start()] if (ends := _UNINDENTED.search(begun)) else begun


def _shortened(tests: Sequence[Any]) -> list[Any]:
    def short(text: str) -> str:
        half = TEST_TEXT_CHARS_MAX // 2
        return text if len(text) <= TEST_TEXT_CHARS_MAX else f"{text[:half]}...{text[-half:]}"

    return [
        {
            side: {name: short(text) for name, text in test[side].items() if isinstance(text, str)}
            for side in ("input", "output")
        }
        for test in tests
    ]


def _parsed(row: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - any JSON
    """A column, which may be JSON text."""
    value = row.get(key)
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise _refused(f"config.provided_data.{key}", "is not JSON") from None
    return value


def _labels(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The column `labels`; an empty one where there is none."""
    labels = _parsed(row, "labels") or {}
    if not isinstance(labels, Mapping):
        raise _refused("config.provided_data.labels", "must be an object")
    return labels


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise _refused(f"config.provided_data.{key}", "must be a text")
    return value


def _language(name: str, field: str) -> Runs:
    if name in NOT_HERE:
        raise _refused(field, f"{name!r} {UNAVAILABLE}; {', '.join(sorted(LANGUAGES))} are")
    found = LANGUAGES.get(name)
    if found is None:
        raise _refused(field, f"{name!r} is not one of {', '.join(sorted(LANGUAGES))}")
    return found


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", field=field)
