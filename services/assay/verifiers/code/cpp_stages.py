"""The stages `cpp.compile` and `cpp.run`: a source is compiled once, however many tests, requests
and workers share it (`assay.verifiers.code.cpp`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, Limits
from assay.verifiers.code.cpp.compiler import Compiled, Compiler, open_compiler, read_artifact
from assay.verifiers.code.references import CppReference, IoTest
from assay.verifiers.code.repeat import run_repeatedly
from assay.verifiers.code.scoring import (
    LIMITS,
    PASS,
    TestOutcome,
    bounded_text,
    broke_the_run,
    compared,
    conclude,
    no_program,
)
from assay.verifiers.code.settings import PROGRAM_FILE, CppSettings
from assay.verifiers.code.source.choices import CPP, MAIN
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import Step
from assay.verifiers.execution.runs import compiler_settings, not_compiled, run_compiled
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total


def _step(compiled: Compiled) -> Step:
    """The compilation in a report."""
    verdict = compiled.verdict
    over_limit = verdict.removeprefix("compile_") in LIMITS
    exit_code = 0 if verdict == PASS else None if over_limit else 1
    return Step(verdict=verdict, exit_code=exit_code, stderr=compiled.stderr.encode())


def _failed(compiled: Compiled, *, total: int, settings: CppSettings, source: str) -> Ended:
    evidence = Evidence(
        verdict=compiled.verdict,
        tests_total=total,
        stderr_tail=compiled.stderr,
        extracted=bounded_text(source),
    )
    if compiled.verdict.removeprefix("compile_") in LIMITS:
        return resource_limited(settings=settings, evidence=evidence, use=compiled.use)
    return scored(passed=False, settings=settings, evidence=evidence, use=compiled.use)


class CompileHandler:
    """Creates the artifact and hands over its key."""

    def __init__(self, context: HandlerContext) -> None:
        """Start the launcher.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        self._artifacts = context.artifacts
        self._compiler = open_compiler(context.sandbox, context.artifacts, context.shared)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Compile each response's program."""
        return [
            self._to_report(work) if isinstance(work.reference, ProgramRun) else self._one(work)
            for work in works
        ]

    def close(self) -> None:
        """End the launcher."""
        self._compiler.close()

    def _to_report(self, work: Work) -> StageVerdict:
        settings = compiler_settings(work.reference)

        def compiled() -> StageVerdict:
            found = self._compiler.compile(work.response, settings)
            if found.verdict != PASS:
                return not_compiled(self._artifacts, work, compiled=_step(found), use=found.use)
            return HandedOver(artifact=found.key.encode("ascii"), use=found.use)

        def at_fault(error: Exception) -> StageVerdict:
            failed = Compiled(verdict="compile_error", stderr=str(error), use=ResourceUse())
            return not_compiled(self._artifacts, work, compiled=_step(failed), use=ResourceUse())

        control = partial(self._compiler.check, settings)
        return total(compiled, control=control, at_fault=at_fault)

    def _one(self, work: Work) -> StageVerdict:
        settings: CppSettings = work.settings
        reference: CppReference = work.reference
        source = program_of(work.response, settings.extraction, settings.block, CPP, begins=MAIN)
        if source is None:
            return no_program(settings)
        return total(
            lambda: self._judged(source, reference, settings),
            control=lambda: self._compiler.check(settings),
            at_fault=lambda error: broke_the_run(error, settings=settings, extracted=source),
        )

    def _judged(self, source: str, reference: CppReference, settings: CppSettings) -> StageVerdict:
        compiled = self._compiler.compile(source, settings)
        if compiled.verdict != PASS:
            tests = len(reference.tests)
            return _failed(compiled, total=tests, settings=settings, source=source)
        return HandedOver(artifact=compiled.key.encode("ascii"), use=compiled.use)


class RunHandler:
    """Runs a compiled program against its tests, each in a fresh box."""

    def __init__(self, context: HandlerContext) -> None:
        """Start the launchers; the compiler is needed for artifacts that were evicted meanwhile.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        self._artifacts = context.artifacts
        self._launcher = ZygoteLauncher(context.sandbox, Clock())
        self._sandbox = context.sandbox
        self._shared = context.shared
        self._compiler: Compiler | None = None

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge, or run and report, each program by itself."""
        return [
            self._to_report(work) if isinstance(work.reference, ProgramRun) else self._one(work)
            for work in works
        ]

    def close(self) -> None:
        """End the launchers."""
        self._launcher.close()
        if self._compiler is not None:
            self._compiler.close()

    def _to_report(self, work: Work) -> Ended:
        key = work.handover.decode("ascii")
        compiled = self._compiled(key, work.response, compiler_settings(work.reference))
        step, use = _step(compiled), compiled.use
        if compiled.verdict != PASS:
            return not_compiled(self._artifacts, work, compiled=step, use=use)
        return run_compiled(
            self._launcher,
            self._artifacts,
            work,
            program=compiled.program,
            compiled=step,
            use=use,
        )

    def _one(self, work: Work) -> Ended:
        settings: CppSettings = work.settings
        reference: CppReference = work.reference
        source = program_of(work.response, settings.extraction, settings.block, CPP, begins=MAIN)
        if source is None:
            return no_program(settings)
        key = work.handover.decode("ascii")
        reached = _Reached()
        return total(
            lambda: self._judged(key, source, reference, settings, reached),
            control=lambda: self._control(reference.tests[reached.test], settings),
            at_fault=lambda error: broke_the_run(error, settings=settings, extracted=source),
        )

    def _judged(
        self,
        key: str,
        source: str,
        reference: CppReference,
        settings: CppSettings,
        reached: "_Reached",
    ) -> Ended:
        tests = len(reference.tests)
        compiled = self._compiled(key, source, settings)
        if compiled.verdict != PASS:
            return _failed(compiled, total=tests, settings=settings, source=source)
        outcomes: list[TestOutcome] = []
        budget = settings.budget()
        for at, test in enumerate(reference.tests):
            reached.test = at
            outcomes.append(self._test(compiled.program, test, budget.next_limits(), settings))
            budget.spend(outcomes[-1].use.cpu_s, outcomes[-1].blocked_s)
            if budget.is_spent or (outcomes[-1].verdict != PASS and not settings.runs_all):
                break
        return conclude(outcomes, total=tests, settings=settings, extracted=source)

    def _control(self, test: IoTest, settings: CppSettings) -> None:
        """Run a system program in place of the response's; compile one if necessary.

        Raises:
            SandboxError: no program can be run.
            RuntimeError: none can be compiled.
        """
        if self._compiler is not None:
            self._compiler.check(settings)
        limits = settings.limits(settings.cpu_s)
        self._launcher.run(CommandRun(argv=("true",), stdin=_encoded(test.stdin), limits=limits))

    def _compiled(self, key: str, source: str, settings: CppSettings) -> Compiled:
        artifact = self._artifacts.get(key)
        if artifact is not None:
            return read_artifact(artifact, ResourceUse(), key)
        if self._compiler is None:
            self._compiler = open_compiler(self._sandbox, self._artifacts, self._shared)
        return self._compiler.compile(source, settings)

    def _test(
        self, program: bytes, test: IoTest, limits: Limits, settings: CppSettings
    ) -> TestOutcome:
        command = CommandRun(
            argv=(f"./{PROGRAM_FILE}",),
            stdin=_encoded(test.stdin),
            files={PROGRAM_FILE: program},
            executables=frozenset({PROGRAM_FILE}),
            limits=limits,
        )
        result = run_repeatedly(lambda: self._launcher.run(command))
        return compared(result, test.stdout, settings.comparison)


@dataclass(slots=True)
class _Reached:
    """Progress of a judgement."""

    test: int = 0


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
