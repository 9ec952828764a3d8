"""Whatever a trainer, a sender of weights and the network do in whatever order, promises hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.rollout.sequences.attack import CALLS, run
from tests.rollout.service.test_service import by_its_last_digit
from tests.running import own_shard, running_api, working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from assay.store.embedded import EmbeddedValkey

BEGINNING = [("open", 7), ("submit", 21)]
OFTEN = ["submit", "submit", "read", "pause", "resume"]
CALL = st.tuples(st.sampled_from([*CALLS, *OFTEN]), st.integers(0, 2**16 - 1))


@pytest.fixture
def reward_service(valkey: EmbeddedValkey, tmp_path: Path) -> Iterator[tuple[asyncio.Runner, int]]:
    """A reward API with a judge, and the loop that it runs on; its port."""
    store = own_shard(valkey)
    with asyncio.Runner() as runner:
        serving = running_api(store, tmp_path)
        judging = working(store, by_its_last_digit)
        api = runner.run(serving.__aenter__())
        runner.run(judging.__aenter__())
        yield runner, int(api.addresses.grpc.rpartition(":")[2])
        runner.run(judging.__aexit__(None, None, None))
        runner.run(serving.__aexit__(None, None, None))


# The same sequences in every run; `python -m tests.rollout.sequences` looks for new ones.
@settings(
    max_examples=10,
    derandomize=True,
    phases=[Phase.generate],  # no shrinking: it takes minutes, and the calls are printed
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sequence=st.lists(CALL, min_size=40, max_size=50))
def test_any_sequence_of_calls_leaves_each_group_ended_once_and_nothing_behind(
    reward_service: tuple[asyncio.Runner, int], sequence: list[tuple[str, int]]
) -> None:
    runner, port = reward_service
    runner.run(run([*BEGINNING, *sequence], port))
