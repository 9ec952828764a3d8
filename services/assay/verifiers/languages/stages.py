"""The stages `program.compile` and `program.run`, for programs of any language but Python and C++.

A program without a verdict of its own is put to a control (`assay.verifiers.total`): a trivial
program of the language, compiled and run in the same kind of box.
"""

from collections.abc import Callable, Sequence

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, HandedOver, StageVerdict
from assay.sandbox.port import Limits
from assay.verifiers.audit import refused
from assay.verifiers.code.compare import output_equal
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
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import Step
from assay.verifiers.execution.runs import not_compiled, ran_and_reported
from assay.verifiers.languages.commands import CompileLimits, SourceFile, default_flags
from assay.verifiers.languages.compiler import Compiled
from assay.verifiers.languages.definition import LanguageReference, LanguageSettings, RunSettings
from assay.verifiers.languages.programs import Programs
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total


def encoded(text: str) -> bytes:
    """The bytes of a response."""
    return text.encode("utf-8", "surrogateescape")


def source_to_run(work: Work) -> SourceFile:
    """The response of `run.LANGUAGE`."""
    settings: RunSettings = work.settings
    run: ProgramRun = work.reference
    return SourceFile(
        language=settings.LANGUAGE,
        text=encoded(work.response),
        flags=default_flags(settings.LANGUAGE),
        limits=CompileLimits(cpu_s=run.compile_cpu_s, memory_bytes=2 * 1024**3),
    )


def source_to_judge(work: Work) -> SourceFile | None:
    """The program in the response of `code.LANGUAGE`."""
    settings: LanguageSettings = work.settings
    language = settings.own_language()
    text = program_of(
        work.response, settings.extraction, settings.block, language.words, begins=language.begins
    )
    if text is None:
        return None
    return SourceFile(
        language=language,
        text=encoded(text),
        flags=settings.flags(),
        limits=settings.compile_limits(),
    )


def extracted_of(source: SourceFile) -> str:
    """The program for the evidence."""
    return bounded_text(source.text.decode("utf-8", "surrogateescape"))


def failed_to_compile(compiled: Compiled, source: SourceFile, work: Work, tests: int) -> Ended:
    """End a response whose program does not compile."""
    evidence = Evidence(
        verdict=compiled.verdict,
        tests_total=tests,
        stderr_tail=compiled.stderr,
        extracted=extracted_of(source),
    )
    if compiled.verdict.removeprefix("compile_") in LIMITS:
        return resource_limited(settings=work.settings, evidence=evidence, use=compiled.use)
    return scored(passed=False, settings=work.settings, evidence=evidence, use=compiled.use)


def step_of_compilation(compiled: Compiled) -> Step:
    """The compilation in a report."""
    verdict = compiled.verdict
    over_limit = verdict.removeprefix("compile_") in LIMITS
    exit_code = 0 if verdict == PASS else None if over_limit else 1
    return Step(verdict=verdict, exit_code=exit_code, stderr=compiled.stderr.encode())


class CompileHandler:
    """Compiles, and hands over the key of the program."""

    def __init__(self, context: HandlerContext) -> None:
        self._artifacts = context.artifacts
        self._programs = Programs(context.sandbox, context.artifacts)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Compile each response's program."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the launchers."""
        self._programs.close()

    def _one(self, work: Work) -> StageVerdict:
        is_run = isinstance(work.reference, ProgramRun)
        source = source_to_run(work) if is_run else source_to_judge(work)
        if source is None:
            return no_program(work.settings)
        compiling = source

        def compiled() -> StageVerdict:
            found = self._programs.compiled(compiling)
            if found.verdict == PASS:
                return HandedOver(artifact=found.key.encode("ascii"), use=found.use)
            return self._not_compiled(found, compiling, work)

        def at_fault(error: Exception) -> StageVerdict:
            failed = Compiled(verdict="compile_error", stderr=str(error))
            return self._not_compiled(failed, compiling, work)

        return total(
            compiled, control=lambda: self._programs.check_compiler(compiling), at_fault=at_fault
        )

    def _not_compiled(self, compiled: Compiled, source: SourceFile, work: Work) -> Ended:
        if isinstance(work.reference, ProgramRun):
            step = step_of_compilation(compiled)
            return not_compiled(self._artifacts, work, compiled=step, use=compiled.use)
        return failed_to_compile(compiled, source, work, len(work.reference.tests))


class RunHandler:
    """Runs programs: against their tests, or to report what they do."""

    def __init__(self, context: HandlerContext) -> None:
        self._artifacts = context.artifacts
        self._programs = Programs(context.sandbox, context.artifacts)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge, or run and report, each program by itself."""
        return [
            self._to_report(work) if isinstance(work.reference, ProgramRun) else self._one(work)
            for work in works
        ]

    def close(self) -> None:
        """End the launchers."""
        self._programs.close()

    def _to_report(self, work: Work) -> Ended:
        source = source_to_run(work)
        run: ProgramRun = work.reference
        compiled = self._programs.compiled(source, work.handover.decode("ascii"))
        is_compiled = source.language.is_compiled
        step = step_of_compilation(compiled) if is_compiled else None
        if step is not None and compiled.verdict != PASS:
            return not_compiled(self._artifacts, work, compiled=step, use=compiled.use)
        return ran_and_reported(
            lambda: self._programs.run(
                source.language,
                compiled.program,
                limits=run.limits(),
                stdin=run.stdin.encode(),
                files=run.contents(),
                collect=run.collect,
            ),
            lambda: self._programs.check(source.language, run.limits()),
            self._artifacts,
            work,
            compiled=step,
            use=compiled.use,
        )

    def _one(self, work: Work) -> Ended:
        return audited(judged(work, self._programs, self._tested), work.reference, work.settings)

    def _tested(self, compiled: Compiled, source: SourceFile, work: Work) -> Ended:
        settings: LanguageSettings = work.settings
        reference: LanguageReference = work.reference

        def tested(at: int, limits: Limits) -> TestOutcome:
            test = reference.tests[at]
            result = run_repeatedly(
                lambda: self._programs.run(
                    source.language, compiled.program, limits=limits, stdin=encoded(test.stdin)
                )
            )
            return compared(result, test.stdout, settings.comparison)

        outcomes = until_decided(len(reference.tests), settings, tested)
        return conclude(
            outcomes, total=len(reference.tests), settings=settings, extracted=extracted_of(source)
        )


def judged(
    work: Work, programs: Programs, judge: Callable[[Compiled, SourceFile, Work], Ended]
) -> Ended:
    """The verdict on the program in a response: that of `judge`, if the program compiles."""
    settings: LanguageSettings = work.settings
    source = source_to_judge(work)
    if source is None:
        return no_program(settings)
    limits = settings.limits(settings.cpu_s)

    def compiled_and_judged() -> Ended:
        compiled = programs.compiled(source, work.handover.decode("ascii"))
        if compiled.verdict != PASS:
            return failed_to_compile(compiled, source, work, len(work.reference.tests))
        return judge(compiled, source, work)

    return total(
        compiled_and_judged,
        control=lambda: programs.check(source.language, limits),
        at_fault=lambda error: broke_the_run(
            error, settings=settings, extracted=extracted_of(source)
        ),
    )


def until_decided(
    tests: int,
    settings: LanguageSettings,
    tested: Callable[[int, Limits], TestOutcome],
    has_time: Callable[[], bool] = lambda: True,
) -> list[TestOutcome]:
    """Run tests until one decides the verdict or the time is spent.

    Args:
        tests: their number.
        settings: of the task.
        tested: runs one.
        has_time: whether what judges the outputs has time for another.
    """
    outcomes: list[TestOutcome] = []
    budget = settings.budget()
    for at in range(tests):
        outcomes.append(tested(at, budget.next_limits()))
        budget.spend(outcomes[-1].use.cpu_s, outcomes[-1].blocked_s)
        if budget.is_spent or (outcomes[-1].verdict != PASS and not settings.runs_all):
            break
        if not has_time():
            break
    return outcomes


def audited(ended: Ended, reference: LanguageReference, settings: LanguageSettings) -> Ended:
    """Refuse a reference by which a program that prints nothing passes, if one has passed."""
    if ended.outcome is not Outcome.SCORED or ended.evidence.verdict != PASS:
        return ended
    if all(output_equal(b"", test.stdout, settings.comparison) for test in reference.tests):
        return refused(ended, settings.reference_audit)
    return ended
