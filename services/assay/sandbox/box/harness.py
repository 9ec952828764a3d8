"""Harnesses: trusted code that judges untrusted code in one box.

A harness (`HarnessRun`) is pid 1 of its box itself. Processes that it forks with `spawn_confined`
live in a nested pid and mount namespace and were forked before the sealed data was read.

A harness is a Python file, or a file of a package (standard library only, and no imports of `assay`
except from that package). Pass it to `ZygoteLauncher(harnesses={"name": path})`, with

    def main(payload: bytes, box) -> None:
        theirs, ours = socket.socketpair()      # any pipes between the two
        def candidate() -> None: ...            # runs untrusted code
        pid = box.spawn_confined(candidate, keep_fds=[theirs.fileno()])
        theirs.close()
        tests = box.unseal()                    # the candidate has no copy
        box.confine_self()
        ...                                     # ask it, compare its answers
        box.channel_write(verdict)              # only the harness can

`candidate` returning is exit code 0, an exception is 1 with a traceback on stderr, `sys.exit` and
`os._exit` set the exit code; `os.waitpid(pid, 0)` returns it. When `main` returns the box ends,
even if the candidate is still running. An exception of `main` is a `SandboxError` for the caller.

Loaded by the zygote: standard library only, and little of it.
"""

import gc
import os
import signal
import traceback
from collections.abc import Callable, Sequence

from assay.sandbox import linux
from assay.sandbox.accounting import blocked
from assay.sandbox.box.channel import RunRequest
from assay.sandbox.box.prepare import (
    be_first_out_of_memory,
    give_up,
    mount_proc,
    mount_scratch,
    set_limits,
)
from assay.sandbox.box.program import ignore_interrupts
from assay.sandbox.box.python import exit_code_of, renew_standard_streams


class Box:
    """The operations of a harness; implements `assay.sandbox.port.Box`."""

    def __init__(
        self,
        request: RunRequest,
        filter_: linux.Filter,
        *,
        nested: bool,
        shown: Sequence[tuple[str, str]],
    ) -> None:
        self._limits = request.limits
        self._channel, self._sealed = request.special
        self._filter = filter_
        self._nested = nested
        self._shown = shown
        self._unsealed = False

    def spawn_confined(
        self, run: Callable[[], None], *, keep_fds: Sequence[int], shares_files: bool = False
    ) -> int:
        """Fork `run` into a nested pid and mount namespace; returns its pid.

        With `shares_files` it has this process's `/box` and `/tmp`, else empty ones of its own.

        Raises:
            RuntimeError: after `unseal`, because the child would hold a copy of the sealed data.
        """
        if self._unsealed:
            raise RuntimeError("spawn_confined after unseal would expose the sealed data")
        namespaces = linux.CLONE_NEWPID | linux.CLONE_NEWNS if self._nested else 0
        ignore_interrupts()
        pid, pidfd = linux.clone(namespaces)
        if pid:
            os.close(pidfd)
            return pid
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._enter_nested(keep_fds, shares_files=shares_files)
        except BaseException:  # noqa: BLE001 - no code of the harness may continue in this process
            traceback.print_exc()
            os._exit(126)
        os._exit(exit_code_of(run, hidden_frames=1))

    def unseal(self) -> bytes:
        """Return the sealed data, once."""
        if self._unsealed:
            raise RuntimeError("unsealed already")
        self._unsealed = True
        with os.fdopen(self._sealed, "rb") as file:
            return file.read()

    def confine_self(self) -> None:
        """Drop capabilities and the denied system calls; the channel stays open."""
        give_up(self._filter)

    def channel_write(self, data: bytes) -> None:
        """Append to the result's channel."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._channel, view) :]

    def blocked_meter(self, pid: int) -> blocked.BlockedTime:
        """Return a meter for the process `pid` and its descendants."""
        return blocked.BlockedTime(lambda: blocked.tree(pid))

    def _enter_nested(self, keep_fds: Sequence[int], *, shares_files: bool) -> None:
        # A signal to its process group must reach neither the harness nor another box.
        os.setsid()
        linux.close_all_but([0, 1, 2, *keep_fds])
        linux.die_with_parent()
        if self._nested:
            mount_proc()
            if not shares_files:
                mount_scratch(self._limits, self._shown)
            os.chdir("/box")
        set_limits(self._limits)
        be_first_out_of_memory()
        give_up(self._filter)
        renew_standard_streams()
        gc.enable()
