"""What a URL says of a server, and what its errors are: as the server's own library reads them."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import exceptions as theirs
from redis._parsers import BaseParser
from redis.asyncio.connection import parse_url

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown
from assay.store import server
from assay.store.link import Link
from assay.store.server import reply_error, server_address

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
HOSTS = st.sampled_from(["localhost", "10.1.2.3", "valkey.example", "[::1]", "UPPER.example"])
LIKE = {
    theirs.ConnectionError: server.LostConnection,
    theirs.BusyLoadingError: server.LostConnection,
    theirs.AuthenticationError: server.AuthenticationError,
    theirs.AuthenticationWrongNumberOfArgsError: server.ResponseError,
    theirs.ExternalAuthProviderError: server.ResponseError,
    theirs.ModuleError: server.ResponseError,
    theirs.NoSuchFieldsetError: server.ResponseError,
    theirs.ExecAbortError: server.ResponseError,
    theirs.TryAgainError: server.ResponseError,
    theirs.OutOfMemoryError: server.OutOfMemoryError,
    theirs.NoScriptError: server.NoScriptError,
    theirs.ReadOnlyError: server.ReadOnlyError,
    theirs.NoPermissionError: server.NoPermissionError,
    theirs.AskError: server.ElsewhereError,
    theirs.MovedError: server.ElsewhereError,
    theirs.ClusterCrossSlotError: server.CrossSlotError,
    theirs.ClusterDownError: server.ClusterDownError,
    theirs.MasterDownError: server.ClusterDownError,
}
"""Their error -> ours."""


@st.composite
def urls(draw: st.DrawFn) -> str:
    """URLs of servers, with and without everything."""
    user, password = draw(st.one_of(st.just(""), WORDS)), draw(st.one_of(st.just(""), WORDS))
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    port = draw(st.one_of(st.just(""), st.integers(1, 65_535).map(lambda number: f":{number}")))
    query = draw(st.sampled_from(["", "?db=3", "?db=0&socket_timeout=5", "?protocol=3"]))
    if draw(st.booleans()):
        path = quote(draw(st.sampled_from(["/run/valkey.sock", "/a b/ü.sock"])))
        return f"unix://{login}{path}{query}"
    scheme = draw(st.sampled_from(["redis", "rediss"]))
    path = draw(st.sampled_from(["", "/", "/7", "/x"]))
    return f"{scheme}://{login}{draw(HOSTS)}{port}{path}{query}"


@given(urls())
def test_a_url_says_what_it_says_to_the_servers_own_library(url: str) -> None:
    ours, known = server_address(url), parse_url(url)
    assert ours.path == known.get("path", "")
    assert ours.user == known.get("username", "")
    assert ours.password == known.get("password", "")
    assert ours.database == known.get("db", 0)
    if not ours.path:
        assert ours.host == known.get("host", "localhost")
        assert ours.port == known.get("port", 6379)
        kind = known.get("connection_class")
        assert (ours.tls is not None) == (kind is not None and "SSL" in kind.__name__)


@pytest.mark.parametrize(
    "url",
    [
        "valkey://h",
        "h:6379",
        "redis://h?db=x",
        "redis://h:x",
        "redis://h?ssl_ca_cert=a.pem",
        "rediss://h?ssl_cert_reqs=maybe",
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        server_address(url.replace("://", "://me:secret@"))
    assert "secret" not in str(refused.value)


PARSER: Any = BaseParser
CODES = [code for code in PARSER.EXCEPTION_CLASSES if code not in {"ASK", "MOVED"}]
OTHER_CODES = ["MISCONF", "BUSY", "NOREPLICAS", "WRONGTYPE"]
TEXTS = list(PARSER.EXCEPTION_CLASSES["ERR"])


@given(st.sampled_from(CODES + OTHER_CODES), st.sampled_from(TEXTS) | st.text(max_size=30))
def test_an_error_is_what_the_servers_own_library_makes_of_it(code: str, text: str) -> None:
    ours, known = reply_error(f"{code} {text}"), PARSER.parse_error(f"{code} {text}")
    assert type(ours) is LIKE.get(type(known), server.ResponseError), known
    assert str(ours).endswith(str(known))  # a code without an exception of ours stays


@pytest.mark.parametrize("code", ["ASK", "MOVED"])
def test_a_node_of_a_cluster_names_another(code: str) -> None:
    assert isinstance(reply_error(f"{code} 3999 127.0.0.1:6381"), server.ElsewhereError)


async def test_who_is_not_there_is_named(tmp_path: Path) -> None:
    link = Link(f"unix://{tmp_path}/none.sock", prefix="x:", timeout_s=1.0)
    with pytest.raises(DependencyDown, match=r"cannot connect to .*none\.sock: No such file"):
        await link.call("PING")


async def test_a_wrong_password_and_another_database(store_settings: StoreSettings) -> None:
    path = store_settings.url.removeprefix("unix://")
    refused = Link(f"unix://stranger:wrong@{path}", prefix="x:", timeout_s=2.0)
    with pytest.raises(DependencyDown, match="invalid username-password"):
        await refused.call("PING")
    zero, five = (Link(f"unix://{path}?db={n}", prefix="x:", timeout_s=2.0) for n in (0, 5))
    try:
        await five.call("SET", "only-here", "1")
        assert await zero.call("EXISTS", "only-here") == 0
        assert await five.call("GET", "only-here") == b"1"
    finally:
        await five.call("DEL", "only-here")
        for link in (refused, zero, five):
            await link.close()


@pytest.mark.parametrize(
    ("said", "raised"),
    [
        ("MISCONF Errors writing to the AOF file: No space left on device", DependencyDown),
        ("BUSY Valkey is busy running a script.", DependencyDown),
        ("UNBLOCKED force unblock, instance state changed (master -> replica?)", DependencyDown),
        ("TRYAGAIN Multiple keys request during rehashing of slot", DependencyDown),
        ("HOSTED the instance is being moved", DependencyDown),
        ("READONLY You can't write against a read only replica.", DependencyDown),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", server.ResponseError),
        ("ERR value is not an integer or out of range", server.ResponseError),
        ("ERR user_script:1: attempt to index a nil value", server.ResponseError),
    ],
)
async def test_a_state_of_the_server_is_no_fault_of_the_call(
    tmp_path: Path, said: str, raised: type[Exception]
) -> None:
    ended = asyncio.Semaphore(0)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1_000):
                writer.write(f"-{said}\r\n".encode())
        writer.close()
        ended.release()

    listening = await asyncio.start_unix_server(refuse, tmp_path / "s")
    link = Link(f"unix://{tmp_path / 's'}", prefix="x:", timeout_s=5.0)
    with pytest.raises(raised):
        await link.call("GET", "a")
    with pytest.raises(raised):
        await link.wait("BLPOP", "a", 1, timeout_s=1.0)
    await link.close()
    for _ in range(2):
        await ended.acquire()
    await asyncio.sleep(0.01)
    listening.close()
