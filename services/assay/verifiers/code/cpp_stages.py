"""The stages `cpp.compile` and `cpp.run`: a source is compiled once, however many tests, requests
and workers share it.

The artifact of a compilation is its verdict: a program, or the compiler's error. Both depend only
on source, flags and compiler, so the key is a hash of these. Results that depend on the machine
(blocked time, a broken sandbox) are never kept. The compiler runs in a separate box with its own
limits, because sources are as hostile as programs.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import open_command_launcher
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, CommandLauncher, CommandRun, Limits, RunResult, RunStatus
from assay.verifiers.code.definition import PROGRAM_FILE, CppReference, CppSettings, IoTest
from assay.verifiers.code.programs import CPP, program_of
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import (
    LIMITS,
    PASS,
    TestOutcome,
    bounded_text,
    broke_the_run,
    compared,
    conclude,
    no_program,
    text_tail,
    use_of,
)
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import Step
from assay.verifiers.execution.runs import compiler_settings, not_compiled, run_compiled
from assay.verifiers.port import Artifacts, HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total

_COMPILER: Final = "g++"
_VERSION_S: Final = 10.0
_PROGRAM_BYTES_MAX: Final = 32 * MIB
_SOURCE: Final = "program.cpp"
_COMPILE_BLOCKED_S: Final = 10.0
"""A compiler waits only for its files."""
_SIMPLEST: Final = "int main() { return 0; }\n"
_WRAPPER: Final = "wrapper.sh"
_KILLED: Final = "killed"
_WRAPPER_TEXT: Final = f"""\
"$@"
status=$?
[ $status -le 128 ] || echo $status > {_KILLED}
exit $status
"""
"""Runs each part of the compiler and writes the number of a signal that ended it to a file, which
no source can write. The driver's output cannot be used: a source can influence it."""
_SIGKILLED: Final = b"137\n"
"""Exit code of a shell for SIGKILL."""
_GOOD: Final = b"P"
_BAD: Final = b"E"


class _NotKept(Exception):
    """A compilation whose verdict may differ next time."""

    def __init__(self, verdict: str, use: ResourceUse) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.use = use


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The result of a compilation: a program, or a verdict."""

    program: bytes = b""
    verdict: str = PASS
    stderr: str = ""
    use: ResourceUse
    """Usage of this call; zero if the artifact existed."""


class Compiler:
    """g++ in a box; results are kept as artifacts."""

    def __init__(self, launcher: CommandLauncher, artifacts: Artifacts) -> None:
        """Ask the compiler for its version, which is part of every key.

        Raises:
            RuntimeError: there is no compiler.
        """
        path = shutil.which(_COMPILER)
        if path is None:
            raise RuntimeError(f"{_COMPILER} is not installed")
        done = subprocess.run(  # noqa: S603 - the operator's own compiler
            [path, "--version"], capture_output=True, check=True, timeout=_VERSION_S
        )
        self._path = path
        self._version = done.stdout
        self._launcher = launcher
        self._artifacts = artifacts
        self._proved: set[tuple[str, ...]] = set()

    def key(self, source: str, settings: CppSettings) -> str:
        """A hash of everything that the result depends on."""
        parts = (
            self._version,
            *(flag.encode() for flag in self._flags(settings)),
            f"{settings.compile_cpu_s} {settings.compile_memory_bytes}".encode(),
            _encoded(source),
        )
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return f"cpp-{digest.hexdigest()}"

    def compile(self, source: str, settings: CppSettings) -> Compiled:
        """Compile, or return the kept result of the same compilation.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not work for any source.
        """
        spent = [ResourceUse()]

        def make() -> bytes:
            self._prove(settings)
            result = repeat_while_killed(lambda: self._run(source, settings), _compiler_killed)
            spent[0] = use_of(result)
            if _compiler_killed(result):
                self.check(settings)
            return _artifact(result)

        try:
            artifact = self._artifacts.get_or_make(self.key(source, settings), make)
        except _NotKept as passing:
            return Compiled(verdict=passing.verdict, use=passing.use)
        return _read_artifact(artifact, spent[0])

    def close(self) -> None:
        """End the launcher."""
        self._launcher.close()

    def _prove(self, settings: CppSettings) -> None:
        """Check that the compiler works with these flags before a source is judged wrong.

        Raises:
            RuntimeError: it does not compile a trivial program.
        """
        flags = self._flags(settings)
        if flags not in self._proved:
            self.check(settings)
            self._proved.add(flags)

    def check(self, settings: CppSettings) -> None:
        """Compile a trivial program now.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not compile it.
        """
        result = self._run(_SIMPLEST, settings)
        if result.exit_code != 0 or PROGRAM_FILE not in result.files:
            flags = " ".join(self._flags(settings))
            message = f"{self._path} {flags}: {text_tail(result.stderr)}"
            raise RuntimeError(message)

    def _flags(self, settings: CppSettings) -> tuple[str, ...]:
        return (f"-std={settings.standard}", f"-O{settings.optimize}", "-pipe", "-s", "-w")

    def _run(self, source: str, settings: CppSettings) -> RunResult:
        parts = ("-wrapper", f"/bin/sh,{_WRAPPER}", "-o", PROGRAM_FILE, _SOURCE)
        argv = (self._path, *self._flags(settings), *parts)
        return self._launcher.run(
            CommandRun(
                argv=argv,
                files={_SOURCE: _encoded(source), _WRAPPER: _WRAPPER_TEXT.encode("ascii")},
                env={"LC_ALL": "C"},
                collect=(PROGRAM_FILE, _KILLED),
                limits=Limits(
                    cpu_s=settings.compile_cpu_s,
                    blocked_s=_COMPILE_BLOCKED_S,
                    memory_bytes=settings.compile_memory_bytes,
                    file_bytes=_PROGRAM_BYTES_MAX,
                    output_bytes=4 * MIB,
                ),
            )
        )


def _compiler_killed(result: RunResult) -> bool:
    part_killed = result.files.get(_KILLED) == _SIGKILLED and not result.status.is_limit
    return was_killed(result) or part_killed


def _artifact(result: RunResult) -> bytes:
    if result.status is RunStatus.BLOCKED_LIMIT:
        raise _NotKept("compile_blocked_limit", use_of(result))
    if _compiler_killed(result):
        raise _NotKept("compile_error", use_of(result))
    program = result.files.get(PROGRAM_FILE)
    if result.status is RunStatus.EXITED and result.exit_code == 0 and program:
        return _GOOD + program
    verdict = f"compile_{result.status.value}" if result.status.is_limit else "compile_error"
    told = {"verdict": verdict, "stderr": text_tail(result.stderr)}
    return _BAD + json.dumps(told).encode("ascii")


def _read_artifact(artifact: bytes, use: ResourceUse) -> Compiled:
    if artifact[:1] == _GOOD:
        return Compiled(program=artifact[1:], use=use)
    told = json.loads(artifact[1:])
    return Compiled(verdict=told["verdict"], stderr=told["stderr"], use=use)


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
        self._compiler = Compiler(
            open_command_launcher(context.sandbox, Clock()), context.artifacts
        )

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
            key = self._compiler.key(work.response, settings)
            return HandedOver(artifact=key.encode("ascii"), use=found.use)

        def at_fault(error: Exception) -> StageVerdict:
            failed = Compiled(verdict="compile_error", stderr=str(error), use=ResourceUse())
            return not_compiled(self._artifacts, work, compiled=_step(failed), use=ResourceUse())

        control = partial(self._compiler.check, settings)
        return total(compiled, control=control, at_fault=at_fault)

    def _one(self, work: Work) -> StageVerdict:
        settings: CppSettings = work.settings
        reference: CppReference = work.reference
        source = program_of(work.response, settings.extraction, settings.block, CPP)
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
        key = self._compiler.key(source, settings)
        return HandedOver(artifact=key.encode("ascii"), use=compiled.use)


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
        source = program_of(work.response, settings.extraction, settings.block, CPP)
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
            return _read_artifact(artifact, ResourceUse())
        if self._compiler is None:
            self._compiler = Compiler(
                open_command_launcher(self._sandbox, Clock()), self._artifacts
            )
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
        result = repeat_while_killed(lambda: self._launcher.run(command), was_killed)
        return compared(result, test.stdout, settings.comparison)


@dataclass(slots=True)
class _Reached:
    """Progress of a judgement."""

    test: int = 0


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
