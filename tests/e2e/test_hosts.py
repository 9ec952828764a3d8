"""The platform as separate processes, each killed once: the short version of `tests.e2e.hosts`."""

import asyncio

from tests.e2e import hosts


def test_any_part_is_killed_and_nothing_is_lost() -> None:
    run = asyncio.run(hosts.play(seed=1, count=280, pause_s=0.5))
    assert all(part.lives == 2 for name, part in run.parts.items() if "planner" not in name)
    assert sum(run.parts[name].lives for name in ("planner1", "planner2")) == 4
    assert len(run.in_flight) == 7
    assert min(run.in_flight.values()) > 0
