"""Who cancels calls without an end, or is cut again and again, is slowed down; no one else is."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.edge.connections.cancelled import BURST, PER_S, Cancelled
from assay.edge.connections.gate import (
    ADDRESSES_MAX,
    CUTS_MAX,
    CUTS_PER_S,
    DEBT_MAX,
    FRUITLESS_SHARE,
    Gate,
    close_to,
)
from assay.edge.connections.traffic import CALLERS_MAX, STRANGER_CANCELLED_MAX, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRY_S = 0.3
"""Less than the second after which a kernel sends a first packet again."""


# -- calls that are cancelled unread ---------------------------------------------------------------
@given(steps=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 200)), max_size=40))
def test_a_trainer_that_gives_up_as_many_calls_as_it_has_answered_is_never_over(
    steps: list[tuple[int, int]],
) -> None:
    cancelled = Cancelled()
    now_s = 0.0
    for given_up, apart_s in steps:
        now_s += apart_s
        for _ in range(given_up):
            cancelled.read("trainer")
            assert not cancelled.exceeds("trainer", now_s)


@pytest.mark.parametrize("step_s", [60.0, 300.0])
def test_a_trainer_may_give_up_all_it_has_begun_at_every_step(step_s: float) -> None:
    cancelled = Cancelled()
    each = min(BURST, int(step_s * PER_S))
    for step in range(20):
        assert not any(cancelled.exceeds("trainer", step * step_s) for _ in range(each))


@given(per_s=st.integers(200, 5_000))
def test_a_flood_is_over_within_its_budget_and_stays_so(per_s: int) -> None:
    cancelled = Cancelled()
    kept = sum(not cancelled.exceeds("flood", n / per_s) for n in range(20 * per_s))
    assert kept <= BURST + 20 * PER_S + 1
    assert not cancelled.exceeds("another", 20.0)


def test_only_those_who_spent_something_lately_are_kept() -> None:
    cancelled = Cancelled()
    for n in range(100):
        cancelled.exceeds(f"caller {n}", 0.0)
    cancelled.forget(0.5 / PER_S)
    assert len(cancelled) == 100
    cancelled.forget(1.0 / PER_S)
    assert len(cancelled) == 0


def test_a_stranger_may_give_up_fewer_calls_than_one_with_a_token() -> None:
    stranger, known = Traffic(since_s=0.0), Traffic(since_s=0.0)
    known.identify("trainer")
    for _ in range(STRANGER_CANCELLED_MAX):
        stranger.cancel()
        known.cancel()
    assert not stranger.condemned
    stranger.cancel()
    known.cancel()
    assert stranger.condemned
    assert not known.condemned


def test_a_connection_is_cut_only_if_all_its_callers_spent_their_budget() -> None:
    account = Traffic(since_s=0.0)
    account.identify("flood")
    account.identify("trainer")
    assert not account.spend("flood")
    assert account.spend("trainer")
    proxy = Traffic(since_s=0.0)
    for n in range(CALLERS_MAX + 1):
        proxy.identify(n)
    assert not any(proxy.spend(n) for n in range(CALLERS_MAX))


# -- addresses that are cut again and again --------------------------------------------------------
def test_an_address_waits_only_after_several_cuts_and_not_for_long() -> None:
    gate = Gate()
    for cut in range(CUTS_MAX):
        assert gate.closed(0.0) == (), cut
        gate.cut("10.0.0.1", 0.0)
    assert gate.closed(0.0) == ("10.0.0.1",)
    for _ in range(100):
        gate.cut("10.0.0.1", 1.0)
    longest_s = (DEBT_MAX + 1) / CUTS_PER_S
    assert gate.closed(0.9 + longest_s) == ("10.0.0.1",)
    assert gate.closed(1.1 + longest_s) == ()


@given(apart_s=st.floats(1 / CUTS_PER_S, 60.0))
def test_an_address_that_is_cut_now_and_then_never_waits(apart_s: float) -> None:
    gate = Gate()
    for cut in range(200):
        gate.cut("10.0.0.1", cut * apart_s)
        assert gate.closed(cut * apart_s) == ()


@given(per_s=st.integers(1, 16))
def test_fruitless_connections_at_the_pace_of_probes_are_no_reason_to_wait(per_s: int) -> None:
    gate = Gate()
    for number in range(1_000):
        gate.cut("10.0.0.1", number / per_s, FRUITLESS_SHARE)
        assert gate.closed(number / per_s) == ()


def test_fruitless_connections_as_fast_as_they_can_be_made_are_one() -> None:
    gate = Gate()
    made = 0
    while not gate.closed(made / 200):
        gate.cut("10.0.0.1", made / 200, FRUITLESS_SHARE)
        made += 1
    assert made < 300


def test_no_more_addresses_are_kept_than_a_filter_holds() -> None:
    gate = Gate()
    for number in range(3 * ADDRESSES_MAX):
        for _ in range(CUTS_MAX):
            gate.cut(f"10.0.0.{number}", 0.0)
    assert len(gate.closed(0.0)) == ADDRESSES_MAX
    assert gate.closed(1e6) == ()


# -- the kernel ------------------------------------------------------------------------------------
@pytest.fixture
def both() -> Iterator[socket.socket]:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as found:
        try:
            close_to(found, ["10.0.0.1"])
        except PermissionError:
            pytest.skip("this kernel takes filters of sockets from root alone")
        close_to(found, [])
        yield found


def _connects(listener: socket.socket, address: str) -> bool:
    try:
        client = socket.create_connection(
            (address, listener.getsockname()[1]), timeout=TRY_S, source_address=(address, 0)
        )
    except TimeoutError:
        return False
    with client:
        served = listener.accept()[0]
        with served:
            client.sendall(b"x")
            assert served.recv(1) == b"x"
    return True


@pytest.mark.parametrize(
    "closed",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.0.0.1", "127.0.0.1", "fe80::1"],
        ["fe80::1", "::2", "::1"],
        ["127.0.0.2", "::1", "127.0.0.1"],
        [f"10.0.0.{n}" for n in range(63)] + ["127.0.0.3"],
    ],
)
def test_the_kernel_holds_off_these_addresses_and_no_others(
    both: socket.socket, closed: Sequence[str]
) -> None:
    addresses = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "::1")
    close_to(both, closed)
    for address in addresses:
        assert _connects(both, address) is (address not in closed), address
    close_to(both, [])
    assert all(_connects(both, address) for address in addresses)


def test_connections_that_exist_are_not_touched(both: socket.socket) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(
            socket.create_connection(("127.0.0.1", both.getsockname()[1]), timeout=TRY_S)
        )
        served = stack.enter_context(both.accept()[0])
        close_to(both, ["127.0.0.1"])
        client.sendall(bytes(100_000))
        assert served.recv(100_000, socket.MSG_WAITALL) == bytes(100_000)
        assert not _connects(both, "127.0.0.1")
