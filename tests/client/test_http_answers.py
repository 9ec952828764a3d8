"""What the client of an event loop makes of answers: of a service, of a proxy, of anything."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.client import Backoff
from assay.client.http.calls import Call
from assay.client.http.exchange import AnswerReader, HttpConnection
from assay.client.http.streams import AsyncTransport, lines
from assay.client.http.transport import Transport
from assay.core.errors import AssayError, DependencyDown, TooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GET = Call(method="GET", path="/v1/pipelines")
WAIT_S = 60.0
FEW = settings(max_examples=60, deadline=None)
HEAD = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(serve: Serve) -> AsyncIterator[tuple[AsyncTransport, list[int]]]:
    """A client of such a server, and the connections that the server saw."""
    seen: list[int] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(len(seen))
        try:
            await serve(reader, writer)
        except OSError:
            pass  # the client has gone
        finally:
            writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = AsyncTransport(
            f"http://127.0.0.1:{port}",
            token="",
            tls=None,
            backoff=Backoff(total_s=0),
            timeout_s=WAIT_S,
        )
        try:
            async with asyncio.timeout(WAIT_S):
                yield transport, seen
        finally:
            await transport.close()


def says(content: bytes) -> Serve:
    """To one call; then the connection ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(content)
        await writer.drain()

    return serve


def in_chunks(parts: list[bytes]) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def of_length(parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    return HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def to_the_end(parts: list[bytes]) -> bytes:
    return HEAD + b"\r\n" + b"".join(parts)


@FEW
@given(
    parts=st.lists(st.binary(max_size=40), max_size=5),
    form=st.sampled_from([in_chunks, of_length, to_the_end]),
)
def test_a_body_of_any_form_arrives_as_it_is(
    parts: list[bytes], form: Callable[[list[bytes]], bytes]
) -> None:
    async def use() -> bytes:
        async with answering(says(form(parts))) as (transport, _):
            return await transport.call(GET)

    assert asyncio.run(use()) == b"".join(parts)


async def in_lines(transport: AsyncTransport) -> None:
    async with transport.answer(GET, timeout_s=WAIT_S) as answer:
        async for _line in lines(answer):
            pass


@FEW
@given(data=st.data(), parts=st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4))
def test_an_answer_that_broke_off_is_none(data: st.DataObject, parts: list[bytes]) -> None:
    """However much of it has come, and as lines too."""
    whole = data.draw(st.sampled_from([in_chunks, of_length]))(parts)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]

    async def use() -> None:
        async with answering(says(part)) as (transport, _):
            with pytest.raises(DependencyDown):
                await transport.call(GET)
            with pytest.raises(DependencyDown):
                await in_lines(transport)

    asyncio.run(use())


PIECES = (
    *(HEAD, b"HTTP/1.1 500 No\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n", b"\xff", b":"),
    *(b"Content-Length: -1\r\n", b"Content-Length: 3\r\n", b"content-length: 4\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"+3\r\nabc\r\n"),
    *(b"3\r\nabc\r\n", b"3\r\nabcd\r\n", b"0\r\n\r\n", b"ffffffffffffffffff\r\n", b"{}"),
)


@FEW
@given(st.binary(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join))
def test_any_bytes_are_an_answer_or_a_typed_error(content: bytes) -> None:
    async def use() -> None:
        async with answering(says(content)) as (transport, _):
            try:
                found = await transport.call(GET)
            except AssayError:
                return
            assert isinstance(found, bytes)

    asyncio.run(use())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n", "a line of more than"),
        (HEAD + b"X: y\r\n" * 20_000 + b"\r\n", "headers of more than"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 200 + b"\r\n",
            "more than 128 trailers",
        ),
    ],
    ids=["a long line", "many headers", "many trailers"],
)
async def test_what_comes_before_and_after_a_body_is_bounded(content: bytes, said: str) -> None:
    async with answering(says(content)) as (transport, _):
        with pytest.raises(DependencyDown, match=said):
            await transport.call(GET)


async def test_calls_share_a_connection_until_the_service_ends_it() -> None:
    """The call after that is not sent into the ended one: it succeeds without being repeated."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(of_length([b"{}"]))
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        ended.set()

    async with answering(serve) as (transport, seen):
        for _ in range(2):
            for _ in range(3):
                assert await transport.call(GET) == b"{}"
            await ended.wait()
            ended.clear()
        assert len(seen) == 2


async def test_a_call_that_is_cancelled_ends_its_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        try:
            await reader.read()
        finally:
            gone.set()

    async with answering(serve) as (transport, _):
        calling = asyncio.ensure_future(transport.call(GET, waits=True))
        await asked.wait()
        calling.cancel()
        await gone.wait()
        assert calling.cancelled()


async def test_a_refusal_is_read_while_the_body_is_still_being_sent() -> None:
    """The service reads no more of it, and the connection stays open."""
    told = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await told.wait()

    async with answering(serve) as (transport, _):
        with pytest.raises(TooLarge):
            await transport.call(Call(method="PUT", path="/v1/x", body=b"x" * 32 * 1024**2))
        told.set()


async def test_a_connection_that_is_reset_while_it_rests_writes_no_error_to_the_terminal() -> None:
    reader = AnswerReader()
    connection = HttpConnection(reader, cast("asyncio.StreamWriter", None))
    connection.rest()
    await asyncio.sleep(0)
    reader.set_exception(ConnectionResetError("reset by the peer"))
    await asyncio.sleep(0.01)
    assert not await connection.wake()
    del connection, reader
    gc.collect()


async def _refuse_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer before the body is read, and reset the connection, as some proxies do."""
    await reader.readuntil(b"\r\n\r\n")
    told = b'{"error": {"reason": "too_large", "message": "a proxy takes less", "field": "body"}}'
    writer.write(b"HTTP/1.1 413 No\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))
    await writer.drain()
    writer.transport.abort()


LARGE = Call(method="POST", path="/v1/score", body=b"x" * 12 * 1024**2)
CALLS = 40


async def test_a_call_that_is_refused_and_cut_off_while_it_is_sent_ends_with_its_refusal() -> None:
    async with answering(_refuse_early) as (transport, seen):
        for _ in range(CALLS):
            with pytest.raises(TooLarge, match="a proxy takes less"):
                await transport.call(LARGE)
    assert len(seen) == CALLS


async def test_so_does_one_of_a_thread() -> None:
    async with answering(_refuse_early) as (asynchronous, _):
        port = asynchronous._port
        nothing = Backoff(total_s=0)
        thread = Transport(
            f"http://127.0.0.1:{port}", token="", tls=None, backoff=nothing, timeout_s=WAIT_S
        )
        for _ in range(CALLS):
            with pytest.raises(TooLarge, match="a proxy takes less"):
                await asyncio.to_thread(thread.call, LARGE)
        thread.close()


async def test_a_connection_whose_call_was_not_sent_to_its_end_serves_no_other() -> None:
    """Its service would take the next call for the rest of this one's body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65_536):
            for _ in range(some.count(b"HTTP/1.1\r\n")):
                writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")

    async with answering(serve) as (transport, seen):
        for call, connections in ((GET, 1), (GET, 1), (LARGE, 1), (GET, 2), (GET, 2)):
            with pytest.raises(TooLarge):
                await transport.call(call)
            assert len(seen) == connections


async def test_an_answer_without_a_length_that_is_cut_by_a_reset_is_none() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n[1, 2")
        await writer.drain()
        writer.transport.abort()  # with a body unread, which resets the connection

    async with answering(serve) as (transport, _):
        for _ in range(CALLS):
            with pytest.raises(DependencyDown):
                await transport.call(LARGE)
