"""A refused call leaves nothing: every key of the store is the same before and after it.

The calls are generated: each is a valid call with one fault, at a random place. Two things are
excepted: a content-addressed part of a payload (`bl:`) may have come first, and expires by itself;
and the counter that numbers requests (`seq`) may skip those of a large message.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from redis.asyncio import Redis
from tests.reward.faces import GrpcFace, HttpFace, Item, Refusal, refused

from assay.core.errors import DeadlinePassed
from assay.core.ids import GroupId, RequestId
from assay.core.records import NewRequest
from assay.edge.auth import Tenants
from assay.reward.drafts import ScoreDraft
from assay.reward.operations.scoring import PART_REQUESTS_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.reward.faces import Face
    from tests.running import RunApi

    from assay.config.settings import StoreSettings

    Make = Callable[[], Awaitable[object]]

SEED = 20
BAD_ITEMS = (
    Item(""),
    Item("with space"),
    Item("x" * 257),
    Item("good/0"),
    Item("r", group_id="with space"),
    Item("r", reference=b"{}"),
    Item("r", reference=b'{"answers": []}'),
    Item("r", reference=b'{"answers": [7]}'),
    Item("r", reference=b'{"answers": ["a"], "x": 1}'),
    Item("r", reference=b'{"answers": ["\\ud800"]}'),
    Item("r", reference=b'{"answers": [' + b"[]," * 9_000 + b"[]]}"),
    Item("r", response=b"x" * 20_000, reference=b"7"),
)
BAD_SETTINGS: tuple[dict[str, Any], ...] = (
    {"reward_pass": "much"},
    {"reward_pas": 1},
    {"strategies": ["x" * 70_000]},
    {"strategies": list(range(1_100))},
)
BAD_SCORES: tuple[dict[str, Any], ...] = (
    {"pipeline": "telepathy"},
    {"pipeline": ""},
    {"task_id": "none"},
    {"task_id": "with space"},
    {"task_id": "task", "pipeline": "exact"},
    *({"pipeline": "exact", "settings": settings} for settings in BAD_SETTINGS),
)
BAD_TASKS: tuple[dict[str, Any], ...] = (
    {"pipeline": "telepathy"},
    {"batch_size": -1},
    {"delay_budget_ms": -5},
    {"trainer_cost_rate": -0.5},
    *({"settings": settings} for settings in BAD_SETTINGS),
)
BAD_BATCHES: tuple[dict[str, Any], ...] = (
    {"batch_id": "with space"},
    {"size": -1},
    {"group_size": 2_000_000},
    {"deadline_ms": 0},
)


async def contents(settings: StoreSettings) -> dict[str, str]:
    """Every key of this shard, except parts that expire by themselves, and a digest of each."""
    async with Redis.from_url(settings.url) as redis:
        found = {}
        async for key in redis.scan_iter(f"assay:{{{settings.shard}}}:*", count=1_000):
            name = key.decode()
            dumped = await redis.dump(key)
            if ":bl:" in name and 0 < await redis.pttl(key) <= 120_000:
                continue
            if name.endswith(":seq"):
                continue
            found[name] = hashlib.sha256(dumped or b"").hexdigest()
        return found


def faulty(face: Face, batch: str, sealed: str, chance: random.Random) -> list[Make]:
    """One call of every kind with one fault each; names and places differ from call to call."""
    good = [Item(f"good/{index}") for index in range(chance.randint(1, 5))]

    def among(item: Item) -> list[Item]:
        at = chance.randint(1, len(good))
        return [*good[:at], item, *good[at:]]

    def settings() -> dict[str, Any]:
        return {"reward_pass": chance.random()}

    calls: list[Make] = []
    for item in BAD_ITEMS:
        items = among(item)
        calls += (
            partial(face.score, items, pipeline="exact", settings=settings()),
            partial(face.score, items, task_id="task"),
            partial(face.submit, batch, items),
        )
    calls += (partial(face.score, good, **head) for head in BAD_SCORES)
    for task in BAD_TASKS:
        calls.append(partial(face.register, "new", **{"pipeline": "exact", **task}))
    calls += (partial(face.open, "task", **fields) for fields in BAD_BATCHES)
    calls += (
        partial(face.score, [], pipeline="exact", settings=settings()),
        partial(face.score, good, pipeline="exact", settings=settings(), timeout_s=-1.0),
        partial(face.submit, "none", good),
        partial(face.submit, batch, []),
        partial(face.submit, sealed, good),
        partial(face.submit, batch, among(Item("kept", b"Rome"))),
        partial(face.submit, batch, among(Item("kept", b"x" * 300_000))),
        partial(face.open, "none"),
        partial(face.open, "task", batch_id=batch, size=7),
        partial(face.register, "task", "choice"),
        partial(face.hint, "none", 1),
        partial(face.hint, "task", -1),
        partial(face.seal, "none"),
        partial(face.cancel, "none"),
        partial(face.cancel_requests, batch, [], []),
    )
    return calls


async def test_a_refused_call_of_any_kind_leaves_no_key(
    run_api: RunApi, store_settings: StoreSettings
) -> None:
    api = await run_api()
    chance = random.Random(SEED)
    async with (
        grpc.aio.insecure_channel(api.addresses.grpc) as channel,
        httpx.AsyncClient(base_url=api.addresses.http, timeout=60) as http,
    ):
        for face in (GrpcFace(channel), HttpFace(http)):
            await face.register("task", "exact")
            batch = await face.open("task", batch_id=f"{face.transport}-batch")
            sealed = await face.open("task", batch_id=f"{face.transport}-sealed")
            await face.submit(batch, [Item("kept")])
            await face.seal(sealed)
            calls = faulty(face, batch, sealed, chance)
            before = await contents(store_settings)
            ends = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
            assert [type(end) for end in ends] == [Refusal] * len(calls)
            assert await contents(store_settings) == before


TOKEN = "t0ken"
QUOTA = {"requests_open_max": 10, "bytes_open_max": 2_000, "batches_open_max": 3, "tasks_max": 2}


@asynccontextmanager
async def bounded(run_api: RunApi) -> AsyncIterator[HttpFace]:
    """A tenant with these quotas, a batch of eight requests, and a way to call for it."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    api = await run_api(tenants={"acme": {"token_sha256": digest, **QUOTA}})
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=60, headers=headers) as http:
        face = HttpFace(http)
        await face.register("task", "exact")
        await face.open("task", batch_id="kept")
        await face.submit("kept", [Item(f"kept/{index}") for index in range(8)])
        yield face


def over_quota(face: HttpFace, items: list[Item]) -> list[Make]:
    """Every call that stores these items."""
    return [
        partial(face.score, items, pipeline="exact", settings={"reward_pass": 0.5}),
        partial(face.score, items, task_id="task"),
        partial(face.submit, "kept", items),
    ]


async def test_a_refusal_for_any_quota_leaves_no_key(
    run_api: RunApi, store_settings: StoreSettings
) -> None:
    async def all_refused(calls: list[Make], reason: str = "saturated") -> None:
        before = await contents(store_settings)
        ends = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
        assert [getattr(end, "reason", end) for end in ends] == [reason] * len(calls)
        assert await contents(store_settings) == before

    few = [Item("one"), Item("two"), Item("three")]
    many = [Item(f"{index}") for index in range(PART_REQUESTS_MAX + 6)]
    heavy = [Item("heavy", response=b"x" * 2_000)]
    async with bounded(run_api) as face:
        await all_refused(over_quota(face, few))
        for items in (many, heavy):  # they would not fit if nothing else were open
            await all_refused(over_quota(face, items), "too_large")
        await face.register("second", "exact")
        new = partial(face.score, few[:1], pipeline="exact", settings={"reward_pass": 0.5})
        await all_refused([partial(face.register, "third", "exact"), new])
        for name in ("b2", "b3"):
            await face.open("task", batch_id=name)
        one = partial(face.score, few[:1], task_id="task")
        await all_refused([partial(face.open, "task", batch_id="b4"), new, one])


async def test_of_calls_that_race_for_a_quota_only_the_accepted_one_is_stored(
    run_api: RunApi, store_settings: StoreSettings
) -> None:
    async with bounded(run_api) as face:
        before = await contents(store_settings)
        pair = [Item("one"), Item("two")]
        scores = [
            asyncio.create_task(
                face.score(pair, pipeline="exact", settings={"reward_pass": index / 10})
            )
            for index in range(8)
        ]
        for ended in itertools.islice(asyncio.as_completed(scores), 7):
            with pytest.raises(Refusal):
                await ended
        new = set(await contents(store_settings)) - set(before)
        prefix = f"assay:{{{store_settings.shard}}}:"
        for kind, count in (("b", 1), ("t", 1), ("d", 1), ("j", 2), ("p", 2)):
            assert len([key for key in new if key.startswith(f"{prefix}{kind}:")]) == count, kind
        for score in scores:
            score.cancel()
        await asyncio.gather(*scores, return_exceptions=True)
        quota = f"{prefix}quota:acme"
        async with asyncio.timeout(60):
            while (await contents(store_settings))[quota] != before[quota]:
                await asyncio.sleep(0.01)


async def test_a_score_that_runs_out_of_time_before_its_turn_leaves_no_key(
    run_api: RunApi, store_settings: StoreSettings
) -> None:
    digests = [hashlib.sha256(token.encode()).hexdigest() for token in (TOKEN, "other")]
    tenants = {f"t{index}": {"token_sha256": digest} for index, digest in enumerate(digests)}
    api = await run_api(tenants=tenants, tenant_requests_per_s_max=0.01)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=60, headers=headers) as http:
        face = HttpFace(http)
        score = partial(face.score, [Item("r")], pipeline="exact", timeout_s=0.3)
        await refused(face, score(), DeadlinePassed)  # no one judges it, and it takes the turn
        async with asyncio.timeout(60):
            while any(":quota:" in key for key in await contents(store_settings)):
                await asyncio.sleep(0.01)
        before = await contents(store_settings)
        await refused(face, score(settings={"reward_pass": 0.5}), DeadlinePassed)
        assert await contents(store_settings) == before


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, -math.inf, math.nan])
async def test_a_deadline_that_has_passed_is_refused_before_anything_is_stored(
    run_api: RunApi, store_settings: StoreSettings, timeout_s: float
) -> None:
    api = await run_api()
    service, tenant = api.api.server._service, Tenants({}).authenticate("")
    draft = ScoreDraft(pipeline="exact", timeout_s=timeout_s)
    request = NewRequest(
        request_id=RequestId("r"), group_id=GroupId(""), response=b"x", reference=b"{}"
    )

    async def checked(_definition: object) -> list[NewRequest]:
        return [request]

    with pytest.raises(DeadlinePassed):
        await service.score(tenant, draft, checked, stored=lambda: None)
    assert await contents(store_settings) == {}
