"""Watches one run from outside: reads output, counts usage, stops it, reports how it ended.

The output is read while the program runs, so a full pipe never slows the program. The verdict
depends only on the tree's own CPU time and blocked time (`blocked.py`), so a busy machine does not
change a reward. Wall time only protects the caller: a run that exceeds it was delayed by the
machine and may be retried, unless blocked time explains it. While it watches, this thread has
real-time priority where the host allows it: the end of a task hides how long it waited for a core,
so the later a check, the more is excused. No process of the program exists when `until_ended`
returns: the box's pid 1 is dead, which the kernel reports only after all others, or says that the
program has ended and never started another task.
"""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Self

from assay.sandbox.accounting.account import Account, Usage
from assay.sandbox.accounting.blocked import BlockedTime, edge_of, spacing_ns
from assay.sandbox.port import HeldUp, Limits, MonotonicClock, RunStatus, SandboxError

_CHUNK_BYTES: Final = 1 << 20
_WAIT_NS_MIN: Final = 1_000_000
_DIE_S: Final = 20.0
"""Time limit for a killed tree to disappear (a large address space takes a while)."""
_CPU_LOOK_S_MIN: Final = 0.005
_BLOCKED_LOOK_S: Final = (0.05, 0.25)
"""First and longest time between two checks whether the tree is blocked."""
_BLOCKED_LOOKS_SHARE: Final = 0.125
"""Interval to the next such check, as a share of the elapsed time."""
PRIORITY_NS_MAX: Final = 100_000_000
"""CPU time with real-time priority, per run."""
_ERRORS_SHOWN: Final = 1_000
_MESSAGE_BYTES: Final = 64 * 1024
_AT_ONCE: Final = int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)


@dataclass(slots=True, kw_only=True)
class Started:
    """A run in progress, as the launcher holds it."""

    pid: int
    """The box's pid 1."""
    pidfd: int
    box: socket.socket
    streams: dict[int, bytearray]
    """Descriptor to read -> data received; stdout, stderr, and a harness's channel."""
    account: Account
    limits: Limits
    began_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    status: RunStatus
    exit_code: int | None
    usage: Usage
    blocked_s: float
    wall_s: float


@dataclass(slots=True)
class _Seen:
    """The state known so far."""

    stopped: RunStatus | None = None
    wait_status: int | None = None
    failure: str = ""
    dead: bool = False
    """The box's pid 1, and with it all of the tree."""
    is_left_alone: bool = False
    """The program has ended, and pid 1 is all that ever lived in the box beside it."""
    is_held_up: bool = False
    """Killed for wall time that the run itself did not cause."""
    reported: tuple[float, int] = (0.0, 0)
    """CPU time and memory as reported by the box."""
    directory: list[int] = field(default_factory=list)


class Watch:
    """Watches one run from its start to its end."""

    def __init__(self, run: Started, clock: MonotonicClock, *, trusts_pid_1: bool) -> None:
        """Prepare.

        Args:
            run: has been given to its box.
            clock: for all times.
            trusts_pid_1: what pid 1 of the box says of the program's tasks is not the program's.
        """
        self._run = run
        self._trusts_pid_1 = trusts_pid_1
        self._clock = clock
        self._seen = _Seen()
        self._poll = select.poll()
        self._blocked = BlockedTime(run.account.pids, lambda: int(run.account.cpu_s() * 1e9))
        self._blocked.expect()
        self._blocked_due_ns: int | None = None
        """When to check next whether the tree is blocked; `None` before its start, and after."""
        self._late_ns = 0
        """Time by which this process woke late since the last such check."""
        self._several_wait_ns = spacing_ns(run.limits.blocked_s)
        """Time between two such checks of a tree with several tasks: the end of a task that waited
        for a core hides how long it waited, and the whole time since the last check is excused."""
        # With a socket time-out, a read without data would wait for the full time-out.
        run.box.setblocking(False)  # noqa: FBT003 - the standard library's form
        self._open = set(run.streams)
        for descriptor in (*run.streams, run.box.fileno(), run.pidfd):
            self._poll.register(descriptor, select.POLLIN)

    def until_ended(self) -> Ending:
        """Watch until no process of the program exists and its output has been read.

        Raises:
            SandboxError: the box broke, or cannot be killed.
        """
        with Priority() as priority:
            return self._watched(priority)

    def _watched(self, priority: "Priority") -> Ending:
        run = self._run
        limit_ns = run.began_ns + int(run.limits.wall_s_max * 1e9)
        look_ns = self._next_look_ns(run.began_ns, 0.0)
        while self._open or not (self._seen.dead or self._seen.is_left_alone):
            now_ns = self._clock.monotonic_ns()
            if now_ns >= limit_ns:
                limit_ns = self._wall_passed(now_ns)
            if now_ns >= look_ns and not self._seen.dead:
                look_ns = self._look(now_ns)
            blocked_ns = self._look_whether_blocked(now_ns)
            wait_ms = max(0, min(limit_ns, look_ns, blocked_ns or limit_ns) - now_ns) / 1e6
            for descriptor, _ in self._wait(now_ns, wait_ms + 1):
                self._handle(descriptor)
            priority.check()
        return self._ending()

    def _wait(self, now_ns: int, wait_ms: float) -> list[tuple[int, int]]:
        """Wait for an event, and record by how much this process woke late."""
        events = self._poll.poll(wait_ms)
        late_ns = self._clock.monotonic_ns() - now_ns - int(wait_ms * 1e6)
        self._late_ns += max(0, late_ns)
        return events

    @property
    def is_dead(self) -> bool:
        """Whether the box's pid 1 has ended too."""
        return self._seen.dead

    def directory(self) -> int | None:
        """The box's working directory while the box exists; the caller closes it."""
        return self._seen.directory.pop() if self._seen.directory else None

    def close(self) -> None:
        """Close the descriptors that arrived with messages."""
        while self._seen.directory:
            os.close(self._seen.directory.pop())

    def _wall_passed(self, now_ns: int) -> int:
        """Stop the run; returns the time by which it must be dead."""
        if self._seen.stopped is not None or self._seen.is_held_up:
            raise SandboxError("a killed run did not end")
        limit_ns = self._run.limits.blocked_s * 1e9
        if self._blocked.blocked_ns + self._blocked.excused_ns >= limit_ns:
            self._stop(RunStatus.BLOCKED_LIMIT)
        else:
            self._seen.is_held_up = True
            self._kill()
        return now_ns + int(_DIE_S * 1e9)

    def _look_whether_blocked(self, now_ns: int) -> int | None:
        """Count blocked time if a check is due; returns when the next one is."""
        if self._blocked_due_ns is None or self._seen.stopped is not None:
            return None
        if now_ns < self._blocked_due_ns:
            return self._blocked_due_ns
        # The program may have ended before this check, with only the report of it late.
        self._hear()
        if self._blocked_due_ns is None:
            return None
        now_ns = self._clock.monotonic_ns()
        self._blocked.look(now_ns, due_ns=now_ns - self._late_ns)
        self._late_ns = 0
        left_ns = int(self._run.limits.blocked_s * 1e9) - self._blocked.blocked_ns
        if left_ns <= 0:
            self._stop(RunStatus.BLOCKED_LIMIT)
            return None
        self._blocked_due_ns = now_ns + min(
            self._blocked_wait_ns(now_ns), max(left_ns, _WAIT_NS_MIN)
        )
        return self._blocked_due_ns

    def _blocked_wait_ns(self, now_ns: int) -> int:
        """Checks become rarer as a run gets longer, unless there are several tasks."""
        first_s, longest_s = _BLOCKED_LOOK_S
        wait_s = (now_ns - self._run.began_ns) / 1e9 * _BLOCKED_LOOKS_SHARE
        if self._blocked.has_several:
            return self._several_wait_ns
        return int(min(longest_s, max(first_s, wait_s)) * 1e9)

    def _look(self, now_ns: int) -> int:
        """Check the account for a broken limit; returns when to check next."""
        account = self._run.account
        if account.sample_s is not None and account.usage().oom_kills:
            self._stop(RunStatus.MEMORY_LIMIT)
        cpu_s = account.cpu_s()
        if cpu_s > self._run.limits.cpu_s:
            self._stop(RunStatus.CPU_LIMIT)
        return self._next_look_ns(now_ns, cpu_s)

    def _next_look_ns(self, now_ns: int, cpu_s: float) -> int:
        """The earliest time at which the CPU limit can be reached."""
        left_s = (self._run.limits.cpu_s - cpu_s) / max(1.0, self._run.limits.cpu_cores)
        sample_s = self._run.account.sample_s
        wait_s = left_s if sample_s is None else min(left_s, sample_s)
        return now_ns + int(max(wait_s, _CPU_LOOK_S_MIN) * 1e9)

    def _stop(self, why: RunStatus) -> None:
        if self._seen.stopped is None:
            self._seen.stopped = why
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._run.pidfd, signal.SIGKILL)

    def _handle(self, descriptor: int) -> None:
        if descriptor in self._run.streams:
            self._read(descriptor)
        elif descriptor == self._run.pidfd:
            self._seen.dead = True
            self._poll.unregister(descriptor)
            if self._seen.wait_status is None:
                # Its last messages may still be in the socket.
                self._hear()
        else:
            self._hear()

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            self._poll.unregister(descriptor)
            self._open.discard(descriptor)
            return
        kept = self._run.streams[descriptor]
        room = self._run.limits.output_bytes - len(kept)
        kept += data[:room]
        if len(data) > room:
            self._stop(RunStatus.OUTPUT_LIMIT)

    def _hear(self) -> None:
        """Read the box's messages until there are none or it closed the socket."""
        while self._run.box.fileno() >= 0:
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._run.box, _MESSAGE_BYTES, 4, _AT_ONCE
                )
            except BlockingIOError:
                return
            except ConnectionResetError:
                data, descriptors = b"", []
            self._seen.directory.extend(descriptors)
            if not data:
                self._poll.unregister(self._run.box)
                self._run.box.close()
                return
            self._note(*data.decode(errors="replace").split(" ", 1))

    def _note(self, what: str, details: str) -> None:
        if what == "started":
            now_ns = self._clock.monotonic_ns()
            edge = edge_of(details.split())
            self._blocked.begin_at(edge, self._run.pid, now_ns)
            # What this process was late before the program began took no time from the program.
            self._late_ns = max(0, min(self._late_ns, now_ns - edge.at_ns))
            self._blocked_due_ns = now_ns + int(_BLOCKED_LOOK_S[0] * 1e9)
        elif what == "ended":
            words = details.split()
            status, cpu_us, resident = map(int, words[:3])
            self._seen.wait_status = status
            self._seen.reported = (cpu_us / 1e6, resident)
            edge = edge_of(words[3:])
            self._seen.is_left_alone = self._trusts_pid_1 and edge.is_alone
            if self._blocked_due_ns is not None:
                self._blocked.end_at(edge, late_ns=self._late_ns)
                self._blocked_due_ns = None
        elif what == "failed":
            self._seen.failure = details

    def _ending(self) -> Ending:
        usage = self._usage()
        wall_s = (self._clock.monotonic_ns() - self._run.began_ns) / 1e9
        status, code = self._verdict(usage)
        return Ending(
            status=status,
            exit_code=code,
            usage=usage,
            blocked_s=self._blocked.blocked_ns / 1e9,
            wall_s=wall_s,
        )

    def _last_errors(self) -> str:
        _, errors, *_ = self._run.streams.values()
        return f"; stderr: {errors[-_ERRORS_SHOWN:].decode(errors='replace')}" if errors else ""

    def _usage(self) -> Usage:
        usage = self._run.account.usage()
        if self._run.account.sample_s is None:
            return usage
        cpu_s, resident = self._seen.reported
        return Usage(
            cpu_s=max(usage.cpu_s, cpu_s),
            memory_bytes_peak=max(usage.memory_bytes_peak, resident),
            oom_kills=usage.oom_kills,
        )

    def _verdict(self, usage: Usage) -> tuple[RunStatus, int | None]:
        seen = self._seen
        if seen.stopped in {RunStatus.OUTPUT_LIMIT, RunStatus.MEMORY_LIMIT}:
            return seen.stopped, None
        if usage.oom_kills:
            return RunStatus.MEMORY_LIMIT, None
        if usage.cpu_s > self._run.limits.cpu_s:
            return RunStatus.CPU_LIMIT, None
        if seen.stopped is not None:
            return seen.stopped, None
        if self._blocked.blocked_ns > self._run.limits.blocked_s * 1e9:
            return RunStatus.BLOCKED_LIMIT, None
        if seen.is_held_up:
            blocked_s = self._blocked.blocked_ns / 1e9
            raise HeldUp(
                f"delayed by the machine: {self._run.limits.wall_s_max:.0f} s passed after "
                f"{usage.cpu_s:.1f} s of CPU time and {blocked_s:.1f} s blocked"
            )
        if seen.failure or seen.wait_status is None:
            reason = seen.failure or "the box ended without a word"
            raise SandboxError(reason + self._last_errors())
        code = os.waitstatus_to_exitcode(seen.wait_status)
        if code == -signal.SIGXCPU:
            return RunStatus.CPU_LIMIT, None
        return (RunStatus.EXITED if code >= 0 else RunStatus.SIGNALED), code


class Priority:
    """Real-time priority of this thread, for a bounded CPU time; none where the host refuses it.

    A program that keeps its watcher busy with output must not take cores from the machine. A thread
    beside others has none: it would wait for the interpreter's lock, whose owner waits for a core.
    """

    def __enter__(self) -> Self:
        self._is_raised = False
        with contextlib.suppress(OSError):
            if threading.active_count() == 1 and os.sched_getscheduler(0) == os.SCHED_OTHER:
                policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
                os.sched_setscheduler(0, policy, os.sched_param(1))
                self._is_raised = True
        self._began_ns = time.thread_time_ns()
        return self

    def check(self) -> None:
        """Give the priority back if the time is used up."""
        if self._is_raised:
            spent_ns = time.thread_time_ns() - self._began_ns
            if spent_ns > PRIORITY_NS_MAX:
                self._lower()

    def _lower(self) -> None:
        self._is_raised = False
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def __exit__(self, *_: object) -> None:
        if self._is_raised:
            self._lower()
