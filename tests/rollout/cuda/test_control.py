"""The kernel's control logic and the reference interpreter are the same machine.

Method: the interpreter over its own region, and `kernel/control.h` in its host build over a link,
get the same random operations. After every operation the answers are equal, every rollout row and
every credit is equal byte for byte, and so is every line that leaves for the host. Generations and
indices start just below their wrap in half of the runs.
"""

from __future__ import annotations

import ctypes as ct

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.rollout.cuda.building import BUILDS, TINY
from tests.rollout.interpreter import Interpreter, Name
from tests.rollout.test_interpreter import Memory

from assay.rollout.cuda.gpu import shared_bytes
from assay.rollout.cuda.host_build import load_host
from assay.rollout.cuda.link import HostLink, Limits, Link, places
from assay.rollout.cuda.sizes import EMULATED, Sizes
from assay.rollout.layout import (
    Completion,
    Credit,
    CreditLine,
    Descriptor,
    Hold,
    Kind,
    Order,
    Ring,
    RolloutOutcome,
    Row,
    Shape,
    State,
    Status,
)

SLOTS = 4
slots = st.integers(0, SLOTS - 1)
rarely = st.sampled_from([False] * 7 + [True])
LIBRARY = load_host(Sizes(TINY, EMULATED, 64), folder=BUILDS)


class Desk:
    """The kernel's rows and credits, and the host's end of its link."""

    def __init__(self, limits: Limits) -> None:
        size = places(limits)["bytes"]
        parts = (size, SLOTS * ct.sizeof(Row), LIBRARY.assay_size_of(12))
        self._buffers = [ct.create_string_buffer(n + 64) for n in parts]
        at = [-(-ct.addressof(b) // 64) * 64 for b in self._buffers]
        self.link = HostLink(at[0], limits)
        self.at = ct.c_void_p(at[2])
        LIBRARY.assay_desk_init(self.at, ct.c_void_p(at[0]), ct.c_void_p(at[1]))
        self.rows = (Row * SLOTS).from_address(at[1])
        credits_at = LIBRARY.assay_desk_credits(self.at)
        self.credits = (CreditLine * len(Credit)).from_address(credits_at)

    def counts(self) -> list[int]:
        out = (ct.c_uint64 * 5)()
        LIBRARY.assay_desk_counts(self.at, out)
        return list(out)

    def call(self, operation: str, name: Name, *rest: object) -> int:
        made = getattr(LIBRARY, f"assay_stage_{operation}")(self.at, *name, *rest)
        return int(made)


class TwoMachines(RuleBasedStateMachine):
    @initialize(near_wrap=st.booleans(), reward=st.integers(1, 3), trajectory=st.integers(1, 3))
    def build(self, near_wrap: bool, reward: int, trajectory: int) -> None:
        common = {
            "slots": SLOTS,
            "seq_max": 24,
            "kv_blocks": 16,
            "decode_credits": 4,
            "reward_credits": reward,
            "trajectory_credits": trajectory,
            "generation_first": 0xFFFFFFFF if near_wrap else 1,
            "index_first": (1 << 64) - 3 if near_wrap else 0,
        }
        self.mirror = Memory(Shape(block_tokens=4, **common))
        self.py = Interpreter(self.mirror.address)
        self.desk = Desk(Limits(prefill_chunk=4, **common))
        self.ticks = 0

    def now(self) -> int:
        self.ticks += 1
        return self.ticks

    def name(self, slot: int, old: bool, wanted: State | None = None) -> Name:
        fitting = [s for s in range(SLOTS) if self.py.state_of(s) is wanted]
        slot = fitting[slot % len(fitting)] if fitting else slot
        name = self.py.name_of(slot)
        return Name(slot, (name.generation - old) & 0xFFFFFFFF)

    @rule(
        n=st.integers(1, 3),
        prompt=st.lists(st.integers(0, 9), min_size=1, max_size=8),
        max_tokens=st.integers(1, 16),
        unscored=rarely,
        stops=st.lists(st.integers(0, 9), max_size=8),
    )
    def submit(
        self, n: int, prompt: list[int], max_tokens: int, unscored: bool, stops: list[int]
    ) -> None:
        """The host fills the row and posts; the kernel takes the slot."""
        order = Order(group=7, max_tokens=max_tokens, flags=unscored, n_stop_ids=len(stops))
        order.stop_ids[: len(stops)] = stops
        members = [(100 + i, i, i * 3) for i in range(n)]
        status, names = self.py.submit(order, prompt, members, self.now())
        assert (status is Status.OK) == bool(names)
        for name in names:
            self.py.order_take()
            self.desk.link.rows[name.slot] = self.py.rows[name.slot]
            assert self.desk.link.command(Kind.PREFILL, *name)
            line = Descriptor()
            taken = LIBRARY.assay_take_command(self.desk.at, ct.byref(line))
            assert (taken, line.slot, line.generation) == (Status.OK, *name)
            assert self.desk.call("order", name) == Status.OK

    @rule(slot=slots)
    def a_repeated_order_is_refused(self, slot: int) -> None:
        name = self.py.name_of(slot)
        if self.py.state_of(slot) is State.FREE:
            return
        assert self.desk.call("order", name) == Status.STALE
        self.py.region.stale += 1

    @rule(slot=slots, old=rarely)
    def admit_and_prefill(self, slot: int, old: bool) -> None:
        name = self.name(slot, old, State.PREFILL_READY)
        if self.py.state_of(name.slot) is State.PREFILL_READY and not old:
            assert self.py.take(Credit.DECODE)
            assert LIBRARY.assay_stage_take(self.desk.at, int(Credit.DECODE))
            for rows in (self.py.rows, self.desk.rows):
                rows[name.slot].holds |= Hold.DECODE
        status = self.py.prefilled(name, self.now())
        assert self.desk.call("prefilled", name) == status
        if status is Status.OK:
            self.py.decode.publish()
            self.py.decode.pop(1)

    @rule(slot=slots, tokens=st.integers(0, 3))
    def decoded(self, slot: int, tokens: int) -> None:
        name, ticks = self.name(slot, old=False, wanted=State.DECODING), self.now()
        if self.py.state_of(name.slot) is not State.DECODING:
            return
        for rows in (self.py.rows, self.desk.rows):
            rows[name.slot].n_generated += tokens
        status = self.py.decoded(name, ticks)
        assert self.desk.call("decoded", name, ct.c_uint64(ticks)) == status

    @rule()
    def a_response_reaches_the_host(self) -> None:
        line = self.py.reward.pop()
        assert [bytes(d) for d in self.desk.link.rewards(1)] == ([] if line is None else [line])

    @rule(slot=slots, old=rarely, reward=st.floats(0, 1))
    def score(self, slot: int, old: bool, reward: float) -> None:
        """The kernel completes a scored rollout at once; the interpreter in two operations."""
        name, ticks = self.name(slot, old, State.REWARD_PENDING), self.now()
        status = self.py.score(name, reward, ticks)
        made = self.desk.call("score", name, ct.c_double(reward), ct.c_uint64(ticks))
        assert made == status
        if status is Status.OK:
            assert self.py.trajectory_take(ticks) == (Status.OK, name)

    @rule(
        slot=slots,
        old=rarely,
        before=st.none() | st.sampled_from(State),
        outcome=st.sampled_from([RolloutOutcome.CANCELLED, RolloutOutcome.NOT_FINITE]),
    )
    def end(self, slot: int, old: bool, before: State | None, outcome: RolloutOutcome) -> None:
        before = self.py.state_of(slot) if before is None else before
        name, ticks = self.name(slot, old), self.now()
        status = self.py.end(name, before, outcome, ticks)
        made = self.desk.call("end", name, int(before), int(outcome), ct.c_uint64(ticks))
        assert made == status

    @rule(n=st.integers(1, 4), twice=st.booleans())
    def collect_and_release(self, n: int, twice: bool) -> None:
        self.py.done.publish()
        lines = self.py.collect(n)
        assert [bytes(c) for c in self.desk.link.done(n)] == lines
        for _ in range(1 + twice):
            self.py.release(lines)
            for line in lines:
                c = Completion.from_buffer_copy(line)
                self.desk.call("release", Name(c.slot, c.generation))

    @rule(slot=slots, at_byte=st.integers(0, 55))
    def a_damaged_command_is_found_by_its_cookie(self, slot: int, at_byte: int) -> None:
        link = self.desk.link
        assert link.command(Kind.CANCEL, slot, 1)
        ring_at = link.address + int(link.head.commands_at)
        ring = Ring.from_address(ring_at)
        cell = ring_at + ct.sizeof(Ring) + 64 * ((ring.tail - 1) & ring.mask)
        ct.c_uint8.from_address(cell + at_byte).value ^= 1
        line = Descriptor()
        taken = LIBRARY.assay_take_command(self.desk.at, ct.byref(line))
        assert taken == Status.MISMATCH

    @invariant()
    def rows_credits_and_counters_are_equal(self) -> None:
        if not hasattr(self, "desk"):
            return
        assert bytes(self.desk.rows) == bytes(self.py.rows)
        assert bytes(self.desk.credits) == bytes(self.py.credits)
        region = self.py.region
        assert self.desk.counts() == [
            *(region.submitted, region.completed, region.failed),
            *(region.illegal, region.stale),
        ]


TwoMachines.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTwoMachines = TwoMachines.TestCase


def test_python_and_the_kernel_agree_on_the_size_of_every_structure_of_the_link() -> None:
    """Two fields in the middle pin the order; the rest follows from the sizes."""
    from assay.rollout.cuda.machine import Params

    sizes = [LIBRARY.assay_size_of(i) for i in range(12)]
    parts = (Link, Params, Row, Ring, Limits, Descriptor, Completion, CreditLine)
    assert sizes[:8] == [ct.sizeof(part) for part in parts]
    assert sizes[9:] == [Link.stop.offset, Link.heartbeat.offset, Ring.taken.offset]


def test_a_block_gets_the_shared_memory_that_the_kernel_lays_out() -> None:
    needed = LIBRARY.assay_size_of(8)
    assert needed <= shared_bytes(Sizes(TINY, EMULATED, 64)) <= needed + 1024
