"""A process between an owner and its child process, so that neither outlives the other for long.

Run by path, as a separate process and with the standard library alone, between the owner (`assay
up`, `assay score`, a test) and the child, its ward:

* the owner dies, for whatever reason: the ward gets SIGTERM and time to drain, then SIGKILL; a
  stopped ward is continued first. The embedded store first waits for its remaining clients;
* the warden receives SIGTERM: it passes that on;
* the warden dies: the kernel kills the ward;
* the ward dies: the warden ends in the same way (exit code or signal).

There is no race: the warden watches the owner through a pidfd and checks that it is still its
parent; the ward asks the kernel for a signal at its parent's death and checks likewise, before it
executes its program. Both hold the lock file that they inherit, so a process that can lock it knows
that both are gone; the file holds their pids.

There is one per part of the platform, which waits and does nothing else. So it imports little: what
is for a type checker only, and what only the owner or the store's warden calls, is not loaded.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Final, NoReturn

ANSWER_S_MAX: Final = 1.0
BUSY_POLL_S: Final = 0.2
BUSY_S_MAX: Final = 60.0
"""How long a store waits for its clients after its owner's death."""
_PR_SET_PDEATHSIG: Final = 1
_WAKES_MAX: Final = 4_096
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def command(
    argv: list[str], *, owner_pid: int, lock: int, drain_s: float, busy: str = ""
) -> list[str]:
    """Build the command that runs `argv` under a warden that is a child of `owner_pid`.

    Args:
        argv: the ward, an absolute path first.
        owner_pid: process whose death ends both.
        lock: an inherited descriptor of the locked file.
        drain_s: seconds from SIGTERM to SIGKILL.
        busy: socket of a Valkey, which is not stopped while it has clients.
    """
    words = (str(owner_pid), str(lock), str(drain_s), busy)
    return [sys.executable, "-I", "-S", __file__, *words, *argv]


def wards_pid(warden_pid: int) -> int | None:
    """The process that a warden wards, while there is one."""
    try:
        with open(f"/proc/{warden_pid}/task/{warden_pid}/children", encoding="ascii") as file:  # noqa: PTH123 -- see above
            found = file.read().split()
    except OSError:
        return None
    return int(found[0]) if found else None


def pids_in(lock_file: Path) -> list[int]:
    """The warden and the ward that last held the file."""
    try:
        return [int(word) for word in lock_file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def _fork_ward() -> int:
    """Returns 0 in the ward, as `os.fork`."""
    warden = os.getpid()
    libc = ctypes.CDLL(None)
    # A signal that arrives meanwhile stays blocked until the ward installs its own handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    pid = os.fork()
    if not pid:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != warden:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return pid


def _execute(argv: list[str], lock: int) -> NoReturn:
    os.set_inheritable(lock, True)  # noqa: FBT003 -- has no name for it
    os.execv(argv[0], argv)  # noqa: S606 -- what the owner asked for, without a shell


def _wait(ward: int, timeout_s: float) -> bool:
    """Whether the ward ended in time."""
    return bool(select.select([ward], [], [], timeout_s)[0])


def _users(busy: str) -> int:
    """Number of clients of the store; none when it does not answer."""
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(ANSWER_S_MAX)
            asking.connect(busy)
            asking.sendall(b"INFO clients\r\n")
            said = asking.recv(65_536)
    except OSError:
        return 0
    for line in said.splitlines():
        if line.startswith(b"connected_clients:"):
            return int(line.partition(b":")[2]) - 1
    return 0


def _end(pid: int, ward: int, drain_s: float, busy: str) -> None:
    """End the ward after the owner's death."""
    for _ in range(int(BUSY_S_MAX / BUSY_POLL_S)):
        if not busy or not _users(busy) or _wait(ward, BUSY_POLL_S):
            break
    for number in (signal.SIGTERM, signal.SIGCONT):
        os.kill(pid, number)  # not reaped yet, so the pid is still its own
    if not _wait(ward, drain_s):
        os.kill(pid, signal.SIGKILL)
        select.select([ward], [], [])


def _wake_by_signals() -> tuple[int, int]:
    """Two ends of a pipe: the first is readable after a signal.

    Python runs a handler between two instructions of its own: a signal that arrives after the last
    of them, just before the process waits, would be handled when the wait is over.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    return told, tell


def main(words: list[str]) -> None:
    """Ward what the owner asked for."""
    owner_pid, lock, drain_s = int(words[0]), int(words[1]), float(words[2])
    busy, argv = words[3], words[4:]
    if busy:
        import socket  # noqa: F401 -- now, as files may be gone when `_users` needs it
    try:
        owner = os.pidfd_open(owner_pid)
    except ProcessLookupError:
        return
    if os.getppid() != owner_pid:
        return
    os.set_inheritable(lock, False)  # noqa: FBT003 -- has no name for it
    keep(owner, lock, drain_s, lambda: _execute(argv, lock), busy=busy)


def keep(
    owner: int, lock: int, drain_s: float, begin: Callable[[], object], *, busy: str = ""
) -> NoReturn:
    """Ward a process until it ends; then end in the same way.

    Args:
        owner: a descriptor of the process whose death ends both.
        lock: a descriptor of the locked file.
        drain_s: seconds from SIGTERM to SIGKILL.
        begin: what the ward does, in a process of its own.
        busy: see `command`.
    """
    asked: list[int] = []
    # A signal before the ward exists is passed on later.
    signal.signal(signal.SIGTERM, lambda *_: asked.append(signal.SIGTERM))
    told, tell = _wake_by_signals()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pid = _fork_ward()
    if not pid:
        os.close(told)
        os.close(tell)
        begin()
        sys.exit(0)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {pid}\n".encode("ascii"), 0)
    ward = os.pidfd_open(pid)
    signal.signal(signal.SIGTERM, lambda *_: signal.pidfd_send_signal(ward, signal.SIGTERM))
    if asked:
        os.kill(pid, signal.SIGTERM)
    while (ready := select.select([owner, ward, told], [], [])[0]) == [told]:
        os.read(told, _WAKES_MAX)
    if ward not in ready:
        _end(pid, ward, drain_s, busy)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
