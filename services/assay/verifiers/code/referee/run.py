"""The harness itself: forks the candidate, unseals the tests, runs them, writes records.

Every test gets one record with a verdict and at most `TEXT_CHARS_MAX` of text, and nothing else
from the program: return values are compared here, within the memory and time of the box.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from assay.verifiers.code.referee.candidate import MODULE, Candidate
from assay.verifiers.code.referee.equality import python_equal, value_equal
from assay.verifiers.code.referee.errors import Control, said_by
from assay.verifiers.code.referee.link import CandidateGone, InvalidTests, Link
from assay.verifiers.code.referee.names import Builtins, Program, ProgramModule
from assay.verifiers.code.referee.operations import DATACLASS_FUNCTIONS
from assay.verifiers.code.referee.proxies import CallableProxy, IteratorProxy, Proxy
from assay.verifiers.code.referee.values import (
    TEXT_CHARS_MAX,
    Decoder,
    Linked,
    Value,
    WireForm,
)

if TYPE_CHECKING:
    from types import CodeType

    from assay.sandbox.port import Box

Verdict = tuple[str, str]
"""A verdict word (`docs/verdicts.md`) and its error."""
PASS: Final = ("pass", "")


class Records:
    """Writes the records that the worker trusts."""

    def __init__(self, box: Box, nonce: str) -> None:
        self._box = box
        self._nonce = nonce

    def write(self, **fields: object) -> None:
        """Append one record."""
        line = json.dumps({"nonce": self._nonce, **fields}, check_circular=False)
        self._box.channel_write(line.encode("ascii") + b"\n")

    def judged(self, test: int, verdict: Verdict) -> None:
        """Append the verdict of one test."""
        self.write(test=test, verdict=verdict[0], error=verdict[1][:TEXT_CHARS_MAX])


# --- test code ---------------------------------------------------------------------------------


def _run_asserts(link: Link, tests: dict[str, Any], records: Records) -> None:
    """Run the tests' code in one namespace; each entry of `tests` is a test."""
    program = Program(link, tests["program"], tests["classes"])
    sources = {f"tests[{at}]": text for at, text in enumerate(tests["tests"])}
    codes = [_compiled(text, name) for name, text in sources.items()]
    link.control = Control({**sources, "setup": tests["setup"]})
    namespace: dict[str, Any] = {"__name__": "tests"}
    namespace["__builtins__"] = Builtins(program, tests["library"])
    sys.modules[MODULE] = ProgramModule(program)
    if any("unittest.main" in text for text in (tests["setup"], *tests["tests"])):
        _be_the_runner()
    failed = _setup_verdict(_compiled(tests["setup"], "setup"), namespace, link)
    if failed is not None:
        records.judged(0, failed)
        return
    for name in program.names:
        namespace.pop(name, None)
    _let_dataclasses_ask(link)
    for index, code in enumerate(codes):
        link.start_test()
        verdict = _verdict_of(code, namespace, link)
        records.judged(index, verdict)
        if verdict != PASS and (link.gone is not None or not tests["run_all"]):
            return


def _let_dataclasses_ask(link: Link) -> None:
    """Functions of `dataclasses` get objects of the program as well."""
    import dataclasses

    def asking(name: str, own: Value) -> Value:
        def asked(target: Value, **keywords: Value) -> Value:
            if isinstance(target, Proxy):
                return link.ask(name, target, keywords)
            return own(target, **keywords)

        return asked

    def is_dataclass(target: Value) -> bool:
        return hasattr(target, _FIELDS) if isinstance(target, Proxy) else own_is(target)

    def fields(target: Value) -> Value:
        return own_fields(target) if not isinstance(target, Proxy) else _fields(target)

    own_is, own_fields = dataclasses.is_dataclass, dataclasses.fields
    for name in DATACLASS_FUNCTIONS:
        setattr(dataclasses, name, asking(name, getattr(dataclasses, name)))
    dataclasses.is_dataclass, dataclasses.fields = is_dataclass, fields  # type: ignore[assignment]


_FIELDS: Final = "__dataclass_fields__"


def _fields(target: Proxy) -> tuple[Value, ...]:
    if not hasattr(target, _FIELDS):
        raise TypeError("must be called with a dataclass type or instance")
    return tuple(getattr(target, _FIELDS).values())


def _be_the_runner() -> None:
    """`_unittest_verdict` runs the test cases; `unittest.main` would search another module."""
    import unittest  # few tests need it, and it loads slowly

    unittest.main = lambda *_, **__: None  # type: ignore[assignment]


def _verdict_of(code: CodeType, namespace: dict[str, Any], link: Link) -> Verdict:
    known = dict(namespace)
    try:
        exec(code, namespace)  # noqa: S102 - the trainer's own tests
        verdict = _unittest_verdict(namespace, known)
    except (CandidateGone, InvalidTests):
        verdict = PASS
    except AssertionError as error:
        verdict = ("wrong_answer", _place(error))
    except MemoryError as error:
        verdict = ("memory_limit", _place(error))
    except BaseException as error:  # noqa: BLE001 - whatever the program raised came back here
        verdict = ("runtime_error", _place(error))
    if link.invalid is not None:
        raise link.invalid
    if link.gone is not None:
        return link.gone.verdict, link.gone.error
    return verdict


def _unittest_verdict(namespace: dict[str, Any], known: dict[str, Any]) -> Verdict:
    """Run the test cases that the code defined but did not run."""
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return PASS
    cases = [
        value
        for name, value in namespace.items()
        if known.get(name) is not value
        and isinstance(value, type)
        and issubclass(value, unittest.TestCase)
        and value.__module__ == "tests"
    ]
    result = unittest.TestResult()
    for case in cases:
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    for verdict, found in (("runtime_error", result.errors), ("wrong_answer", result.failures)):
        if found:
            case, text = found[0]
            return verdict, f"{case}: {text[-TEXT_CHARS_MAX // 2 :]}"
    return ("wrong_answer", "an expected failure passed") if result.unexpectedSuccesses else PASS


def _place(error: BaseException) -> str:
    """The line of the tests that failed."""
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(("tests[", "setup"))
    ]
    return f"{lines[-1] if lines else 'tests'}: {said_by(error)}"


def _compiled(text: str, name: str) -> CodeType:
    try:
        return compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = f"{name} does not compile: {error}"
        raise InvalidTests(message) from None


def _setup_verdict(code: CodeType, namespace: dict[str, Any], link: Link) -> Verdict | None:
    """Run the setup; `None` if it raises nothing.

    Raises:
        InvalidTests: it fails without any request to the program.
    """
    verdict = _verdict_of(code, namespace, link)
    if verdict == PASS:
        return None
    if link.asked == 0:
        message = f"setup fails: {verdict[1]}"
        raise InvalidTests(message)
    return verdict


# --- calls -------------------------------------------------------------------------------------


def _run_calls(link: Link, tests: dict[str, Any], records: Records) -> None:
    """Call one function with each case's arguments and compare what it returns."""
    link.only_data = True
    link.start_test()
    try:
        function = _function_named(link, tests["function"])
    except (NameError, AttributeError) as error:
        records.judged(0, ("missing_name", said_by(error)))
        return
    except BaseException as error:  # noqa: BLE001 - a class that needs arguments raises here
        records.judged(0, _raised(link, error))
        return
    cases = [_read_case(case) for case in tests["cases"]] if tests["typed"] else tests["cases"]
    for index, case in enumerate(cases):
        link.start_test()
        verdict = _call_verdict(link, function, case, tests)
        records.judged(index, verdict)
        if verdict != PASS and (link.gone is not None or not tests["run_all"]):
            return


def _read_case(case: dict[str, Any]) -> dict[str, Any]:
    """A case whose values were given as Python literals, in the wire form."""
    return {
        "args": [_typed(form) for form in case["args"]],
        "kwargs": {name: _typed(form) for name, form in case["kwargs"].items()},
        "wanted": [_typed(form) for form in case["wanted"]],
    }


def _typed(form: WireForm) -> Value:
    return Decoder(_linked).decode(form)


def _linked(form: list[Any]) -> Linked:
    _, kind, items = form
    return Linked(kind, [_typed(item) for item in items])


def _call_verdict(
    link: Link, function: Value, case: dict[str, Any], tests: dict[str, Any]
) -> Verdict:
    tolerance = tests["float_tolerance"]

    def listed(result: object, kind: str) -> object:
        if not isinstance(result, Proxy):
            return [] if result is None else None
        items = link.ask_for(list, "listed", result, kind)
        return Linked(kind, items).items

    try:
        result = function(*case["args"], **case["kwargs"])
        if isinstance(result, (IteratorProxy, GeneratorType)):
            result = list(result)
        if tests["typed"]:
            passed = any(
                python_equal(result, wanted, tolerance, listed) for wanted in case["wanted"]
            )
        else:
            passed = any(value_equal(result, wanted, tolerance) for wanted in case["wanted"])
    except BaseException as error:  # noqa: BLE001 - whatever the program raised came back here
        return _raised(link, error)
    return PASS if passed else ("wrong_answer", "")


def _raised(link: Link, error: BaseException) -> Verdict:
    if link.invalid is not None:
        raise link.invalid
    if link.gone is not None:
        return link.gone.verdict, link.gone.error
    return ("memory_limit" if isinstance(error, MemoryError) else "runtime_error"), said_by(error)


def _function_named(link: Link, path: str) -> Value:
    """A function of the program, or a method of its class `Solution`, as in some data sets."""
    first, *rest = path.split(".")
    try:
        found = link.ask("lookup", first)
    except NameError:
        found = getattr(link.ask("lookup", "Solution")(), first)
    for name in rest:
        holder = found() if isinstance(found, CallableProxy) and name == rest[-1] else found
        found = getattr(holder, name)
    return found


_MODES: Final = {"asserts": _run_asserts, "calls": _run_calls}


SHARES_FILES: Final = b"files"
"""Before the preamble and the program of a payload: the tests and the program have the same files.
"""


def main(payload: bytes, box: Box) -> None:
    """Fork the candidate, then unseal and run the tests."""
    ours, theirs = socket.socketpair()
    files, _, program = payload.partition(b"\0")

    def candidate() -> NoReturn:
        Candidate(theirs.fileno()).serve(program.decode("utf-8", "surrogateescape"))
        os._exit(0)

    pid = box.spawn_confined(
        candidate, keep_fds=[theirs.fileno()], shares_files=files == SHARES_FILES
    )
    theirs.close()
    tests = json.loads(box.unseal())
    box.confine_self()
    records = Records(box, tests["nonce"])
    limits_s = (tests["cpu_s"], tests["blocked_s"])
    texts = "\n".join([tests.get("setup", ""), *tests.get("tests", ())])
    link = Link(ours.fileno(), pid, limits_s, box.blocked_meter(pid), texts)
    link.start_test()
    try:
        link.load()
        _MODES[tests["mode"]](link, tests, records)
    except CandidateGone as gone:
        records.judged(0, (gone.verdict, gone.error))
    except InvalidTests as error:
        records.write(invalid=str(error)[:TEXT_CHARS_MAX])
    records.write(done=True)
    ours.close()
