"""A native runtime behind its number: opening, closing, calls, counters.

Invariants:
  - a call holds the native runtime until it returns: one during or after `close`, or in a forked
    child, raises `RuntimeClosed`;
  - a dropped runtime is closed when it is garbage-collected, at the latest when the interpreter
    exits; what its memory points into lives until then.
"""

from __future__ import annotations

import array
import ctypes as ct
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from assay.rollout.errors import HostExhausted, InvalidRollout, RuntimeClosed, WorkerStalled
from assay.rollout.interface.checks import SLOTS_MAX, check_integer
from assay.rollout.interface.rollouts import Bounds
from assay.rollout.layout import (
    STATS_WORDS,
    RuntimeSettings,
    StatsWords,
    Status,
    TraceRecord,
)
from assay.rollout.library.binding import load
from assay.rollout.library.engines import AddressedEngine, ProbeEngine, native_ops
from assay.rollout.local.options import RuntimeOptions, check_options, given, native_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

_PAGES = ("base", "advised_huge", "huge")
CLOSE_S_MAX = 30.0
"""How long `close` waits for calls in other threads and for the worker's step."""


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot; counts since creation. Fields are named as in `STATS_WORDS`."""

    words: dict[str, int] = field(repr=False)

    def __getattr__(self, name: str) -> int:
        try:
            return self.words[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def kv_pages_kind(self) -> str:
        """Pages of the KV arena: base, advised_huge (transparent) or huge (reserved)."""
        return _PAGES[self.words["kv_pages"]]


class Vocabulary:
    """The bytes of every token, laid out as the worker reads them."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        offsets = array.array("I", [0])
        for token in token_bytes:
            offsets.append(offsets[-1] + len(token))
        self.offsets = (ct.c_uint32 * len(offsets)).from_buffer_copy(offsets)
        self.bytes = ct.create_string_buffer(b"".join(token_bytes))
        self.size = len(token_bytes)


EntryT = TypeVar("EntryT", bound=ct.Structure)


class Mailbox(Generic[EntryT]):
    """Buffers for what one native call returned, and how much, before Python reads it."""

    def __init__(self, kind: type[EntryT], capacity: int) -> None:
        self.entries: ct.Array[EntryT] = (kind * capacity)()
        self.count = ct.c_uint64(0)
        self.capacity = capacity


def _abandon(close: Callable[[int, int], int], handle: int, engine: object) -> None:
    """Free what a dropped runtime held; no one has a reference to it any more."""
    if close(handle, round(CLOSE_S_MAX * 1e9)) == Status.OK:
        engine.give_back()  # type: ignore[attr-defined]


class NativeRuntime:
    """See the module."""

    def __init__(
        self,
        engine: AddressedEngine | ProbeEngine,
        slots: int,
        options: RuntimeOptions | None = None,
        *,
        token_bytes: Sequence[bytes] | None = None,
        start: bool = True,
    ) -> None:
        self.options = options = options or RuntimeOptions()
        self.engine = engine
        self.slots = check_integer("slots", slots, 1, SLOTS_MAX)
        check_options(options)
        self._lib = load()
        ops = native_ops(engine)
        rows = given(options.rows_max, ops.batch_max)
        settings = native_settings(slots, options, rows, ops.block_tokens)
        self._vocabulary = Vocabulary(token_bytes) if token_bytes is not None else None
        if self._vocabulary is not None:
            if self._vocabulary.size != ops.vocab_size:
                raise InvalidRollout("token_bytes", f"needs {ops.vocab_size} entries")
            settings.token_offsets = ct.addressof(self._vocabulary.offsets)
            settings.token_bytes = ct.addressof(self._vocabulary.bytes)
        self.vocab_size: int = ops.vocab_size
        self._bounds = Bounds(
            slots=slots,
            vocab_size=ops.vocab_size,
            seq_len_max=options.seq_len_max,
            stop_strings=token_bytes is not None,
        )
        engine.lend()
        try:
            self._handle = self._open(settings, ops)
            self._abandon = weakref.finalize(
                self, _abandon, self._lib.assay_host_close, self._handle, _Kept(self, engine)
            )
        except BaseException:
            engine.give_back()
            raise
        try:
            self.set_trace(on=options.trace)
            self._call(self._lib.assay_host_set_policy_version, engine.policy_version)
            if start:
                self.start()
        except BaseException:
            self._abandon()
            raise

    def _open(self, settings: RuntimeSettings, ops: ct.Structure) -> int:
        status = ct.c_int()
        handle = self._lib.assay_host_open(ct.byref(settings), ct.byref(ops), ct.byref(status))
        if handle:
            return int(handle)
        if status.value == Status.INVALID:
            raise InvalidRollout("options", "the bounds contradict each other or the engine's")
        raise HostExhausted("not enough memory for the rings or the KV arena")

    def _call(self, function: Callable[..., int], *arguments: object) -> int:
        """Check the status of a native call on this runtime.

        Raises:
            RuntimeClosed: the runtime no longer exists.
        """
        status = function(self._handle, *arguments)
        if status == Status.CLOSED:
            raise RuntimeClosed("the runtime is closed")
        return status

    # ---- life

    def start(self) -> None:
        """Start the worker (and scorer) threads."""
        if self._call(self._lib.assay_host_start) != Status.OK:
            raise HostExhausted("the worker thread could not be started")

    def close(self, timeout_s: float = CLOSE_S_MAX) -> None:
        """Stop the threads and free everything; rollouts in flight are lost. May be called twice.

        From the first call on, all other calls are refused.

        Raises:
            WorkerStalled: a call of another thread or the worker's step did not end in time;
                nothing was freed, and `close` may be called again.
        """
        status = self._lib.assay_host_close(self._handle, round(timeout_s * 1e9))
        if status == Status.STALLED:
            raise WorkerStalled(f"still busy after {timeout_s} s")
        if status == Status.OK and self._abandon.detach() is not None:
            self.engine.give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def handle(self) -> int:
        """The number that identifies it to native callers (`assay_host`)."""
        return self._handle

    # ---- looking in

    def stats(self) -> Stats:
        """A snapshot of every counter and gauge."""
        words = StatsWords()
        self._call(self._lib.assay_host_stats, ct.byref(words))
        return Stats({name: getattr(words, name) for name in STATS_WORDS})

    def set_trace(self, *, on: bool) -> None:
        """Record events in the trace ring from now on, or stop it."""
        self._call(self._lib.assay_host_trace_on, int(on))

    def read_trace(self, start: int = 0) -> tuple[list[TraceRecord], int, int]:
        """Events from position `start` on, the next position, and how many were overwritten."""
        n = 1 << max(1, (self.options.trace_events_max - 1).bit_length())
        records, following, lost = (TraceRecord * n)(), ct.c_uint64(), ct.c_uint64()
        got = ct.c_uint64()
        counts = (ct.byref(got), ct.byref(following), ct.byref(lost))
        self._call(self._lib.assay_host_trace_read, start, records, n, *counts)
        return list(records[: got.value]), following.value, lost.value

    def step(self) -> bool:
        """Run one iteration in the calling thread, for a runtime that was not started; return
        whether there was anything to do."""
        did = ct.c_int()
        self._call(self._lib.assay_host_step, ct.byref(did))
        return did.value != 0

    def nudge(self) -> None:
        """Have the worker run one iteration even if it is parked."""
        self._call(self._lib.assay_host_nudge)


class _Kept:
    """Objects that native memory points into; they live as long as the runtime's finalizer."""

    def __init__(self, runtime: NativeRuntime, engine: AddressedEngine | ProbeEngine) -> None:
        self._engine = engine
        self._vocabulary = runtime._vocabulary  # noqa: SLF001 - kept alive, not read

    def give_back(self) -> None:
        self._engine.give_back()
