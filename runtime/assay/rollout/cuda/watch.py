"""The one thread that reads what the kernel writes: both result rings and the heartbeat."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from assay.rollout.cuda.errors import KernelFailed, KernelHung, error_of
from assay.rollout.rollouts import RolloutRef

if TYPE_CHECKING:
    from assay.rollout.cuda.ledger import Ledger
    from assay.rollout.cuda.link import HostLink
    from assay.rollout.cuda.machine import Machine

LINES_MAX: Final = 256
_PAUSES_S: Final = (0.0, 20e-6, 100e-6, 500e-6)
"""Between two looks: longer the longer nothing comes."""
_LOOK_AT_DRIVER_S: Final = 0.05


class Watch:
    """Moves lines into the ledger, wakes waiters, and finds a kernel that hangs or has died.

    `news` guards ledger and link; it is notified when something came, and at least every
    `_LOOK_AT_DRIVER_S`.
    """

    def __init__(self, link: HostLink, ledger: Ledger, machine: Machine, hang_s: float) -> None:
        self.news = threading.Condition(threading.RLock())
        self.lost: KernelHung | KernelFailed | None = None
        self.clock_offset_ns: int | None = None
        """Add to the device's clock for CLOCK_MONOTONIC; from the quickest heartbeat so far."""
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
            offset = time.perf_counter_ns() - beat
            known = self.clock_offset_ns
            self.clock_offset_ns = offset if known is None else min(known, offset)
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
