"""Tenants with the same names for everything: none sees, ends or fills up what is another's.

The routes are read from the routers, so that a new one is tried without a line here, or fails until
it has a body in `bodies.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.endpoints.bodies import BODIES, TASK

from assay.config.access import Role
from assay.edge.access import rules
from assay.reward.endpoints import ors, sandbox_fusion, trainers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.running import RunApi, Running

TENANTS = ("red", "blue", "green", "red.b0")
CONTENT = b"a file of red's"
FILE = hashlib.sha256(CONTENT).hexdigest()
OPEN_MAX = 5
CALLS = 50
SEEDS = range(2)
Call = tuple[str, str, Any, dict[str, str]]
"""Method, path, body and headers."""


def token_of(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()


def routes() -> list[tuple[str, str, str]]:
    """Name, method and path of every endpoint in another system's form."""
    part: Any = None  # routes are only made here, not called
    routers = (
        sandbox_fusion.routes(part, part),
        trainers.routes(part, part),
        ors.routes(part, part, part),
    )
    served: list[Any] = [route for router in routers for route in router.routes]
    return [(route.name, method, route.path) for route in served for method in route.methods]


@pytest.fixture
async def api(run_api: RunApi) -> Running:
    """A service of several tenants, without workers: nothing ends by itself."""
    tenants = {
        name: {
            "token_sha256": hashlib.sha256(token_of(name).encode()).hexdigest(),
            "requests_open_max": OPEN_MAX,
        }
        for name in TENANTS
    }
    return await run_api(tenants=tenants, tenant_calls_per_s_max=1e6)


@pytest.fixture
async def clients(api: Running) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """One for each tenant."""
    async with AsyncExitStack() as stack:
        made = {}
        for name in TENANTS:
            headers = {"authorization": f"Bearer {token_of(name)}"}
            client = httpx.AsyncClient(base_url=api.addresses.http, headers=headers, timeout=300)
            made[name] = await stack.enter_async_context(client)
        yield made


async def ask(client: httpx.AsyncClient, call: Call) -> httpx.Response:
    method, path, body, headers = call
    if isinstance(body, bytes):
        return await client.request(method, path, content=body, headers=headers)
    content = None if body is None else json.dumps(body)
    headers = {"content-type": "application/json", **headers}
    return await client.request(method, path, content=content, headers=headers)


def words(text: str) -> str:
    """A text without random names and instants."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{24,}", "NAME", text)
    return re.sub(r"\d{10,}", "TIME", text)


async def has_begun(red: httpx.AsyncClient) -> dict[str, str]:
    """Red has a task, a batch, a file, a ROLL response and an episode; returns their names."""
    task = {"task_id": "reds-task", "pipeline": "noop"}
    request = {"request_id": "r", "response": "x", "reference": {}}
    steps: list[Call] = [
        ("POST", "/v1/tasks", task, {}),
        ("POST", "/v1/batches", {"task_id": "reds-task", "batch_id": "reds-batch"}, {}),
        ("POST", "/v1/batches/reds-batch/requests", {"requests": [request]}, {}),
        ("PUT", f"/v1/artifacts/{FILE}", CONTENT, {}),
        (
            "POST",
            "/v1/ors/create",
            {"env_name": "math", "task_spec": TASK},
            {"X-Session-ID": "reds-episode"},
        ),
        ("POST", "/v1/roll/math/submit", BODIES["/v1/roll/math/submit"], {}),
    ]
    for step in steps:
        answer = await ask(red, step)
        assert answer.status_code == 200, (step, answer.text)
    return {
        "task": "reds-task",
        "sid": "reds-episode",
        "response": answer.json()["reward_request_id"],
    }


def calls_of(name: str, method: str, path: str, own: dict[str, str]) -> Call:
    """A call of a route with these names wherever it takes one."""
    filled = path.replace("{pipeline}", "noop").replace("{env}", "math")
    example = path.replace("{pipeline}", "math").replace("{env}", "math")
    body = None
    if name == "RollResult":
        body = {"reward_request_id": own["response"]}
    elif method == "POST" and name not in BODILESS:
        body = BODIES.get(example) or BODIES[example.replace("/math/", "/sums/")]
    if name == "OrsCreate":  # a new episode of the caller's own
        return (method, filled, body, {"X-Session-ID": f"own-{own['sid']}"})
    if name in {"OpenRlhfGetReward", "SlimeRemoteRm", "NemoGymVerify", "RollSubmit"}:
        filled += f"?task={own['task']}"
    return (method, filled, body, {"X-Session-ID": own["sid"]})


BODILESS = {"OrsCreateSession", "OrsPing", "OrsDelete", "NemoGymSeedSession", "OrsNumTasks"}
BY_NAME = {
    *("OpenRlhfGetReward", "SlimeRemoteRm", "NemoGymVerify", "RollSubmit", "RollResult"),
    *("OrsPing", "OrsCall", "OrsScoreGroup", "OrsPrompt", "OrsMessages", "OrsTaskTools"),
}
"""Routes on which a name stands for something of a tenant's."""
WITHOUT_END = {"SandboxFusionRunCode", "SandboxFusionSubmit"}
"""They take no names, and wait for a worker."""


async def test_another_tenants_names_are_those_of_nothing_on_every_endpoint(
    clients: dict[str, httpx.AsyncClient],
) -> None:
    red, blue = clients["red"], clients["blue"]
    own = await has_begun(red)
    none = {"task": "none-task", "sid": "none-episode", "response": "0" * len(own["response"])}
    found = routes()
    assert {name for name, _, _ in found} == set(rules.ENDPOINTS)
    for name, method, path in found:
        if name in WITHOUT_END:
            continue
        told = []
        for names in (own, none):
            answer = await ask(blue, calls_of(name, method, path, names))
            assert answer.status_code < 500, (name, answer.text)
            assert (answer.status_code == 404) == (name in BY_NAME), (name, answer.text)
            told.append(words(answer.text.replace("reds-", "none-")))
        assert told[0] == told[1], name
    looks: list[Call] = [
        ("GET", "/v1/batches/reds-batch/results", None, {}),
        ("GET", "/v1/ors/math/prompt", None, {"X-Session-ID": own["sid"]}),
        ("GET", "/v1/roll/result", {"reward_request_id": own["response"]}, {}),
    ]
    for call in looks:
        answer = await ask(red, call)
        assert answer.status_code == 200, answer.text
    assert answer.json()["errcode"] == 1, "still waits: no one else has ended it"


# -- the same names, at the same time ------------------------------------------------------------
def drawn(chance: random.Random) -> Call:
    """Any call with names that all tenants use alike."""
    batch = chance.choice(("b0", "b1"))
    task = chance.choice(("t0", "t1"))
    sid = {"X-Session-ID": chance.choice(("s0", "s1"))}
    request = {
        "request_id": f"r{chance.randrange(6)}",
        "group_id": f"g{chance.randrange(2)}",
        "response": chance.choice("ab"),
        "reference": {},
    }
    function = {"pipeline": "python_function", "settings": {"function": "mine:looks"}}
    named = {**request, "artifacts": [{"name": "f", "sha256": FILE}]}
    calls: list[Call] = [
        ("POST", "/v1/tasks", {"task_id": "t0", "pipeline": "noop"}, {}),
        ("POST", "/v1/tasks", {"task_id": "t1", **function}, {}),
        ("POST", "/v1/batches", {"task_id": task, "batch_id": batch}, {}),
        *[("POST", f"/v1/batches/{batch}/requests", {"requests": [request]}, {})] * 3,
        *[("POST", f"/v1/batches/{batch}/requests", {"requests": [named]}, {})] * 2,
        ("POST", f"/v1/batches/{batch}/requests/cancel", {"request_ids": ["r0", "r1"]}, {}),
        ("POST", f"/v1/batches/{batch}/requests/cancel", {"group_ids": ["g1"]}, {}),
        ("POST", f"/v1/batches/{batch}/cancel", None, {}),
        ("GET", f"/v1/batches/{batch}", None, {}),
        ("GET", f"/v1/batches/{batch}/results", None, {}),
        ("POST", f"/v1/tasks/{task}/hint", {"size": 3}, {}),
        ("PUT", f"/v1/artifacts/{FILE}", CONTENT, {}),
        ("POST", "/v1/ors/create", {"env_name": "math", "task_spec": TASK}, sid),
        ("GET", "/v1/ors/math/prompt", None, sid),
        ("POST", "/v1/ors/ping", None, sid),
        ("POST", "/v1/ors/delete", None, sid),
        ("POST", "/v1/roll/noop/submit", BODIES["/v1/roll/math/submit"], {}),
    ]
    return chance.choice(calls)


Told = list[tuple[int, str]]


async def tells(client: httpx.AsyncClient, calls: list[Call]) -> Told:
    """What a tenant hears of its calls, one after the other."""
    answers = [await ask(client, call) for call in calls]
    return [(answer.status_code, words(answer.text)) for answer in answers]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tenant_hears_the_same_whether_others_work_under_its_names_or_not(
    clients: dict[str, httpx.AsyncClient], seed: int
) -> None:
    """Red among others, then green alone: the same calls have the same answers, quotas too."""
    chance = random.Random(seed)
    calls = [drawn(chance) for _ in range(CALLS)]
    others = [[drawn(chance) for _ in range(CALLS)] for _ in range(2)]

    amid, *_ = await asyncio.gather(
        tells(clients["red"], calls),
        *(tells(clients[name], mine) for name, mine in zip(TENANTS[1::2], others, strict=True)),
    )
    alone = await tells(clients["green"], calls)
    for call, one, other in zip(calls, amid, alone, strict=True):
        assert one == other, call[:2]
    assert {200, 404} <= {status for status, _ in amid}, "both happened"


# -- tokens that are no longer, or never were ----------------------------------------------------
async def test_a_token_that_was_replaced_opens_nothing_on_any_endpoint(run_api: RunApi) -> None:
    """Expired, cut, doubled, in other letters, with more behind it."""
    good = token_of("red")
    old = {"sha256": hashlib.sha256(b"old").hexdigest(), "expires": "2020-01-01T00:00:00Z"}
    mine = {"sha256": hashlib.sha256(good.encode()).hexdigest(), "roles": list(Role)}
    api = await run_api(tenants={"red": {"tokens": [mine, old]}})
    forged = [
        "old",
        good[:-1],
        good + good,
        good.upper(),
        f"{good}=",
        f"{good},{good}",
        f"{good} x",
    ]
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        for name, method, path in routes():
            url = path.replace("{pipeline}", "math").replace("{env}", "math")
            for token in forged:
                headers = {"authorization": f"Bearer {token}"}
                answer = await http.request(method, url, headers=headers)
                assert answer.status_code == 401, (name, token, answer.text)
            answer = await http.request(method, url, headers={"authorization": f"Bearer {good}"})
            assert answer.status_code not in {401, 403}, (name, answer.text)
