"""What a client does, whatever it speaks: gRPC and HTTP, against one service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import certificates
from tests.client.driven import Driven

from assay.client import Backoff, Outcome, Request, SyncClient
from assay.client.http import AsyncHttpClient, HttpClient
from assay.client.http.bodies import error_of, joined
from assay.config.access import TenantSettings
from assay.core.errors import (
    AssayError,
    Conflict,
    DeadlinePassed,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Unauthenticated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.running import RunApi, Running, RunWorker

Any_ = SyncClient | HttpClient | Driven
KINDS_OF_CLIENT = ("grpc", "http", "http of an event loop")
Work = Callable[..., Any]
ONCE = Backoff(total_s=0)


def opened(kind: str, running: Running, **options: Any) -> Any_:
    given_ = {"backoff": ONCE, **options}
    if kind == "grpc":
        return SyncClient(running.addresses.grpc, **given_)
    if kind == "http":
        return HttpClient(running.addresses.http, **given_)
    return Driven(lambda: AsyncHttpClient(running.addresses.http, **given_))


@pytest.fixture(params=KINDS_OF_CLIENT)
async def client(request: pytest.FixtureRequest, api: Running) -> AsyncIterator[Any_]:
    made = await asyncio.to_thread(opened, request.param, api)
    yield made
    await asyncio.to_thread(made.close)


def requests_of(count: int, first: int = 0) -> list[Request]:
    return [
        Request(request_id=f"r{i}", group_id=f"g{i // 4}", response=f"answer {i}", reference={})
        for i in range(first, first + count)
    ]


async def test_a_batch_as_a_trainer_uses_it(client: Any_, run_worker: RunWorker) -> None:
    await run_worker()

    def use() -> None:
        task = client.register_task("task", pipeline="noop", batch_size=8)
        assert (task.created, task.settings["reward_pass"]) == (True, 1.0)
        assert not client.register_task("task", pipeline="noop", batch_size=8).created
        client.hint(task, size=8)
        batch = client.open_batch(task, size=8, group_size=4, deadline_s=600)
        assert client.open_batch(task, size=8, group_size=4, batch_id="named").batch_id == "named"
        assert batch.submit(requests_of(5)).accepted == 5
        submitted = batch.submit(requests_of(8))
        assert (submitted.accepted, submitted.duplicates) == (3, 5)
        results = {one.request_id: one for one in batch.results()}
        assert set(results) == {f"r{i}" for i in range(8)}
        assert all(one.outcome is Outcome.SCORED for one in results.values())
        assert (results["r0"].reward, results["r0"].resource_use.cpu_s) == (1.0, 0.25)
        assert [(one.name, one.value, one.weight) for one in results["r0"].components] == [
            ("style", 0.5, 2.0)
        ]
        assert results["r0"].stages[0].stage == "noop"
        assert (results["r0"].pipeline_version, results["r0"].rescorable) == ("v1", True)
        scores = batch.collect()
        assert {str(group.group_id) for group in scores.groups} == {"g0", "g1"}
        status = batch.status()
        assert (status.over, status.ended, status.outcomes[Outcome.SCORED]) == (True, 8, 8)
        assert [page.cursor for page in batch.pages(cursor=10)] == [10]

    await asyncio.to_thread(use)


@pytest.mark.parametrize("kind", KINDS_OF_CLIENT)
async def test_a_service_of_smaller_messages_gets_smaller_messages(
    kind: str, run_api: RunApi
) -> None:
    running = await run_api(requests_per_message_max=8)

    def use() -> None:
        with opened(kind, running) as client:
            batch = in_batch(client)
            assert batch.submit(requests_of(40)).accepted == 40
            bad = [*requests_of(60, first=40), replace(requests_of(1)[0], request_id="")]
            with pytest.raises(InvalidRequest, match=r"requests\[60\]"):
                batch.submit(bad)

    await asyncio.to_thread(use)


async def test_score_waits_for_its_results(client: Any_, run_worker: RunWorker) -> None:
    await run_worker()
    scores = await asyncio.to_thread(client.score, requests_of(3), pipeline="noop")
    assert scores.rewards == [1.0, 1.0, 1.0]


async def test_score_without_workers_ends_with_its_time(client: Any_) -> None:
    with pytest.raises(DeadlinePassed):
        await asyncio.to_thread(client.score, requests_of(1), pipeline="noop", timeout_s=0.5)


async def test_work_is_cancelled_by_request_and_by_batch(client: Any_) -> None:
    def use() -> None:
        batch = client.open_batch(client.register_task("task", pipeline="noop"), group_size=4)
        batch.submit(requests_of(8))
        assert batch.cancel_requests(["r0"], group_ids=["g1"]) == 5
        assert batch.cancel_requests(["r0"]) == 0
        assert batch.seal().submitted == 8
        assert batch.cancel() == 3
        assert batch.cancel() == 0
        assert {one.outcome for one in batch.results()} == {Outcome.CANCELLED}

    await asyncio.to_thread(use)


async def test_a_file_is_sent_ahead_and_named_by_its_hash(client: Any_) -> None:
    stored = await asyncio.to_thread(client.put_artifact, b"\x00\xff")
    again = await asyncio.to_thread(client.put_artifact, b"\x00\xff")
    assert (stored.sha256, stored.size) == (again.sha256, 2)
    assert stored.kept_until_ns <= again.kept_until_ns
    pipelines = await asyncio.to_thread(client.list_pipelines)
    assert {one.name: one.takes_artifacts for one in pipelines}["python_function"]


async def test_results_continue_after_the_service_was_away(
    api: Running, run_worker: RunWorker
) -> None:
    """Streams of both kinds take up the log where the reader stopped."""
    await run_worker()

    def use(kind: str, task: str) -> list[str]:
        with opened(kind, api) as one:
            batch = one.open_batch(one.register_task(task, pipeline="noop"), size=700)
            batch.submit(requests_of(700))
            first = next(iter(batch.pages()))
            rest = batch.results(cursor=first.cursor)
            return [result.request_id for result in [*first.results, *rest]]

    for at, kind in enumerate(KINDS_OF_CLIENT):
        found = await asyncio.to_thread(use, kind, f"task{at}")
        assert sorted(found) == sorted(f"r{i}" for i in range(700))


ERRORS: dict[str, Work] = {
    "an unknown pipeline": lambda c: c.register_task("a", pipeline="nothing"),
    "an unknown setting": lambda c: c.register_task("a", pipeline="noop", settings={"x": 1}),
    "a task of another content": lambda c: [
        c.register_task("a", pipeline="noop", batch_size=size) for size in (1, 2)
    ],
    "an invalid name": lambda c: c.register_task("a b", pipeline="noop"),
    "a name that is empty": lambda c: c.batch("").status(),
    "a name with a slash": lambda c: c.batch("../tasks").status(),
    "an unknown task": lambda c: c.open_batch("nothing"),
    "an unknown batch": lambda c: c.batch("nothing").status(),
    "an unknown batch's results": lambda c: c.batch("nothing").collect(),
    "an unknown batch's requests": lambda c: c.batch("nothing").submit(requests_of(1)),
    "a bad reference far behind": lambda c: in_batch(c).submit(
        [*requests_of(600), Request(request_id="x", response="x", reference={"bad": 1})]
    ),
    "a reference that is no object": lambda c: in_batch(c).submit(
        [Request(request_id="x", response="x", reference=b"[]")]
    ),
    "a reference that is no JSON": lambda c: in_batch(c).submit(
        [Request(request_id="x", response="x", reference={"x": float("nan")})]
    ),
    "the same id with other content": lambda c: [
        c.open_batch(c.register_task("a", pipeline="noop"), batch_id="b").submit(
            [Request(request_id="x", response=text, reference={})]
        )
        for text in "ab"
    ],
    "a sealed batch": lambda c: (
        c.open_batch(c.register_task("a", pipeline="noop"), batch_id="b").seal(),
        c.batch("b").submit(requests_of(1)),
    ),
    "nothing to cancel": lambda c: in_batch(c).cancel_requests(),
    "an empty file": lambda c: c.put_artifact(b""),
    "files where none are taken": lambda c: in_batch(c).submit(
        [Request(request_id="x", response="x", reference={}, artifacts={"a": b"x"})]
    ),
    "no requests": lambda c: c.score([], pipeline="noop"),
    "neither task nor pipeline": lambda c: c.score(requests_of(1)),
}
KINDS = {
    "an unknown pipeline": NotFound,
    "a task of another content": Conflict,
    "an unknown task": NotFound,
    "an unknown batch": NotFound,
    "the same id with other content": Conflict,
    "a sealed batch": FailedPrecondition,
}


def in_batch(client: Any_) -> Any:
    return client.open_batch(client.register_task("task", pipeline="noop"))


@pytest.mark.parametrize("case", ERRORS)
async def test_all_raise_the_same_error(case: str, run_api: RunApi) -> None:
    """Its class, its field and whether it says what is wrong, for each fault; each client is a
    tenant of its own, so that none meets what another has made."""
    tenants = {
        f"t{at}": TenantSettings(
            token_sha256=hashlib.sha256(kind.encode()).hexdigest(), requests_per_s_max=1e6
        )
        for at, kind in enumerate(KINDS_OF_CLIENT)
    }
    running = await run_api(tenants=tenants)

    def fault(kind: str) -> tuple[type[AssayError], str]:
        with opened(kind, running, token=kind) as client:
            with pytest.raises(AssayError) as caught:
                ERRORS[case](client)
            assert caught.value.message
            return caught.type, caught.value.field

    found = [await asyncio.to_thread(fault, kind) for kind in KINDS_OF_CLIENT]
    if case == "an empty file":  # over gRPC it is a stream without a part, and named so
        found = [(kind, "") for kind, _ in found]
    assert found == [found[0]] * len(found)
    assert found[0][0] is KINDS.get(case, found[0][0])


async def test_a_wrong_token_and_a_closed_port_are_errors_of_their_own(run_api: RunApi) -> None:
    digest = "0" * 64
    running = await run_api(tenants={"a": TenantSettings(token_sha256=digest)})

    def fault(kind: str) -> type[AssayError]:
        with opened(kind, running, token="wrong") as client, pytest.raises(AssayError) as caught:
            client.list_pipelines()
        return caught.type

    for kind in KINDS_OF_CLIENT:
        assert await asyncio.to_thread(fault, kind) is Unauthenticated
    client = HttpClient("http://127.0.0.1:1", backoff=ONCE)
    with pytest.raises(DependencyDown):
        client.list_pipelines()
    with pytest.raises(DependencyDown):
        await AsyncHttpClient("http://127.0.0.1:1", backoff=ONCE).list_pipelines()


@pytest.mark.parametrize("kind", KINDS_OF_CLIENT)
async def test_a_token_may_end_as_a_file_does_and_stand_in_no_address(
    kind: str, run_api: RunApi
) -> None:
    digest = hashlib.sha256(b"ours").hexdigest()
    running = await run_api(tenants={"a": TenantSettings(token_sha256=digest)})

    def check() -> None:
        with opened(kind, running, token="ours\n") as client:
            assert client.list_pipelines()
        with pytest.raises(InvalidRequest, match="token: not printable"):
            opened(kind, running, token="ou\nrs").list_pipelines()
        grpc = kind == "grpc"
        address = f"grpc://{running.addresses.grpc}" if grpc else running.addresses.http
        makes = {"grpc": SyncClient, "http": HttpClient}
        with pytest.raises(InvalidRequest, match="url: the token does not stand in it"):
            makes.get(kind, AsyncHttpClient)(address.replace("://", "://any:ours@"))
        with pytest.raises(InvalidRequest, match=r"url: .* is not"):
            makes.get(kind, AsyncHttpClient)(f"{address}/v1")

    await asyncio.to_thread(check)


@pytest.mark.parametrize("kind", KINDS_OF_CLIENT)
async def test_the_port_of_the_other_protocol_is_a_mistake_that_is_named(
    kind: str, api: Running
) -> None:
    """At once, however patient the client is: no waiting makes it another port."""
    patient = Backoff(first_s=1.0, total_s=600.0)
    other = (
        f"http://{api.addresses.grpc}" if kind != "grpc" else api.addresses.http[len("http://") :]
    )

    def fault() -> InvalidRequest:
        makes = {"grpc": SyncClient, "http": HttpClient}
        made = makes[kind](other, backoff=patient) if kind in makes else None
        client = made or Driven(lambda: AsyncHttpClient(other, backoff=patient))
        with client, pytest.raises(InvalidRequest) as caught:
            client.list_pipelines()
        return caught.value

    error = await asyncio.to_thread(fault)
    assert error.field == "url"
    assert "port" in error.message


@pytest.mark.parametrize("kind", KINDS_OF_CLIENT)
@pytest.mark.parametrize("tls", [True, False])
async def test_a_service_with_tls_and_a_client_without_is_a_mistake_that_is_named(
    kind: str, tls: bool, run_api: RunApi, tmp_path: Path
) -> None:
    """And the other way round, at once. A service with TLS says nothing to one that speaks none, as
    one that ends does not, so that is tried again; the error names what may be the reason."""
    own: dict[str, str] = {}
    if tls:
        certificate, key = certificates.certificate(tmp_path)
        own = {"tls_certificate": str(certificate), "tls_key": str(key)}
    running = await run_api(**own)
    address = running.addresses.http.partition("://")[2]
    url = {"grpc": running.addresses.grpc}.get(kind, address)
    scheme = {"grpc": ("grpcs", "grpc")}.get(kind, ("https", "http"))[tls]
    patient = ONCE if tls else Backoff(first_s=1.0, total_s=600.0)
    makes = {"grpc": SyncClient, "http": HttpClient}

    def fault() -> AssayError:
        named = f"{scheme}://{url}"
        made = makes[kind](named, backoff=patient) if kind in makes else None
        client = made or Driven(lambda: AsyncHttpClient(named, backoff=patient))
        with client, pytest.raises(DependencyDown if tls else InvalidRequest) as caught:
            client.list_pipelines()
        return caught.value

    error = await asyncio.wait_for(asyncio.to_thread(fault), 120)
    assert error.field == ("" if tls else "url")
    assert "TLS" in error.message


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "http://a:x", "http://a:70000", "http://a/path", "http://[a"]
)
def test_addresses_that_are_none_are_refused(url: str) -> None:
    for kind in (HttpClient, AsyncHttpClient):
        with pytest.raises(InvalidRequest, match="url"):
            kind(url)


def test_the_client_over_http_needs_neither_protobuf_nor_grpc() -> None:
    code = """
import sys
for name in ("grpc", "google", "google.protobuf", "assay.v1"):
    sys.modules[name] = None
import assay.client, assay.client.http
assert assay.client.Request and assay.client.http.HttpClient
try:
    assay.client.Client
except ImportError:
    print("absent")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "absent\n"


@given(st.integers(100, 599), st.binary(max_size=60), st.text(max_size=8))
def test_any_answer_of_a_proxy_is_a_typed_error(status: int, content: bytes, after: str) -> None:
    error = error_of(status, content, after)
    assert isinstance(error, AssayError)
    assert str(status) in error.message


@given(
    st.dictionaries(st.sampled_from(["reason", "message", "field", "retry_after_ms"]), st.none())
)
def test_an_error_with_parts_missing_is_a_typed_error(told: dict[str, None]) -> None:
    assert isinstance(error_of(500, json.dumps({"error": told}).encode()), AssayError)


@given(
    st.lists(st.sampled_from([b"{}", b'{"a":1}'])),
    st.dictionaries(st.text(), st.none() | st.text()),
)
def test_a_joined_body_is_one_object(parts: list[bytes], more: dict[str, str | None]) -> None:
    more.pop("requests", None)
    told = json.loads(joined(parts, **more))
    assert told.pop("requests") == [json.loads(part) for part in parts]
    assert told == {key: value for key, value in more.items() if value is not None}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(response=st.binary(max_size=30) | st.text(st.characters(), max_size=30))
def test_any_response_arrives_as_it_is(response: str | bytes) -> None:
    """The body is read by the service's own reader of bodies."""
    from assay.client.http.bodies import reward_requests
    from assay.core.tools.response import response_bytes
    from assay.reward.bodies.incoming import SubmitBody

    request = Request(request_id="x", response=response, reference={"a": "\ud800"})
    body = SubmitBody.model_validate_json(
        joined(reward_requests([request])).replace(b"\\ud800", b"?")
    )
    assert body.drafts()[0].response == response_bytes(response)
