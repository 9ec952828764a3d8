"""`RolloutEngine` in front of a server that speaks one of the dialects."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from assay.rollout.errors import InvalidRollout, RuntimeClosed, WorkerStalled
from assay.rollout.interface.checks import SLOTS_MAX, U32_MAX, check_integer, check_number
from assay.rollout.interface.rollouts import Activation, Bounds, Group
from assay.rollout.layout import PauseMode
from assay.rollout.remote.decoder import Decoder
from assay.rollout.remote.ledger import RemoteLedger, completed
from assay.rollout.remote.options import RemoteOptions
from assay.rollout.remote.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType
    from typing import Any

    from assay.rollout.interface.rollouts import (
        Completed,
        GroupOptions,
        Progress,
        RolloutRef,
        ScoreRequest,
    )
    from assay.rollout.remote.dialects import Dialect, Greeting
    from assay.rollout.remote.ledger import RemoteStats, Row

CLOSE_S_MAX = 30.0
_POLL_MAX = 1024
_PEEK_MAX = 4096
_FLOAT_MAX = sys.float_info.max
_T = TypeVar("_T")


class _Loop:
    """An event loop in a thread of its own; ends when it is stopped or dropped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(
            target=self.loop.run_forever, name="rollout-remote", daemon=True
        )
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Run a coroutine and return its result.

        Raises:
            WorkerStalled: it did not finish in time; it continues.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise RuntimeClosed("the engine is closed") from None
        try:
            return future.result(timeout_s)
        except TimeoutError:
            raise WorkerStalled(f"no answer within {timeout_s} s") from None
        except asyncio.CancelledError:
            raise RuntimeClosed("the engine is closed") from None

    def stop(self, timeout_s: float) -> None:
        """End the thread.

        Raises:
            WorkerStalled: it did not end in time.
        """
        self.post(self.loop.stop)
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            raise WorkerStalled(f"still busy after {timeout_s} s")
        self.loop.close()

    def post(self, call: Callable[..., None], *arguments: object) -> None:
        """Schedule the call on the loop."""
        try:
            self.loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            raise RuntimeClosed("the engine is closed") from None


async def _make(make: Callable[[], Decoder]) -> tuple[Decoder, Greeting]:
    decoder = make()
    try:
        return decoder, await decoder.greet()
    except BaseException:
        await decoder.close()
        raise


def _shut(loop: _Loop, decoder: Decoder, owner: int, timeout_s: float = CLOSE_S_MAX) -> None:
    """Close the connections and end the thread; a forked child has neither."""
    if os.getpid() != owner or loop.loop.is_closed():
        return
    loop.run(decoder.close(), timeout_s)
    loop.stop(timeout_s)


class RemotePause:
    """Nothing decodes until `resume`, which counts once."""

    def __init__(self, engine: RemoteEngine, mode: PauseMode) -> None:
        self._engine: RemoteEngine | None = engine
        self._mode = mode

    def resume(self) -> None:
        """Resume, unless another pause holds."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine._release(self._mode)  # noqa: SLF001 - a pause is a part of its engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()

    def __del__(self) -> None:
        self.resume()


class RemoteEngine:
    """A server as an engine. Close it, or use it as a context manager.

    Every call may be made from any thread. A rollout whose server keeps failing to answer ends as
    CRASHED, alone; `stats().last_error` says why.
    """

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        slots: int,
        vocab_size: int | None = None,
        options: RemoteOptions | None = None,
        *,
        api_key: str | None = None,
    ) -> None:
        """Connect.

        Args:
            url: of the server.
            dialect: its API.
            slots: rollouts at a time.
            vocab_size: token ids of prompts are below it; `None`: the server says it.
            options: limits.
            api_key: bearer token of every request.

        Raises:
            ServerRefused: the server cannot serve as an engine.
            ServerLost: it does not answer.
        """
        self.options = options = options or RemoteOptions()
        check_integer("slots", slots, 1, SLOTS_MAX)
        self._dialect = dialect
        self._ledger = RemoteLedger(
            slots,
            options.decode_credits,
            options.reward_credits or slots,
            options.trajectory_credits or slots,
        )
        self._loop, self._owner, self._closed = _Loop(), os.getpid(), False

        def make() -> Decoder:
            return Decoder(self._ledger, Transport(url, options, api_key), dialect, options)

        try:
            greeted = self._loop.run(_make(make), options.admin_s + options.connect_s)
            self._decoder, self.greeting = greeted
        except BaseException:
            self._loop.stop(CLOSE_S_MAX)
            raise
        self._abandon = weakref.finalize(
            self, _shut, self._loop, self._decoder, self._owner, CLOSE_S_MAX
        )
        try:
            self.vocab_size = _vocab_size(vocab_size, self.greeting)
        except BaseException:
            self.close()
            raise
        self._decoder.ids_below = max(self.vocab_size, self.greeting.vocab_size or 0)
        self._bounds = Bounds(
            slots=slots,
            vocab_size=self.vocab_size,
            seq_len_max=options.seq_len_max,
            stop_strings=options.stop_strings,
        )

    def _check_open(self) -> None:
        if self._closed or os.getpid() != self._owner:
            raise RuntimeClosed("the engine is closed, or belongs to another process")

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        """See `RolloutEngine.submit`."""
        self._check_open()
        group = Group.of(prompt, options)
        group.check(self._bounds)
        _check_text(group.stop_strings)
        self._dialect.accept(group)
        with self._decoder.changed:
            refs = self._ledger.submit(group)
        self._loop.post(self._decoder.dispatch)
        return refs

    def cancel(self, ref: RolloutRef) -> None:
        """See `RolloutEngine.cancel`."""
        self._check_open()
        with self._decoder.changed:
            row = self._ledger.cancel(ref)
            self._decoder.changed.notify_all()
        self._loop.post(self._decoder.drop, row)

    def poll(self, n: int = _POLL_MAX) -> list[Completed]:
        """See `RolloutEngine.poll`."""
        self._check_open()
        taken: list[Row] = []
        with self._decoder.changed:
            taken = self._ledger.ended(n)
            came = [completed(row) for row in taken]
            for row in taken:
                self._ledger.release(row)
        if taken:
            self._loop.post(self._decoder.dispatch)
        return came

    def peek(self, ref: RolloutRef, start: int = 0, n: int = _PEEK_MAX) -> Progress:
        """Return up to n tokens received for a rollout, from index `start` on.

        Raises:
            RolloutGone: it ended and was polled.
        """
        self._check_open()
        check_integer("start", start, 0, U32_MAX)
        check_integer("n", n, 1, _PEEK_MAX)
        with self._decoder.changed:
            return self._ledger.peek(ref, start, n)

    def poll_rewards(self, n: int = _POLL_MAX) -> list[ScoreRequest]:
        """See `RolloutEngine.poll_rewards`."""
        self._check_open()
        with self._decoder.changed:
            return self._ledger.rewards(n)

    def score(self, ref: RolloutRef, reward: float) -> None:
        """See `RolloutEngine.score`."""
        self._check_open()
        check_number("reward", reward, -_FLOAT_MAX, _FLOAT_MAX)
        with self._decoder.changed:
            self._ledger.score(ref, reward)
            self._decoder.changed.notify_all()
        self._loop.post(self._decoder.dispatch)

    def wait(self, timeout_s: float) -> float:
        """See `RolloutEngine.wait`."""
        self._check_open()
        begun = time.perf_counter()
        with self._decoder.changed:
            self._decoder.changed.wait_for(lambda: self._ledger.news or self._closed, timeout_s)
        self._check_open()
        return time.perf_counter() - begun

    def pause(
        self, timeout_s: float = 10.0, *, mode: PauseMode = PauseMode.IN_PLACE
    ) -> RemotePause:
        """See `RolloutEngine.pause`. If the server cannot hold responses, IN_PLACE retracts."""
        self._check_open()
        self._loop.run(self._decoder.hold(mode, timeout_s))
        return RemotePause(self, mode)

    def _release(self, mode: PauseMode) -> None:
        if not self._closed and os.getpid() == self._owner:
            self._loop.post(functools.partial(self._decoder.release, mode))

    @property
    def takes(self) -> frozenset[str]:
        """Kinds of pushes that the server takes: `full`, `lora`, `oft`."""
        return self._dialect.takes

    @property
    def policy_version(self) -> int:
        """Version of the active weights."""
        with self._decoder.changed:
            return self._ledger.policy_version

    def stage(self, version: int, path: str) -> None:
        """Have the server make the weights at `path` (as it sees it) ready, while it decodes.

        Raises:
            ServerRefused: it does not accept them.
            ServerLost: it did not answer.
        """
        self._check_open()
        check_integer("version", version, 0, U32_MAX)
        self._loop.run(self._decoder.stage(version, path), self.options.stage_s)

    def activate(
        self, version: int, *, mode: PauseMode = PauseMode.IN_PLACE, timeout_s: float = 10.0
    ) -> Activation:
        """See `RolloutEngine.activate`. If the server does not report the version of each token,
        IN_PLACE retracts, so that stamped versions are exact."""
        self._check_open()
        check_integer("version", version, 0, U32_MAX)
        if mode is PauseMode.IN_PLACE and not self._dialect.names_versions:
            mode = PauseMode.RETRACT
        asked = time.perf_counter()
        with self.pause(timeout_s, mode=mode):
            held = time.perf_counter()
            previous = self._ledger.policy_version
            self._loop.run(self._decoder.activate(version), self.options.stage_s)
        done = time.perf_counter()
        return Activation(
            version=version, previous=previous, wait_s=held - asked, pause_s=done - held
        )

    def stats(self) -> RemoteStats:
        """See `RolloutEngine.stats`."""
        self._check_open()
        with self._decoder.changed:
            return self._ledger.stats()

    def close(self, timeout_s: float = CLOSE_S_MAX) -> None:
        """End every request and the thread. Calling it twice is allowed.

        Raises:
            WorkerStalled: the thread did not end in time; call it again.
        """
        self._closed = True
        with self._decoder.changed:
            self._decoder.changed.notify_all()
        _shut(self._loop, self._decoder, self._owner, timeout_s)
        self._abandon.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _vocab_size(given: int | None, greeting: Greeting) -> int:
    said = greeting.vocab_size
    if given is None:
        if said is None:
            raise InvalidRollout("vocab_size", "the server does not say it, so it has to be given")
        return said
    if said is not None and given > said:
        raise InvalidRollout("vocab_size", f"{given}, and the server's model has {said}")
    return check_integer("vocab_size", given, 1, U32_MAX)


def _check_text(stop_strings: Sequence[bytes]) -> None:
    for text in stop_strings:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise InvalidRollout("stop_strings", "a server takes text: UTF-8") from None
