"""The common part of the two launchers; `assay.sandbox.port` states their guarantee.

Both run each program in a box forked by a small zygote process (`box/zygote.py`). The launcher
creates the run's account (a cgroup), sends the request, watches from outside (`watch.py`) and
collects files. It may be used from several threads at once.
"""

import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.sandbox.accounting.account import Backend
from assay.sandbox.accounting.backends import open_backend
from assay.sandbox.launchers.boxes import ForkedBox, Zygote, memory_file
from assay.sandbox.launchers.collect import collect
from assay.sandbox.launchers.ended import EndedBoxes
from assay.sandbox.launchers.order import ENVIRONMENT, Done, Inside, Order
from assay.sandbox.launchers.packages import Packages
from assay.sandbox.launchers.request import packed
from assay.sandbox.launchers.watch import Started, Watch
from assay.sandbox.port import Limits, MonotonicClock, SandboxError
from assay.sandbox.seccomp import compile_filter
from assay.sandbox.uid_claim import UidClaim

_log = logging.getLogger(__name__)
_STACK_BYTES_MAX: Final = 256 * 1024 * 1024
_STACK_BYTES_UNBOUNDED_TREE: Final = 16 * 1024 * 1024
"""Stack size per thread where memory is limited as address space."""


class Mode(StrEnum):
    """What creates a launcher's boxes."""

    OWN = "own"
    """The zygote, from fresh namespaces."""
    BUBBLEWRAP = "bubblewrap"
    """Bubblewrap, from fresh namespaces."""
    BARE = "bare"
    """No namespaces: only resource limits, the system call filter and another uid."""


_OWN_PROCESSES: Final = {Mode.OWN: 1, Mode.BUBBLEWRAP: 3, Mode.BARE: 1}
"""Number of Assay's own processes in a run's account."""


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, list[int]]]:
    """A pipe: its read end, and a list with the write end, which is emptied when that is closed.

    A program may open it again by name (`/dev/stdout`), as another user, for writing.
    """
    reader, writer = os.pipe()
    os.fchmod(writer, 0o222)
    writers = [writer]
    try:
        yield reader, writers
    finally:
        os.close(reader)
        for descriptor in writers:
            os.close(descriptor)


def _limit_words(limits: Limits, backend: Backend, scratch_bytes_max: int) -> dict[str, int]:
    """The limits that the box sets for each process."""
    tree_bounded = {"memory", "processes"} <= backend.limits
    return {
        "cpu_s": int(limits.cpu_s) + 2,
        "file_bytes": limits.file_bytes,
        "disk_bytes": min(limits.disk_bytes, scratch_bytes_max),
        "inodes": limits.inodes,
        "open_files": limits.open_files,
        "stack_bytes": min(
            _STACK_BYTES_MAX if tree_bounded else _STACK_BYTES_UNBOUNDED_TREE,
            limits.memory_bytes // 2,
        ),
        "address_bytes": 0 if tree_bounded else _address_bytes(limits),
        "processes": 0 if tree_bounded else limits.processes + max(_OWN_PROCESSES.values()),
    }


def _importable(packages: Packages) -> dict[str, dict[str, Any]]:
    return {
        "places": {name: str(place) for name, place in packages.places.items()},
        "modules": {
            name: (str(path), path.read_bytes()) for name, path in packages.modules.items()
        },
    }


def _address_bytes(limits: Limits) -> int:
    return limits.memory_bytes * 2 if limits.address_bytes is None else limits.address_bytes


class Launcher:
    """The common part of both launchers."""

    _NATIVE: ClassVar[bool] = True
    """Boxes are set up in C where its library was built; tests use Python there too."""
    _APART: ClassVar[bool] = True
    """Pid 1 executes a program of its own where the host lets it; tests have it stay a fork too."""

    def __init__(
        self,
        settings: SandboxSettings,
        clock: MonotonicClock,
        *,
        inside: Inside,
        mode: Mode,
        scratch: str = "",
    ) -> None:
        self._clock = clock
        self._scratch_bytes_max = settings.scratch_bytes_max
        with contextlib.ExitStack() as held:
            self.uid = _run_uid(settings, held.enter_context(UidClaim()))
            self._backend = open_backend(settings.cgroup)
            held.callback(self._backend.close)
            setup = {
                "uid": self.uid,
                "readable": inside.shown(),
                "devices": list(inside.gpu_devices),
                "python_path": [os.path.realpath(path) for path in inside.python_path],
                "packages": _importable(inside.packages),
                "scratch": scratch,
                "native": self._NATIVE,
                "apart": self._APART,
                "variables": {"HOME": "/box", **ENVIRONMENT},
                "filter": compile_filter(
                    memory_files_allowed="memory" in self._backend.limits,
                    gpu_calls_allowed=bool(inside.gpu_devices),
                ),
                "harnesses": {
                    name: (path.read_bytes(), str(path)) for name, path in inside.harnesses.items()
                },
            }
            self._zygote, self._mode = _started(setup, mode, settings)
            held.callback(self._close_zygote)
            self._ended = EndedBoxes()
            held.callback(self._ended.close)
            self._held = held.pop_all()
        self._own_processes = _OWN_PROCESSES[self._mode]

    def _close_zygote(self) -> None:
        self._zygote.close()

    def close(self) -> None:
        """End the zygote and remove this launcher's cgroups."""
        self._held.close()

    @property
    def isolated(self) -> bool:
        """False only if the host has no isolation and the operator allows that."""
        return self._mode is not Mode.BARE

    @property
    def zygote_pid(self) -> int:
        """The zygote's process."""
        return self._zygote.pid

    @property
    def is_native(self) -> bool:
        """Whether C code sets the boxes up; otherwise Python does the same, at twice the cost."""
        return self._zygote.is_native

    @property
    def cgroup(self) -> str:
        """The backend for accounting and limits: `v2`, `v1` or `none`."""
        return self._backend.kind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self) -> None:
        """Wait until nothing is left of the boxes of ended runs, neither processes nor cgroups.

        Raises:
            SandboxError: something cannot be removed.
        """
        self._ended.close()
        self._backend.trim()

    def carry_out(self, order: Order) -> Done:
        """Run it in a box until no process of the program exists.

        Raises:
            SandboxError: the sandbox could not be set up or torn down.
        """
        forked = self._zygote.take()
        with contextlib.ExitStack() as box, contextlib.ExitStack() as held:
            box.callback(forked.close)
            account = self._backend.create()
            box.callback(account.close)
            box.callback(forked.kill)  # a run that breaks off: its box may not have joined yet
            directory = held.enter_context(self._directory())
            account.set_limits(order.limits, own_processes=self._own_processes)
            streams = [held.enter_context(_pipe()) for _ in range(2 + (order.sealed is not None))]
            began_ns = self._clock.monotonic_ns()
            self._send(order, forked, directory, account.joins, [writers for _, writers in streams])
            self._ended.remove()  # now, beside the program
            account.watch(forked.pid)
            started = Started(
                pid=forked.pid,
                pidfd=forked.pidfd,
                box=forked.channel,
                streams={reader: bytearray() for reader, _ in streams},
                account=account,
                limits=order.limits,
                began_ns=began_ns,
            )
            watch = Watch(started, self._clock, trusts_pid_1=self._trusts_pid_1(order))
            held.callback(watch.close)
            ending = watch.until_ended()
            files = self._collect(order, watch)
            if watch.is_dead:
                account.box_is_dead()
            else:
                self._ended.add(forked.pidfd, box.pop_all(), died=account.box_is_dead)
        return Done(
            ending=ending,
            streams=tuple(bytes(kept) for kept in started.streams.values()),
            files=files,
        )

    def _trusts_pid_1(self, order: Order) -> bool:
        """Whether it is ours, out of the program's reach, and sees all processes of the run."""
        return self._mode is Mode.OWN and order.sealed is None

    @contextlib.contextmanager
    def _directory(self) -> Iterator[str]:
        """A directory for a run without a mount namespace."""
        if self._mode is not Mode.BARE:
            yield "/box"
            return
        with tempfile.TemporaryDirectory(prefix="assay-box-", ignore_cleanup_errors=True) as path:
            if os.geteuid() == 0:
                os.chown(path, self.uid, self.uid)
            yield path

    def _send(
        self,
        order: Order,
        forked: ForkedBox,
        directory: str,
        joins: list[int],
        writers: list[list[int]],
    ) -> None:
        """Send the request; afterwards only the box holds the write ends."""
        header = {
            "kind": order.kind,
            "argv": list(order.argv),
            "env": {"HOME": directory, **order.env},
            "directory": directory,
            "files": list(order.files),
            "source": order.source,
            "limits": _limit_words(order.limits, self._backend, self._scratch_bytes_max),
            "special": 0 if order.sealed is None else 2,
        }
        with contextlib.ExitStack() as held:
            content = packed(header, native=self._zygote.is_native)
            request = held.enter_context(memory_file(content))
            stdin = held.enter_context(memory_file(order.stdin))
            channel = []
            if order.sealed is not None:
                channel = [writers[2][0], held.enter_context(memory_file(order.sealed))]
            descriptors = [request, stdin, writers[0][0], writers[1][0], *channel, *joins]
            try:
                socket.send_fds(forked.channel, [b"r"], descriptors)
            except OSError as error:
                raise SandboxError(forked.last_words() or f"the box is gone: {error}") from error
            finally:
                for descriptor in (kept.pop() for kept in writers):
                    os.close(descriptor)

    def _collect(self, order: Order, watch: Watch) -> dict[str, bytes]:
        directory = watch.directory()
        if directory is None:
            return {}
        try:
            return collect(directory, order.collect, bytes_max=order.limits.file_bytes)
        finally:
            os.close(directory)


def _started(
    setup: Mapping[str, object], mode: Mode, settings: SandboxSettings
) -> tuple[Zygote, Mode]:
    """Start a zygote; without isolation if there is none and the operator allows that."""
    try:
        return Zygote({**setup, "mode": mode.value}), mode
    except IsolationUnavailable as error:
        if not settings.allow_unisolated:
            raise
        _log.critical("untrusted code runs WITHOUT ISOLATION: %s", error)
        return Zygote({**setup, "mode": Mode.BARE.value}), Mode.BARE


def _run_uid(settings: SandboxSettings, claim: UidClaim) -> int:
    return settings.uid + claim.number if os.geteuid() == 0 else os.geteuid()
