"""Runs a program in the stages of `code.python` and `code.cpp`, and reports instead of comparing.

As everywhere, what cannot be explained is put to a control (`assay.verifiers.total`): only what
fails for a trivial program too is an infrastructure failure.
"""

from collections.abc import Callable

from assay.core.verdict import Ended, ResourceUse
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, PythonRun, RunResult
from assay.verifiers.code.control import EMPTY_PROGRAM
from assay.verifiers.code.repeat import run_repeatedly
from assay.verifiers.code.scoring import use_of
from assay.verifiers.code.settings import PROGRAM_FILE, CppSettings
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import (
    BROKE_THE_RUN,
    RunReport,
    Step,
    bounded_files,
    reported,
    step_of,
)
from assay.verifiers.port import Artifacts, Work
from assay.verifiers.total import total


def compiler_settings(run: ProgramRun) -> CppSettings:
    """How a program is compiled: as the compiler does it without options, for a short wait."""
    return CppSettings(optimize="0", compile_cpu_s=run.compile_cpu_s)


def run_python(launcher: ZygoteLauncher, artifacts: Artifacts, work: Work) -> Ended:
    """Run the response as a Python program.

    Raises:
        SandboxError: it could not be run, and neither could an empty program.
    """
    run: ProgramRun = work.reference

    def once(program: str) -> RunResult:
        return launcher.run_python(
            PythonRun(
                source=_encoded(program),
                stdin=run.stdin.encode(),
                files=run.contents(),
                collect=run.collect,
                limits=run.limits(),
            )
        )

    return ran_and_reported(
        lambda: once(work.response), lambda: once(EMPTY_PROGRAM), artifacts, work, compiled=None
    )


def run_compiled(
    launcher: ZygoteLauncher,
    artifacts: Artifacts,
    work: Work,
    *,
    program: bytes,
    compiled: Step,
    use: ResourceUse,
) -> Ended:
    """Run the compiled program of the response.

    Raises:
        SandboxError: it could not be run, and neither could a system program.
    """
    run: ProgramRun = work.reference

    def once(argv: tuple[str, ...], files: dict[str, bytes]) -> RunResult:
        return launcher.run(
            CommandRun(
                argv=argv,
                stdin=run.stdin.encode(),
                files=files,
                executables=frozenset({PROGRAM_FILE} & set(files)),
                collect=run.collect,
                limits=run.limits(),
            )
        )

    return ran_and_reported(
        lambda: once((f"./{PROGRAM_FILE}",), {**run.contents(), PROGRAM_FILE: program}),
        lambda: once(("true",), run.contents()),
        artifacts,
        work,
        compiled=compiled,
        use=use,
    )


def not_compiled(artifacts: Artifacts, work: Work, *, compiled: Step, use: ResourceUse) -> Ended:
    """End a response that is no program."""
    return reported(
        lambda: RunReport(compiled=compiled, use=use),
        artifacts=artifacts,
        program=work.response,
        run=work.reference,
        settings=work.settings,
    )


def ran_and_reported(
    judged: Callable[[], RunResult],
    control: Callable[[], object],
    artifacts: Artifacts,
    work: Work,
    *,
    compiled: Step | None,
    use: ResourceUse | None = None,
) -> Ended:
    """Run what `judged` runs, and end the request by its report.

    Raises:
        SandboxError: it could not be run, and neither could `control`.
    """
    spent = use or ResourceUse()

    def ran() -> RunReport:
        result = run_repeatedly(judged)
        return RunReport(
            compiled=compiled,
            ran=step_of(result),
            files=bounded_files(result.files),
            use=spent.plus(use_of(result)),
        )

    def at_fault(error: Exception) -> RunReport:
        step = Step(verdict=BROKE_THE_RUN, exit_code=1, stderr=str(error).encode())
        return RunReport(compiled=compiled, ran=step, use=spent)

    return reported(
        lambda: total(ran, control=control, at_fault=at_fault),
        artifacts=artifacts,
        program=work.response,
        run=work.reference,
        settings=work.settings,
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
