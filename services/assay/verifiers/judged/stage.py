"""The stage `judged.run`: runs the program and lets the reference's checker or interactor judge it.

A judge that fails (crashes, breaks a limit, ends with another code than 0, 1 or 2, or 7 with points
where the reference has points) is tried again
with a trusted control in place of the response: the jury's answer as output, or a program that does
nothing. A judge that fails there too is the reference's fault (`REJECTED_INVALID`); one that fails
only because of the response has refused it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, StageVerdict
from assay.sandbox.port import MIB, Limits, RunResult
from assay.verifiers.code.controls import response_of
from assay.verifiers.code.repeat import run_repeatedly
from assay.verifiers.code.scoring import (
    PASS,
    TestOutcome,
    bounded_text,
    conclude,
    run_verdict,
    text_tail,
    use_of,
)
from assay.verifiers.judged.definition import CheckedReference, InteractiveReference, JudgedSettings
from assay.verifiers.judged.interaction import Interaction, Interactions
from assay.verifiers.judged.points import GIVEN, share_of
from assay.verifiers.languages.commands import SourceFile
from assay.verifiers.languages.compiler import Compiled
from assay.verifiers.languages.programs import Programs
from assay.verifiers.languages.stages import (
    encoded,
    extracted_of,
    judged,
    until_decided,
)
from assay.verifiers.port import HandlerContext, ReferenceAudit, Work

ACCEPTED: Final = 0
REFUSED: Final = frozenset({1, 2})
_JUDGE_BLOCKED_S: Final = 10.0


class InvalidJudge(Exception):
    """The reference's checker or interactor does not work; the message says how."""


class JudgedHandler:
    """Handles both pipelines."""

    def __init__(self, context: HandlerContext) -> None:
        self._programs = Programs(context.sandbox, context.artifacts)
        self._interactions = Interactions(context.sandbox, self._programs)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each program by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the launchers."""
        self._interactions.close()
        self._programs.close()

    def lets_pass(self, work: Work) -> bool | None:
        """Whether a program that does nothing passes."""
        settings: JudgedSettings = work.settings
        empty = settings.own_language().empty
        response = response_of(empty, settings.extraction, settings.language)
        try:
            ended = self._one(replace(work, response=response, handover=b""))
        except Exception:  # noqa: BLE001 - it cannot be told now, for any reason
            return None
        return ended.outcome is Outcome.SCORED and ended.evidence.verdict == PASS

    def _one(self, work: Work) -> Ended:
        settings: JudgedSettings = work.settings
        ended = judged(work, self._programs, self._judged_or_invalid)
        passed = ended.outcome is Outcome.SCORED and ended.evidence.verdict == PASS
        audits = settings.reference_audit is not ReferenceAudit.OFF
        return replace(ended, unaudited=passed and audits)

    def _judged_or_invalid(self, compiled: Compiled, source: SourceFile, work: Work) -> Ended:
        try:
            return self._judged(compiled, source, work)
        except InvalidJudge as invalid:
            evidence = Evidence(verdict="invalid_reference", error=bounded_text(str(invalid)))
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)

    def _judged(self, compiled: Compiled, source: SourceFile, work: Work) -> Ended:
        settings: JudgedSettings = work.settings
        reference: CheckedReference | InteractiveReference = work.reference
        count = len(reference.tests)
        if isinstance(reference, CheckedReference):
            judge = _Checker(self._programs, reference, settings, source, compiled.program)
            outcomes = until_decided(count, settings, judge.tested, judge.has_time)
        else:
            talk = _Interactor(
                self._interactions, self._programs, reference, settings, source, compiled.program
            )
            outcomes = until_decided(count, settings, talk.tested)
        return conclude(
            outcomes, total=len(reference.tests), settings=settings, extracted=extracted_of(source)
        )


def _compiled_judge(programs: Programs, source: SourceFile, name: str) -> bytes:
    """The reference's own program.

    Raises:
        InvalidJudge: it does not compile.
    """
    compiled = programs.compiled(source)
    if compiled.verdict != PASS:
        raise InvalidJudge(f"reference.{name}.source: {compiled.verdict}: {compiled.stderr[-500:]}")
    return compiled.program


class _Checker:
    """Runs the program and then, in another box, the checker."""

    def __init__(
        self,
        programs: Programs,
        reference: CheckedReference,
        settings: JudgedSettings,
        source: SourceFile,
        program: bytes,
    ) -> None:
        self._programs = programs
        self._reference = reference
        self._settings = settings
        self._source = source
        self._program = program
        self._judge = reference.checker.as_source()
        self._checker = _compiled_judge(programs, self._judge, "checker")
        self._left_s = settings.total_judge_s

    def has_time(self) -> bool:
        """Whether the checker may judge another output: how long it takes is the response's."""
        return self._left_s > 0

    def tested(self, at: int, limits: Limits) -> TestOutcome:
        """Run test `at`."""
        test = self._reference.tests[at]
        result = run_repeatedly(
            lambda: self._programs.run(
                self._source.language, self._program, limits=limits, stdin=encoded(test.stdin)
            )
        )
        verdict, error = run_verdict(result.status, result.exit_code)
        share = 0.0
        if verdict == PASS:
            verdict, error, share = self._checked(at, result.stdout)
        return TestOutcome(
            verdict=verdict,
            error=error,
            share=share,
            stderr=result.stderr,
            use=use_of(result),
            blocked_s=result.blocked_s,
        )

    def _checked(self, at: int, output: bytes) -> tuple[str, str, float]:
        """Verdict, message and points of the checker.

        Raises:
            InvalidJudge: it fails for the jury's answer too.
        """
        points_max = self._reference.points_max
        result = self._call(at, output)
        failure = failure_of(result, points_max)
        if failure:
            trusted = self._call(at, encoded(self._reference.tests[at].answer))
            control = failure_of(trusted, points_max)
            if control:
                raise InvalidJudge(f"reference.checker: test {at}: {control}")
            return "wrong_answer", f"the checker cannot judge it: {failure}", 0.0
        share = float(result.exit_code == ACCEPTED)
        if result.exit_code == GIVEN:
            share = share_of(result.stderr, points_max) or 0.0
        said = text_tail(result.stderr or result.stdout)
        return (PASS, "", 1.0) if share == 1.0 else ("wrong_answer", said, share)

    def _call(self, at: int, output: bytes) -> RunResult:
        test = self._reference.tests[at]
        files = {
            "input": encoded(test.stdin),
            "output": output,
            "answer": encoded(test.answer),
        }
        result = run_repeatedly(
            lambda: self._programs.run(
                self._judge.language,
                self._checker,
                limits=_judge_limits(self._settings, sum(map(len, files.values()))),
                files=files,
                arguments=("input", "output", "answer"),
            )
        )
        self._left_s -= result.cpu_s + result.blocked_s
        return result


def _judge_limits(settings: JudgedSettings, files_bytes: int) -> Limits:
    return Limits(
        cpu_s=settings.judge_cpu_s,
        blocked_s=_JUDGE_BLOCKED_S,
        memory_bytes=settings.judge_memory_bytes + files_bytes,
        disk_bytes=64 * MIB + files_bytes,
        file_bytes=max(64 * MIB, files_bytes),
        output_bytes=4 * MIB,
    )


def failure_of(result: RunResult, points_max: float | None) -> str:
    """Why a checker has judged nothing; empty if it has."""
    verdict, error = run_verdict(result.status, result.exit_code)
    if result.exit_code == ACCEPTED or result.exit_code in REFUSED:
        return ""
    if result.exit_code == GIVEN and share_of(result.stderr, points_max) is not None:
        return ""
    said = text_tail(result.stderr)[-300:]
    return " ".join(part for part in (verdict, error, said) if part)


class _Interactor:
    """Connects the program and the interactor in one box."""

    def __init__(
        self,
        interactions: Interactions,
        programs: Programs,
        reference: InteractiveReference,
        settings: JudgedSettings,
        source: SourceFile,
        program: bytes,
    ) -> None:
        self._interactions = interactions
        self._programs = programs
        self._reference = reference
        self._settings = settings
        self._source = source
        self._program = program
        self._judge = reference.interactor.as_source()
        self._interactor = _compiled_judge(programs, self._judge, "interactor")

    def tested(self, at: int, limits: Limits) -> TestOutcome:
        """Run test `at`.

        Raises:
            InvalidJudge: the interactor fails with a program that does nothing too.
        """
        found = self._connected(at, limits, self._source, self._program)
        if found.failure:
            self._control(at)
        return found.outcome()

    def _control(self, at: int) -> None:
        """With the time of a first test: what the response has left may be too short for any."""
        language = self._source.language
        limits = self._settings.limits(self._settings.cpu_s)
        empty = replace(self._source, text=language.empty.encode())
        compiled = self._programs.compiled(empty)
        found = self._connected(at, limits, empty, compiled.program)
        if found.failure:
            raise InvalidJudge(f"reference.interactor: test {at}: {found.failure}")

    def _connected(
        self, at: int, limits: Limits, source: SourceFile, program: bytes
    ) -> Interaction:
        test = self._reference.tests[at]
        return self._interactions.run(
            program=(source.language, program),
            interactor=(self._judge.language, self._interactor),
            files={"input": encoded(test.stdin), "answer": encoded(test.answer)},
            limits=limits,
            judge_cpu_s=self._settings.judge_cpu_s,
            judge_memory_bytes=self._settings.judge_memory_bytes,
            points_max=self._reference.points_max,
        )
