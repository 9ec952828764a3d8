"""The listening side of an HTTP service: its socket, uvicorn on this event loop, and its limits.

The limits of connections are enforced before the caller is known. uvicorn leaves open how many
there are, in total and per peer address, how long the headers and body of a request may take to
arrive, and how large the headers may be. A connection over a limit is closed without an answer: a
client that sends slowly does not listen. Before one is refused for the number of connections, one
without a call is closed in its place: the peer's own, or one of the peer that has the most.

What has arrived, up to 256 KB, is parsed in pieces, and what is beyond the first few waits for the
connection's turn. Nothing is parsed behind a request that waits for its answer, and no chunk of a
body before its call is admitted. The parts that cost much more to parse than to send are counted as
they are found (headers, tiny chunks, what chunks carry besides a body), and the first one too many
ends the parsing: 400. Such a connection is not read any further and is closed at its turn, a
bounded number per second: a caller whose connections are refused at once would open the next ones
as fast as they are refused.

A peer's address is that of its connection. What a caller writes about itself in `Forwarded` or
`X-Forwarded-*` is not read, wherever it connects from; nothing here needs it.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.core.errors import DependencyDown
from assay.edge.access.channels import certificate_names
from assay.edge.auth import in_url
from assay.edge.connections.answers import HeadWithBody
from assay.edge.connections.places import Connections
from assay.edge.connections.sockets import BACKLOG, bound_socket
from assay.edge.connections.turns import PieceTurns
from assay.edge.http_edge import CERTIFICATE, CUT_SHORT
from assay.edge.lifecycle import wait_at_most
from assay.edge.status import detail_of

if TYPE_CHECKING:
    import socket

HEAD_S_MAX: Final = 10.0
"""From the connection, or a request's first byte, to the end of its headers."""
HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 128
"""Headers of a request, with the trailers of its body."""
PIPELINED_MAX: Final = 8
"""Requests of a connection that wait for the answer of an earlier one."""
PIECE_BYTES: Final = 1_024
"""Parsed at once of what begins a request; a body of a declared length is one piece."""
CHUNKS_PIECE_BYTES: Final = 4 * 1024
"""The same of a body in chunks."""
FIRST_BYTES: Final = 4 * 1024
"""Of pieces that are parsed when they arrive."""
TURN_BYTES: Final = 8 * 1024
"""Of pieces that are parsed in a turn: half a millisecond of the smallest chunks."""
HELD_BYTES_MAX: Final = 64 * 1024
"""Not parsed yet. Closing a connection of which all was read loses no answer."""
CHUNKS_SLACK_BYTES: Final = 64 * 1024
"""Bytes around the chunks of a body, beyond as many as the body has."""
CHUNKS_FREE: Final = 1_024
CHUNK_BYTES_LEAST: Final = 16
"""Mean size of the chunks of a body that has more than `CHUNKS_FREE`."""
BODY_SLACK_S: Final = 5.0
"""Added to the edge's own limit, so that a slow body gets an answer first."""
KEEP_ALIVE_S: Final = 75.0
"""More than clients and proxies keep a connection without a call (httpx 5 s, aiohttp 15 s, nginx
60 s): none sends a call on one that is being closed, which its caller would see as cut."""
POLL_S: Final = 0.01
TICK_S: Final = 1.0
"""Interval at which the date in responses is renewed."""
ENDING_S: Final = 1.0
"""How long calls that were cut short may take to say so."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Certificate and key in PEM; without a certificate, the listener is plain HTTP."""

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    """Authorities; a caller must show a certificate of one of them."""
    client_optional: bool = False
    """A caller may show none; the application decides. A wrong one ends the connection."""

    @property
    def client_mode(self) -> ssl.VerifyMode:
        """What is asked of callers."""
        if self.client_ca is None:
            return ssl.CERT_NONE
        return ssl.CERT_OPTIONAL if self.client_optional else ssl.CERT_REQUIRED


class TooManyParts(Exception):
    """A request costs too much to parse."""


class Bounded(HttpToolsProtocol):
    """uvicorn's protocol with our limits; `bounded_protocol` makes one per listener."""

    bounds: Connections
    turns: PieceTurns

    _due: asyncio.TimerHandle | None = None
    _closing: asyncio.TimerHandle | None = None
    _peer: str | None = None
    _has_place = False
    _head_bytes = 0
    _in_head = True
    _headers = 0
    _chunks = 0
    _chunk_bytes = 0
    _around_bytes = 0
    """Received of a body in chunks, the chunks' own bytes included."""
    _declared_bytes = 0
    """Of a body of a declared length that are not here yet."""
    _body: list[bytes]
    _held: memoryview = memoryview(b"")
    """Received and not parsed yet."""
    _waits = False
    _names: tuple[str, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        peer = str((transport.get_extra_info("peername") or [""])[0])
        if not self.bounds.add(peer, self.loop.time()):
            transport.abort()  # before anything is made for it: a stranger pays more than we do
            return
        self._peer, self._has_place = peer, True
        super().connection_made(HeadWithBody(transport, self.loop, goes_on=self._goes_on))
        self._body = []
        self._names = certificate_names(transport.get_extra_info("peercert"))
        self._expect(HEAD_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is None:  # refused
            return
        self._expect(None)
        if self._closing is not None:
            self._closing.cancel()
        self._give_place_back(self._peer)
        super().connection_lost(exc)

    def _give_place_back(self, peer: str) -> None:
        self.bounds.works(peer, self)
        if self._has_place:
            self._has_place = False
            self.bounds.remove(peer)

    def give_way(self) -> None:
        """Close it, although its client may keep it: another connection needs the place."""
        if self._peer is not None:
            self._give_place_back(self._peer)
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._peer is not None and self.timeout_keep_alive_task is not None:
            self.bounds.rests(self._peer, self)
        self._goes_on()

    def data_received(self, data: bytes) -> None:
        if self._peer is not None:
            self.bounds.works(self._peer, self)
        if self._closing is not None:  # a call that waits for its body lets it continue
            self.transport.pause_reading()
            return
        self._held = memoryview(bytes(self._held) + data if self._held else data)
        self._parse(FIRST_BYTES)

    def _goes_on(self) -> bool:
        """Parse on what was received, at its turn; returns whether there is any."""
        if self._held and not self._waits:
            self._waits = True
            self.turns.wait(self._parse_in_turn)
        return bool(self._held)

    def _parse_in_turn(self) -> None:
        self._waits = False
        if self._peer is not None:  # it has rested since its last answer
            self.bounds.works(self._peer, self)
        self._parse(TURN_BYTES)

    def _parse(self, bytes_max: int) -> None:
        """Parse pieces of at most so many bytes; while much of the rest waits, no more is read."""
        while self._held and bytes_max > 0 and not self._stands:
            size = self._declared_bytes
            if not size:
                size = PIECE_BYTES if self._in_head else CHUNKS_PIECE_BYTES
                bytes_max -= size
            piece, self._held = self._held[:size], self._held[size:]
            self._parse_piece(piece)
        if len(self._held) > HELD_BYTES_MAX:
            self.transport.pause_reading()
        if not self._stands:
            self.transport.resume_reading()

    @property
    def _stands(self) -> bool:
        """Whether nothing is to be parsed now."""
        ends = self._closing is not None or self.transport.is_closing()
        return ends or self.flow.read_paused or bool(self.pipeline)

    def _parse_piece(self, piece: memoryview) -> None:
        if self._in_head:
            self._head_bytes += len(piece)
        elif not self._declared_bytes:
            self._around_bytes += len(piece)
        super().data_received(piece)  # type: ignore[arg-type]  # the parser takes any buffer
        self._pass_on()
        if self._closing is not None:
            return
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
            self._close_in_turn(self.transport.abort)
        elif self._around_bytes > CHUNKS_SLACK_BYTES + 2 * self._chunk_bytes:
            self.send_400_response("Too much around the chunks of a body.")

    def send_400_response(self, msg: str) -> None:
        self._close_in_turn(partial(super().send_400_response, msg))

    def _close_in_turn(self, close: Callable[[], None]) -> None:
        self.transport.pause_reading()
        self._closing = self.loop.call_later(self.bounds.wait_s(self.loop.time()), close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._names:
            self.scope["extensions"] = {CERTIFICATE: self._names}  # type: ignore[dict-item]  # ours
        self._headers = self._chunks = self._chunk_bytes = self._around_bytes = 0
        self._declared_bytes = 0
        self._in_head = True
        self._expect(HEAD_S_MAX)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        if self._headers > HEADERS_MAX:
            raise TooManyParts
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise TooManyParts
        self._in_head = False
        self._expect(self.bounds.body_s_max + BODY_SLACK_S)
        super().on_headers_complete()
        names = dict(self.headers)
        if b"transfer-encoding" in names:
            self.flow.read_paused = True  # until the call is admitted and asks for its body
        else:
            self._declared_bytes = int(names.get(b"content-length", 0))

    def on_body(self, body: bytes) -> None:
        self._chunks += 1
        self._chunk_bytes += len(body)
        self._declared_bytes = max(0, self._declared_bytes - len(body))
        if self._chunk_bytes < (self._chunks - CHUNKS_FREE) * CHUNK_BYTES_LEAST:
            raise TooManyParts
        self._body.append(body)

    def _pass_on(self) -> None:
        """Hand over what was parsed, joined once: joining it piece by piece is quadratic."""
        if self._body:
            joined = b"".join(self._body)
            self._body.clear()
            super().on_body(joined)

    def on_message_complete(self) -> None:
        self._pass_on()
        self._head_bytes = self._around_bytes = self._declared_bytes = 0
        self._in_head = True
        self._expect(None)
        super().on_message_complete()

    def _expect(self, seconds: float | None) -> None:
        """Close the connection unless this is called again within `seconds`."""
        if self._due is not None:
            self._due.cancel()
        self._due = None
        if seconds is not None:
            self._due = self.loop.call_later(seconds, self.transport.abort)


class _Ended:
    """An application whose calls end without a word of uvicorn's, which would be a traceback for
    each caller that is gone and each call that a stop cuts short."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not started:  # a caller that is gone hears nothing; one of a service that stops does
                body = detail_of(DependencyDown(CUT_SHORT)).body()
                headers = {"Connection": "close"}
                await JSONResponse(body, status_code=503, headers=headers)(scope, receive, send)
        except Exception:
            log.exception("http_call_failed", path=scope["path"])
            raise  # uvicorn answers 500, or closes the connection


def bounded_protocol(connections: Connections) -> type[HttpToolsProtocol]:
    """The value for `uvicorn.Config(http=...)`: a protocol class with these limits."""
    return type("Bounded", (Bounded,), {"bounds": connections, "turns": PieceTurns()})


class HttpListener:
    """One application on one port: `bind`, `serve`, then `stop_accepting` and `stopped`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        setting: str,
        connections: Connections,
        drain_s: float,
        keep_alive_s: float = KEEP_ALIVE_S,
        tls: TlsFiles | None = None,
    ) -> None:
        """Prepare to serve `app`.

        Args:
            app: the application.
            setting: name of the port's setting, for errors.
            connections: limits of the connections.
            drain_s: how long running calls may continue after `stop_accepting`.
            keep_alive_s: how long a connection without a call is kept, in whole seconds.
            tls: certificate and key.
        """
        tls = tls or TlsFiles()
        self._setting = setting
        self._scheme = "https" if tls.certificate else "http"
        self._socket: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._server = _Uvicorn(
            uvicorn.Config(
                _Ended(app),
                http=bounded_protocol(connections),
                ws="none",
                log_config=None,
                log_level="critical",  # what it logs, anyone can cause; see `_Ended`
                access_log=False,
                proxy_headers=False,
                server_header=False,
                lifespan="off",
                backlog=BACKLOG,
                timeout_keep_alive=round(keep_alive_s),
                timeout_graceful_shutdown=max(1, round(drain_s)),
                ssl_certfile=tls.certificate,
                ssl_keyfile=tls.key,
                ssl_ca_certs=None if tls.client_ca is None else str(tls.client_ca),
                ssl_cert_reqs=tls.client_mode,
            )
        )

    def bind(self, host: str, port: int) -> str:
        """Take the port; returns the URL. Connections wait until `serve`.

        Raises:
            OSError: the port is taken, or the address is not of this machine.
        """
        self._socket = bound_socket(host, port, self._setting)
        return f"{self._scheme}://{in_url(host)}:{self._socket.getsockname()[1]}"

    async def serve(self) -> None:
        """Accept connections; returns when they are.

        Raises:
            OSError: uvicorn ended at once.
        """
        async with anyio.create_task_group():
            pass  # Starlette's first stream would import it then: 20 ms in which no call goes on
        if self._socket is None:
            raise OSError(f"{self._setting}: not bound")
        serving = asyncio.create_task(
            self._server.serve(sockets=[self._socket]), name=self._setting
        )
        self._serving = serving
        while not self._server.started:
            if serving.done():
                raise OSError(f"{self._setting}: the listener ended") from serving.exception()
            await asyncio.sleep(POLL_S)

    def stop_accepting(self) -> None:
        """Accept no more connections; running calls may continue for `drain_s`."""
        self._server.exit()

    async def stopped(self) -> None:
        """Wait until the running calls have ended, and free the port."""
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        if cut_short := self._server.server_state.tasks:  # what they tell their callers is sent
            await asyncio.wait(cut_short, timeout=ENDING_S)
        self.unbind()

    def unbind(self) -> None:
        """Free a port that was never served."""
        if self._socket is not None:
            self._socket.close()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the entry point; an idle one wakes once per second, not ten times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._exiting = asyncio.Event()

    def exit(self) -> None:
        """Make `main_loop` return."""
        self.should_exit = True
        self._exiting.set()

    async def main_loop(self) -> None:
        """As uvicorn's, whose tick 0 is the one that renews the date of responses."""
        while not await self.on_tick(0):
            await wait_at_most(TICK_S, self._exiting)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
