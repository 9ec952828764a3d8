"""The Lua scripts against the model again: simulated runs' logs, carried out on a real Valkey.

The machine in `tests/store/test_machine.py` draws calls; here they are those that the real services
made, thousands in the order in which a platform makes them, with faults: leases that expire,
batches, requests and groups that are cancelled. Results and whole states are compared.
"""

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgpack
import pytest
from redis.asyncio import Redis

from assay.config.settings import StoreSettings
from assay.core.ordering import Costs
from assay.sim.platform.run import run_seed, shape_of
from assay.sim.platform.store import LIMITS, SimulatedCall
from assay.sim.replay.on_store import Difference, Replay, is_fit
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore

HARD = {
    "cancelled",
    "filled",
    "groups",
    "lost",
    "moved",
    "returned",
    "some cancelled",
    "taken back",
}
"""What makes a replay hard, each in at least one of the runs."""
SEEDS_MAX = 200
CHECKPOINT_EVERY = 150


def settings(shard: str) -> StoreSettings:
    return StoreSettings(
        shard=shard,
        batch_overdue_s=LIMITS.batch_overdue_ns / 1e9,
        results_kept_s=LIMITS.results_kept_ns / 1e9,
        history_batches=LIMITS.history_batches,
        dead_letters_max=LIMITS.dead_letters_max,
        dead_letters_per_tenant_max=LIMITS.dead_letters_per_tenant_max,
    )


async def read(client: Any, key: bytes) -> Any:
    match await client.type(key):
        case b"hash":
            return {n.decode(): v for n, v in (await client.hgetall(key)).items()}
        case b"set":
            return {one.decode() for one in await client.smembers(key)}
        case b"zset":
            pairs = await client.zrange(key, 0, -1, withscores=True)
            return [(member.decode(), score) for member, score in pairs]
        case b"list":
            return await client.lrange(key, 0, -1)
        case b"string":
            return await client.get(key)
    return None


def first_of(packed: bytes) -> object:
    unpacker = msgpack.Unpacker()
    unpacker.feed(packed)
    return next(unpacker)


async def state(client: Any, prefix: str) -> dict[str, Any]:
    keys = [key async for key in client.scan_iter(match=f"{prefix}*", count=10_000)]
    found = {key.decode().removeprefix(prefix): await read(client, key) for key in keys}
    for key, value in found.items():
        if key.startswith("over:"):
            found[key] = [first_of(one) for one in value]
    return found


async def differences(log: Sequence[SimulatedCall], url: str, shard: str) -> list[Difference]:
    store = ValkeyStore(settings(shard), url=url)
    client: Any = Redis.from_url(url)

    async def now_ns() -> int:
        seconds, microseconds = await client.time()
        return int((seconds * 1_000_000 + microseconds) * 1_000)

    replay = Replay(store, now_ns, lambda: state(client, f"assay:{{{shard}}}:"))
    try:
        found = replay.differences(log, checkpoint_every=CHECKPOINT_EVERY)
        return [one async for one in found]
    finally:
        await client.aclose()
        await store.close()


def hard_parts(seed: int, log: Sequence[SimulatedCall]) -> set[str]:
    """Those of `HARD` that a run has."""
    done = [command for command in log if not isinstance(command.answer, Exception)]

    def changed(name: str, count: Callable[[Any], int]) -> bool:
        return any(count(command.answer) for command in done if command.name == name)

    found = {
        "cancelled": changed("cancel", itemgetter(1)),
        "some cancelled": changed("cancel_requests", itemgetter(1)),
        "filled": changed("open_filled", lambda _: 1),
        "moved": changed("prioritize", lambda _: 1),
        "lost": changed("reap", attrgetter("redelivered")),
        "taken back": changed("take_back", attrgetter("redelivered")),
        "returned": changed("give_back_undelivered", int),
        "groups": shape_of(seed).groups,
    }
    return {name for name, is_there in found.items() if is_there}


@pytest.fixture(scope="module")
def logs() -> dict[int, Sequence[SimulatedCall]]:
    """By seed, the first runs that can be replayed and together have all that is hard."""
    chosen: dict[int, Sequence[SimulatedCall]] = {}
    missing = set(HARD)
    for seed in range(SEEDS_MAX):
        log = run_seed(seed, keep_log=True).log
        if missing & hard_parts(seed, log) and is_fit(log):
            chosen[seed] = log
            missing -= hard_parts(seed, log)
        if not missing:
            return chosen
    pytest.fail(f"none of {SEEDS_MAX} runs can be replayed and has {missing}")


def test_simulated_runs_give_the_same_results_and_states_on_valkey(
    logs: dict[int, Sequence[SimulatedCall]], valkey: EmbeddedValkey
) -> None:
    for seed, log in logs.items():
        assert asyncio.run(differences(log, valkey.url, f"sim{seed}")) == []


def test_another_state_is_noticed(
    logs: dict[int, Sequence[SimulatedCall]],
    valkey: EmbeddedValkey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that learns no costs claims in another order later, and differs at once."""
    log = next(iter(logs.values()))
    end = next(number for number, one in enumerate(log) if one.name == "finish" and one.args[1])
    monkeypatch.setattr(Costs, "learn", lambda *_: None)
    found = asyncio.run(differences(log[: end + 1], valkey.url, "differs"))
    answers = [one.answer for one in found]
    keys = [key for answer in answers if isinstance(answer, dict) for key in answer]
    assert len(keys) == len(answers)
    assert {key.partition(":")[0] for key in keys} == {"cost"}
