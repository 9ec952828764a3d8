"""The stage `python.run`: a program against stdin and stdout, calls of a function, or test code.

Expected outputs and values never enter a box in which the program could see them: stdout and
returned values are compared here; test code enters by the sealed part of a harness run
(`referee.py`). Only records that carry this run's nonce count, and a test without one has failed.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launcher import Inside, ZygoteLauncher
from assay.sandbox.port import HarnessResult, HarnessRun, PythonRun, SandboxError
from assay.verifiers.code import referee
from assay.verifiers.code.compare import output_equal, value_equal
from assay.verifiers.code.definition import (
    AssertTests,
    CallTests,
    IoTest,
    PythonReference,
    PythonSettings,
    wall_limit_s,
)
from assay.verifiers.code.programs import PYTHON, program_of
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import (
    PASS,
    TestOutcome,
    conclude,
    no_program,
    run_verdict,
    use_of,
)
from assay.verifiers.port import HandlerContext, Work

_REFEREE: Final = "referee"
_REFEREE_CPU_S: Final = 2.0
"""What the referee itself may use, beside the program's tests."""
_CASES_CPU_MAX: Final = 1_000
"""Tests that can each have their full CPU time before `total_cpu_s` bounds them anyway."""


class PythonRunHandler:
    """Runs programs in fresh boxes of one warm zygote."""

    def __init__(self, context: HandlerContext) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        inside = Inside(
            python_path=context.verifiers.program_paths,
            harnesses={_REFEREE: Path(referee.__file__)},
        )
        self._launcher = ZygoteLauncher(context.sandbox, Clock(), inside=inside)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the zygote."""
        self._launcher.close()

    def _one(self, work: Work) -> Ended:
        settings: PythonSettings = work.settings
        reference: PythonReference = work.reference
        program = program_of(work.response, settings.extraction, settings.block, PYTHON)
        if program is None:
            return no_program(settings)
        if reference.calls is not None:
            return self._calls(program, reference.calls, settings)
        if reference.asserts is not None:
            return self._asserts(program, reference.asserts, settings)
        return self._tests(program, reference.tests, settings)

    # -- stdin and stdout ----------------------------------------------------------------------

    def _tests(self, program: str, tests: Sequence[IoTest], settings: PythonSettings) -> Ended:
        outcomes: list[TestOutcome] = []
        left_s = settings.total_cpu_s
        for test in tests:
            outcomes.append(self._test(program, test, min(settings.cpu_s, left_s), settings))
            left_s -= outcomes[-1].use.cpu_s
            if left_s <= 0 or (outcomes[-1].verdict != PASS and not settings.runs_all):
                break
        return conclude(outcomes, total=len(tests), settings=settings, extracted=program)

    def _test(
        self, program: str, test: IoTest, cpu_s: float, settings: PythonSettings
    ) -> TestOutcome:
        order = PythonRun(
            source=_encoded(program), stdin=_encoded(test.stdin), limits=settings.limits(cpu_s)
        )
        result = repeat_while_killed(lambda: self._launcher.run_python(order), was_killed)
        verdict, error = run_verdict(result.status, result.exit_code)
        if verdict == PASS and not output_equal(result.stdout, test.stdout, settings.comparison):
            verdict = "wrong_answer"
        return TestOutcome(verdict=verdict, error=error, stderr=result.stderr, use=use_of(result))

    # -- functions -----------------------------------------------------------------------------

    def _calls(self, program: str, calls: CallTests, settings: PythonSettings) -> Ended:
        cases = [{"args": case.args, "kwargs": case.kwargs} for case in calls.cases]
        tests = {"mode": "calls", "function": calls.function, "cases": cases}
        total = len(calls.cases)
        records, result = self._referee(program, tests, total, settings)
        outcomes = []
        for record, case in zip(records, calls.cases, strict=False):
            wanted = (case.expected, *case.alternatives)
            outcomes.append(_call_outcome(record, wanted, settings.value_float_tolerance))
            if outcomes[-1].verdict != PASS and not settings.runs_all:
                break
        return _concluded(outcomes, result, total=total, settings=settings, program=program)

    def _asserts(self, program: str, asserts: AssertTests, settings: PythonSettings) -> Ended:
        whole = _continued(asserts.prompt, program)
        tests = {
            "mode": "asserts",
            "tests": asserts.code,
            "setup": asserts.setup,
            "functions": asserts.functions,
            "run_all": settings.runs_all,
        }
        total = len(asserts.code)
        records, result = self._referee(whole, tests, total, settings)
        for record in records:
            if "invalid" in record:
                error = str(record["invalid"])
                evidence = Evidence(verdict="invalid_reference", tests_total=total, error=error)
                return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
        outcomes = [_assert_outcome(record) for record in records]
        return _concluded(outcomes, result, total=total, settings=settings, program=program)

    def _referee(
        self, program: str, tests: dict[str, Any], total: int, settings: PythonSettings
    ) -> tuple[list[dict[str, Any]], HarnessResult]:
        return repeat_while_killed(
            lambda: self._referee_once(program, tests, total, settings), _candidate_killed
        )

    def _referee_once(
        self, program: str, tests: dict[str, Any], total: int, settings: PythonSettings
    ) -> tuple[list[dict[str, Any]], HarnessResult]:
        nonce = secrets.token_hex(16)
        cpu_s = min(settings.cpu_s * min(total, _CASES_CPU_MAX), settings.total_cpu_s)
        bounds = {"nonce": nonce, "cpu_s": settings.cpu_s, "wall_s": wall_limit_s(settings.cpu_s)}
        result = self._launcher.run_harness(
            HarnessRun(
                module=_REFEREE,
                payload=_encoded(program),
                sealed=json.dumps({**tests, **bounds}).encode("ascii"),
                limits=settings.limits(cpu_s + _REFEREE_CPU_S),
            )
        )
        return _believed(result, nonce), result


def _candidate_killed(refereed: tuple[list[dict[str, Any]], HarnessResult]) -> bool:
    records, result = refereed
    last = records[-1] if records else {}
    return not result.status.is_limit and last.get("error") == referee.KILLED


def _believed(result: HarnessResult, nonce: str) -> list[dict[str, Any]]:
    """The records of the tests, in order; the box was the referee's until `done`.

    Raises:
        SandboxError: the referee ended before it was done, though no limit was broken.
    """
    lines = result.channel.split(b"\n")[:-1]
    records = [json.loads(line) for line in lines]
    if any(record.get("nonce") != nonce for record in records):
        raise SandboxError("a record without the nonce on the referee's channel")
    if records and records[-1].get("done"):
        return records[:-1]
    if not result.status.is_limit:
        message = f"the referee ended early: {result.status}, exit code {result.exit_code}"
        raise SandboxError(message)
    return records


def _call_outcome(
    record: dict[str, Any], wanted: Sequence[object], float_tolerance: float
) -> TestOutcome:
    verdict = record["verdict"]
    if verdict != "returned":
        return _assert_outcome(record)
    try:
        value = referee.decode_result(record["result"])
    except referee.Malformed as error:
        return TestOutcome(verdict="wrong_answer", error=str(error))
    equal = any(value_equal(value, one, float_tolerance) for one in wanted)
    return TestOutcome(verdict=PASS if equal else "wrong_answer")


def _assert_outcome(record: dict[str, Any]) -> TestOutcome:
    return TestOutcome(verdict=record["verdict"], error=record.get("error", ""))


def _concluded(
    outcomes: list[TestOutcome],
    result: HarnessResult,
    *,
    total: int,
    settings: PythonSettings,
    program: str,
) -> Ended:
    """Add what the box as a whole tells: a broken limit belongs to the test that was running."""
    if result.status.is_limit:
        limit = TestOutcome(verdict=result.status.value)
        if outcomes and outcomes[-1].verdict == "crashed":
            outcomes[-1] = limit
        elif len(outcomes) < total and not (outcomes and outcomes[-1].verdict != PASS):
            outcomes.append(limit)
    use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
    outcomes = [
        TestOutcome(verdict=one.verdict, error=one.error, stderr=result.stderr) for one in outcomes
    ]
    ended = conclude(outcomes, total=total, settings=settings, extracted=program)
    return Ended(outcome=ended.outcome, reward=ended.reward, evidence=ended.evidence, use=use)


def _continued(prompt: str, program: str) -> str:
    """A response that begins with an indented line goes on where the prompt ends; any other is a
    program of its own, before which the prompt's imports and helpers are put."""
    if not prompt:
        return program
    first = next((line for line in program.split("\n") if line.strip()), "")
    if first[:1] in {" ", "\t"}:
        return prompt + program
    return f"{prompt}\n{program}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
