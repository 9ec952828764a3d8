"""A server as its URL names it. The URL is read as redis-py reads it, which is asked as well."""

import asyncio
import contextlib
from pathlib import Path
from urllib.parse import quote

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import parse_url

from assay.config.settings import StoreSettings
from assay.store.pipe import Pipe
from assay.store.server import (
    ClusterDown,
    ConnectTimeout,
    LostConnection,
    NoScript,
    NotAuthenticated,
    NotPermitted,
    OtherNode,
    OutOfMemory,
    ReadOnly,
    ReplyError,
    Server,
    reply_error,
    server_of,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
HOSTS = st.sampled_from(["", "store", "10.0.0.1", "[::1]", "store.example"])


@given(
    scheme=st.sampled_from(["redis", "rediss", "unix"]),
    name=TEXTS,
    password=TEXTS,
    host=HOSTS,
    port=st.none() | st.integers(1, 65_535),
    database=st.none() | st.integers(0, 15),
    in_query=st.booleans(),
)
def test_a_url_is_read_as_redis_py_reads_it(
    scheme: str,
    name: str,
    password: str,
    host: str,
    port: int | None,
    database: int | None,
    *,
    in_query: bool,
) -> None:
    login = f"{quote(name, safe='')}:{quote(password, safe='')}@" if name or password else ""
    query = f"?db={database}" if database is not None and (in_query or scheme == "unix") else ""
    path = "/run/a%20b.sock" if scheme == "unix" else ""
    if scheme != "unix" and database is not None and not in_query:
        path = f"/{database}"
    where = "" if scheme == "unix" else host + (f":{port}" if port else "")
    url = f"{scheme}://{login}{where}{path}{query}"
    found, theirs = server_of(url), parse_url(url)
    assert found.username == theirs.get("username", "")
    assert found.password == theirs.get("password", "")
    assert found.database == theirs.get("db", 0)
    assert found.path == theirs.get("path", "")
    if scheme != "unix":
        assert found.host == theirs.get("host", "localhost")
        assert found.port == theirs.get("port", 6379)
    assert (found.tls is not None) == (scheme == "rediss")


@pytest.mark.parametrize(
    "url",
    [
        "", "store", "http://store", "redis://store:1:2", "redis://store:70000", "redis://store/a",
        "redis://store/-1", "redis://store?db=x", "unix://", "redis://store?ssl_ca_certs=a",
        "redis://store?protocol=3", "rediss://store?ssl_cert_reqs=never", "redis://store?db",
        "rediss://store?ssl_check_hostname=perhaps", "unix:///a%00b", "redis://store/\u0663",
    ],
)  # fmt: skip
def test_a_url_that_says_something_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is|names|known|Port|bad"):
        server_of(url)


def test_the_password_is_in_no_picture_of_a_server() -> None:
    assert "brillig" not in repr(server_of("redis://:brillig@store"))


@pytest.mark.parametrize(
    ("text", "kind", "left"),
    [
        ("ERR wrong", ReplyError, "wrong"),
        ("BUSY running", ReplyError, "BUSY running"),
        ("ERR invalid password", NotAuthenticated, "invalid password"),
        ("ERR max number of clients reached", LostConnection, "max number of clients reached"),
        ("WRONGPASS no", NotAuthenticated, "no"),
        ("NOAUTH Authentication required.", NotAuthenticated, "Authentication required."),
        ("NOPERM no", NotPermitted, "no"),
        ("NOSCRIPT no", NoScript, "no"),
        ("OOM full", OutOfMemory, "full"),
        ("READONLY no", ReadOnly, "no"),
        ("MOVED 1 a:1", OtherNode, "1 a:1"),
        ("ASK 1 a:1", OtherNode, "1 a:1"),
        ("CROSSSLOT no", OtherNode, "no"),
        ("CLUSTERDOWN no", ClusterDown, "no"),
        ("MASTERDOWN no", ClusterDown, "no"),
        ("LOADING soon", LostConnection, "soon"),
    ],
)
def test_error_replies_have_their_kind(text: str, kind: type[Exception], left: str) -> None:
    error = reply_error(text)
    assert type(error) is kind
    assert str(error) == left


async def test_calls_go_to_the_database_that_the_url_names(store_settings: StoreSettings) -> None:
    url = f"{store_settings.url}?db=3"
    stream = await server_of(url).connect(timeout_s=5.0)
    pipe = Pipe(stream, timeout_s=5.0, on_lost=lambda: None)
    try:
        assert b" db=3 " in await pipe.call(("CLIENT", "INFO"))
    finally:
        pipe.close()
    with pytest.raises(ReplyError, match="out of range"):
        await server_of(f"{store_settings.url}?db=999").connect(timeout_s=5.0)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close it and wait until it is."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_what_keeps_a_connection_from_being_made_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(LostConnection, match="No such file"):
        await Server(path=str(tmp_path / "none")).connect(timeout_s=5.0)
    ended = asyncio.Semaphore(0)

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closed(writer)
        ended.release()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for piece in (b"-WRONG", b"PASS no\r\n"):  # a reply in pieces
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()
        await closed(writer)
        ended.release()

    for handler, kind in ((hang_up, LostConnection), (refuse, NotAuthenticated)):
        path = tmp_path / handler.__name__
        async with await asyncio.start_unix_server(handler, path):
            with pytest.raises(kind):
                await Server(path=str(path), password="p").connect(timeout_s=5.0)
            await ended.acquire()


async def test_a_server_that_accepts_nothing_is_given_up_in_time() -> None:
    """TLS begins and no answer comes."""
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        await closed(writer)
        ended.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as mute:
        port = mute.sockets[0].getsockname()[1]
        with pytest.raises(ConnectTimeout):
            await server_of(f"rediss://127.0.0.1:{port}").connect(timeout_s=0.2)
        await ended.wait()


def test_the_login_is_sent_as_the_protocol_says() -> None:
    packed = hiredis.pack_command(("AUTH", "näme", "p w"))  # type: ignore[arg-type]  # its stub
    assert packed == b"*3\r\n$4\r\nAUTH\r\n$5\r\nn\xc3\xa4me\r\n$3\r\np w\r\n"
