"""The C core and the reference interpreter are the same machine.

Method: two regions with equal bytes, one driven by C, one by Python, the same random operations on
both. After every operation the answers are equal, every byte is equal, and the invariants hold:

  - submitted == completed + failed + slots between FREE and DONE;
  - every credit is either available or held by a rollout whose `holds` says so;
  - a name from an earlier generation changes nothing but the `stale` counter.

Indices and generations start just below their wrap in half of the runs.
"""

from __future__ import annotations

import ctypes as ct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.rollout.interpreter import InterpretedQueue, InterpretedRing, Interpreter, Name

from assay.rollout.errors import Limit
from assay.rollout.layout import (
    Completion,
    Credit,
    Descriptor,
    Hold,
    Kind,
    Member,
    Order,
    Ref,
    Region,
    RolloutOutcome,
    Shape,
    State,
    Status,
)
from assay.rollout.library.binding import load, ref_word

LIMITS = (
    None,
    Limit.TRAJECTORY,
    Limit.REWARD,
    Limit.KV_BLOCKS,
    Limit.DECODE,
    Limit.SLOTS,
)
ENDED_EARLY = [RolloutOutcome.CANCELLED, RolloutOutcome.CRASHED, RolloutOutcome.NOT_FINITE]
slots = st.integers(0, 3)
rarely = st.sampled_from([False] * 7 + [True])


class Memory:
    """Aligned bytes of one region."""

    def __init__(self, shape: Shape) -> None:
        self.bytes = load().assay_region_bytes(ct.byref(shape))
        self._buffer = ct.create_string_buffer(self.bytes + 64)
        self.address = -(-ct.addressof(self._buffer) // 64) * 64
        load().assay_region_init(self.address, ct.byref(shape))

    def image(self) -> bytes:
        return ct.string_at(self.address, self.bytes)


class TwoMachines(RuleBasedStateMachine):
    @initialize(near_wrap=st.booleans(), reward=st.integers(1, 3), trajectory=st.integers(1, 3))
    def build(self, near_wrap: bool, reward: int, trajectory: int) -> None:
        shape = Shape(
            slots=4,
            seq_max=24,
            block_tokens=4,
            kv_blocks=16,
            decode_credits=4,
            reward_credits=reward,
            trajectory_credits=trajectory,
            generation_first=0xFFFFFFFF if near_wrap else 1,
            index_first=(1 << 64) - 3 if near_wrap else 0,
        )
        self.lib = load()
        self.native, self.mirror = Memory(shape), Memory(shape)
        self.at = self.native.address
        self.py = Interpreter(self.mirror.address)
        self.ticks = 0

    def now(self) -> int:
        self.ticks += 1
        return self.ticks

    @rule(
        n=st.sampled_from([0, 1, 1, 1, 2, 2, 3, 5]),
        prompt=st.lists(st.integers(0, 9), min_size=1, max_size=8) | st.just([]),
        max_tokens=st.integers(1, 16) | st.sampled_from([0, 17, 24]),
        unscored=rarely,
        stops=st.lists(st.integers(0, 9), max_size=8),
        stop_length=st.integers(0, 48) | st.sampled_from([49, 60]),
    )
    def submit(
        self,
        n: int,
        prompt: list[int],
        max_tokens: int,
        unscored: bool,
        stops: list[int],
        stop_length: int,
    ) -> None:
        order = Order(group=7, max_tokens=max_tokens, flags=unscored, n_stop_ids=len(stops))
        order.stop_ids[: len(stops)] = stops
        order.n_stop_strings = int(stop_length > 20)
        order.stop_lengths[0] = stop_length
        members = [(100 + i, i, i * 3) for i in range(n)]
        status, names = self.py.submit(order, prompt, members, ticks := self.now())
        refs = (Ref * max(n, 1))()
        native = self.lib.assay_submit(
            self.at,
            ct.byref(order),
            (ct.c_int32 * max(len(prompt), 1))(*prompt),
            len(prompt),
            (Member * max(n, 1))(*[Member(*m) for m in members]),
            n,
            ticks,
            refs,
        )
        assert native == status
        if status is Status.OK:
            assert [(r.slot, r.generation) for r in refs] == names

    def name(self, slot: int, old: bool, wanted: State | None = None) -> Name:
        """A slot's tenant, or its predecessor; one in the wanted state where there is one."""
        fitting = [s for s in range(4) if self.py.state_of(s) is wanted]
        slot = fitting[slot % len(fitting)] if fitting else slot
        name = self.py.name_of(slot)
        return Name(slot, (name.generation - old) & 0xFFFFFFFF)

    @rule(slot=slots, old=rarely)
    def cancel(self, slot: int, old: bool) -> None:
        name, ticks = self.name(slot, old), self.now()
        status = self.py.cancel(name, ticks)
        assert self.lib.assay_cancel(self.at, ref_word(*name), ticks) == status

    @rule()
    def order_take(self) -> None:
        status, line = self.py.order_take()
        d = Descriptor()
        assert self.lib.assay_order_take(self.at, ct.byref(d)) == status
        assert line is None or bytes(d) == line

    @rule(slot=slots, old=rarely)
    def admit_and_prefill(self, slot: int, old: bool) -> None:
        """As the worker does: a decode credit first, then the transition."""
        name, ticks = self.name(slot, old, State.PREFILL_READY), self.now()
        slot = name.slot
        if self.py.state_of(slot) is State.PREFILL_READY and not old:
            assert self.py.take(Credit.DECODE)
            self.py.rows[slot].holds |= Hold.DECODE
            region = Region.from_address(self.at)
            assert self.lib.assay_credit_try(self.at + region.credits_at, 1)
            Interpreter(self.at).rows[slot].holds |= Hold.DECODE
        status = self.py.prefilled(name, ticks)
        assert self.lib.assay_prefilled(self.at, ref_word(*name), ticks) == status
        if status is Status.OK:
            self.py.decode.publish()
            self.py.decode.pop(1)
            other = Interpreter(self.at).decode
            other.publish()
            other.pop(1)

    @rule(slot=slots, tokens=st.integers(0, 3))
    def decoded(self, slot: int, tokens: int) -> None:
        name, ticks = self.name(slot, old=False, wanted=State.DECODING), self.now()
        slot = name.slot
        if self.py.state_of(slot) is not State.DECODING:
            return
        for memory in (self.py, Interpreter(self.at)):
            memory.rows[slot].n_generated += tokens
        status = self.py.decoded(name, ticks)
        assert self.lib.assay_decoded(self.at, ref_word(*name), ticks) == status

    @rule()
    def reward_take(self) -> None:
        status, name = self.py.reward_take()
        d = Descriptor()
        assert self.lib.assay_reward_take(self.at, ct.byref(d)) == status
        assert name is None or (d.slot, d.generation) == name

    @rule(slot=slots, old=rarely, reward=st.floats(0, 1))
    def score(self, slot: int, old: bool, reward: float) -> None:
        name, ticks = self.name(slot, old, State.REWARD_PENDING), self.now()
        status = self.py.score(name, reward, ticks)
        assert self.lib.assay_score(self.at, ref_word(*name), reward, ticks) == status

    @rule()
    def trajectory_take(self) -> None:
        ticks = self.now()
        status, name = self.py.trajectory_take(ticks)
        ref = Ref()
        assert self.lib.assay_trajectory_take(self.at, ticks, ct.byref(ref)) == status
        assert name is None or (ref.slot, ref.generation) == name

    @rule(
        slot=slots,
        old=rarely,
        before=st.none() | st.sampled_from(State),
        outcome=st.sampled_from(ENDED_EARLY),
    )
    def end(self, slot: int, old: bool, before: State | None, outcome: RolloutOutcome) -> None:
        """From the state the slot is in, or from one it is not in."""
        before = self.py.state_of(slot) if before is None else before
        if before is State.TRAJECTORY_READY:
            return  # only the trajectory stage ends these
        name, ticks = self.name(slot, old), self.now()
        status = self.py.end(name, before, outcome, ticks)
        assert self.lib.assay_end(self.at, ref_word(*name), before, outcome, ticks) == status

    @rule(n=st.integers(1, 4), twice=st.booleans())
    def collect_and_release(self, n: int, twice: bool) -> None:
        self.py.done.publish()
        Interpreter(self.at).done.publish()
        lines = self.py.collect(n)
        done = (Completion * n)()
        assert self.lib.assay_collect(self.at, done, n) == len(lines)
        assert [bytes(c) for c in done[: len(lines)]] == lines
        for _ in range(1 + twice):
            released = self.py.release(lines)
            assert self.lib.assay_release(self.at, done, len(lines)) == released

    @rule(at_byte=st.integers(0, 55))
    def spoil_the_next_order(self, at_byte: int) -> None:
        """A flipped bit in a descriptor is found by its cookie, by both."""
        if self.py.prefill.length() == 0 or self.py.region.corrupt > 3:
            return
        for memory in (self.py, Interpreter(self.at)):
            cell = memory.prefill._cell(memory.prefill.head.head)
            ct.c_uint8.from_address(cell + at_byte).value ^= 1
        before = self.py.region.corrupt
        self.order_take()
        assert self.py.region.corrupt == before + 1

    @invariant()
    def the_memories_are_equal(self) -> None:
        assert self.native.image() == self.mirror.image()
        assert LIMITS[self.lib.assay_limit_now(self.at)] == self.py.limit()

    @invariant()
    def every_rollout_is_somewhere(self) -> None:
        region, census = self.py.region, self.py.census()
        counts = (ct.c_uint64 * len(State))()
        self.lib.assay_census(self.at, counts)
        assert list(counts) == [census[s] for s in State]
        in_flight = self.py.shape.slots - census[State.FREE] - census[State.DONE]
        assert region.submitted == region.completed + region.failed + in_flight

    @invariant()
    def every_credit_is_somewhere(self) -> None:
        for credit, hold in zip((*Credit,)[:3], Hold, strict=True):
            held = sum(bool(row.holds & hold) for row in self.py.rows)
            line = self.py.credits[credit]
            assert line.available + held == line.limit


TwoMachines.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTwoMachines = TwoMachines.TestCase


class Aligned:
    """Zeroed bytes on a cache line."""

    def __init__(self, n: int) -> None:
        self.size = n
        self._buffer = ct.create_string_buffer(n + 64)
        self.address = -(-ct.addressof(self._buffer) // 64) * 64

    def image(self) -> bytes:
        return ct.string_at(self.address, self.size)


# Positive: so many are pushed; negative: so many are asked for.
moves = st.lists(st.integers(-6, 6).filter(bool), max_size=40)
starts = st.sampled_from([0, 5, (1 << 64) - 3])


def numbered(first: int, n: int) -> list[Descriptor]:
    return [Descriptor(slot=first + i, cookie=~(first + i)) for i in range(n)]


@settings(deadline=None)
@given(capacity=st.sampled_from([1, 2, 4, 8]), start=starts, moves=moves)
def test_a_ring_alone_is_the_same_in_batches_of_any_size(
    capacity: int, start: int, moves: list[int]
) -> None:
    lib = load()
    native, mirror = (Aligned(lib.assay_ring_bytes_of(capacity)) for _ in range(2))
    for memory in (native, mirror):
        lib.assay_ring_init_at(memory.address, capacity, start)
    ring = InterpretedRing(mirror.address)
    sent: list[bytes] = []
    taken: list[bytes] = []
    for move in moves:
        if move > 0:
            lines = numbered(len(sent), move)
            pushed = lib.assay_ring_push_n(native.address, (Descriptor * move)(*lines), move)
            assert ring.push([bytes(d) for d in lines]) == pushed
            sent += [bytes(d) for d in lines[:pushed]]
        else:
            out = (Descriptor * -move)()
            n = lib.assay_ring_pop_n(native.address, out, -move)
            assert ring.pop(-move) == [bytes(d) for d in out[:n]]
            taken += [bytes(d) for d in out[:n]]
        assert native.image() == mirror.image()
        assert 0 <= len(sent) - len(taken) <= capacity
    assert taken == sent[: len(taken)]


@settings(deadline=None)
@given(capacity=st.sampled_from([2, 4, 8]), start=starts, moves=moves)
def test_a_queue_alone_is_the_same(capacity: int, start: int, moves: list[int]) -> None:
    lib = load()
    native, mirror = (Aligned(lib.assay_queue_bytes_of(capacity)) for _ in range(2))
    for memory in (native, mirror):
        lib.assay_queue_init_at(memory.address, capacity, start)
    queue = InterpretedQueue(mirror.address)
    sent: list[bytes] = []
    taken: list[bytes] = []
    for move in moves:
        line, out = numbered(len(sent), 1)[0], Descriptor()
        if move > 0:
            fitted = bool(lib.assay_queue_push_one(native.address, ct.byref(line)))
            assert fitted == queue.push(bytes(line)) == (len(sent) - len(taken) < capacity)
            sent += [bytes(line)] * fitted
        else:
            found = bool(lib.assay_queue_pop_one(native.address, ct.byref(out)))
            assert queue.pop() == (bytes(out) if found else None)
            assert found == (len(taken) < len(sent))
            taken += [bytes(out)] * found
        assert native.image() == mirror.image()
    assert taken == sent[: len(taken)]


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_fits_its_field(kind: Kind) -> None:
    assert Descriptor(kind=kind).kind == kind


def test_the_transition_tables_agree() -> None:
    """All 36 pairs, tried on a real word."""
    from assay.rollout.layout import TRANSITIONS, Row

    for before in State:
        for after in State:
            row = Row(word=5 << 8 | before)
            moved = bool(load().assay_transition_try(ct.byref(row), 5, before, after))
            assert moved == (after in TRANSITIONS[before]), (before, after)
            assert row.word == (
                ((5 + (after is State.FREE)) << 8 | after) if moved else 5 << 8 | before
            )
