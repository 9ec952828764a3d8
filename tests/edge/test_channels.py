"""Channels to operator's ports: one that is left lets its calls end; none is measured by pings."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from assay.config.access import OperatorSettings
from assay.edge.access import channels
from assay.edge.access.channels import LeftChannels, OperatorChannels
from assay.edge.grpc_edge import server_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASK = "/test/Ask"
SOON_S = 60
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PING, ACK = 6, 1
LARGE = b"x" * 200_000


class Slow(grpc.GenericRpcHandler):
    """Answers with what it is asked, once it may."""

    def __init__(self) -> None:
        self._begun = asyncio.Semaphore(0)
        self.may_answer = asyncio.Event()

    def service(self, _details: Any) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def until_begun(self, calls: int) -> None:
        """Wait until so many more calls have arrived."""
        for _ in range(calls):
            await self._begun.acquire()

    async def _answer(self, request: bytes, _context: object) -> bytes:
        self._begun.release()
        await self.may_answer.wait()
        return request


@asynccontextmanager
async def serving(slow: Slow, options: list[tuple[str, int]] | None = None) -> AsyncIterator[int]:
    """Listen, on the port that this yields."""
    server = grpc.aio.server(options=options or [])
    server.add_generic_rpc_handlers((slow,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(None)


def ask(channel: grpc.aio.Channel, text: bytes = b"a") -> asyncio.Task[bytes]:
    """Begin a call."""

    async def call() -> bytes:
        asked: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ASK)
        answer: bytes = await asked(text)
        return answer

    return asyncio.create_task(call())


async def until_closed(channel: grpc.aio.Channel) -> None:
    """Wait until the channel is closed."""
    while channel.get_state() is not grpc.ChannelConnectivity.SHUTDOWN:
        await asyncio.sleep(0.01)


async def test_the_calls_of_a_channel_that_is_left_come_to_their_ends_and_it_is_closed_then() -> (
    None
):
    slow, left = Slow(), LeftChannels()
    async with serving(slow) as port, asyncio.timeout(SOON_S):
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        asked = ask(channel)
        await slow.until_begun(1)
        left.leave(channel)
        await asyncio.sleep(0)
        assert not asked.done()
        slow.may_answer.set()
        assert await asked == b"a"
        await until_closed(channel)
        await left.close()


async def test_all_are_closed_when_their_owner_closes_whose_calls_have_been_cancelled() -> None:
    slow, left = Slow(), LeftChannels(calls_s_max=3_600.0)
    async with serving(slow) as port, asyncio.timeout(SOON_S):
        earlier, present = (grpc.aio.insecure_channel(f"127.0.0.1:{port}") for _ in range(2))
        of_left, of_present = [ask(channel) for channel in (earlier, present)]
        await slow.until_begun(2)
        left.leave(earlier)
        await asyncio.sleep(0)  # gRPC is closing it already
        of_left.cancel()
        await left.close(present)
        for channel in (earlier, present):
            assert channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
        await asyncio.wait((of_left, of_present))
        assert of_present.cancelled()


async def test_a_call_that_its_owner_has_forgotten_delays_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "FORGOTTEN_S_MAX", 0.05)
    slow, left = Slow(), LeftChannels(calls_s_max=3_600.0)
    async with serving(slow) as port, asyncio.timeout(SOON_S):
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        asked = ask(channel)
        await slow.until_begun(1)
        left.leave(channel)
        await asyncio.sleep(0)
        await left.close()
        slow.may_answer.set()
        assert await asked == b"a"


class Relay:
    """Passes on what a client and a server send, and keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.sent, self.answered = bytearray(), bytearray()
        self._passing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen, on the port that this yields."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        server.close()
        await asyncio.gather(*self._passing)  # client and server have gone

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", self._port)
        for source, sink, kept in ((reader, to, self.sent), (there, writer, self.answered)):
            self._passing.add(asyncio.create_task(self._copy(source, sink, kept)))

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                kept += data
                sink.write(data)
        sink.close()
        with suppress(ConnectionError):
            await sink.wait_closed()


def pings(sent: bytes | bytearray) -> int:
    """Number of pings among HTTP/2 frames, without answers to those of the other end."""
    found, at = 0, len(PREFACE) if sent.startswith(PREFACE) else 0
    while at + 9 <= len(sent):
        found += sent[at + 3] == PING and not sent[at + 4] & ACK
        at += 9 + int.from_bytes(sent[at : at + 3], "big")
    return found


@pytest.mark.parametrize("ours", ["channel", "server"])
async def test_what_arrives_is_not_measured_by_pings(ours: str) -> None:
    """Each would wake threads at both ends; a server would let a stream hold megabytes."""
    slow = Slow()
    slow.may_answer.set()
    options = server_options(1 << 20) if ours == "server" else None
    async with serving(slow, options) as port:
        relay = Relay(port)
        async with relay.listening() as through, asyncio.timeout(SOON_S):
            address = f"127.0.0.1:{through}"
            operators = OperatorChannels(OperatorSettings())
            channel = (
                operators.to(address) if ours == "channel" else grpc.aio.insecure_channel(address)
            )
            async with channel:
                for _ in range(3):
                    assert await ask(channel, LARGE) == LARGE
    here, there = (
        (relay.sent, relay.answered) if ours == "channel" else (relay.answered, relay.sent)
    )
    assert pings(here) == 0
    assert pings(there) > 0, "the other end does as gRPC does by itself"
