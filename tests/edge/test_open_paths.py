"""Paths without a token: a pace per address, whatever is asked for and from how many addresses."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.edge.access import open_paths
from assay.edge.access.open_paths import BURST_S, AddressPace, OpenPaths, network_of

ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "2001:db8::/64"])


@given(
    st.lists(st.tuples(ADDRESSES, st.floats(0, 0.2)), max_size=200),
    st.floats(0.5, 100),
    st.sampled_from([0.5, 5.0, 1e6]),
)
def test_an_address_has_its_pace_and_waits_for_no_other(
    asked: list[tuple[str, float]], per_s: float, wait_s_max: float
) -> None:
    pace, now_s = AddressPace(per_s, wait_s_max=wait_s_max), 1e6
    due: dict[str, list[float]] = {}
    for address, pause_s in asked:
        now_s += pause_s
        wait_s = pace.wait_s(address, now_s)
        assert wait_s <= wait_s_max + 1e-6
        due.setdefault(address, []).append(now_s + wait_s)
        if len(due[address]) == 1:
            assert wait_s == 0
    for times in due.values() if wait_s_max > 1e3 else ():
        assert times == sorted(times), "first come, first served"
        for count, at_s in enumerate(times):
            assert count <= (at_s - times[0] + BURST_S) * per_s + 1 + 1e-3


@pytest.mark.parametrize("count", [100, 256, 1_000])
def test_those_whose_wait_is_cut_short_do_not_go_on_together(count: int) -> None:
    pace = AddressPace(1.0, wait_s_max=1.0)
    pace.wait_s("crowd", 50.0)
    waits = sorted(pace.wait_s("crowd", 50.0) for _ in range(count))[2:]
    assert 0.5 <= waits[0] <= waits[-1] <= 1
    for at in (0.5, 0.6, 0.7, 0.8, 0.9):
        assert sum(at <= wait <= at + 0.1 for wait in waits) <= count / 5 + 4


def test_addresses_that_are_remembered_are_bounded_and_the_busiest_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_paths, "ADDRESSES_MAX", 64)
    pace = AddressPace(1.0, wait_s_max=1e6)
    for _ in range(10):
        pace.wait_s("busy", 100.0)
    for number in range(1_000):
        assert pace.wait_s(str(number), 100.0) == 0
    assert len(pace._free_s) <= 64
    assert pace.wait_s("busy", 100.0) > 8


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("2001:db8:0:1::2", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_addresses_of_one_network_of_ipv6_have_one_pace(host: str, network: str) -> None:
    assert network_of(host) == network


async def test_only_paths_without_a_token_wait_and_probes_for_no_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def app(*_: object) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    paths = OpenPaths(app, guarded=("/v1/",), probes={"/healthz"}, time_s=lambda: 50.0)

    async def ask(path: str, host: str = "10.0.0.1") -> int:
        before = len(waited)
        scope = {"type": "http", "path": path, "client": (host, 1)}
        nothing: Any = None
        await paths(scope, nothing, nothing)
        return len(waited) - before

    pages = [await ask(path) for path in ("/docs", "/console", "/none", "/v1") * 20]
    assert pages.count(0) == open_paths.PAGES_PER_S * BURST_S + 1
    assert not any([await ask("/v1/score") for _ in range(500)])
    assert not await ask("/docs", host="10.0.0.2")
    probes = [await ask("/healthz") for _ in range(100)]
    assert probes.count(0) == open_paths.PROBES_PER_S * BURST_S + 1


@pytest.mark.parametrize("wait_s", [0.0, 1e-9])
async def test_a_crowd_goes_on_one_per_turn_of_the_loop(
    monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    monkeypatch.setattr(open_paths, "PROBE_WAIT_S_MAX", 0.0)
    monkeypatch.setattr(AddressPace, "wait_s", lambda *_: wait_s)
    answered, seen = 0, []

    async def app(*_: object) -> None:
        nonlocal answered
        answered += 1

    paths = OpenPaths(app, guarded=("/v1/",), probes={"/healthz"})
    scope = {"type": "http", "path": "/healthz", "client": ("10.0.0.1", 1)}
    nothing: Any = None
    crowd = [asyncio.ensure_future(paths(scope, nothing, nothing)) for _ in range(64)]
    while answered < len(crowd):
        await asyncio.sleep(0)
        seen.append(answered)
    assert max(after - before for before, after in pairwise(seen)) == 1
