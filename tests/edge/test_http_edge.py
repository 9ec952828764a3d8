"""The HTTP edge before an application that does as the test says, on a real server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import re
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.certificates import certificate
from tests.edge.jumps import Ahead, until
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.core.errors import AssayError, Saturated
from assay.edge import http_edge, http_listener
from assay.edge.access.rules import ANYONE
from assay.edge.auth import Tenants
from assay.edge.calls import CallGuard, current_call
from assay.edge.clock import Clock
from assay.edge.connections import places
from assay.edge.connections.answers import JOINED_BYTES_MAX, HeadWithBody
from assay.edge.connections.places import Connections
from assay.edge.connections.turns import PieceTurns
from assay.edge.door import Door, DoorLimits
from assay.edge.http_listener import HttpListener, TlsFiles
from assay.edge.status import STATUS
from assay.edge.tracing import NoTracer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

BYTES_MAX = 10_000
BODY_S_MAX = 30.0
PATHS = http_edge.Paths(
    prefix="/v1/",
    payload=re.compile("/v1/things/big"),
    stream=re.compile("/v1/things/stream"),
    rule_of={"DoThing": ANYONE}.get,
)


class Puppet:
    """An application with one operation, and what the edge reported of its calls."""

    def __init__(self) -> None:
        self.raises: BaseException | None = None
        self.release = asyncio.Event()
        self.release.set()
        self.entered = asyncio.Semaphore(0)
        self.calls: list[tuple[str, str]] = []
        self.app = FastAPI()
        guard = CallGuard(
            callers=Tenants({}),
            door=Door(
                DoorLimits(
                    calls_max=1, streams_max=1, bytes_max=10 * BYTES_MAX, body_s_max=BODY_S_MAX
                )
            ),
            clock=Clock(),
            tracer=NoTracer(),
            on_call=lambda method, reason, _s: self.calls.append((method, reason)),
        )
        http_edge.install(self.app, guard=guard, paths=PATHS, body_bytes_max=BYTES_MAX)

        @self.app.post("/v1/things/{thing}", name="DoThing")
        async def do_thing(thing: str, body: dict[str, int]) -> dict[str, str]:
            self.entered.release()
            await self.release.wait()
            if self.raises:
                raise self.raises
            return {"thing": thing, "tenant": current_call().tenant.tenant_id}

        @self.app.get("/open")
        async def outside() -> str:
            return "open"


@pytest.fixture
def puppet() -> Puppet:
    """Does nothing by default."""
    return Puppet()


@asynccontextmanager
async def _listening(
    puppet: Puppet, tls: TlsFiles | None = None, *, connections: Connections | None = None
) -> AsyncIterator[httpx.URL]:
    connections = connections or Connections(
        connections_max=20, per_peer_max=8, body_s_max=BODY_S_MAX
    )
    listener = HttpListener(
        puppet.app, setting="test.http_port", connections=connections, drain_s=1.0, tls=tls
    )
    url = listener.bind("127.0.0.1", 0)
    await listener.serve()
    yield httpx.URL(url)
    listener.stop_accepting()
    await listener.stopped()


@pytest.fixture
async def http(puppet: Puppet) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a listening server."""
    async with _listening(puppet) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        yield http


@pytest.mark.parametrize("kind", STATUS)
async def test_each_error_has_its_status_and_body(
    puppet: Puppet, http: httpx.AsyncClient, kind: type[AssayError]
) -> None:
    puppet.raises = kind("why", field="größe", retry_after_s=0.5)
    answer = await http.post("/v1/things/a", json={})
    assert answer.status_code == STATUS[kind].http
    assert answer.json()["error"] == {
        "reason": kind.reason,
        "field": "größe",
        "retry_after_ms": 500,
        "message": "why",
    }
    assert answer.headers["retry-after"] == "1"
    assert puppet.calls == [("DoThing", kind.reason)]


async def test_a_bug_is_a_traceback_in_the_log_and_nothing_on_the_wire(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    puppet.raises = RuntimeError("the password is swordfish")
    with capture_logs() as logs:
        answer = await http.post("/v1/things/a", json={}, headers={"x-request-id": "c0ffee"})
    assert answer.status_code == 500
    assert "swordfish" not in answer.text
    assert answer.json()["error"]["reason"] == "internal"
    assert answer.headers["x-request-id"] == "c0ffee"
    assert [line["event"] for line in logs if "exc_info" in line] == ["call_failed"]
    puppet.raises = None
    assert (await http.post("/v1/things/a", json={})).json() == {"thing": "a", "tenant": "default"}


async def test_a_call_over_the_limit_is_told_when_to_come_back(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    puppet.release.clear()
    held = asyncio.ensure_future(http.post("/v1/things/a", json={}))
    await puppet.entered.acquire()
    refused = await http.post("/v1/things/a", json={})
    assert refused.status_code == STATUS[Saturated].http
    assert refused.json()["error"]["retry_after_ms"] > 0
    assert (await http.get("/open")).status_code == 200, "what is not under the prefix is not held"
    puppet.release.set()
    assert (await held).status_code == 200


@pytest.mark.parametrize(("size", "fits"), [(BYTES_MAX, True), (BYTES_MAX + 1, False)])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_is_bounded_whether_it_says_its_size_or_not(
    http: httpx.AsyncClient, size: int, fits: bool, chunked: bool
) -> None:
    body = b'{"a": 1' + b" " * (size - 8) + b"}"
    assert len(body) == size

    async def parts() -> AsyncIterator[bytes]:
        for first in range(0, size, 1_000):
            yield body[first : first + 1_000]

    headers = {"content-type": "application/json"}
    content = parts() if chunked else body
    answer = await http.post("/v1/things/a", content=content, headers=headers)
    assert answer.status_code == (200 if fits else 413)


@pytest.mark.parametrize(
    ("body", "field"), [(b'{"a": "x"}', "a"), (b'{"a": ', "body"), (b"\xff", "body"), (b"", "body")]
)
async def test_what_the_framework_refuses_is_in_our_form(
    http: httpx.AsyncClient, body: bytes, field: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.post("/v1/things/a", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["reason"] == "invalid_request"
    assert answer.json()["error"]["field"] == field


async def test_methods_are_counted_by_operation_never_by_path(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    for path in ("/v1/things/a", "/v1/things/b", "/v1/nothing"):
        await http.post(path, json={})
    assert puppet.calls == [("DoThing", "ok"), ("DoThing", "ok"), ("unknown", "ok")]


async def test_what_a_caller_forwards_about_itself_changes_nothing(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    seen: list[tuple[object, ...]] = []

    @puppet.app.get("/whom")
    async def whom(request: Request) -> None:
        seen.append((request.client and request.client.host, request.url.scheme))

    forged = {
        "forwarded": "for=6.6.6.6;proto=https;by=6.6.6.6",
        "x-forwarded-for": "6.6.6.6, 7.7.7.7",
        "x-forwarded-proto": "https",
        "x-real-ip": "6.6.6.6",
    }
    for headers in ({}, forged):
        assert (await http.get("/whom", headers=headers)).status_code == 200
    assert seen == [("127.0.0.1", "http")] * 2


async def _told(
    where: httpx.AsyncClient | httpx.URL, *parts: bytes, context: ssl.SSLContext | None = None
) -> bytes:
    """Send parts over a connection of its own; return all that comes until it is closed."""
    url = where if isinstance(where, httpx.URL) else where.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


BEGUN = b"POST /v1/things/a HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n["


class Slow:
    """A connection that sends little by little, while time passes as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead: Ahead) -> None:
        self.ahead = ahead
        self._arrived = 0
        receive = http_listener.Bounded.data_received

        def counted(protocol: http_listener.Bounded, data: bytes) -> None:
            self._arrived += len(data)
            receive(protocol, data)

        monkeypatch.setattr(http_listener.Bounded, "data_received", counted)

    async def told(
        self, http: httpx.AsyncClient, begun: bytes, piece: bytes, over_s: float
    ) -> bytes:
        """Begin, send ten pieces of which each arrives, up to shortly before `over_s`; return what
        comes until the connection is closed, which is when that time is over."""
        reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
        sent = self._arrived
        for part in (begun, *[piece] * 10):
            writer.write(part)
            sent += len(part)
            await until(lambda sent=sent: self._arrived >= sent or reader.at_eof())  # type: ignore[misc]
            assert not reader.at_eof(), "it was cut before its time"
            await _handled()
            self.ahead.jump(0.99 * over_s / 11)
        self.ahead.jump(0.02 * over_s)
        reading = asyncio.create_task(reader.read())
        try:
            await until(reading.done)
            return reading.result()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def _handled() -> None:
    """Let the application see what has arrived, and begin to wait for more."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.fixture
async def slow(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Slow]:
    """After the server has started; time goes on before it stops."""
    with Ahead() as ahead:
        yield Slow(monkeypatch, ahead)


async def test_a_slow_body_is_given_up_and_its_connection_closed(
    puppet: Puppet, http: httpx.AsyncClient, slow: Slow
) -> None:
    answer = await slow.told(http, BEGUN, b"1", BODY_S_MAX)
    assert answer.startswith(b"HTTP/1.1 504"), answer
    assert b"deadline_passed" in answer
    assert puppet.calls == [("POST /v1/things/a", "deadline_passed")]
    assert (await http.post("/v1/things/a", json={})).status_code == 200


async def test_a_slow_body_of_an_open_path_is_closed_too(
    http: httpx.AsyncClient, slow: Slow
) -> None:
    begun = BEGUN.replace(b"POST /v1/things/a", b"GET /open")
    answer = await slow.told(http, begun, b"1", BODY_S_MAX + http_listener.BODY_SLACK_S)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_headers_that_do_not_end_are_cut_off(http: httpx.AsyncClient, slow: Slow) -> None:
    begun = b"GET /open HTTP/1.1\r\nx: "
    assert await slow.told(http, begun, b"a", http_listener.HEAD_S_MAX) == b""
    assert await slow.told(http, b"", b"", http_listener.HEAD_S_MAX) == b""
    assert await _told(http, begun + b"a" * 10**6) == b""
    assert (await http.get("/open")).status_code == 200


async def test_connections_of_one_peer_are_bounded(http: httpx.AsyncClient) -> None:
    held = [await asyncio.open_connection(http.base_url.host, http.base_url.port) for _ in range(8)]
    assert await _told(http, b"GET /open HTTP/1.1\r\nhost: a\r\n\r\n") == b""
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    async with asyncio.timeout(60):
        while True:  # the server learns of their ends in its own time
            with contextlib.suppress(httpx.HTTPError):
                assert (await http.get("/open")).status_code == 200
                break


async def test_for_a_refused_connection_nothing_is_made_and_those_held_are_still_counted(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    make = HttpToolsProtocol.connection_made

    def recorded(protocol: HttpToolsProtocol, transport: asyncio.Transport) -> None:
        made.append(protocol)
        make(protocol, transport)

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", recorded)
    held = [await asyncio.open_connection(http.base_url.host, http.base_url.port) for _ in range(8)]
    for _ in range(50):  # each waits for its end, so the end of the one before it is known
        assert await _told(http, b"GET /open HTTP/1.1\r\nhost: a\r\n\r\n") == b""
    assert len(made) == 8, "no protocol is set up for a connection over the limit"
    for _, writer in held:
        writer.close()
        await writer.wait_closed()


ASKED = b"GET /open HTTP/1.1\r\nhost: a\r\n\r\n"


async def _kept(http: httpx.AsyncClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has had one answer and waits for its next call."""
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    writer.write(ASKED)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    assert length is not None
    await reader.readexactly(int(length[1]))
    return reader, writer


async def test_connections_without_a_call_give_way_to_new_ones_the_oldest_first(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    async with asyncio.timeout(60):
        puppet.release.clear()
        busy = asyncio.ensure_future(http.post("/v1/things/a", json={}))
        await puppet.entered.acquire()
        kept = [await _kept(http) for _ in range(7)]
        used = kept.pop(0)  # asked again, it is the one that has rested for the least time
        used[1].write(ASKED)
        await used[0].readuntil(b"\r\n\r\n")
        more = [await _kept(http) for _ in range(6)]
        for reader, _ in kept:
            assert await reader.read() == b"", "closed in favour of a new one"
        for _, writer in (used, *more):
            writer.write(ASKED)
        for reader, _ in more:
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        puppet.release.set()
        assert (await busy).status_code == 200, "a call gives way to none"
        for _, writer in (used, *kept, *more):
            writer.close()


def test_a_connection_is_kept_for_longer_than_its_client_keeps_it() -> None:
    """Otherwise calls are sent on connections that are being closed."""
    clients = httpx.Limits().keepalive_expiry or 0.0
    assert http_listener.KEEP_ALIVE_S > 10 * clients > 0


@pytest.mark.parametrize("framing", ["content-length: 100", "transfer-encoding: chunked"])
async def test_a_body_that_did_not_come_whole_is_not_acted_upon(
    puppet: Puppet, http: httpx.AsyncClient, framing: str
) -> None:
    """Even one that could be read."""
    head = f"POST /v1/things/a HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{framing}"
    body = '{"a": 1}' if "length" in framing else '8\r\n{"a": 1}\r\n'
    _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    writer.write(f"{head}\r\n\r\n{body}".encode())
    await writer.drain()
    await _handled()
    writer.close()
    await until(lambda: bool(puppet.calls))
    assert puppet.calls == [("POST /v1/things/a", "invalid_request")]
    assert puppet.entered.locked(), "it was not called"


async def test_a_saturated_caller_is_answered_without_its_body(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    puppet.release.clear()
    held = asyncio.ensure_future(http.post("/v1/things/a", json={}))
    await puppet.entered.acquire()
    answer = await _told(http, BEGUN)
    assert answer.startswith(b"HTTP/1.1 429"), answer
    assert b"connection: close" in answer.lower()
    puppet.release.set()
    assert (await held).status_code == 200


async def test_a_port_in_use_and_a_listener_that_ends_name_their_setting(
    puppet: Puppet, tmp_path: Path
) -> None:
    def listener(tls: TlsFiles | None = None) -> HttpListener:
        connections = Connections(connections_max=1, per_peer_max=1, body_s_max=1.0)
        return HttpListener(
            puppet.app, setting="a.port", connections=connections, drain_s=1.0, tls=tls
        )

    first = listener(TlsFiles(certificate=tmp_path / "none.pem", key=tmp_path / "none.pem"))
    url = first.bind("::1", 0)
    assert url.startswith("https://[::1]:")
    with pytest.raises(OSError, match=r"a\.port: cannot listen on \[::1\]:\d+: Address"):
        listener().bind("[::1]", int(url.rpartition(":")[2]))
    with pytest.raises(OSError, match=r"a\.port: the listener ended"):
        await first.serve()
    await first.stopped()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_answer_waits_for_no_acknowledgement_of_its_headers(
    puppet: Puppet, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """A body that comes later is a segment of its own; without TCP_NODELAY it takes 40 ms."""
    at_once: list[int] = []
    connections = Connections(connections_max=9, per_peer_max=9, body_s_max=1.0)
    base: Any = http_listener.bounded_protocol(connections)

    class Recorded(base):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            accepted = transport.get_extra_info("socket")
            at_once.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    monkeypatch.setattr(http_listener, "bounded_protocol", lambda _connections: Recorded)
    listener = HttpListener(puppet.app, setting="a.port", connections=connections, drain_s=1.0)
    url = listener.bind(host, 0)
    await listener.serve()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await client.get("/open")
    listener.stop_accepting()
    await listener.stopped()
    assert at_once == [1]


class Written(asyncio.Transport):
    """A transport that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)


def test_a_head_and_the_body_that_follows_it_are_one_write() -> None:
    answer, large = b"HTTP/1.1 200 OK\r\n\r\n", b"b" * (JOINED_BYTES_MAX + 1)

    async def written(*parts: bytes, end: str = "") -> list[bytes]:
        sink = Written()
        transport = HeadWithBody(sink, asyncio.get_running_loop(), goes_on=lambda: False)
        for part in parts:
            transport.write(part)
        if end:
            getattr(transport, end)()
        await asyncio.sleep(0)
        assert sink.ended == {"": "", "close": "closed", "abort": "aborted"}[end]
        return sink.writes

    run = asyncio.run
    assert run(written(answer, b"body", b"more")) == [answer + b"body", b"more"]
    assert run(written(answer, b"")) == [answer]
    assert run(written(answer)) == [answer]
    assert run(written(answer, end="close")) == [answer]
    assert run(written(answer, end="abort")) == []
    assert run(written(answer, large)) == [answer, large]
    assert run(written(answer, b"a", answer, b"b")) == [answer + b"a", answer + b"b"]


@pytest.mark.parametrize("sent", [0, 1, 2])
async def test_nothing_is_written_to_a_connection_that_is_closed(sent: int) -> None:
    sink = Written()
    transport = HeadWithBody(sink, asyncio.get_running_loop(), goes_on=lambda: False)
    parts = (b"HTTP/1.1 200 OK\r\n\r\n", b"body", b"more")
    for part in parts[:sent]:
        transport.write(part)
    before = list(sink.writes)
    sink.close()
    for part in parts[sent:]:
        transport.write(part)
    await asyncio.sleep(0)
    assert sink.writes == before


@pytest.mark.parametrize("body", [b"", b"text", b"large" * 100_000])
async def test_answers_are_whole_whatever_the_size_of_their_body(
    puppet: Puppet, http: httpx.AsyncClient, body: bytes
) -> None:
    @puppet.app.get("/body")
    async def answered() -> Response:
        return Response(body)

    for _ in range(3):
        assert (await http.get("/body")).content == body


async def test_a_head_does_not_wait_for_a_body_that_comes_later(
    puppet: Puppet, http: httpx.AsyncClient
) -> None:
    more = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        await more.wait()
        yield b"HTTP/1.1 is no head here"
        yield b", is it"

    @puppet.app.get("/parts")
    async def answered() -> StreamingResponse:
        return StreamingResponse(parts())

    async with asyncio.timeout(60), http.stream("GET", "/parts") as answer:
        assert answer.status_code == 200  # the head is here, and no body yet
        more.set()
        assert await answer.aread() == b"HTTP/1.1 is no head here, is it"


async def test_a_listener_that_is_stopped_does_not_wait_for_its_tick(
    puppet: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "TICK_S", 3_600.0)
    connections = Connections(connections_max=1, per_peer_max=1, body_s_max=1.0)
    listener = HttpListener(puppet.app, setting="a.port", connections=connections, drain_s=1.0)
    url = listener.bind("127.0.0.1", 0)
    await listener.serve()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        assert "date" in (await client.get("/open")).headers
    listener.stop_accepting()
    async with asyncio.timeout(60):
        await listener.stopped()


async def test_a_call_that_a_stop_cuts_short_is_answered_to_be_made_again(puppet: Puppet) -> None:
    """Not by 500: clients that try only some statuses again would take the work for done."""
    connections = Connections(connections_max=9, per_peer_max=9, body_s_max=BODY_S_MAX)
    listener = HttpListener(puppet.app, setting="a.port", connections=connections, drain_s=1.0)
    url = listener.bind("127.0.0.1", 0)
    await listener.serve()
    puppet.release.clear()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        calling = asyncio.create_task(client.post("/v1/things/a", json={}))
        await puppet.entered.acquire()
        listener.stop_accepting()
        await listener.stopped()
        answer = await calling
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == http_edge.CUT_SHORT
    assert answer.headers["retry-after"] == "1"
    assert puppet.calls == [("DoThing", "cancelled")]


async def test_a_page_that_a_stop_cuts_short_is_answered_likewise(puppet: Puppet) -> None:
    connections = Connections(connections_max=9, per_peer_max=9, body_s_max=BODY_S_MAX)
    listener = HttpListener(puppet.app, setting="a.port", connections=connections, drain_s=1.0)

    @puppet.app.get("/slow")
    async def slow() -> None:
        puppet.entered.release()
        await asyncio.Event().wait()

    url = listener.bind("127.0.0.1", 0)
    await listener.serve()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        calling = asyncio.create_task(client.get("/slow"))
        await puppet.entered.acquire()
        listener.stop_accepting()
        await listener.stopped()
        answer = await calling
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == http_edge.CUT_SHORT


async def test_a_call_whose_caller_is_gone_ends_without_a_word_in_the_log(
    puppet: Puppet, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """As `while_connected` ends it; a traceback for each would fill the log."""
    puppet.raises = asyncio.CancelledError()
    with capture_logs() as logs:
        await http.post("/v1/things/a", json={})
    assert logs == []
    assert caplog.records == []


async def test_an_answer_that_breaks_off_says_nothing_of_uvicorns(
    puppet: Puppet, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def parts() -> AsyncIterator[str]:
        yield "a part"
        raise asyncio.CancelledError

    @puppet.app.get("/broken")
    async def broken() -> StreamingResponse:
        return StreamingResponse(parts())

    with pytest.raises(httpx.RemoteProtocolError):
        await http.get("/broken")
    assert caplog.records == []


async def test_a_bug_outside_of_the_guard_is_logged_once_and_answered_by_500(
    puppet: Puppet, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    @puppet.app.get("/bug")
    async def bug() -> None:
        raise KeyError("a bug")

    with capture_logs() as logs:
        assert (await http.get("/bug")).status_code == 500
    assert [line["event"] for line in logs] == ["http_call_failed"]
    assert caplog.records == []


HEAD = b"POST /v1/things/a HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
FLOODS = {
    "headers": HEAD + b"a:b\r\n" * 40_000,
    "tiny chunks": CHUNKED + b"1\r\n \r\n" * 40_000,
    "words beside chunks": CHUNKED + (b"1;" + b"e" * 4_000 + b"\r\n \r\n") * 1_000,
    "trailers": CHUNKED + b"0\r\n" + b"a:b\r\n" * 40_000,
    "requests that wait for no answer": b"GET /open HTTP/1.1\r\nhost: a\r\n\r\n" * 6_000,
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_what_costs_more_to_parse_than_to_send_ends_its_connection(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    parsed = 0
    base = HttpToolsProtocol

    def counted(name: str) -> Callable[..., None]:
        step: Callable[..., None] = getattr(base, name)

        def count(*args: object) -> None:
            nonlocal parsed
            parsed += 1
            step(*args)

        return count

    for name in ("on_header", "on_body", "on_headers_complete"):
        monkeypatch.setattr(base, name, counted(name))
    answer = await _told(http, FLOODS[kind])
    assert answer == b"" or b"HTTP/1.1 400" in answer
    assert parsed <= 2 * http_listener.HEADERS_MAX
    assert (await http.get("/open")).status_code == 200


@pytest.mark.parametrize("flood", [FLOODS["tiny chunks"], b"\0\r\n\r\n", b"GET /" + b"a" * 100_000])
async def test_connections_that_are_refused_are_closed_in_turn_and_others_are_served(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, flood: bytes
) -> None:
    """The next turn is `REFUSED_S_MAX` away; the edge may give up a body before it comes."""
    waits: list[float] = []
    turn = Connections.wait_s

    def recorded(connections: Connections, now_s: float) -> float:
        waits.append(turn(connections, now_s))
        return waits[-1]

    monkeypatch.setattr(Connections, "wait_s", recorded)
    monkeypatch.setattr(places, "REFUSED_PER_S", 1e-3)
    for _ in range(places.REFUSED_AT_ONCE):
        await _told(http, flood)
    kept = asyncio.create_task(_told(http, flood))
    for _ in range(20):
        assert (await http.get("/open")).status_code == 200
    async with asyncio.timeout(60):
        while len(waits) <= places.REFUSED_AT_ONCE:
            await asyncio.sleep(0.01)
    assert waits[:-1] == [0.0] * places.REFUSED_AT_ONCE
    assert waits[-1] == places.REFUSED_S_MAX
    kept.cancel()


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=200),
    st.floats(0, 1e6),
)
def test_turns_to_close_are_so_many_per_second_and_none_is_far_off(
    steps: list[float], now_s: float
) -> None:
    connections = Connections(connections_max=1, per_peer_max=1, body_s_max=1.0)
    begun_s, soon = now_s, 0
    for step_s in steps:
        now_s += step_s
        wait_s = connections.wait_s(now_s)
        assert 0 <= wait_s <= places.REFUSED_S_MAX
        soon += wait_s < places.REFUSED_S_MAX
        closed = places.REFUSED_AT_ONCE + places.REFUSED_PER_S * (now_s + wait_s - begun_s)
        assert soon <= closed + 1e-3


async def test_small_chunks_and_a_few_requests_ahead_are_served(http: httpx.AsyncClient) -> None:
    async def letters() -> AsyncIterator[bytes]:
        for letter in b'{"a": 1' + b" " * 900 + b"}":
            yield bytes([letter])

    headers = {"content-type": "application/json", "expect": "100-continue"}
    answer = await http.post("/v1/things/a", content=letters(), headers=headers)
    assert answer.json() == {"thing": "a", "tenant": "default"}
    ahead = b"GET /open HTTP/1.1\r\nhost: a\r\n\r\n" * (http_listener.PIPELINED_MAX // 2)
    last = b"GET /open HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    answers = await _told(http, ahead + last)
    assert answers.count(b"HTTP/1.1 200") == http_listener.PIPELINED_MAX // 2 + 1


def _post(randomness: random.Random, thing: int) -> bytes:
    """A call with a body of a declared length, or in chunks, some with words beside them."""
    head = f"POST /v1/things/{thing} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    head += f"x-filling: {'f' * randomness.choice((100, 2_000))}\r\n"
    body = json.dumps({"a": 1}) + " " * randomness.choice((0, 10, BYTES_MAX // 2))
    if randomness.random() < 0.5:
        return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
    chunks = ""
    while body:
        part = body[: randomness.randint(1, 300)]
        words = randomness.choice(("", ";a=b", ";" + "w" * 40))
        chunks += f"{len(part):x}{words}\r\n{part}\r\n"
        body = body[len(part) :]
    return f"{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n".encode()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("seed", range(6))
async def test_requests_are_answered_in_turn_however_they_are_cut(
    puppet: Puppet, tmp_path: Path, seed: int, *, secure: bool
) -> None:
    """Also forty that were sent before the first is answered."""
    randomness = random.Random(seed)
    sent = b"".join(_post(randomness, thing) for thing in range(40))
    sent += b"GET /open HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    cuts = sorted(randomness.randrange(len(sent)) for _ in range(randomness.choice((0, 5, 200))))
    parts = [sent[a:b] for a, b in itertools.pairwise([0, *cuts, len(sent)])]
    files, context = TlsFiles(), None
    if secure:
        authority, key = certificate(tmp_path)
        files = TlsFiles(certificate=authority, key=key)
        context = ssl.create_default_context(cafile=authority)
    async with _listening(puppet, files) as url:
        answers = await _told(url, *parts, context=context)
    assert [int(found) for found in re.findall(rb'"thing":"(\d+)"', answers)] == list(range(40))
    assert answers.count(b"HTTP/1.1 200") == 41


async def test_a_connection_whose_next_request_had_come_before_does_not_rest(
    puppet: Puppet,
) -> None:
    """One that rests gives way to others: its call would be cut."""
    connections = Connections(connections_max=20, per_peer_max=8, body_s_max=BODY_S_MAX)
    async with _listening(puppet, connections=connections) as url:
        _, writer = await asyncio.open_connection(url.host, url.port)
        filling = b"x-filling: " + b"f" * 2_000
        body = b'{"a": 1}'
        first = b"GET /open HTTP/1.1\r\nhost: a\r\n" + filling + b"\r\n\r\n"
        head = b"content-length: %d\r\n" % len(body)
        puppet.release.clear()
        writer.write(first + HEAD + head + filling + b"\r\n\r\n" + body)
        await puppet.entered.acquire()
        assert not any(connections.idle.values())
        puppet.release.set()
        await until(lambda: any(connections.idle.values()))
        writer.close()


async def test_a_body_of_a_declared_length_is_parsed_at_once(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are for what costs more to parse than to send."""
    sizes: list[int] = []
    feed = HttpToolsProtocol.data_received

    def counted(protocol: HttpToolsProtocol, data: bytes) -> None:
        sizes.append(len(data))
        feed(protocol, data)

    monkeypatch.setattr(HttpToolsProtocol, "data_received", counted)
    body = b'{"a": 1}' + b" " * 9_000
    answer = await http.post(
        "/v1/things/a", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200
    assert max(sizes) > len(body) - http_listener.PIECE_BYTES


async def test_no_chunk_of_a_call_that_is_refused_is_parsed(
    puppet: Puppet, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But those in the piece that ends its headers."""
    parsed = 0
    receive = http_listener.Bounded.on_body

    def counted(protocol: http_listener.Bounded, body: bytes) -> None:
        nonlocal parsed
        parsed += 1
        receive(protocol, body)

    monkeypatch.setattr(http_listener.Bounded, "on_body", counted)
    puppet.release.clear()
    first = asyncio.create_task(http.post("/v1/things/a", json={}))
    await puppet.entered.acquire()
    chunk = b"11\r\n" + b" " * 17 + b"\r\n"
    parsed = 0
    answer = await _told(http, CHUNKED + chunk * 2_000)
    puppet.release.set()
    await first
    assert answer.startswith(b"HTTP/1.1 429"), answer
    assert parsed <= http_listener.PIECE_BYTES // len(chunk)


async def test_acts_that_wait_are_called_one_per_turn_of_the_loop() -> None:
    turns, called, seen = PieceTurns(), [], []

    def act(number: int) -> None:
        called.append(number)
        if number == 2:
            raise ValueError("the others go on")
        if number == 3:
            turns.wait(lambda: act(9))

    loop, faults = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _loop, context: faults.append(context["exception"]))
    for number in range(5):
        turns.wait(lambda number=number: act(number))  # type: ignore[misc]
    while len(called) < 6:
        seen.append(len(called))
        await asyncio.sleep(0)
    assert called == [0, 1, 2, 3, 4, 9]
    assert max(b - a for a, b in itertools.pairwise(seen)) == 1
    assert [str(fault) for fault in faults] == ["the others go on"]
