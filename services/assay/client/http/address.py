"""Where the service is, who calls, for both clients over HTTP."""

import asyncio
import http.client
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from assay.client import variables
from assay.core.errors import InvalidRequest

PORT_DEFAULT: Final = 8471
LISTEN_S: Final = 30.0
"""Silence of a stream after which the service is asked whether it still has the batch."""


def tls_of(
    url: str, root_certificates: bytes | None, identity: tuple[Path, Path] | None
) -> ssl.SSLContext | None:
    """What was asked for beyond the scheme of the URL; `None` = nothing.

    Raises:
        InvalidRequest: what the variables name cannot be used.
    """
    if url.startswith("https://"):
        root_certificates = (
            variables.authorities() if root_certificates is None else root_certificates
        )
        identity = identity or variables.identity()
    if root_certificates is None and identity is None:
        return None
    tls = ssl.create_default_context(
        cadata=root_certificates.decode("ascii") if root_certificates else None
    )
    if identity is not None:
        try:
            tls.load_cert_chain(*identity)
        except OSError as error:  # of TLS as well
            raise InvalidRequest(f"identity: {error}", field="identity") from None
    return tls


def target(url: str) -> tuple[str, int, bool]:
    """Host, port, and whether it is TLS.

    Raises:
        InvalidRequest: `url` is not that of a service.
    """
    message = f"url: {url!r} is not http://host:port or https://host:port"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or PORT_DEFAULT
    except ValueError as error:
        raise InvalidRequest(f"{message}: {error}", field="url") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise InvalidRequest(message, field="url")
    variables.check_no_user(parts)
    return parts.hostname, port, parts.scheme == "https"


MAYBE_TLS: Final = "(as by a service with TLS: https://)"
"""What may be the reason where a service hears no TLS, and says nothing."""


def check_protocol(first: bytes) -> None:
    """Refuse an answer in HTTP/2, as the gRPC port's is, and one in TLS.

    Raises:
        InvalidRequest: it does; waiting would change nothing.
    """
    if first[:2] == b"\x15\x03":  # an alert
        raise InvalidRequest("url: the service speaks TLS: name it by https://", field="url")
    if first[3:5] == b"\x04\x00" and first[5:9] == bytes(4):
        message = (
            "url: the service answers in HTTP/2: name its HTTP port (8471), or host:port for gRPC"
        )
        raise InvalidRequest(message, field="url")


def not_tls() -> InvalidRequest:
    """The error of a client that speaks TLS, while the service does not."""
    message = "url: the service does not speak TLS: name it by http://"
    return InvalidRequest(message, field="url")


def is_not_tls(error: object) -> bool:
    """Whether a handshake failed because the service answered without TLS."""
    return isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER"


def reason(error: BaseException, *, tls: bool) -> str:
    """What happened to a connection, for people."""
    silent = isinstance(error, http.client.RemoteDisconnected) or (
        isinstance(error, asyncio.IncompleteReadError) and not error.partial
    )
    if silent and not tls:
        return f"the connection was closed without an answer {MAYBE_TLS}"
    return f"{error or type(error).__name__}"
