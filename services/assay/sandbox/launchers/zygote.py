"""Boxes that the zygote creates itself with plain system calls."""

from typing import ClassVar, Final

from assay.config.settings import SandboxSettings
from assay.core.errors import InvalidRequest
from assay.sandbox.launchers.base import Launcher, Mode
from assay.sandbox.launchers.order import (
    ENVIRONMENT,
    Inside,
    Order,
    checked_files,
    command_order,
    result_of,
)
from assay.sandbox.port import (
    CommandRun,
    HarnessResult,
    HarnessRun,
    MonotonicClock,
    PythonRun,
    RunResult,
)

PROGRAM: Final = "program.py"
"""File name of a Python program in its box."""


class ZygoteLauncher(Launcher):
    """Boxes created by the zygote: for Python programs, harnesses, and compiled programs."""

    _MODE: ClassVar[Mode] = Mode.OWN
    """Tests use the bare mode also on hosts with namespaces."""

    def __init__(
        self, settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
    ) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: the host lacks the namespaces or the seccomp filter. If
                `allow_unisolated` is set, missing namespaces are logged instead, and nothing is
                isolated.
        """
        self._inside = inside or Inside()
        super().__init__(settings, clock, inside=self._inside, mode=self._MODE)

    def run(self, command: CommandRun) -> RunResult:
        """Run any program; see `CommandLauncher`."""
        files = checked_files(command.files, command.executables, command.collect)
        return result_of(self.carry_out(command_order(command, files)))

    def run_python(self, program: PythonRun) -> RunResult:
        """Run a Python program without starting an interpreter.

        Raises:
            SandboxError: the sandbox could not be set up or torn down.
        """
        files = {**program.files, PROGRAM: program.source}
        return result_of(
            self.carry_out(
                Order(
                    kind="python",
                    argv=(PROGRAM, *program.argv),
                    env={**ENVIRONMENT, **program.env},
                    files=checked_files(files, frozenset(), program.collect),
                    source=program.prelude + b"\0" + program.source,
                    stdin=program.stdin,
                    collect=program.collect,
                    limits=program.limits,
                )
            )
        )

    def run_harness(self, run: HarnessRun) -> HarnessResult:
        """Run a harness that was named at the start, to its end, in a fresh box.

        Raises:
            SandboxError: the sandbox, or the harness itself, broke.
        """
        if run.module not in self._inside.harnesses:
            raise InvalidRequest(f"the harness {run.module!r} is not loaded", field="module")
        outcome = self.carry_out(
            Order(
                kind="harness",
                argv=(run.module,),
                env={},
                files=(),
                source=run.payload,
                stdin=b"",
                collect=(),
                limits=run.limits,
                sealed=run.sealed,
            )
        )
        ending = outcome.ending
        return HarnessResult(
            status=ending.status,
            exit_code=ending.exit_code,
            channel=outcome.streams[2],
            stdout=outcome.streams[0],
            stderr=outcome.streams[1],
            cpu_s=ending.usage.cpu_s,
            blocked_s=ending.blocked_s,
            wall_s=ending.wall_s,
            memory_bytes_peak=ending.usage.memory_bytes_peak,
        )
