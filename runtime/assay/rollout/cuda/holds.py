"""Pauses: one word that asks the kernel to hold between two steps, counted on the host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from assay.rollout.cuda.link import HoldMode
from assay.rollout.errors import WorkerStalled

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from assay.rollout.cuda.link import HostLink


class HoldsPause:
    """Holds a pause as `Held` does; one that is dropped resumes."""

    def __init__(self, holds: Holds) -> None:
        self._holds: Holds | None = holds

    def resume(self) -> None:
        """End this pause; a second call does nothing."""
        holds, self._holds = self._holds, None
        if holds is not None:
            holds.resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()

    def __del__(self) -> None:
        self.resume()


class Holds:
    """Pauses in place nest. A pause that ends or retracts rollouts waits until there is no other:
    while a caller knows the kernel to be held, nothing moves."""

    def __init__(
        self, link: HostLink, news: threading.Condition, raise_if_lost: Callable[[], None]
    ) -> None:
        self._link, self._news, self._raise_if_lost = link, news, raise_if_lost
        self._count, self._number = 0, 0

    def pause(self, mode: HoldMode, timeout_s: float) -> HoldsPause:
        """Hold the kernel.

        Raises:
            WorkerStalled: not held in time; nothing is paused.
        """
        deadline = time.perf_counter() + timeout_s
        with self._news:
            if mode is not HoldMode.IN_PLACE:
                self.until(lambda: self._count == 0, deadline)
            if self._count == 0:
                self._ask(mode)
            self._count += 1
            try:
                wanted = int(self._link.head.hold)
                self.until(lambda: int(self._link.head.held) == wanted, deadline)
            except BaseException:
                self.resume()
                raise
            return HoldsPause(self)

    def resume(self) -> None:
        """One pause less."""
        with self._news:
            self._count -= 1
            if self._count == 0:
                self._ask(HoldMode.RUN)
                self._news.notify_all()

    def _ask(self, mode: HoldMode) -> None:
        self._number += 1
        self._link.head.hold = self._number << 2 | mode

    def until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait with the lock held.

        Raises:
            WorkerStalled: the deadline passed.
            KernelHung, KernelFailed: the kernel is gone.
        """
        while not done():
            self._raise_if_lost()
            left = deadline - time.perf_counter()
            if left <= 0:
                raise WorkerStalled("the kernel did not reach the end of its step in time")
            self._news.wait(min(left, 0.0005))
