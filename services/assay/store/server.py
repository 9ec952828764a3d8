"""A server: its address from the URL, the handshake of a connection, and its error replies.

The package `redis` would do the same. It is not used, because it imports all of itself (commands,
clusters, metrics) in each process of the platform and at the start of each command.
"""

import asyncio
import hashlib
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

PORT_DEFAULT: Final = 6379
CONNECT_TIMEOUT_S: Final = 3.0
_SCHEMES: Final = ("redis", "rediss", "unix")
_TLS: Final = frozenset(
    {
        *("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password"),
        *("ssl_cert_reqs", "ssl_check_hostname"),
    }
)
_WITHOUT_EFFECT: Final = frozenset(
    {
        *("decode_responses", "encoding", "health_check_interval", "max_connections", "protocol"),
        *("retry_on_timeout", "socket_connect_timeout", "socket_keepalive", "socket_timeout"),
    }
)
"""Options of the library that mean nothing here; a URL that has served elsewhere may have them."""
_SOCKET_PATH_BYTES_MAX: Final = 100
"""Longest path of a unix socket; the kernel allows 107."""
_NO: Final = frozenset({"0", "f", "false", "n", "no", ""})
_CHECKS: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


# -- the embedded server --------------------------------------------------------------------------
def embedded_folder(data_dir: Path) -> Path:
    """What the embedded server of `data_dir` keeps."""
    return data_dir.resolve() / "store"


def socket_path(data_dir: Path) -> Path:
    """Path of the embedded server's socket: inside `data_dir`, or, if that path is too long for a
    socket, in a private folder under the temporary directory."""
    path = embedded_folder(data_dir) / "valkey.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"assay-{os.getuid()}" / f"{name}.sock"


def embedded_url(data_dir: Path) -> str:
    """The URL of the embedded server of `data_dir`, running or not."""
    return f"unix://{socket_path(data_dir)}"


# -- errors ----------------------------------------------------------------------------------------
class ServerError(Exception):
    """A call had no result."""


class LostConnection(ServerError):
    """There is no connection, or it ended."""


class AuthenticationError(LostConnection):
    """The name or the password is wrong, or missing."""


class ResponseError(ServerError):
    """The reply is an error."""


class NoScriptError(ResponseError):
    """The server does not have this script; nothing was executed."""


class OutOfMemoryError(ResponseError):
    """Its memory is full."""


class ReadOnlyError(ResponseError):
    """It is a replica."""


class NoPermissionError(ResponseError):
    """The user may not do this."""


class ElsewhereError(ResponseError):
    """A node of a cluster: the keys are on another one."""


class ClusterDownError(ResponseError):
    """A node of a cluster, or a replica, that cannot serve now."""


class CrossSlotError(ResponseError):
    """A node of a cluster: the keys of one call belong to several slots."""


_BY_CODE: Final[Mapping[str, type[ServerError]]] = {
    "OOM": OutOfMemoryError,
    "WRONGPASS": AuthenticationError,
    "NOAUTH": AuthenticationError,
    "LOADING": LostConnection,
    "NOSCRIPT": NoScriptError,
    "READONLY": ReadOnlyError,
    "NOPERM": NoPermissionError,
    "ASK": ElsewhereError,
    "MOVED": ElsewhereError,
    "CROSSSLOT": CrossSlotError,
    "CLUSTERDOWN": ClusterDownError,
    "MASTERDOWN": ClusterDownError,
}
_BY_TEXT: Final[Mapping[str, type[ServerError]]] = {
    "ERR max number of clients reached": LostConnection,
    "ERR invalid password": AuthenticationError,
    "ERR Client sent AUTH, but no password is set": AuthenticationError,
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?": AuthenticationError,
}


def reply_error(text: str) -> ServerError:
    """The exception for an error reply; a code that has its own is not part of the message."""
    code, _, rest = text.partition(" ")
    kind = _BY_CODE.get(code)
    if kind is not None:
        return kind(rest)
    if code == "ERR":
        return _BY_TEXT.get(text, ResponseError)(rest)
    return ResponseError(text)


# -- addresses -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """What a URL says of a server."""

    host: str = "localhost"
    port: int = PORT_DEFAULT
    path: str = ""
    """Of its socket, in place of host and port."""
    database: int = 0
    user: str = ""
    password: str = ""
    tls: Mapping[str, str] | None = None
    """Options of TLS; `None`: without TLS."""

    def greeting(self) -> Sequence[tuple[str | int, ...]]:
        """What to send first."""
        commands: list[tuple[str | int, ...]] = []
        if self.password or self.user:
            name = (self.user,) if self.user else ()
            commands.append(("AUTH", *name, self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands

    async def connect(self) -> asyncio.StreamWriter:
        """Connect; the stream is kept, or it would close its transport.

        Raises:
            LostConnection: it is not there, or TLS fails.
            TimeoutError: not in time.
        """
        where = self.path or f"{self.host}:{self.port}"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self.path:
                    _, stream = await asyncio.open_unix_connection(self.path)
                else:
                    tls = None if self.tls is None else _tls_context(self.tls)
                    _, stream = await asyncio.open_connection(self.host, self.port, ssl=tls)
        except TimeoutError:
            raise
        except OSError as error:
            why = f"cannot connect to {where}: {error.strerror or error}"
            raise LostConnection(why) from error
        return stream


def server_address(url: str) -> ServerAddress:
    """Read the URL of a server: `redis://`, `rediss://` (TLS) or `unix://`.

    Raises:
        ValueError: not the URL of a server; the message has no password.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError("begin with redis://, rediss:// or unix://")
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    database = _number(options.pop("db", "") or _path_database(parts.scheme, parts.path), "db")
    user, password = options.pop("username", ""), options.pop("password", "")
    tls = {name: options.pop(name) for name in _TLS & options.keys()}
    if unknown := options.keys() - _WITHOUT_EFFECT:
        raise ValueError(f"unknown option {min(unknown)!r}")
    if tls.get("ssl_cert_reqs", "required").lower() not in _CHECKS:
        raise ValueError(f"ssl_cert_reqs: one of {', '.join(_CHECKS)}")
    return ServerAddress(
        host=unquote(parts.hostname or "localhost"),
        port=parts.port or PORT_DEFAULT,
        path=unquote(parts.path) if parts.scheme == "unix" else "",
        database=database,
        user=unquote(parts.username or "") or user,
        password=unquote(parts.password or "") or password,
        tls=tls if parts.scheme == "rediss" else None,
    )


def _path_database(scheme: str, path: str) -> str:
    name = unquote(path).replace("/", "")
    return name if scheme != "unix" and name.isdecimal() else "0"


def _number(text: str, name: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name}: {text!r} is not a number")
    return int(text)


def _tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """As a client; files are read for each connection, so that renewed ones are used.

    Raises:
        OSError: a file cannot be read, or is no certificate or key.
    """
    context = ssl.create_default_context(
        cafile=options.get("ssl_ca_certs"), capath=options.get("ssl_ca_path")
    )
    checks = _CHECKS[options.get("ssl_cert_reqs", "required").lower()]
    named = options.get("ssl_check_hostname", "true").lower() not in _NO
    context.check_hostname = named and checks is not ssl.CERT_NONE
    context.verify_mode = checks
    certificate, key = options.get("ssl_certfile"), options.get("ssl_keyfile")
    if certificate is not None:
        password: Callable[[], str] | None = None
        if "ssl_password" in options:
            secret = options["ssl_password"]

            def password() -> str:
                return secret

        context.load_cert_chain(certificate, key, password)
    return context
