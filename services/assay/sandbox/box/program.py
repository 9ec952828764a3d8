"""The program's process: its start, its end, and the end of all that it started.

Pid 1 of the box starts it as a child and waits for it; the instants of its beginning and end are
read such that no wait for a core counts as its time. Loaded by the zygote: standard library only,
and little of it.
"""

import _thread
import os
import signal
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from assay.sandbox.accounting import blocked
from assay.sandbox.box.channel import RunRequest, children_cpu_ns, edge_of_self, now_ns
from assay.sandbox.box.prepare import set_limits, take_stdio

_KILL_ROUNDS_MAX: Final = 10_000
_ALONE_NS: Final = 2_000_000
"""CPU time of other tasks from which they are known to exist."""


class Program(NamedTuple):
    """The process of the program."""

    pid: int
    """In this process's namespace."""
    shown_pid: int
    """In `/proc`, which shows another namespace where bubblewrap creates the inner one."""


def start_program(
    request: RunRequest,
    where: str,
    prepare: Callable[[], None],
    run: Callable[[], None],
    keep: Sequence[int] = (),
) -> tuple[Program, blocked.Edge]:
    """Fork the program.

    Args:
        request: names its descriptors and limits.
        where: its working directory.
        prepare: the last trusted code in it; its exceptions are a failure of the sandbox.
        run: the program; does not return.
        keep: descriptors that it keeps in addition to its standard ones.

    Returns:
        The program and its beginning, once it has started. The program itself reads the time of its
        beginning: pid 1 can wait for a core before, in and after the fork.

    Raises:
        OSError: `prepare` failed.
    """
    reader, writer = os.pipe()
    ignore_interrupts()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            began = edge_of_self(is_head=False, is_alone=True)
            shown = os.readlink("/proc/self")
            os.write(writer, f"{shown} {blocked.words_of(began)}\n".encode())
            os.setsid()
            take_stdio(request.stdio, keep=[writer, *keep])
            os.chdir(where)
            set_limits(request.limits)
            prepare()
        except BaseException as error:  # noqa: BLE001 - it is reported to pid 1
            os.write(writer, repr(error).encode())
            os._exit(126)
        if request.kind == "python":
            os.close(writer)
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - the child must not continue with the code of pid 1
            os.write(2, repr(error).encode())
        os._exit(126)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        words, failure = file.readline().split(), file.read()
    if failure or not words:
        raise OSError(failure.decode(errors="replace") or "the program did not begin")
    return Program(pid, int(words[0])), blocked.edge_of(words[1:])


def await_program(program: Program) -> tuple[int, blocked.Edge]:
    """Reap all children until the program itself has ended.

    Returns:
        Its wait status, and its end, read before this process could wait for a core again.
    """
    while True:
        delayed_ns = blocked.own_reading().delayed_ns
        ending = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ending is None or ending.si_pid != program.pid:
            os.waitpid(ending.si_pid if ending else -1, 0)
            continue
        at_ns = now_ns() - (blocked.own_reading().delayed_ns - delayed_ns)
        booked = blocked.reading(program.shown_pid)
        _, status = os.waitpid(program.pid, 0)
        others_ns = children_cpu_ns() - booked.ran_ns
        is_alone = others_ns < _ALONE_NS and not _has_started_tasks(program)
        return status, blocked.Edge(at_ns, booked, is_head=False, is_alone=is_alone)


def _has_started_tasks(program: Program) -> bool:
    """Whether the program started threads or processes, as far as pid 1 can know.

    The kernel numbers the tasks of a pid namespace one after the other: if no task came after the
    program, the next one has the next number. A task that only slept shows in no other counter.
    """
    if os.getpid() != 1:
        return False
    if program.shown_pid != program.pid:
        return True  # bubblewrap starts processes itself
    held = _thread.allocate_lock()
    held.acquire()
    try:
        _thread.start_new_thread(held.acquire, ())
        numbers = map(int, os.listdir("/proc/self/task"))
        return max(numbers) != program.pid + 1
    except (OSError, RuntimeError):
        return True
    finally:
        held.release()


def execute(argv: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Execute another program; exit code 127 if it does not exist, as in a shell."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def ignore_interrupts() -> None:
    """Pid 1 gets the signals for which it has a handler, and Python has one for this signal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def kill_descendants(spared: Sequence[int] = ()) -> None:
    """Kill and reap all children except `spared`, and their descendants, which become children.

    For a process that adopts orphans and has no pid namespace that ends with it.
    """
    for _ in range(_KILL_ROUNDS_MAX):
        with open("/proc/thread-self/children", "rb") as file:
            pids = [int(pid) for pid in file.read().split()]
        doomed = [pid for pid in pids if pid not in spared]
        if not doomed:
            return
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            os.waitpid(pid, 0)
