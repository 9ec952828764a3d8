"""One connection that many calls share: each gets its own reply, whatever happens to the others."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import DependencyDown
from assay.store.link import Link
from assay.store.pipe import Pipe
from assay.store.server import LostConnection, ResponseError

TIMEOUT_S = 5.0


class Server:
    """Answers when told to; the commands are not read."""

    def __init__(self) -> None:
        self.connected: asyncio.Future[asyncio.StreamWriter] = asyncio.Future()

    async def serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected.set_result(writer)

    async def say(self, *pieces: bytes) -> None:
        """Send bytes, in pieces."""
        writer = await self.connected
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async def hang_up(self) -> None:
        """Close the connection."""
        (await self.connected).close()


@asynccontextmanager
async def piped(path: Path, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[tuple[Pipe, Server]]:
    """A pipe to a server of its own."""
    server = Server()
    listening = await asyncio.start_unix_server(server.serve, path)
    _, stream = await asyncio.open_unix_connection(path)
    pipe = Pipe(stream, timeout_s=timeout_s, on_lost=lambda: None)
    try:
        yield pipe, server
    finally:
        pipe.close()
        await server.hang_up()
        listening.close()
        path.unlink(missing_ok=True)


@settings(max_examples=30, deadline=None)
@given(
    calls=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    left=st.sets(st.integers(0, 7)),
)
def test_each_call_gets_its_replies_however_they_are_cut_and_whoever_left(
    tmp_path_factory: pytest.TempPathFactory,
    calls: Sequence[int],
    cuts: Sequence[int],
    left: set[int],
) -> None:
    path = tmp_path_factory.mktemp("pipe") / "s"

    async def scenario() -> None:
        async with piped(path) as (pipe, server):
            made = [pipe.call(*[("PING",)] * count) for count in calls]
            for number in left & set(range(len(made))):
                made[number].cancel()
            words = b"".join(
                b":%d\r\n" % number for number, n in enumerate(calls) for _ in range(n)
            )
            places = sorted({0, len(words), *(cut for cut in cuts if cut < len(words))})
            pairs = itertools.pairwise(places)
            await server.say(*(words[first:last] for first, last in pairs))
            for number, (one, count) in enumerate(zip(made, calls, strict=True)):
                if number not in left:
                    reply = await asyncio.wait_for(one, TIMEOUT_S)
                    assert reply == (number if count == 1 else [number] * count)

    asyncio.run(scenario())


async def test_an_error_reply_fails_its_call_only(tmp_path: Path) -> None:
    async with piped(tmp_path / "s") as (pipe, server):
        several = pipe.call(("GET", "a"), ("GET", "b"))
        single = pipe.call(("GET", "c"))
        await server.say(b"+one\r\n-ERR two\r\n+three\r\n")
        with pytest.raises(ResponseError, match="two"):
            await several
        assert await single == b"three"


async def test_a_late_reply_fails_its_call_and_the_connection_takes_no_more(tmp_path: Path) -> None:
    async with piped(tmp_path / "s", timeout_s=0.05) as (pipe, server):
        late = pipe.call(("GET", "a"))
        patient = pipe.call(("GET", "b"), timeout_s=TIMEOUT_S)
        with pytest.raises(TimeoutError):
            await late
        assert not pipe.is_open
        assert not pipe.is_over, "a call in progress is not given up for the late one"
        await server.say(b"+late\r\n+patient\r\n")
        assert await patient == b"patient"
        assert pipe.is_over


async def test_a_lost_connection_fails_every_call(tmp_path: Path) -> None:
    async with piped(tmp_path / "s") as (pipe, server):
        calls = [pipe.call(("GET", "a")) for _ in range(3)]
        await server.say(b"+one\r\n")
        assert await calls[0] == b"one"
        await server.hang_up()
        for call in calls[1:]:
            with pytest.raises(LostConnection):
                await call
        assert pipe.is_over


async def test_bytes_that_are_no_reply_end_the_connection(tmp_path: Path) -> None:
    async with piped(tmp_path / "s") as (pipe, server):
        call = pipe.call(("GET", "a"))
        await server.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(LostConnection):
            await call


async def test_a_server_that_does_not_read_makes_calls_wait(tmp_path: Path) -> None:
    async with piped(tmp_path / "s", timeout_s=0.2) as (pipe, _):
        made = []
        while pipe.is_free:
            made.append(pipe.call(("SET", "a", b"x" * 1_000_000), timeout_s=TIMEOUT_S))
        assert len(made) < 100, "bytes are held back, not collected"
        with pytest.raises(TimeoutError):
            await pipe.has_room()
        pipe.close()
        for call in made:
            with pytest.raises(LostConnection):
                await call


async def test_a_server_that_refuses_a_connection_unasked_ends_it_and_says_why(
    tmp_path: Path,
) -> None:
    async with piped(tmp_path / "s") as (pipe, server):
        await server.say(b"-DENIED protected mode\r\n")
        while pipe.is_open:
            await asyncio.sleep(0.001)
        with pytest.raises(LostConnection, match="DENIED protected mode"):
            await pipe.call(("GET", "a"))
        assert pipe.is_over


async def test_a_call_on_a_closed_connection_fails_like_one_that_lost_it(tmp_path: Path) -> None:
    async with piped(tmp_path / "s") as (pipe, _):
        pipe.close()
        await asyncio.sleep(0)
        with pytest.raises(LostConnection, match="closed"):
            await pipe.call(("GET", "a"))
        assert pipe.is_over


async def test_a_link_does_not_connect_for_ever_to_a_server_that_refuses_at_once(
    tmp_path: Path,
) -> None:
    refused = 0

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        refused += 1
        writer.write(b"-ERR max number of clients reached\r\n")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    listening = await asyncio.start_unix_server(refuse, tmp_path / "s")
    link = Link(f"unix://{tmp_path / 's'}", prefix="p:", timeout_s=TIMEOUT_S)
    for _ in range(20):
        with pytest.raises(DependencyDown):
            await link.call("GET", "a")
    assert refused <= 20
    await link.close()
    await asyncio.sleep(0.01)
    listening.close()
