"""The memory between host and kernel (`kernel/link.h`), from the host's side.

The link is plain bytes at an address: mapped or coherent memory of a device, or this process's own
for the host build. Every word has one writer. Rings are used by one thread at a time; the engine's
lock sees to it.
"""

from __future__ import annotations

import ctypes as ct
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from assay.rollout.layout import LINE_BYTES, Completion, Descriptor, Kind, Ring, Row
from assay.rollout.library.binding import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.cuda.machine import RingPlacement

MAGIC: Final = 0x43554441000001
COOKIE_FACTORS: Final = (
    *(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5),
    *(0x85EBCA77C2B2AE63, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
)
_MASK64: Final = (1 << 64) - 1


class HoldMode(IntEnum):
    """What the host asks of the kernel between two steps (`enum assay_hold_mode`)."""

    RUN = 0
    IN_PLACE = 1
    FINISH = 2
    RETRACT = 3


class Limits(ct.Structure):
    """Mirror of `assay_limits`."""

    _fields_ = (
        ("slots", ct.c_uint32),
        ("seq_max", ct.c_uint32),
        ("kv_blocks", ct.c_uint32),
        ("decode_credits", ct.c_uint32),
        ("reward_credits", ct.c_uint32),
        ("trajectory_credits", ct.c_uint32),
        ("generation_first", ct.c_uint32),
        ("prefill_chunk", ct.c_uint32),
        ("index_first", ct.c_uint64),
        ("trace_events", ct.c_uint64),
    )


class Instant(ct.Structure):
    """Mirror of `assay_instant`."""

    _fields_ = (
        ("stamp", ct.c_uint64),
        ("ticks", ct.c_uint64),
        ("who", ct.c_uint64),
        ("what", ct.c_uint64),
    )


class Link(ct.Structure):
    """Mirror of `assay_link`."""

    _fields_ = (
        ("magic", ct.c_uint64),
        ("bytes", ct.c_uint64),
        ("limits", Limits),
        ("commands_at", ct.c_uint64),
        ("rewards_at", ct.c_uint64),
        ("done_at", ct.c_uint64),
        ("rows_at", ct.c_uint64),
        ("tokens_at", ct.c_uint64),
        ("logps_at", ct.c_uint64),
        ("versions_at", ct.c_uint64),
        ("progress_at", ct.c_uint64),
        ("trace_at", ct.c_uint64),
        ("pad0", ct.c_uint64 * 7),
        ("stop", ct.c_uint64),
        ("hold", ct.c_uint64),
        ("weights", ct.c_uint64),
        ("echo", ct.c_uint64),
        ("pad1", ct.c_uint64 * 4),
        ("heartbeat", ct.c_uint64),
        ("held", ct.c_uint64),
        ("active", ct.c_uint64),
        ("echoed", ct.c_uint64),
        ("steps", ct.c_uint64),
        ("corrupt", ct.c_uint64),
        ("ended", ct.c_uint64),
        ("barriers", ct.c_uint64),
        ("counts", ct.c_uint64 * 8),
        ("traced", ct.c_uint64),
        ("echoed_at", ct.c_uint64),
        ("gauges", ct.c_uint64 * 6),
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """The kernel's counters."""

    submitted: int
    completed: int
    failed: int
    stale: int
    illegal: int
    generated: int
    blocks_free: int
    blocks_used_max: int


@dataclass(frozen=True, slots=True)
class Gauges:
    """Free credits, and where the rollouts are that the kernel has."""

    decode_available: int
    reward_available: int
    trajectory_available: int
    waiting: int
    active: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaStats:
    """`EngineStats`, of which `decode_tokens` and what follows are the kernel's own counts."""

    submitted: int
    completed: int
    failed: int
    in_flight: int
    slots_free: int
    policy_version: int
    decode_tokens: int
    steps: int
    decode_available: int
    """Free credits, as for the next two."""
    reward_available: int
    trajectory_available: int
    queue_prefill: int
    """Rollouts that wait for a place among those that decode."""
    queue_decode: int
    """Rollouts that decode."""
    queue_reward: int
    """Responses that wait for a score."""
    queue_trajectory: int
    """Decoded rollouts that wait for a credit."""
    queue_done: int
    """Ended rollouts that were not polled."""
    kv_available: int
    """Free KV blocks."""
    kv_in_use_peak: int
    """Most KV blocks in use at once since none was."""
    barriers: int
    """Of the whole grid, up to the last step that began."""
    launches: int
    """Of kernels, in the engine's life."""
    placement: RingPlacement


def capacity(n: int) -> int:
    """The power of two, at least 2, that holds n."""
    return 1 << max(n - 1, 1).bit_length()


def places(limits: Limits) -> dict[str, int]:
    """Offsets of the link's parts; `bytes` is its size."""
    slots, cells = limits.slots, limits.slots * limits.seq_max
    sizes = {
        "commands_at": _ring_bytes(4 * slots),
        "rewards_at": _ring_bytes(limits.reward_credits),
        "done_at": _ring_bytes(slots),
        "rows_at": slots * ct.sizeof(Row),
        "tokens_at": 4 * cells,
        "logps_at": 4 * cells,
        "versions_at": 4 * cells,
        "progress_at": 8 * slots,
        "trace_at": limits.trace_events * ct.sizeof(Instant),
    }
    at, found = _line(ct.sizeof(Link)), {}
    for name, size in sizes.items():
        found[name] = at
        at = _line(at + size)
    return {**found, "bytes": at}


def _ring_bytes(n: int) -> int:
    return ct.sizeof(Ring) + capacity(n) * LINE_BYTES


def _line(n: int) -> int:
    return -(-n // LINE_BYTES) * LINE_BYTES


def sealed(line: bytes) -> bytes:
    """A line with its cookie (`assay_cookie`)."""
    words: tuple[int, ...] = struct.unpack("<7Q", line[:56])
    total = sum(w * f for w, f in zip(words, COOKIE_FACTORS, strict=True)) & _MASK64
    return line[:56] + struct.pack("<Q", total ^ total >> 32)


class HostLink:
    """The host's end. `address` has `places(limits)["bytes"]` zeroed bytes."""

    def __init__(self, address: int, limits: Limits) -> None:
        self.address = address
        self.head = Link.from_address(address)
        self.limits = limits
        self.head.limits = limits
        for name, at in places(limits).items():
            setattr(self.head, name, at)
        lib = load()
        for name, n in (
            ("commands_at", 4 * limits.slots),
            ("rewards_at", limits.reward_credits),
            ("done_at", limits.slots),
        ):
            lib.assay_ring_init_at(self._at(name), capacity(n), limits.index_first)
        self.rows = (Row * limits.slots).from_address(self._at("rows_at"))
        self._progress = (ct.c_uint64 * limits.slots).from_address(self._at("progress_at"))
        self.head.magic = MAGIC

    def _at(self, name: str) -> int:
        return self.address + int(getattr(self.head, name))

    def command(self, kind: Kind, slot: int, generation: int, aux: int = 0) -> bool:
        """Post one command; False: the ring is full."""
        d = Descriptor(slot=slot, generation=generation, kind=kind, aux=aux)
        line = Descriptor.from_buffer_copy(sealed(bytes(d)))
        return bool(load().assay_ring_push_n(self._at("commands_at"), ct.byref(line), 1))

    def rewards(self, n: int) -> list[Descriptor]:
        """Up to n responses to score."""
        out = (Descriptor * n)()
        got = load().assay_ring_pop_n(self._at("rewards_at"), out, n)
        return list(out[:got])

    def done(self, n: int) -> list[Completion]:
        """Up to n completions."""
        out = (Completion * n)()
        got = load().assay_ring_pop_n(self._at("done_at"), out, n)
        return list(out[:got])

    def instants(self, start: int) -> tuple[list[Instant], int, int]:
        """Of the trace, from position `start` on: whole ones, the next position, and how many were
        overwritten."""
        head, kept = int(self.head.traced), self.limits.trace_events
        first = max(start, head - kept)
        cells = (Instant * kept).from_address(self._at("trace_at"))
        whole = []
        for at in range(first, head):
            one = Instant.from_buffer_copy(cells[at % kept])
            if one.stamp == cells[at % kept].stamp == at + 1:
                whole.append(one)
        return whole, head, head - min(start, head) - len(whole)

    def write_prompt(self, slot: int, prompt: Sequence[int]) -> None:
        cells = (ct.c_int32 * len(prompt)).from_address(self._cell("tokens_at", slot, 0))
        cells[:] = list(prompt)

    def generated(self, slot: int, generation: int) -> int:
        """Tokens of a rollout whose results are in the link; 0: it has none yet."""
        word = int(self._progress[slot])
        return word & 0xFFFFFFFF if word >> 32 == generation else 0

    def tokens(self, slot: int, start: int, n: int) -> bytes:
        """int32, positions start to start + n."""
        return ct.string_at(self._cell("tokens_at", slot, start), 4 * n)

    def logps(self, slot: int, start: int, n: int) -> bytes:
        """Of the same positions, as float32."""
        return ct.string_at(self._cell("logps_at", slot, start), 4 * n)

    def versions(self, slot: int, start: int, n: int) -> bytes:
        """Of the same positions, as uint32."""
        return ct.string_at(self._cell("versions_at", slot, start), 4 * n)

    def _cell(self, name: str, slot: int, position: int) -> int:
        return self._at(name) + 4 * int(slot * self.limits.seq_max + position)

    def gauges(self) -> Gauges:
        """A snapshot; its values may be of two successive steps."""
        return Gauges(*self.head.gauges)

    def counts(self) -> Counts:
        """A snapshot; each is exact, they may be of two successive steps."""
        return Counts(*self.head.counts)
