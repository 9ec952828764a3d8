"""The reference interpreter: every stage operation, executed in Python over the very same memory.

It is the readable specification of `native/core.c`: the differential test runs both over equal
memory and compares every byte after every operation. One thread only; nothing here is fast.

Invariants, which the tests check after each operation:
  - submitted == completed + failed + slots in the four states between FREE and DONE;
  - available + held == limit, for each credit;
  - a rollout is named by (slot, generation) everywhere, and a stale name changes nothing.
"""

from __future__ import annotations

import ctypes as ct
import struct
from typing import TYPE_CHECKING, NamedTuple

from assay.rollout.errors import Limit
from assay.rollout.layout import (
    LINE_BYTES,
    MASK64,
    STOP_BYTES_MAX,
    STOP_IDS_MAX,
    STOP_STRINGS_MAX,
    TRANSITIONS,
    Completion,
    Credit,
    CreditLine,
    Descriptor,
    Flag,
    Hold,
    Kind,
    Order,
    Queue,
    Region,
    Ring,
    RolloutOutcome,
    Row,
    State,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_COOKIE_FACTORS = (
    *(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5),
    *(0x85EBCA77C2B2AE63, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
)
_CREDIT_OF_HOLD = {
    Hold.DECODE: Credit.DECODE,
    Hold.REWARD: Credit.REWARD,
    Hold.TRAJECTORY: Credit.TRAJECTORY,
}


class Name(NamedTuple):
    """(slot, generation) of one rollout."""

    slot: int
    generation: int


def cookie(line: bytes) -> int:
    """The seal over the first seven words of a cache line."""
    words: tuple[int, ...] = struct.unpack("<7Q", line[:56])
    total = sum(w * f for w, f in zip(words, _COOKIE_FACTORS, strict=True)) & MASK64
    return total ^ total >> 32


def prefix_hash(tokens: Sequence[int]) -> int:
    """Hash of a token sequence."""
    h = 0xCBF29CE484222325 ^ len(tokens)
    for token in tokens:
        h = ((h ^ (token & 0xFFFFFFFF)) * 0x9E3779B97F4A7C15) & MASK64
        h ^= h >> 29
    return h


class InterpretedRing:
    """An SPSC ring at an address: the caller is its producer and its consumer."""

    def __init__(self, address: int) -> None:
        self.head = Ring.from_address(address)
        self._cells = address + ct.sizeof(Ring)

    def _cell(self, position: int) -> int:
        return int(self._cells + (position & self.head.mask) * LINE_BYTES)

    def _room(self, wanted: int) -> int:
        ring = self.head
        if ring.mask + 1 - ((ring.staged - ring.head_shadow) & MASK64) < wanted:
            ring.head_shadow = ring.head
        return int(ring.mask + 1 - ((ring.staged - ring.head_shadow) & MASK64))

    def stage(self, line: bytes) -> bool:
        """Fill the next cell without showing it."""
        if self._room(1) == 0:
            return False
        ct.memmove(self._cell(self.head.staged), line, LINE_BYTES)
        self.head.staged = (self.head.staged + 1) & MASK64
        return True

    def publish(self) -> None:
        """Show everything staged."""
        self.head.tail = self.head.staged

    def push(self, lines: Sequence[bytes]) -> int:
        """Stage as many as fit and publish once."""
        fitting = min(len(lines), self._room(len(lines)))
        for line in lines[:fitting]:
            self.stage(line)
        if fitting:
            self.publish()
        return fitting

    def pop(self, n: int) -> list[bytes]:
        """Up to n lines, their places given back once."""
        ring = self.head
        if (ring.tail_shadow - ring.taken) & MASK64 < n:
            ring.tail_shadow = ring.tail
        n = min(n, (ring.tail_shadow - ring.taken) & MASK64)
        lines = [ct.string_at(self._cell(ring.taken + i), LINE_BYTES) for i in range(n)]
        ring.taken = (ring.taken + n) & MASK64
        if n:
            ring.head = ring.taken
        return lines


class InterpretedQueue:
    """An MPMC queue at an address, with no one else at it."""

    def __init__(self, address: int) -> None:
        self.head = Queue.from_address(address)
        capacity = self.head.mask + 1
        self._sequence = (ct.c_uint64 * capacity).from_address(address + ct.sizeof(Queue))
        unaligned = ct.sizeof(Queue) + 8 * capacity
        self._cells = address + -(-unaligned // LINE_BYTES) * LINE_BYTES

    def _cell(self, position: int) -> int:
        return int(self._cells + (position & self.head.mask) * LINE_BYTES)

    def writable(self) -> bool:
        """Whether a push would succeed."""
        at: int = self.head.tail
        return bool(self._sequence[at & self.head.mask] == at)

    def push(self, line: bytes) -> bool:
        """False when full."""
        at: int = self.head.tail
        if not self.writable():
            return False
        self.head.tail = (at + 1) & MASK64
        ct.memmove(self._cell(at), line, LINE_BYTES)
        self._sequence[at & self.head.mask] = (at + 1) & MASK64
        return True

    def pop(self) -> bytes | None:
        """None when empty."""
        at: int = self.head.head
        if self._sequence[at & self.head.mask] != (at + 1) & MASK64:
            return None
        self.head.head = (at + 1) & MASK64
        line = ct.string_at(self._cell(at), LINE_BYTES)
        self._sequence[at & self.head.mask] = (at + self.head.mask + 1) & MASK64
        return line

    def length(self) -> int:
        return int((self.head.tail - self.head.head) & MASK64)


class Interpreter:
    """The region at an address, and what may be done to it."""

    def __init__(self, address: int) -> None:
        self.region = region = Region.from_address(address)
        self.shape = region.shape
        self._address = address
        self.free = InterpretedQueue(address + region.free_at)
        self.prefill = InterpretedQueue(address + region.prefill_at)
        self.decode = InterpretedRing(address + region.decode_at)
        self.reward = InterpretedQueue(address + region.reward_at)
        self.trajectory = InterpretedQueue(address + region.trajectory_at)
        self.done = InterpretedRing(address + region.done_at)
        self.rows = (Row * self.shape.slots).from_address(address + region.rollouts_at)
        self.credits = (CreditLine * len(Credit)).from_address(address + region.credits_at)

    # ---- pieces

    def state_of(self, slot: int) -> State:
        """Where a slot is."""
        return State(self.rows[slot].word & 0xFF)

    def name_of(self, slot: int) -> Name:
        """The slot's present tenant."""
        return Name(slot, self.rows[slot].word >> 8 & 0xFFFFFFFF)

    def advance(self, name: Name, before: State, after: State) -> Status:
        """The compare-and-swap: illegal pairs and stale names are refused and counted."""
        if after not in TRANSITIONS[before]:
            self.region.illegal += 1
            return Status.INVALID
        if name.slot >= self.shape.slots or self.rows[name.slot].word != (
            name.generation << 8 | before
        ):
            self.region.stale += 1
            return Status.STALE
        generation = name.generation + (after is State.FREE) & 0xFFFFFFFF
        self.rows[name.slot].word = generation << 8 | after
        return Status.OK

    def take(self, kind: Credit, n: int = 1) -> bool:
        """All n or none."""
        line = self.credits[kind]
        if line.available < n:
            line.refused += 1
            return False
        line.available -= n
        return True

    def _give_holds(self, row: Row, holds: Hold) -> None:
        for hold, credit in _CREDIT_OF_HOLD.items():
            if row.holds & holds & hold:
                row.holds &= ~hold & 0xFF
                self.credits[credit].available += 1

    def _intact(self, line: bytes) -> bool:
        if struct.unpack("<Q", line[56:])[0] == cookie(line):
            return True
        self.region.corrupt += 1
        return False

    def _describe(self, name: Name, kind: Kind, ticks: int) -> bytes:
        row = self.rows[name.slot]
        return _sealed(
            Descriptor(
                slot=name.slot,
                generation=name.generation,
                kind=kind,
                flags=row.flags,
                seq_len=row.prompt_len + row.n_generated,
                max_tokens=row.max_tokens,
                kv=row.kv_reserved,
                prefix=row.prefix,
                reward_id=row.reward_id,
                posted=ticks,
            )
        )

    def _tokens(self, slot: int) -> ct.Array[ct.c_int32]:
        n = int(self.shape.seq_max)
        return (ct.c_int32 * n).from_address(self._address + self.region.tokens_at + 4 * slot * n)

    # ---- submitters

    def _valid(self, order: Order, prompt_len: int, n: int) -> bool:
        s = self.shape
        lengths = list(order.stop_lengths)[: order.n_stop_strings]
        if not 0 < n <= s.slots or prompt_len == 0 or order.max_tokens == 0:
            return False
        if prompt_len + order.max_tokens > s.seq_max:
            return False
        if order.n_stop_ids > STOP_IDS_MAX or order.n_stop_strings > STOP_STRINGS_MAX:
            return False
        if any(not 0 < length <= STOP_BYTES_MAX for length in lengths):
            return False
        blocks = -(-(prompt_len + order.max_tokens - 1) // s.block_tokens)
        return bool(blocks + 1 <= s.kv_blocks)

    def _take_slots(self, n: int) -> list[Name]:
        names: list[Name] = []
        while len(names) < n and (line := self.free.pop()) is not None:
            if self._intact(line):
                d = Descriptor.from_buffer_copy(line)
                names.append(Name(d.slot, d.generation))
        return names

    def _fill(self, name: Name, order: Order, prompt: Sequence[int], member: Sequence[int]) -> None:
        row, (seed, user_data, reward_id) = self.rows[name.slot], member
        word, cancel = row.word, row.cancel
        ct.memset(ct.addressof(row), 0, ct.sizeof(row))
        row.word, row.cancel = word, cancel
        row.user_data, row.reward_id, row.group = user_data, reward_id, order.group
        row.prefix = prefix_hash(prompt[:-1])
        row.prompt_len, row.max_tokens = len(prompt), order.max_tokens
        row.flags = order.flags & 0xFF
        row.sampler = order.sampler
        row.sampler.seed = seed
        row.n_stop_ids, row.n_stop_strings = order.n_stop_ids, order.n_stop_strings
        row.stop_ids, row.stop_lengths = order.stop_ids, order.stop_lengths
        row.stop_bytes = order.stop_bytes
        self._tokens(name.slot)[: len(prompt)] = list(prompt)

    def submit(
        self, order: Order, prompt: Sequence[int], members: Sequence[Sequence[int]], ticks: int
    ) -> tuple[Status, list[Name]]:
        """All members, or none; a member is (seed, user_data, reward_id)."""
        if not self._valid(order, len(prompt), len(members)):
            return Status.INVALID, []
        names = self._take_slots(len(members))
        if len(names) < len(members):
            for name in names:
                self.free.push(_free_line(name))
            self.region.saturated += 1
            return Status.SATURATED, []
        self.region.submitted += len(members)
        for name, member in zip(names, members, strict=True):
            self._fill(name, order, prompt, member)
            self.advance(name, State.FREE, State.PREFILL_READY)
            self.prefill.push(self._describe(name, Kind.PREFILL, ticks))
        return Status.OK, names

    def cancel(self, name: Name, ticks: int) -> Status:
        """OK for the first to ask, EMPTY after."""
        if name.slot >= self.shape.slots:
            return Status.INVALID
        idle = self.state_of(name.slot) in {State.FREE, State.DONE}
        if self.name_of(name.slot) != name or idle:
            self.region.stale += 1
            return Status.STALE
        row, asked = self.rows[name.slot], name.generation + 1
        if row.cancel == asked:
            return Status.EMPTY
        row.cancel = asked
        d = Descriptor(slot=name.slot, generation=name.generation, kind=Kind.CANCEL, posted=ticks)
        self.prefill.push(_sealed(d))
        return Status.OK

    def limit(self) -> Limit | None:
        """What keeps new work out, deepest stage first."""
        for credit, limit in (
            (Credit.TRAJECTORY, Limit.TRAJECTORY),
            (Credit.REWARD, Limit.REWARD),
            (Credit.KV, Limit.KV_BLOCKS),
            (Credit.DECODE, Limit.DECODE),
        ):
            if self.credits[credit].available <= 0:
                return limit
        return Limit.SLOTS if self.free.length() == 0 else None

    # ---- scorers

    def reward_take(self) -> tuple[Status, Name | None]:
        """The next rollout to score; those that ended meanwhile are skipped and counted."""
        while (line := self.reward.pop()) is not None:
            if not self._intact(line):
                return Status.MISMATCH, None
            d = Descriptor.from_buffer_copy(line)
            name = Name(d.slot, d.generation)
            if self.rows[d.slot].word == (d.generation << 8 | State.REWARD_PENDING):
                return Status.OK, name
            self.region.stale += 1
        return Status.EMPTY, None

    def score(self, name: Name, reward: float, ticks: int) -> Status:
        """REWARD_PENDING to TRAJECTORY_READY, for one trajectory credit."""
        if not self.take(Credit.TRAJECTORY):
            return Status.SATURATED
        status = self.advance(name, State.REWARD_PENDING, State.TRAJECTORY_READY)
        if status is not Status.OK:
            self.credits[Credit.TRAJECTORY].available += 1
            return status
        row = self.rows[name.slot]
        row.reward, row.scored = reward, 1
        row.holds |= Hold.TRAJECTORY
        self._give_holds(row, Hold.REWARD)
        self.trajectory.push(self._describe(name, Kind.TRAJECTORY, ticks))
        return Status.OK

    # ---- the worker

    def order_take(self) -> tuple[Status, bytes | None]:
        """The next order or cancel, as a line."""
        line = self.prefill.pop()
        if line is None:
            return Status.EMPTY, None
        return (Status.OK if self._intact(line) else Status.MISMATCH), line

    def prefilled(self, name: Name, ticks: int) -> Status:
        """PREFILL_READY to DECODING, staged on the decode ring."""
        status = self.advance(name, State.PREFILL_READY, State.DECODING)
        if status is not Status.OK:
            return status
        staged = self.decode.stage(self._describe(name, Kind.DECODE, ticks))
        return Status.OK if staged else Status.SATURATED

    def decoded(self, name: Name, ticks: int) -> Status:
        """DECODING to REWARD_PENDING, or straight through when no reward is wanted."""
        row = self.rows[name.slot]
        if row.flags & Flag.NO_REWARD:
            return self._pass_unscored(name, ticks)
        if not self.reward.writable() or not self.take(Credit.REWARD):
            return Status.SATURATED
        row.holds |= Hold.REWARD
        self._give_holds(row, Hold.DECODE)
        line = self._describe(name, Kind.REWARD, ticks)
        status = self.advance(name, State.DECODING, State.REWARD_PENDING)
        if status is Status.OK:
            self.reward.push(line)
        return status

    def _pass_unscored(self, name: Name, ticks: int) -> Status:
        if not self.take(Credit.TRAJECTORY):
            return Status.SATURATED
        status = self.advance(name, State.DECODING, State.REWARD_PENDING)
        if status is Status.OK:
            status = self.advance(name, State.REWARD_PENDING, State.TRAJECTORY_READY)
        if status is not Status.OK:
            self.credits[Credit.TRAJECTORY].available += 1
            return status
        self.rows[name.slot].holds |= Hold.TRAJECTORY
        return self.end(name, State.TRAJECTORY_READY, RolloutOutcome.COMPLETED, ticks)

    def trajectory_take(self, ticks: int) -> tuple[Status, Name | None]:
        """The next scored rollout, moved to DONE."""
        while (line := self.trajectory.pop()) is not None:
            if not self._intact(line):
                return Status.MISMATCH, None
            d = Descriptor.from_buffer_copy(line)
            name = Name(d.slot, d.generation)
            if self.end(name, State.TRAJECTORY_READY, RolloutOutcome.COMPLETED, ticks) is Status.OK:
                return Status.OK, name
        return Status.EMPTY, None

    def end(self, name: Name, before: State, outcome: RolloutOutcome, ticks: int) -> Status:
        """`before` to DONE; the completion is staged, not yet shown."""
        status = self.advance(name, before, State.DONE)
        if status is not Status.OK:
            return status
        row = self.rows[name.slot]
        row.outcome = outcome
        self._give_holds(row, Hold.DECODE | Hold.REWARD)
        if outcome is RolloutOutcome.COMPLETED:
            self.region.completed += 1
        else:
            self.region.failed += 1
        self.done.stage(self._completion(name, ticks))
        return Status.OK

    def _completion(self, name: Name, ticks: int) -> bytes:
        row = self.rows[name.slot]
        return _sealed(
            Completion(
                slot=name.slot,
                generation=name.generation,
                kind=Kind.DONE,
                outcome=row.outcome,
                stop=row.stop,
                prompt_len=row.prompt_len,
                n_generated=row.n_generated,
                scored=row.scored,
                user_data=row.user_data,
                reward_id=row.reward_id,
                posted=ticks,
                reward=row.reward,
            )
        )

    # ---- the collector

    def collect(self, n: int) -> list[bytes]:
        """Up to n completions, as lines."""
        lines: list[bytes] = []
        while len(lines) < n and (got := self.done.pop(1)):
            lines += [line for line in got if self._intact(line)]
        return lines

    def release(self, lines: Sequence[bytes]) -> int:
        """DONE to FREE, a generation on; how many were released."""
        released = 0
        for line in lines:
            c = Completion.from_buffer_copy(line)
            name = Name(c.slot, c.generation)
            if c.slot >= self.shape.slots:
                continue
            if self.rows[c.slot].word != (c.generation << 8 | State.DONE):
                self.region.stale += 1
                continue
            self._give_holds(self.rows[c.slot], Hold.TRAJECTORY)
            self.advance(name, State.DONE, State.FREE)
            self.free.push(_free_line(self.name_of(c.slot)))
            released += 1
        return released

    def census(self) -> dict[State, int]:
        """Slots in each state."""
        states = [self.state_of(slot) for slot in range(self.shape.slots)]
        return {state: states.count(state) for state in State}


def _sealed(structure: ct.Structure) -> bytes:
    line = bytes(structure)
    return line[:56] + struct.pack("<Q", cookie(line))


def _free_line(name: Name) -> bytes:
    return _sealed(Descriptor(slot=name.slot, generation=name.generation, kind=Kind.FREE))
