"""A server as its URL names it: a connection to it that is ready for calls, and what it refuses.

Nothing here repeats a call or keeps a connection; `link` does. The protocol is RESP 2.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import hiredis

PORT: Final = 6379
READ_BYTES: Final = 4_096
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_YES: Final = ("1", "true", "yes")
_NO: Final = ("0", "false", "no")
_OF_TLS: Final = (
    *("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password"),
    *("ssl_cert_reqs", "ssl_check_hostname"),
)


class ServerError(Exception):
    """Something went wrong with the server or the connection to it."""


class LostConnection(ServerError):
    """There is no connection, or it ended."""


class ConnectTimeout(ServerError):
    """The server did not accept a connection in time."""


class NotAuthenticated(LostConnection):
    """The name or the password is wrong or missing."""


class ReplyError(ServerError):
    """The server answered that it did not do what it was asked."""


class NoScript(ReplyError):
    """It does not have the script; nothing was executed."""


class OutOfMemory(ReplyError):
    """Its memory is full."""


class ReadOnly(ReplyError):
    """It is a replica."""


class NotPermitted(ReplyError):
    """Its user may not do this."""


class OtherNode(ReplyError):
    """It is a node of a cluster and does not hold our keys."""


class ClusterDown(ReplyError):
    """Its cluster or its primary does not work."""


_KINDS: Final[Mapping[str, type[ServerError]]] = {
    "ERR": ReplyError,
    "OOM": OutOfMemory,
    "LOADING": LostConnection,
    "NOSCRIPT": NoScript,
    "READONLY": ReadOnly,
    "NOPERM": NotPermitted,
    **dict.fromkeys(("WRONGPASS", "NOAUTH"), NotAuthenticated),
    **dict.fromkeys(("ASK", "MOVED", "CROSSSLOT"), OtherNode),
    **dict.fromkeys(("CLUSTERDOWN", "MASTERDOWN"), ClusterDown),
}
"""Kinds of error replies by their first word, which is then left out of the text."""
_NOT_AUTHENTICATED: Final = ("invalid password", "AUTH <password> called without any password")
_LOST: Final = "max number of clients reached"


def reply_error(text: str) -> ServerError:
    """The exception for an error reply."""
    word, _, rest = text.partition(" ")
    kind = _KINDS.get(word)
    if kind is None:
        return ReplyError(text)
    if word == "ERR" and rest.startswith(_NOT_AUTHENTICATED):
        return NotAuthenticated(rest)
    if word == "ERR" and rest == _LOST:
        return LostConnection(rest)
    return kind(rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a server is, and how to be let in."""

    host: str = ""
    port: int = PORT
    path: str = ""
    """Of its Unix socket; then there is no host."""
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    tls: Mapping[str, str] | None = None
    """What the URL says of certificates; `None`: in plain text."""

    async def connect(self, *, timeout_s: float) -> asyncio.StreamWriter:
        """Open a connection that is ready for calls. Keep the stream: collected, it closes.

        Raises:
            ConnectTimeout: it accepts no connection within the time.
            LostConnection: it refuses the connection, or ends it.
            ReplyError: it refuses the user or the database.
            OSError: a file of `tls` cannot be read.
        """
        tls = None if self.tls is None else _tls_context(self.tls)
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._open(tls)
        except TimeoutError as error:
            raise ConnectTimeout("timed out connecting") from error
        except OSError as error:
            message = f"cannot connect: {error.strerror or error}"
            raise LostConnection(message) from error
        try:
            await self._greet(reader, writer)
        except BaseException:
            writer.close()
            raise
        return writer

    async def _open(
        self, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path:
            return await asyncio.open_unix_connection(self.path)
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=tls)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return reader, writer

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say who we are and which database we mean."""
        login = [part for part in (self.username, self.password) if part]
        commands: list[tuple[Any, ...]] = [("AUTH", *login)] if login else []
        if self.database:
            commands.append(("SELECT", self.database))
        replies = hiredis.Reader(replyError=reply_error)
        for command in commands:
            writer.write(hiredis.pack_command(command))
            reply = await _reply(reader, replies)
            if isinstance(reply, Exception):
                raise reply


async def _reply(reader: asyncio.StreamReader, replies: hiredis.Reader) -> Any:  # noqa: ANN401 any
    """The next reply."""
    while (reply := replies.gets()) is False:
        try:
            data = await reader.read(READ_BYTES)
        except OSError as error:
            message = f"connection lost: {error}"
            raise LostConnection(message) from error
        if not data:
            raise LostConnection("connection closed by server")
        replies.feed(data)
    return reply


def _tls_context(tls: Mapping[str, str]) -> ssl.SSLContext:
    """Where authorities are named, they alone are believed."""
    context = ssl.create_default_context(
        cafile=tls.get("ssl_ca_certs"), capath=tls.get("ssl_ca_path")
    )
    verify = _VERIFY[tls.get("ssl_cert_reqs", "required")]
    context.check_hostname = (
        verify is not ssl.CERT_NONE and tls.get("ssl_check_hostname", "true").lower() in _YES
    )
    context.verify_mode = verify
    if certificate := tls.get("ssl_certfile"):
        context.load_cert_chain(certificate, tls.get("ssl_keyfile"), tls.get("ssl_password"))
    return context


def server_of(url: str) -> Server:
    """Read `redis://[NAME][:PASSWORD]@HOST[:PORT][/DATABASE]`, `rediss://...` or `unix://PATH`.

    Raises:
        ValueError: it is none of these.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError("is no redis://, rediss:// or unix:// URL")
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    database = query.pop("db", "" if parts.scheme == "unix" else parts.path.strip("/")) or "0"
    if not database.isdecimal() or not database.isascii():
        raise ValueError("the database is not a number")
    _check_query(query, of_tls=parts.scheme == "rediss")
    return Server(
        host=unquote(parts.hostname or "localhost") if parts.scheme != "unix" else "",
        port=parts.port or PORT if parts.scheme != "unix" else 0,
        path=_socket_path(unquote(parts.path)) if parts.scheme == "unix" else "",
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=int(database),
        tls=query if parts.scheme == "rediss" else None,
    )


def _socket_path(path: str) -> str:
    if not path or "\0" in path:
        raise ValueError("names no socket")
    return path


def _check_query(query: Mapping[str, str], *, of_tls: bool) -> None:
    known: Sequence[str] = _OF_TLS if of_tls else ()
    unknown = sorted(query.keys() - set(known))
    if unknown:
        message = f"{unknown[0]} is not known here; known: {', '.join(('db', *known))}"
        raise ValueError(message)
    if query.get("ssl_cert_reqs", "none") not in _VERIFY:
        raise ValueError(f"ssl_cert_reqs is one of {', '.join(_VERIFY)}")
    if query.get("ssl_check_hostname", "true").lower() not in {*_YES, *_NO}:
        raise ValueError("ssl_check_hostname is true or false")
