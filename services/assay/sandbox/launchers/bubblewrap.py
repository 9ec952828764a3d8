"""Boxes that bubblewrap creates: started as the launcher's unprivileged uid, never as uid 0.

The zygote gives bubblewrap a bounded scratch file system and a pid and mount namespace.
"""

import logging
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.sandbox.box.channel import FILTER, STATUS
from assay.sandbox.box.prepare import USER
from assay.sandbox.box.root import DEVICES
from assay.sandbox.launchers.base import Launcher, Mode
from assay.sandbox.launchers.order import (
    ENVIRONMENT,
    Inside,
    Order,
    checked_files,
    command_order,
    result_of,
)
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import (
    CommandLauncher,
    CommandRun,
    MonotonicClock,
    RunResult,
    RunStatus,
    SandboxError,
)

_log = logging.getLogger(__name__)
_SHELL: Final = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Starts the program for bubblewrap, which cannot distinguish a missing program from a sandbox that
it cannot build."""


def _with_signal(result: RunResult) -> RunResult:
    """Convert exit code 128 + n, which bubblewrap reports like a shell, to signal n."""
    code = result.exit_code
    if code is None or not 128 < code <= 128 + signal.SIGRTMAX:
        return result
    if code - 128 == signal.SIGXCPU:
        return replace(result, status=RunStatus.CPU_LIMIT, exit_code=None)
    return replace(result, status=RunStatus.SIGNALED, exit_code=128 - code)


class BubblewrapLauncher(Launcher):
    """Boxes created by bubblewrap: for compilers and any other program."""

    def __init__(
        self, settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
    ) -> None:
        """Find bubblewrap and start the zygote that launches it.

        Raises:
            IsolationUnavailable: bubblewrap is not installed, or its zygote cannot start.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise IsolationUnavailable("bubblewrap is not installed (package `bubblewrap`)")
        self._program = program
        inside = inside or Inside()
        self._shown = inside.shown()
        self._scratch = _mount_point(self._shown)
        super().__init__(
            settings, clock, inside=inside, mode=Mode.BUBBLEWRAP, scratch=self._scratch
        )
        self._prove()

    def _prove(self) -> None:
        """Run a program, the only way to find out whether bubblewrap works here."""
        if self._mode is Mode.BARE:
            return
        try:
            self.run(CommandRun(argv=("true",)))
        except SandboxError as error:
            self.close()
            raise IsolationUnavailable(f"bubblewrap does not work here: {error}") from error

    def run(self, command: CommandRun) -> RunResult:
        """Run any program; see `CommandLauncher`."""
        files = checked_files(command.files, command.executables, command.collect)
        environment = {**ENVIRONMENT, **command.env}
        if self._mode is Mode.BARE:
            return result_of(self.carry_out(command_order(command, files)))
        environment = {"HOME": "/box", **environment}
        return _with_signal(
            result_of(
                self.carry_out(
                    Order(
                        kind="bubblewrap",
                        argv=[*self._arguments(environment), "--", *_SHELL, *command.argv],
                        env={},
                        files=files,
                        source=b"",
                        stdin=command.stdin,
                        collect=command.collect,
                        limits=command.limits,
                    )
                )
            )
        )

    def _arguments(self, environment: Mapping[str, str]) -> list[str]:
        user = str(USER)
        arguments = [self._program, "--unshare-all", "--unshare-user", "--disable-userns"]
        arguments += ["--uid", user, "--gid", user, "--hostname", "box", "--cap-drop", "ALL"]
        arguments += ["--die-with-parent", "--new-session", "--clearenv"]
        arguments += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            path = Path("/", name)
            if path.is_symlink():
                arguments += ["--symlink", str(path.readlink()), str(path)]
            else:
                arguments += ["--ro-bind-try", str(path), str(path)]
        for shown in ("/etc/alternatives", "/etc/ld.so.cache"):
            arguments += ["--ro-bind-try", shown, shown]
        arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
        arguments += ["--ro-bind", "/dev/null", "/proc/cmdline"]
        for name in DEVICES:
            arguments += ["--dev-bind", f"{self._scratch}/{name}", f"/dev/{name}"]
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            arguments += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
        arguments += ["--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "../tmp", "/dev/shm"]
        arguments += ["--bind", f"{self._scratch}/box", "/box"]
        arguments += ["--bind", f"{self._scratch}/tmp", "/tmp"]
        for number, directory in enumerate(self._shown):
            arguments += ["--ro-bind", f"{self._scratch}/{number}", directory]
        arguments += ["--remount-ro", "/", "--chdir", "/box"]
        for key, value in environment.items():
            arguments += ["--setenv", key, value]
        return [*arguments, "--seccomp", FILTER, "--json-status-fd", STATUS]


def _mount_point(shown: Sequence[str]) -> str:
    """A directory that hides nothing a box must see."""
    for candidate in ("/tmp", "/mnt", "/media", "/srv"):
        taken = any(Path(path).is_relative_to(candidate) for path in shown)
        if Path(candidate).is_dir() and not taken:
            return candidate
    raise IsolationUnavailable("no directory to mount bubblewrap's scratch space on")


def open_command_launcher(
    settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
) -> CommandLauncher:
    """Open bubblewrap's launcher, or the zygote's if bubblewrap is missing or does not work.

    Raises:
        IsolationUnavailable: neither works here.
    """
    try:
        return BubblewrapLauncher(settings, clock, inside=inside)
    except IsolationUnavailable as error:
        _log.warning("the zygote's boxes take bubblewrap's place: %s", error)
        return ZygoteLauncher(settings, clock, inside=inside)
