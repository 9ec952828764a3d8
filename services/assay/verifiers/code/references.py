"""References of `code.python` and `code.cpp`: the tests of one prompt.

References may be written in Assay's form (`tests`, `calls`, `asserts`) or as published by data
sets; both produce the same model:

* verl, TACO, APPS, CodeContests: `{"inputs": [...], "outputs": [...], "fn_name"?, "assert_case"?}`
* SandboxFusion: a list of `{"input": {"stdin"}, "output": {"stdout"}}` under `test`
* HumanEval: `{"prompt", "entry_point", "test"}`
* MBPP: `{"test_list": [...], "test_setup_code"?, "test_imports"?, "challenge_test_list"?}`

A reference may contain `solution`, a program known to be right. It is used to audit the tests
(`controls.py`) and never enters a box in which a response runs.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from pydantic import Field, field_validator, model_validator

from assay.core.errors import InvalidRequest
from assay.verifiers.code.literals import form_of
from assay.verifiers.code.settings import PREAMBLE_CHARS_MAX, without_nul
from assay.verifiers.intake import plain_json
from assay.verifiers.port import Reference

TESTS_MAX: Final = 10_000
_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"


class IoTest(Reference):
    """One run of the program."""

    stdin: str = ""
    """Its standard input."""
    stdout: str
    """The expected standard output."""


class ValueForm(StrEnum):
    """How a reference gives arguments and results."""

    JSON = "json"
    PYTHON = "python"
    """Each value is the text of a Python literal (`literals.py`), compared as Python compares."""


class CallCase(Reference):
    """One call of a function."""

    args: tuple[Any, ...] = ()
    """Positional arguments."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments."""
    expected: Any
    """The result."""
    alternatives: tuple[Any, ...] = ()
    """Other accepted results."""


class CallTests(Reference):
    """Calls of one function, compared outside the sandbox."""

    function: str = Field(pattern=_NAME, max_length=200)
    """Its name; `Class.method` is called on a new object. A function that the program does not
    define is looked up in its class `Solution`."""
    cases: tuple[CallCase, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """The calls in order; they share one process."""
    values: ValueForm = ValueForm.JSON
    """The form of `args`, `kwargs`, `expected` and `alternatives`."""

    @model_validator(mode="after")
    def _readable(self) -> "CallTests":
        if self.values is ValueForm.PYTHON:
            for at, case in enumerate(self.cases):
                given = (*case.args, *case.kwargs.values(), case.expected, *case.alternatives)
                for value in given:
                    _check_literal(value, at)
        return self


def _check_literal(value: object, at: int) -> None:
    if not isinstance(value, str):
        raise ValueError(f"cases[{at}]: with values=python, every value is text")  # noqa: TRY004 - pydantic's
    try:
        form_of(value)
    except ValueError as error:
        raise ValueError(f"cases[{at}]: {error}") from None


class AssertTests(Reference):
    """Test code that runs in a separate process and calls the program by messages."""

    code: tuple[str, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """Each entry is a test; they share one namespace. A test passes if it raises nothing."""
    setup: str = ""
    """Code that runs before the tests; it cannot see the program."""
    functions: tuple[str, ...] = Field(default=(), max_length=100)
    """Names of the program, even if `setup` or Python define them too."""
    prompt: str = ""
    """The beginning of the program; the response continues or repeats it."""

    @field_validator("code", "setup", "prompt", mode="after")
    @classmethod
    def _no_nul(cls, text: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for part in [text] if isinstance(text, str) else text:
            without_nul(part)
        return text


class CppReference(Reference):
    """Reference of `code.cpp`."""

    tests: tuple[IoTest, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """Runs of the program."""
    solution: str = ""
    """A right program, to audit the tests with; no response ever sees it."""

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
    preamble: str = Field(default="", max_length=PREAMBLE_CHARS_MAX)
    """Python text whose public names a program may use without importing them, in addition to those
    of the setting `preamble`."""
    solution: str = ""
    """A right program, to audit the tests with; no response ever sees it."""

    @field_validator("preamble", mode="after")
    @classmethod
    def _no_nul(cls, text: str) -> str:
        return without_nul(text)

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
    """Convert the form of a known data set into Assay's; return anything else unchanged."""
    read = _tests_of(data)
    if read is data:
        return data
    kept: dict[str, Any] = {key: data[key] for key in ("preamble", "solution") if key in data}
    return {**read, **kept}


def _tests_of(data: dict[str, Any]) -> dict[str, Any]:
    if isinstance(data.get("assert_case"), list) and data["assert_case"]:
        return {"asserts": {"code": data["assert_case"]}}
    if isinstance(data.get("inputs"), list) and isinstance(data.get("outputs"), list):
        return _inputs_and_outputs(data)
    if isinstance(data.get("test_list"), list):
        return _mbpp(data)
    if isinstance(data.get("entry_point"), str) and isinstance(data.get("test"), str):
        return _human_eval(data)
    if isinstance(data.get("test"), list):
        return {"tests": [_sandbox_fusion_case(case) for case in data["test"]]}
    return data


def _mbpp(data: dict[str, Any]) -> dict[str, Any]:
    """Its imports serve both program and tests, which share a namespace upstream."""
    code = [*data["test_list"], *_texts(data, "challenge_test_list")]
    imports = "\n".join(_texts(data, "test_imports"))
    setup_code = data.get("test_setup_code") or ""
    if not isinstance(setup_code, str):
        raise _refused("test_setup_code", "must be Python text")
    setup = "\n".join(part for part in (imports, setup_code) if part)
    read: dict[str, Any] = {"asserts": {"code": code, "setup": setup}}
    if imports:
        read["preamble"] = imports
    return read


def _texts(data: dict[str, Any], key: str) -> list[str]:
    texts = data.get(key) or []
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise _refused(key, "must be a list of Python texts")
    return texts


def _human_eval(data: dict[str, Any]) -> dict[str, Any]:
    name, prompt = data["entry_point"], data.get("prompt", "")
    root = name.partition("(")[0].partition(".")[0]  # as in `Solution().two_sum`
    read: dict[str, Any] = {
        "asserts": {
            "code": [f"{data['test']}\ncheck({name})\n"],
            "setup": with_body(prompt) if isinstance(prompt, str) else prompt,
            "functions": [root],
            "prompt": prompt,
        }
    }
    if "canonical_solution" in data:
        read["solution"] = data["canonical_solution"]
    return read


def with_body(prompt: str) -> str:
    """Add a body to the function at the end of a prompt if it has no docstring either."""
    lines = [line for line in prompt.split("\n") if line.strip() and line.strip()[0] != "#"]
    if not lines or not lines[-1].rstrip().endswith(":"):
        return prompt
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    return f"{prompt}\n{' ' * (indent + 4)}pass\n"


def _sandbox_fusion_case(case: Any) -> Any:  # noqa: ANN401 - the model checks invalid cases
    try:
        return {"stdin": case["input"]["stdin"], "stdout": case["output"]["stdout"]}
    except (TypeError, KeyError):
        return case


def _inputs_and_outputs(data: dict[str, Any]) -> dict[str, Any]:
    inputs, outputs = data["inputs"], data["outputs"]
    if len(inputs) != len(outputs):
        raise _refused("outputs", f"{len(inputs)} inputs and {len(outputs)} outputs")
    pairs = list(zip(inputs, outputs, strict=True))
    name = data.get("fn_name")
    if name:
        return {"calls": {"function": name, "cases": call_cases(pairs)}}
    return {"tests": [{"stdin": _text(i), "stdout": _text(o)} for i, o in pairs]}


def _text(value: Any) -> Any:  # noqa: ANN401 - the model checks other types
    """Join lines, because some data sets write them as a list."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def call_cases(pairs: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return cases from pairs of arguments and result.

    Arguments are a list, or text with a JSON value per line; then the result may be JSON too. APPS
    and TACO wrap every result of a problem in a list of one, and their harness accepts both: if all
    results are such lists, the inner values pass too.

    Raises:
        InvalidRequest: text that is not JSON, or a number that cannot be represented exactly.
    """
    cases = [_call_case(at, given, wanted) for at, (given, wanted) in enumerate(pairs)]
    wrapped = all(isinstance(one["expected"], list) and len(one["expected"]) == 1 for one in cases)
    if wrapped:
        for one in cases:
            one["alternatives"] = one["expected"]
    return cases


def _call_case(at: int, given: Any, wanted: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    if not isinstance(given, str):
        return {"args": given, "expected": wanted}
    lines = given.strip("\n").split("\n") if given.strip() else []
    args = [_value(line, f"inputs[{at}]") for line in lines]
    return {"args": args, "expected": _value(wanted, f"outputs[{at}]")}


def _value(text: Any, place: str) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(text, str):
        return text
    return plain_json(text.encode("utf-8", "surrogatepass"), f"reference.{place}")


def _refused(place: str, message: str) -> InvalidRequest:
    field = f"reference.{place}"
    return InvalidRequest(f"{field}: {message}", field=field)
