"""Who may call what, where: every port of one platform, by the whole contract, by every caller.

RPCs are read from the descriptors, the services of a port from its reflection, HTTP operations from
the applications. A port, service or operation that is new is tried at once, or fails until it has
an entry here and a rule. Each call is made at each port, so that one that is served where it does
not belong is found, too; where a port does not serve it, by one caller, of another kind each time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import grpc
import httpx
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.e2e import every_port
from tests.e2e.commands import HANGS_S, platform_up
from tests.e2e.every_port import Answer, Caller, Known, Route
from tests.edge import every_call
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.scaling import write_kubeconfig
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.gateway.test_matrix import calls as routes_of_gateway

from assay.config.settings import StoreSettings
from assay.edge.access import rules
from assay.edge.http_edge import every_route
from assay.store.valkey import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from google.protobuf.descriptor import MethodDescriptor
    from tests.running import Running

TENANTS, OPERATOR, WORKERS = Known.TENANTS, Known.OPERATOR, Known.WORKERS
HEALTH: Final = "grpc.health.v1.Health"
REFLECTION: Final = "grpc.reflection.v1alpha.ServerReflection"
ANYONES: Final = None
GRPC: Final[Mapping[str, tuple[Known | None, frozenset[str]]]] = {
    "reward grpc": (TENANTS, frozenset({"assay.v1.RewardService", HEALTH, REFLECTION})),
    "reward workers": (WORKERS, frozenset({"assay.v1.WorkService", HEALTH})),
    "worker control": (OPERATOR, frozenset({"assay.v1.PoolService", HEALTH, REFLECTION})),
    "planner grpc": (OPERATOR, frozenset({"assay.v1.PlannerService", HEALTH, REFLECTION})),
    "planner keda": (ANYONES, frozenset({"externalscaler.ExternalScaler"})),
    "rollout grpc": (TENANTS, frozenset({"assay.v1.RolloutService", HEALTH, REFLECTION})),
}
"""Whose tokens each port knows, and its services. KEDA has no token to show: its port answers
anyone of this machine, and from elsewhere callers with a certificate (`tests/kubernetes`)."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
HTTP: Final[Mapping[str, frozenset[str]]] = {
    "reward http": frozenset({"api", "console", "open", "probes", "metrics"}),
    "reward probes": frozenset({"probes"}),
    "worker http": frozenset({"probes", "metrics"}),
    "planner http": frozenset({"probes", "metrics"}),
    "rollout http": frozenset({"probes", "metrics"}),
    "rollout gateway": frozenset({"gateway"}),
}
"""Kinds of routes at each port."""
KNOWN: Final[Mapping[str, frozenset[Known]]] = {
    "api": frozenset({TENANTS}),
    "console": frozenset({TENANTS, OPERATOR}),
    "gateway": frozenset({TENANTS}),
    "metrics": frozenset({OPERATOR}),
}
"""Whose tokens each kind of routes knows; the others need none."""
AUDITED: Final = tuple(
    f"{service}.refused.jsonl"
    for service in ("reward", "workers", "worker", "planner", "rollout", "gateway")
)
"""Files of the audit log."""
OF_EACH_KIND: Final = ("", "blue", "operator", "worker", "unknown")
"""Callers of calls that a port does not serve to anyone, in turn: the answer knows no roles."""
OPEN: Final = frozenset(
    {"/openapi.json", "/docs", "/docs/{name}", "/console", "/console/{name}"} | PROBES
)
"""Paths without a rule: they expose no tenant's data."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Path]:
    """One with a Deployment that KEDA sizes; returns its kubeconfig."""
    server, file = ApiServer(), tmp_path / "kubeconfig"
    await server.start()
    one = Cluster(url=f"http://127.0.0.1:{server.port}")
    await one.deploy("match", replicas=1)
    write_kubeconfig(file, port=server.port, token=one.scalers_token)
    yield file
    await server.stop()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Path) -> Path:
    """Sets it for a platform of all parts; returns the file of tenants."""
    file, key = tmp_path / "tenants.json", tmp_path / "keys"
    file.write_text(json.dumps(every_port.tenants(revoked=False)))
    key.write_bytes(every_port.KEY)
    for name, value in {
        "REWARD__TENANTS_FILE": file,
        "REWARD__TENANT_CALLS_PER_S_MAX": 1e6,
        "REWARD__WORKER_KEY_FILE": key,
        "REWARD__WORKER_PORT": 0,
        "REWARD__PROBE_PORT": 0,
        "ROLLOUT__GRPC_PORT": 0,
        "ROLLOUT__HTTP_PORT": 0,
        "ROLLOUT__GATEWAY_PORT": 0,
        "ROLLOUT__TOKENS_MAX": 64,
        "OPERATOR__TOKEN": every_port.OPERATOR,
        "OPERATOR__TOKENS": json.dumps(every_port.operators()),
        "WORKER__STAGES": '["match"]',
        "PLANNER__SCALER": "keda",
        "PLANNER__KUBERNETES__KUBECONFIG": cluster,
        "PLANNER__KUBERNETES__DEPLOYMENTS": '{"match": "assay-match"}',
        "PLANNER__KUBERNETES__KEDA_PORT": 0,
    }.items():
        monkeypatch.setenv(f"ASSAY_{name}", str(value))
    return file


async def test_each_port_answers_its_own_calls_to_its_own_callers_alone(
    environment: Path, tmp_path: Path, api: Running
) -> None:
    model = write_checkpoint(tmp_path / "some.bin")
    data = tmp_path / "data"
    async with platform_up(data, "--model", str(model)), AsyncExitStack() as stack:
        ports = await _ports(data)
        assert set(ports) == set(GRPC) | set(HTTP), "each port has an entry here"
        channels = {
            name: await stack.enter_async_context(grpc.aio.insecure_channel(ports[name]))
            for name in GRPC
        }
        clients = {
            name: await stack.enter_async_context(
                httpx.AsyncClient(base_url=_url(ports[name]), timeout=every_port.LONG_S)
            )
            for name in HTTP
        }
        callers = every_port.callers(
            await _credential(data), await _session(clients["rollout gateway"])
        )
        await _revoke(environment, channels)
        for name, channel in channels.items():
            await _services_are_those_of(name, channel)
        routes = list(_routes(api))
        slow = asyncio.create_task(_slow_callers_are_left(ports))
        wrong = [
            *await _together(_over_grpc(channels, callers)),
            *await _together(_over_http(clients, callers, routes)),
        ]
        assert not wrong, "\n".join(map(str, wrong[:40]))
        await slow
        await _large_messages_are_refused(ports, channels)
        await _any_message_is_answered(channels)
        empty = [one for one in AUDITED if not (data / "audit" / one).stat().st_size]
        assert not empty, "each port that asks who calls keeps who was refused"


async def _slow_callers_are_left(ports: Mapping[str, str]) -> None:
    """Each port closes the connection of each of them, while it serves others."""
    kinds = [(port, kind) for port in ports for kind in every_port.SLOW]
    calls = [every_port.until_closed(ports[port], *every_port.SLOW[kind]) for port, kind in kinds]
    tasks = [asyncio.create_task(one) for one in calls]
    _, kept = await asyncio.wait(tasks, timeout=every_port.LONG_S)
    left = [kind for kind, task in zip(kinds, tasks, strict=True) if task in kept]
    for task in kept:
        task.cancel()
    assert not left, "it holds their connections"


async def _large_messages_are_refused(
    ports: Mapping[str, str], channels: Mapping[str, grpc.aio.Channel]
) -> None:
    """None is read to its end, and none is an error of the service."""
    for port, address in ports.items():
        for kind, said in every_port.LARGE.items():
            answer = await every_port.end_of_large(address, said)
            assert not answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5")), (port, kind, answer)
    for port, methods in _served().items():
        one = next(each for each in methods if not each.server_streaming)
        status = await every_port.too_large(channels[port], one, _token(port))
        assert status in {"RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "UNAVAILABLE"}, port


async def _any_message_is_answered(channels: Mapping[str, grpc.aio.Channel]) -> None:
    """By a status that says who has to act: none is an error of the service."""
    calls = {
        (port, one.full_name): every_port.statuses(channels[port], one, _token(port))
        for port, methods in _served().items()
        for one in methods
    }
    found = dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))
    wrong = {call: told for call, told in found.items() if told & {"INTERNAL", "UNKNOWN"}}
    assert not wrong
    assert len(found) > len(channels)


def _served() -> dict[str, list[MethodDescriptor]]:
    """Calls with one message, by port."""
    return {
        port: [
            one
            for one in every_port.methods()
            if one.containing_service.full_name in services - {HEALTH, REFLECTION}
            and not one.client_streaming
        ]
        for port, (_, services) in GRPC.items()
    }


def _token(port: str) -> str:
    """Of a caller whom a port permits everything."""
    known = GRPC[port][0]
    worker = every_port.worker_token(every_port.KEY)
    return {TENANTS: "blue", OPERATOR: every_port.OPERATOR, WORKERS: worker, ANYONES: ""}[known]


Case = tuple[tuple[str, str, str], set[Answer], Awaitable[Answer]]
"""Port, call and caller; what may be answered; what is."""


async def _together(cases: Iterator[Case]) -> list[object]:
    """Make the calls, some at a time; returns those that were answered otherwise."""
    turn = asyncio.Semaphore(every_port.AT_ONCE)

    async def one(case: Case) -> object:
        who, wanted, answer = case
        async with turn:
            found = await answer
        return None if found in wanted else (*who, found, wanted)

    answers = await asyncio.gather(*map(one, cases))
    assert len(answers) > 1_000, "of a whole platform"
    return [found for found in answers if found is not None]


# -- gRPC ----------------------------------------------------------------------------------------
def _over_grpc(
    channels: Mapping[str, grpc.aio.Channel], callers: Mapping[str, Caller]
) -> Iterator[Case]:
    turns = itertools.cycle(OF_EACH_KIND)
    for port, channel in channels.items():
        for method in every_port.methods():
            is_served = method.containing_service.full_name in GRPC[port][1]
            for name in callers if is_served else [next(turns)]:
                caller = callers[name]
                wanted = _wanted_of_rpc(port, method, caller)
                leave = wanted == {Answer.ADMITTED}
                call = every_port.over_grpc(channel, method, caller.token, leave=leave)
                yield (port, every_call.path(method), name), wanted, call


def _wanted_of_rpc(port: str, method: MethodDescriptor, caller: Caller) -> set[Answer]:
    known, services = GRPC[port]
    cut = {Answer.CUT} if method.client_streaming else set()
    if method.containing_service.full_name not in services:
        return {Answer.ABSENT} | cut
    if known is None or every_port.is_open(method):
        return {Answer.ADMITTED}
    rule = rules.rule_of_rpc(every_call.path(method)) or frozenset()
    wanted = every_port.expected(caller, rule, port, frozenset({known}))
    return {wanted} | (cut if wanted is Answer.STRANGER else set())


async def _services_are_those_of(port: str, channel: grpc.aio.Channel) -> None:
    """Ask a port that has reflection."""
    known, services = GRPC[port]
    if REFLECTION not in services:
        return
    token = every_port.OPERATOR if known is OPERATOR else "blue"
    stub: Any = reflection_pb2_grpc.ServerReflectionStub
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    call = stub(channel).ServerReflectionInfo(
        iter([asked]), metadata=(("authorization", f"Bearer {token}"),)
    )
    answer = await anext(aiter(call))
    assert {one.name for one in answer.list_services_response.service} == services, port


# -- HTTP ----------------------------------------------------------------------------------------
def _routes(running: Running) -> Iterator[tuple[str, Route]]:
    """Every route of every port, and its kind."""
    listened: Any = running.api.server._http._server.config.app
    for one in every_route(listened._app.routes):
        for method in (one.methods or {"GET"}) - {"HEAD", "OPTIONS"}:
            route = Route(name=one.name, method=method, path=one.path)
            yield _kind(route), route
    for name, method, path in routes_of_gateway():
        yield "gateway", Route(name=name, method=method, path=path)


def _kind(route: Route) -> str:
    if rules.rule_of_operation(route.name):
        return "api"
    if route.name in rules.CONSOLE:
        return "console"
    if route.path == "/metrics":
        return "metrics"
    assert route.path in OPEN, "it has a rule, or no data"
    return "probes" if route.path in PROBES else "open"


def _over_http(
    clients: Mapping[str, httpx.AsyncClient],
    callers: Mapping[str, Caller],
    routes: list[tuple[str, Route]],
) -> Iterator[Case]:
    turns = itertools.cycle(OF_EACH_KIND)
    for port, http in clients.items():
        for kind, route in routes:
            for name in callers if kind in HTTP[port] else [next(turns)]:
                caller = callers[name]
                wanted = _wanted_of_route(port, kind, route, caller)
                call = every_port.over_http(http, route, caller.token)
                yield (port, f"{route.method} {route.path}", name), wanted, call


def _wanted_of_route(port: str, kind: str, route: Route, caller: Caller) -> set[Answer]:
    if kind not in HTTP[port]:
        # Below a prefix with a door a stranger does not learn what there is.
        return {Answer.ABSENT, Answer.STRANGER} if caller.of is not TENANTS else {Answer.ABSENT}
    if kind not in KNOWN:
        return {Answer.ADMITTED}
    wanted = every_port.expected(caller, _rule(kind, route), port, KNOWN[kind])
    if wanted is Answer.ADMITTED and caller.only and "/v1/" not in route.path:
        return {Answer.STRANGER}  # an agent's key is for its turns
    return {wanted}


def _rule(kind: str, route: Route) -> rules.Rule:
    if kind == "metrics":
        return rules.METRICS
    if kind == "api":
        return rules.rule_of_operation(route.name) or frozenset()
    return {"console": rules.CONSOLE, "gateway": rules.GATEWAY}[kind][route.name]


# -- the platform --------------------------------------------------------------------------------
async def _ports(data: Path) -> dict[str, str]:
    """Address of every port, by part and name; the planner is ready last."""
    files = {part: data / "run" / f"{part}.json" for part in ("planner", "rollout")}
    async with asyncio.timeout(HANGS_S):
        while not all(file.exists() for file in files.values()):
            await asyncio.sleep(0.1)
    return {
        f"{file.stem} {name}": address
        for file in (data / "run").glob("*.json")
        for name, address in json.loads(file.read_text()).items()
        if name != "pid"
    }


def _url(address: str) -> str:
    return address if "://" in address else f"http://{address}"


async def _credential(data: Path) -> str:
    """What the worker host registered for planners."""
    store = open_store(StoreSettings(), data_dir=data)
    try:
        [host] = await store.hosts()
    finally:
        await store.close()
    return host.credential


async def _session(gateway: httpx.AsyncClient) -> str:
    """The key of an agent's session of red."""
    headers = {"authorization": "Bearer red-submit"}
    answer = await gateway.post("/sessions", json={}, headers=headers)
    return str(answer.json()["api_key"])


async def _revoke(file: Path, channels: Mapping[str, grpc.aio.Channel]) -> None:
    """Take a token away, and wait until each service has seen it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(every_port.tenants(revoked=True)))
    fresh.replace(file)
    named = {every_call.path(method): method for method in every_call.methods()}
    for port, method in (
        ("reward grpc", named["/assay.v1.RewardService/ListPipelines"]),
        ("rollout grpc", named["/assay.v1.RolloutService/GetVersion"]),
    ):
        async with asyncio.timeout(HANGS_S):
            while True:
                answer = await every_port.over_grpc(
                    channels[port], method, "red-revoked", leave=False
                )
                if answer is Answer.STRANGER:
                    break
                await asyncio.sleep(0.1)
