"""The one thread that reads what the kernel writes: both result rings and the heartbeat."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.rollout.errors.cuda import KernelFailed, KernelHung, error_of
from assay.rollout.interface.rollouts import RolloutRef
from assay.rollout.layout import TraceRecord

if TYPE_CHECKING:
    from assay.rollout.cuda.ledger import CudaLedger
    from assay.rollout.cuda.link import HostLink
    from assay.rollout.cuda.machine import Machine
    from assay.rollout.layout import Event

LINES_MAX: Final = 256
_PAUSES_S: Final = (0.0, 20e-6, 100e-6, 500e-6)
"""Between two looks: longer the longer nothing comes."""
_LOOK_AT_DRIVER_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is known of `host clock - device clock`: it lies from `low_ns` to `high_ns`."""

    low_ns: int | None = None
    high_ns: int | None = None

    def with_instant(
        self, device: int, *, received: int | None = None, sent: int | None = None
    ) -> Alignment:
        """Narrowed by an instant that the device stamped after the host had `sent` something and
        before the host `received` the stamp. Clocks drift: where that contradicts what was known,
        the new instant counts alone."""
        low = None if sent is None else sent - device
        high = None if received is None else received - device
        lows = [one for one in (self.low_ns, low) if one is not None]
        highs = [one for one in (self.high_ns, high) if one is not None]
        if lows and highs and max(lows) > min(highs):
            return Alignment(low, high)
        return Alignment(max(lows, default=None), min(highs, default=None))

    @property
    def offset_ns(self) -> int:
        """Add it to the device's clock: the middle, or the one bound that is known."""
        low, high = self.low_ns, self.high_ns
        known = [one for one in (low, high) if one is not None]
        return sum(known) // len(known) if known else 0

    @property
    def error_ns(self) -> int | None:
        """Most that `offset_ns` is wrong by; None: not known."""
        if self.low_ns is None or self.high_ns is None:
            return None
        return -(-(self.high_ns - self.low_ns) // 2)


class TraceLog:
    """The instants of both sides in one order; positions count all that were ever recorded."""

    def __init__(self, link: HostLink, kept: int) -> None:
        self._link = link
        self._records: deque[TraceRecord] = deque(maxlen=kept)
        self._fresh: deque[TraceRecord] = deque(maxlen=kept)
        self._taken = self._total = self._dropped = 0
        self.is_on = False

    def mark(self, event: Event, ref: RolloutRef) -> None:
        """An instant of the host, now."""
        if self.is_on:
            now = time.perf_counter_ns()
            self._dropped += len(self._fresh) == self._fresh.maxlen
            self._fresh.append(TraceRecord(now, ref.slot, ref.generation, event))

    def read(self, start: int, clock: Alignment) -> tuple[list[TraceRecord], int, int]:
        """Records from position `start` on, the next position, how many were overwritten."""
        instants, self._taken, lost = self._link.instants(self._taken)
        offset = clock.offset_ns
        fresh = [
            TraceRecord(one.ticks + offset, one.who >> 32, one.who & 0xFFFFFFFF, one.what)
            for one in instants
        ]
        fresh = sorted([*self._fresh, *fresh], key=lambda record: int(record.ticks))
        lost += self._dropped
        self._fresh.clear()
        self._dropped = 0
        if lost:
            self._records.clear()  # what is before a gap counts as overwritten with it
        self._total += lost + len(fresh)
        self._records.extend(fresh)
        oldest = self._total - len(self._records)
        first = max(start, oldest)
        return list(self._records)[first - oldest :], self._total, first - start


class Watch:
    """Moves lines into the ledger, wakes waiters, and finds a kernel that hangs or has died.

    `news` guards ledger and link; it is notified when something came, and at least every
    `_LOOK_AT_DRIVER_S`.
    """

    def __init__(self, link: HostLink, ledger: CudaLedger, machine: Machine, hang_s: float) -> None:
        self.news = threading.Condition(threading.RLock())
        self.lost: KernelHung | KernelFailed | None = None
        self.clock = Alignment()
        self._link, self._ledger, self._machine, self._hang_s = link, ledger, machine, hang_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="assay-cuda-watch", daemon=True)
        self._beat, self._beat_at = 0, time.perf_counter()

    def start(self) -> None:
        self._beat_at = time.perf_counter()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        quiet, looked_at = 0, 0.0
        while not self._stopping.is_set() and self.lost is None:
            with self.news:
                came = self._take()
                now = time.perf_counter()
                if now - looked_at >= _LOOK_AT_DRIVER_S:
                    looked_at = now
                    self._look_for_loss(now)
                    came = True
                if came:
                    self.news.notify_all()
            quiet = 0 if came else quiet + 1
            self._stopping.wait(_PAUSES_S[min(quiet // 16, len(_PAUSES_S) - 1)])
        with self.news:
            self.news.notify_all()

    def _take(self) -> bool:
        rewards, done = self._link.rewards(LINES_MAX), self._link.done(LINES_MAX)
        for line in rewards:
            self._ledger.responded(
                RolloutRef(line.slot, line.generation), line.seq_len, line.posted
            )
        for completion in done:
            self._ledger.ended(completion)
        beat = int(self._link.head.heartbeat)
        if beat != self._beat:
            self._beat, self._beat_at = beat, time.perf_counter()
            self.clock = self.clock.with_instant(beat, received=time.perf_counter_ns())
        return bool(rewards or done)

    def _look_for_loss(self, now: float) -> None:
        lost = self._ledger.user_ids_in_flight()
        failure = self._machine.failure()
        if failure is not None:
            error = error_of(failure, "the kernel ended", lost=lost)
            if not isinstance(error, KernelFailed):
                error = KernelFailed(f"the kernel ended: {failure}", lost)
            self.lost = error
        elif self._link.head.corrupt:
            self.lost = KernelFailed("the kernel found a damaged line on its ring", lost)
        elif now - self._beat_at > self._hang_s:
            self.lost = KernelHung(f"no heartbeat for {self._hang_s:g} s", lost)
