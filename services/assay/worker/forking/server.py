"""The fork servers of slots: `python -m assay.worker.forking.server FD`, started by the host.

One small fork server on two levels. The root server, started with a scrubbed environment, forks one
server per stage; a stage server imports the stage's handler once and forks the stage's slots.
Neither holds anything that a slot must not have: no credentials, no connection except the channel
to the host.

Invariants: when the host ends, all processes below it end; when a stage server ends, its slots end;
an orphan (left by a killed slot) is adopted by the server above it and killed as a stray. Both
detect the end of the host by the end of their channel: a parent-death signal would kill them before
they could kill the processes below.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Never

from assay.config.priority import trim
from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.codec import pack, unpack
from assay.core.errors import IsolationUnavailable
from assay.core.ids import StageName
from assay.core.verdict import TEXT_CHARS_MAX
from assay.sandbox.seccomp import compile_in_advance
from assay.verifiers.port import GroupHandler, HandlerContext, StageHandler
from assay.verifiers.registry import load_handler, load_pipelines, stages_of
from assay.worker.artifacts.client import SlotArtifacts
from assay.worker.forking import processes
from assay.worker.forking.patterns import kept_patterns
from assay.worker.slots.main import SlotSettings, Workshop, be_slot

MESSAGE_BYTES_MAX: Final = 64 * 1024
SHARED: Final = ("assay.verifiers.text.answers",)
"""Heavy modules of most stages: imported once, after the host knows that the server is up."""

BeChild = Callable[[str, socket.socket], Never]
"""Runs in the child, with the name that the host gave and the child's channel to the host."""


class ForkServer:
    """Forks a child for every message on `control`, and reaps; ends when `control` closes."""

    def __init__(self, control: socket.socket, be_child: BeChild) -> None:
        self._control = control
        self._be_child = be_child
        self._known: set[int] = set()
        processes.adopt_orphans()

    def serve(self) -> None:
        """Serve until the host is gone, then end all forked processes."""
        bell, ring = socket.socketpair()
        with bell, ring:
            bell.settimeout(0)
            ring.settimeout(0)
            signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
            signal.set_wakeup_fd(ring.fileno())
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            poll.register(bell, select.POLLIN)
            while True:
                ready = [descriptor for descriptor, _ in poll.poll()]
                if bell.fileno() in ready:
                    with contextlib.suppress(BlockingIOError):
                        bell.recv(4_096)
                    self._reap()
                if self._control.fileno() in ready and not self._fork_asked(bell, ring):
                    signal.set_wakeup_fd(-1)
                    break
        self._end_all()

    def _end_all(self) -> None:
        """Kill all processes below, including those adopted meanwhile."""
        with contextlib.suppress(ChildProcessError):
            while True:
                for child in processes.children(os.getpid()):
                    processes.kill_child(child)
                os.waitpid(-1, 0)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._known.discard(pid)
        for child in processes.children(os.getpid()):
            if child not in self._known:
                processes.kill_child(child)

    def _fork_asked(self, *bells: socket.socket) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 1)
        except ConnectionError:
            return False
        if not data:
            return False
        channel = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            _forget_signals()
            self._control.close()
            for one in bells:
                one.close()
            self._be_child(data.decode(), channel)
        self._known.add(pid)
        channel.close()
        pidfd = os.pidfd_open(pid)
        with contextlib.suppress(ConnectionError):
            socket.send_fds(self._control, [pack(("forked", pid))], [pidfd])
        os.close(pidfd)
        return True


def _forget_signals() -> None:
    """In a child: reset the parent's signal handling."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class RootServer:
    """Forks stage servers."""

    def __init__(self, settings: SlotSettings) -> None:
        self._settings = settings
        self._pipelines = load_pipelines(settings.verifiers)
        self._stages = stages_of(self._pipelines)

    def be_stage_server(self, stage: str, control: socket.socket) -> Never:
        """Import the stage's handler, report ready, and fork slots; runs in a forked process."""
        code = 1
        try:
            processes.set_name(f"stage:{stage}")
            with kept_patterns(
                self._settings.computed and self._settings.computed / f"{stage}.patterns"
            ):
                workshop = self._open(StageName(stage))
            gc.collect()
            gc.freeze()
            gc.enable()
            control.send(pack(("warm", "")))
            server = os.getpid()

            def be_child(number: str, channel: socket.socket) -> Never:
                processes.die_with_parent(server)
                be_slot(workshop, channel, number)

            ForkServer(control, be_child).serve()
            code = 0
        except BaseException:  # noqa: BLE001 - every failure is reported to the host
            with contextlib.suppress(OSError):
                control.send(pack(("broken", traceback.format_exc()[-TEXT_CHARS_MAX:])))
        finally:
            os._exit(code)

    def computed(self, name: str) -> Path | None:
        """Where this file of `assay.config.computed` is; `None`: nothing is kept."""
        folder = self._settings.computed
        return None if folder is None else folder / name

    def _open(self, name: StageName) -> Workshop:
        stage = self._stages[name]
        artifacts = SlotArtifacts()
        make_handler = load_handler(stage)
        if stage.confined:
            made = make_handler(
                HandlerContext(
                    artifacts=artifacts,
                    sandbox=self._settings.sandbox,
                    verifiers=self._settings.verifiers,
                    scratch=self._settings.scratch,
                    computed=self._settings.computed,
                )
            )

            def inherited(_context: HandlerContext) -> StageHandler | GroupHandler:
                return made

            make_handler = inherited
        return Workshop(
            stage=stage,
            pipelines=self._pipelines,
            settings=self._settings,
            artifacts=artifacts,
            make_handler=make_handler,
        )


def slot_settings(packed: bytes) -> SlotSettings:
    """The settings that `packed_settings` packed."""
    wanted: Any = unpack(packed)
    return SlotSettings(
        sandbox=SandboxSettings.model_validate_json(wanted[0]),
        verifiers=VerifierSettings.model_validate_json(wanted[1]),
        scratch=Path(wanted[2]),
        shared=Path(wanted[3]),
        computed=Path(wanted[4]) if wanted[4] else None,
    )


def packed_settings(settings: SlotSettings) -> bytes:
    """The host's first message."""
    return pack(
        (
            settings.sandbox.model_dump_json(),
            settings.verifiers.model_dump_json(),
            str(settings.scratch),
            str(settings.shared),
            "" if settings.computed is None else str(settings.computed),
        )
    )


def main() -> None:
    """Set up from the first message, then serve."""
    processes.set_name("fork-server")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        socket.socket(fileno=int(sys.argv[1])) as control,
        contextlib.suppress(ConnectionError),  # the host has gone meanwhile
    ):
        _be_root_server(control)


def _be_root_server(control: socket.socket) -> None:
    wanted, logs, _, _ = socket.recv_fds(control, MESSAGE_BYTES_MAX, 1)
    if not wanted:
        return
    for log in logs:
        os.dup2(log, 2)
        os.close(log)
    os.dup2(2, 1)  # output of a handler goes to the log
    gc.disable()  # what is imported is no garbage, and each collection would look at all of it
    root = RootServer(slot_settings(wanted))
    with contextlib.suppress(IsolationUnavailable):  # a stage that needs it reports that
        compile_in_advance()
    control.send(pack(("warm", "")))
    with kept_patterns(root.computed("shared.patterns")):
        for name in SHARED:
            import_module(name)
    gc.collect()
    gc.freeze()
    trim()
    ForkServer(control, root.be_stage_server).serve()


if __name__ == "__main__":
    main()
