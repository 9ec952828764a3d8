"""The stage `python.run`: a program against stdin and stdout, calls of a function, or test code.

Expected outputs and values never enter a box in which the program could see them. Stdout is
compared here. The referee takes values and test code from the sealed part of a harness run
(`referee/`). Only records that carry this run's nonce count, and a test without such a record has
failed. If the end of a run cannot be explained, a control decides (`assay.verifiers.total`).
"""

import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HarnessResult, HarnessRun, Limits, PythonRun, SandboxError
from assay.verifiers.audit import refused
from assay.verifiers.code.audit import known_to_pass
from assay.verifiers.code.control import EMPTY_PROGRAM, trivial_program, walked
from assay.verifiers.code.controls import empty_program
from assay.verifiers.code.literals import form_of
from assay.verifiers.code.referee import link, run
from assay.verifiers.code.references import (
    AssertTests,
    CallTests,
    IoTest,
    PythonReference,
    ValueForm,
    with_body,
)
from assay.verifiers.code.repeat import repeat_while_killed, run_repeatedly
from assay.verifiers.code.scoring import (
    PASS,
    TestOutcome,
    broke_the_run,
    compared,
    conclude,
    no_program,
)
from assay.verifiers.code.settings import PythonSettings
from assay.verifiers.code.source.choices import PYTHON
from assay.verifiers.code.source.entry_points import names_of
from assay.verifiers.code.source.notebook import without_magics
from assay.verifiers.code.source.preamble import preamble_for, resolved
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.runs import run_python
from assay.verifiers.packages import naming_missing, program_packages
from assay.verifiers.port import HandlerContext, ReferenceAudit, Work
from assay.verifiers.total import total

_REFEREE: Final = "referee"
_REFEREE_CPU_S: Final = 2.0
"""CPU time for the referee itself, in addition to the program's tests."""
_CASES_CPU_MAX: Final = 1_000
"""Number of tests with their full CPU time each; beyond it `total_cpu_s` is the bound."""
_REFERENCES_REMEMBERED_MAX: Final = 256
_LINE_IS_OVER: Final = re.compile(r"(?:\"{3}|'{3}|:|(?:^|\n)[ \t]*#[^\n]*)[ \t]*\Z")
"""The end of a prompt that no statement goes on behind, but the line feed is missing."""
_WHOLE: Final = re.compile(r"(?:async\s|def\s|class\s|import\s|from\s|@)")
"""How a program begins that does not continue a prompt."""
_USES_FILES: Final = re.compile(
    r"\b(?:open\(|tempfile\b|pathlib\b|shutil\b|"
    r"os\.(?:mkdir|makedirs|remove|unlink|rmdir|rename|listdir|walk|stat|path\.|chdir|write))"
)
_FUTURE: Final = re.compile(
    r"^from[ \t]+__future__[ \t]+import[ \t]*(?:\([^()]*\)|[\w, \t]+)", re.MULTILINE
)


class PythonRunHandler:
    """Runs programs in fresh boxes of one warm zygote."""

    def __init__(self, context: HandlerContext) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        inside = Inside(
            python_path=context.verifiers.program_paths,
            packages=program_packages(context.verifiers),
            harnesses={_REFEREE: Path(run.__file__)},
        )
        self._launcher = ZygoteLauncher(context.sandbox, Clock(), inside=inside)
        self._artifacts = context.artifacts
        self._unusable: dict[bytes, bool] = {}
        """Hash of tests that could not run -> whether a control could not be judged either."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge, or run and report, each response by itself."""
        return [
            run_python(self._launcher, self._artifacts, work)
            if isinstance(work.reference, ProgramRun)
            else naming_missing(_with_audit(work, self._one(work)))
            for work in works
        ]

    def lets_pass(self, work: Work) -> bool | None:
        """See `AuditingHandler.lets_pass`."""
        ended = self._one(replace(work, response=empty_program(work.settings)))
        return None if ended.reward is None else ended.evidence.verdict == PASS

    def close(self) -> None:
        """End the zygote."""
        self._launcher.close()

    def _one(self, work: Work) -> Ended:
        settings: PythonSettings = work.settings
        reference: PythonReference = work.reference
        program = program_of(
            work.response, settings.extraction, settings.block, PYTHON, _entry_points(reference)
        )
        if program is None:
            return no_program(settings)
        program = without_magics(program)
        reached = _Reached()
        return total(
            lambda: self._judged(program, reference, settings, reached),
            control=lambda: self._judged(
                EMPTY_PROGRAM, reached.of(reference), settings, _Reached()
            ),
            at_fault=lambda error: broke_the_run(error, settings=settings, extracted=program),
        )

    def _judged(
        self,
        program: str,
        reference: PythonReference,
        settings: PythonSettings,
        reached: "_Reached",
    ) -> Ended:
        prelude = _preamble(program, reference, settings)
        if reference.calls is not None:
            return self._calls(program, prelude, reference.calls, settings)
        if reference.asserts is not None:
            return self._asserts(program, prelude, reference.asserts, settings)
        return self._tests(program, prelude, reference.tests, settings, reached)

    # -- stdin and stdout ----------------------------------------------------------------------

    def _tests(
        self,
        program: str,
        prelude: str,
        tests: Sequence[IoTest],
        settings: PythonSettings,
        reached: "_Reached",
    ) -> Ended:
        outcomes: list[TestOutcome] = []
        budget = settings.budget()
        for at, test in enumerate(tests):
            reached.test = at
            outcomes.append(self._test(program, prelude, test, budget.next_limits(), settings))
            budget.spend(outcomes[-1].use.cpu_s, outcomes[-1].blocked_s)
            if budget.is_spent or (outcomes[-1].verdict != PASS and not settings.runs_all):
                break
        return conclude(outcomes, total=len(tests), settings=settings, extracted=program)

    def _test(
        self, program: str, prelude: str, test: IoTest, limits: Limits, settings: PythonSettings
    ) -> TestOutcome:
        order = PythonRun(
            source=_encoded(program),
            prelude=_encoded(prelude),
            stdin=_encoded(test.stdin),
            limits=limits,
        )
        result = run_repeatedly(lambda: self._launcher.run_python(order))
        return compared(result, test.stdout, settings.comparison)

    # -- functions -----------------------------------------------------------------------------

    def _calls(
        self, program: str, prelude: str, calls: CallTests, settings: PythonSettings
    ) -> Ended:
        sent = form_of if calls.values is ValueForm.PYTHON else _as_it_is
        tests = {
            "mode": "calls",
            "function": calls.function,
            "typed": calls.values is ValueForm.PYTHON,
            "float_tolerance": settings.value_float_tolerance,
            "cases": [
                {
                    "args": [sent(value) for value in case.args],
                    "kwargs": {name: sent(value) for name, value in case.kwargs.items()},
                    "wanted": [sent(value) for value in (case.expected, *case.alternatives)],
                }
                for case in calls.cases
            ],
        }
        return self._refereed(program, prelude, tests, settings, total=len(calls.cases))

    def _asserts(
        self, program: str, prelude: str, asserts: AssertTests, settings: PythonSettings
    ) -> Ended:
        names = names_of(asserts.code, asserts.setup, asserts.functions)
        tests = {
            "mode": "asserts",
            "tests": asserts.code,
            "setup": asserts.setup,
            "program": names.program,
            "classes": names.classes,
            "library": dict(names.library),
        }
        whole = _continued(asserts.prompt, program)
        try:
            return self._refereed(whole, prelude, tests, settings, total=len(asserts.code))
        except _TestsUnusable as error:
            if self._are_unusable(tests, settings):
                return _invalid_reference(str(error), total=len(asserts.code))
            return broke_the_run(error, settings=settings, extracted=program)

    def _are_unusable(self, tests: dict[str, Any], settings: PythonSettings) -> bool:
        """Whether these tests cannot judge a trivial program either.

        Raises:
            SandboxError: this cannot be determined.
        """
        key = hashlib.sha256(json.dumps(tests).encode("ascii")).digest()
        if key not in self._unusable:
            if len(self._unusable) >= _REFERENCES_REMEMBERED_MAX:
                self._unusable.clear()
            walk = {**tests, "tests": [walked(code) for code in tests["tests"]]}
            program = trivial_program(tests["program"])
            run_all = settings.model_copy(update={"partial_credit": True})
            try:
                self._refereed(program, "", walk, run_all, total=len(walk["tests"]))
            except _TestsUnusable:
                self._unusable[key] = True
            else:
                self._unusable[key] = False
        return self._unusable[key]

    def _refereed(
        self,
        program: str,
        prelude: str,
        tests: dict[str, Any],
        settings: PythonSettings,
        *,
        total: int,
    ) -> Ended:
        """Run the tests beside the program.

        Raises:
            SandboxError: the end of the run cannot be explained. _TestsUnusable: the referee could
            not run the tests.
        """
        records, result = repeat_while_killed(
            lambda: self._referee_once(
                f"{_files_of(tests)}\0{prelude}\0{program}", tests, total, settings
            ),
            _candidate_killed,
        )
        for record in records:
            if "invalid" in record:
                raise _TestsUnusable(str(record["invalid"]))
        outcomes = [
            TestOutcome(verdict=record["verdict"], error=record["error"]) for record in records
        ]
        return _concluded(outcomes, result, total=total, settings=settings, program=program)

    def _referee_once(
        self, payload: str, tests: dict[str, Any], total: int, settings: PythonSettings
    ) -> tuple[list[dict[str, Any]], HarnessResult]:
        nonce = secrets.token_hex(16)
        cpu_s = min(settings.cpu_s * min(total, _CASES_CPU_MAX), settings.total_cpu_s)
        blocked_s = min(settings.blocked_s * total, settings.total_blocked_s)
        bounds = {"nonce": nonce, "cpu_s": settings.cpu_s, "blocked_s": settings.blocked_s}
        sealed = {**tests, **bounds, "run_all": settings.runs_all}
        result = self._launcher.run_harness(
            HarnessRun(
                module=_REFEREE,
                payload=_encoded(payload),
                sealed=json.dumps(sealed).encode("ascii"),
                limits=settings.limits(cpu_s + _REFEREE_CPU_S, blocked_s),
            )
        )
        return _believed(result, nonce), result


def _files_of(tests: dict[str, Any]) -> str:
    """Whether tests and program have the same files: only for tests that use any."""
    texts = (tests.get("setup", ""), *tests.get("tests", ()))
    return run.SHARES_FILES.decode() if any(map(_USES_FILES.search, texts)) else ""


def _with_audit(work: Work, ended: Ended) -> Ended:
    """The verdict, and whether its reference is still to be audited."""
    settings: PythonSettings = work.settings
    if settings.reference_audit is ReferenceAudit.OFF or ended.evidence.verdict != PASS:
        return ended
    lets_pass = known_to_pass(work.reference, settings)
    if lets_pass is None:
        return replace(ended, unaudited=True)
    return refused(ended, settings.reference_audit) if lets_pass else ended


class _TestsUnusable(Exception):
    """The referee could not run the tests; a control says whether any program can be judged."""


def _entry_points(reference: PythonReference) -> Sequence[str]:
    """Names by which the tests reach the program; empty for standard input."""
    if reference.calls is not None:
        return (reference.calls.function.partition(".")[0], "Solution")
    if reference.asserts is None:
        return ()
    asserts = reference.asserts
    return names_of(asserts.code, asserts.setup, asserts.functions).program


@dataclass(slots=True)
class _Reached:
    """Progress of a judgement."""

    test: int = 0

    def of(self, reference: PythonReference) -> PythonReference:
        """The reference; for stdin tests, the one that was running."""
        if not reference.tests:
            return reference
        return reference.model_copy(update={"tests": (reference.tests[self.test],)})


def _candidate_killed(refereed: tuple[list[dict[str, Any]], HarnessResult]) -> bool:
    records, result = refereed
    last = records[-1] if records else {}
    return not result.status.is_limit and last.get("error") == link.KILLED


def _believed(result: HarnessResult, nonce: str) -> list[dict[str, Any]]:
    """The records of the tests, in order; the referee ran in the box until `done`.

    Raises:
        SandboxError: the referee ended before `done`, and no limit was broken.
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


def _invalid_reference(error: str, *, total: int) -> Ended:
    evidence = Evidence(verdict="invalid_reference", tests_total=total, error=error)
    return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)


def _concluded(
    outcomes: list[TestOutcome],
    result: HarnessResult,
    *,
    total: int,
    settings: PythonSettings,
    program: str,
) -> Ended:
    """Apply the result of the whole box: a broken limit belongs to the test that was running."""
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


def _preamble(program: str, reference: PythonReference, settings: PythonSettings) -> str:
    prompt = reference.asserts.prompt if reference.asserts is not None else ""
    whole = f"{prompt}\n{program}"
    preset = resolved(
        settings.preamble,
        whole,
        by_calls=reference.calls is not None,
        by_stdin=bool(reference.tests),
    )
    text = f"{settings.preamble_text}\n{reference.preamble}".strip()
    return preamble_for(whole, preset=preset, text=text)


def _continued(prompt: str, program: str) -> str:
    """A response that begins with an indented line continues the prompt; any other is a complete
    program and is placed after the prompt's imports and helpers.

    Imports from `__future__` are only valid at the beginning, so those of a complete program move
    in front of the prompt. A prompt may lack its last line feed, after a docstring for example."""
    if not prompt:
        return program
    lines = [line for line in program.split("\n") if line.strip()]
    first = lines[0] if lines else ""
    if _is_stripped_body(lines):
        program, first = f"{_indent_behind(prompt)}{program.lstrip()}", " "
    if first[:1] in {" ", "\t"}:
        return f"{prompt}\n{program}" if _LINE_IS_OVER.search(prompt) else prompt + program
    future = "".join(f"{line}\n" for line in _FUTURE.findall(program))
    return f"{future}{with_body(prompt)}\n{_FUTURE.sub('pass', program)}"


def _is_stripped_body(lines: Sequence[str]) -> bool:
    """Whether only the first line of a function's body has lost its indentation, as by `strip`: a
    program has no `return` outside of a function."""
    return (
        any(line.lstrip().startswith("return") for line in lines)
        and not _WHOLE.match(lines[0])
        and not lines[0].startswith((" ", "\t"))
        and all(line.startswith((" ", "\t")) for line in lines[1:])
    )


def _indent_behind(prompt: str) -> str:
    """The indentation of what follows a prompt."""
    last = next((line for line in reversed(prompt.split("\n")) if line.strip()), "")
    indent = last[: len(last) - len(last.lstrip())]
    return f"{indent}    " if last.rstrip().endswith(":") else indent


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - any JSON
    return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
