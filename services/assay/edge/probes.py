"""`/healthz`, `/readyz` and `/metrics` over minimal HTTP, for services without an API.

A whole web framework would cost an idle worker host more memory than all its slots. `/metrics`
requires the operator's token if one is set, and with `operator.tls_client_ca` a certificate; the
other two return one word and require neither, as a machine's probes have none to show. The reward
API, whose HTTP port bounds the connections of an address, has these two here as well, without TLS:
the kubelet may have the address of all callers from outside of the cluster.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry

from assay.core.errors import PermissionDenied, Unauthenticated
from assay.edge.access.channels import server_context
from assay.edge.auth import Operator, admit_to_metrics, one_authorization
from assay.edge.scrape.exposition import answer_of

HEAD_BYTES_MAX: Final = 8 * 1024
TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 64
"""Concurrent connections; more are closed at once."""
_TLS_LIMITS: Final = ("ssl_handshake_timeout", "ssl_shutdown_timeout")
_TEXT: Final = "text/plain; charset=utf-8"


class Probes:
    """One request per connection."""

    def __init__(
        self,
        *,
        why_not_ready: Callable[[], str],
        registry: CollectorRegistry | None = None,
        operator: Operator | None = None,
        setting: str = "http_port",
    ) -> None:
        """Answer probes.

        Args:
            why_not_ready: why no calls may be sent to the service; empty when they may.
            registry: what `/metrics` shows; without one, or without `operator`, there is no such
                path.
            operator: whose token `/metrics` requires.
            setting: name of the port's setting, for errors.
        """
        self._why_not_ready = why_not_ready
        self._registry = registry
        self._operator = operator
        self._setting = setting
        self._tls = None if operator is None else operator.tls
        self._asks_certificate = self._tls is not None and self._tls.tls_client_ca is not None
        self._serving: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the port is taken, or a file of TLS is not what it should be.
        """
        context = None if self._tls is None else server_context(self._tls)
        limits = {} if context is None else dict.fromkeys(_TLS_LIMITS, TIMEOUT_S)
        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, limit=HEAD_BYTES_MAX, ssl=context, **limits
            )
        except OSError as error:
            message = f"{self._setting}: cannot listen on {host}:{port}: {error.strerror or error}"
            raise OSError(message) from error
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        with contextlib.suppress(asyncio.CancelledError):  # a stop; asyncio would log it
            await self._answered(reader, writer)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._serving) > CONNECTIONS_MAX:
                return
            async with asyncio.timeout(TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                shown = writer.get_extra_info("peercert")
                writer.write(self._answer(head, has_certificate=bool(shown)))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # it sent nothing that can be answered
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: bytes, *, has_certificate: bool) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in {b"GET", b"HEAD"}:
            return _response("405 Method Not Allowed", b"GET only\n")
        match words[1].split(b"?")[0]:
            case b"/healthz":
                return _response("200 OK", b"ok\n")
            case b"/readyz":
                if why := self._why_not_ready():
                    return _response("503 Service Unavailable", f"{why}\n".encode())
                return _response("200 OK", b"ok\n")
            case b"/metrics" if self._registry is not None and self._operator is not None:
                if self._asks_certificate and not has_certificate:
                    return _response("401 Unauthorized", b"a certificate is required\n")
                try:
                    shown = one_authorization(_headers(head, b"authorization"))
                    admit_to_metrics(self._operator, shown)
                except Unauthenticated as error:
                    return _response("401 Unauthorized", f"{error.message}\n".encode())
                except PermissionDenied as error:
                    return _response("403 Forbidden", f"{error.message}\n".encode())
                return _response(
                    "200 OK", *answer_of(self._registry, next(_headers(head, b"accept"), ""))
                )
        more = b"" if self._registry is None else b", /metrics"
        return _response("404 Not Found", b"there are /healthz, /readyz" + more + b"\n")


def _headers(head: bytes, wanted: bytes) -> Iterator[str]:
    """The values of a header."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == wanted:
            yield value.strip().decode("latin-1")


def _response(status: str, body: bytes, content_type: str = _TEXT) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
