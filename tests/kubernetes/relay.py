"""A relay before a real API server: counts calls, injects faults, cuts connections.

It has the parts of the tests' own API server that a test of the scaler uses, so that the same test
runs on both.
"""

import asyncio
import json
import ssl
from collections import deque
from typing import Protocol

import aiohttp
from aiohttp import web
from tests.kubernetes.api_server import Call, Fault, cut, injected

HOP = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}


class Server(Protocol):
    """What a test of the scaler may do to an API server of either kind."""

    calls: deque[Call]
    faults: list[Fault]
    streams: set[web.StreamResponse]
    port: int

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def cut_watches(self) -> None: ...


class Relay:
    """Passes every call on to `url`."""

    def __init__(self, url: str, authority: ssl.SSLContext) -> None:
        self._url = url
        self._authority = authority
        self.faults: list[Fault] = []
        self.calls: deque[Call] = deque(maxlen=100_000)
        self.streams: set[web.StreamResponse] = set()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen, on the port of before if there was one."""
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close all connections; the server behind stays."""
        runner, self._runner = self._runner, None
        session, self._session = self._session, None
        if runner is not None and session is not None:
            self.cut_watches()
            await session.close()
            await runner.cleanup()

    def cut_watches(self) -> None:
        """Break the connections of all watches."""
        cut(self.streams)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        watch = request.query.get("watch") == "true"
        call = Call(
            method=request.method, path=request.path, watch=watch, query=dict(request.query),
            body=json.loads(raw) if raw else {},
        )  # fmt: skip
        self.calls.append(call)
        fault = injected(self.faults, call, request)
        if fault is not None:
            return fault
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        times = aiohttp.ClientTimeout(total=None, sock_connect=30)
        async with self._session.request(
            request.method, self._url + request.raw_path, data=raw or None, headers=headers,
            ssl=self._authority, timeout=times,
        ) as found:  # fmt: skip
            kept = {k: v for k, v in found.headers.items() if k.lower() not in HOP}
            if not watch:
                return web.Response(body=await found.read(), status=found.status, headers=kept)
            answer = web.StreamResponse(status=found.status, headers=kept)
            await answer.prepare(request)
            self.streams.add(answer)
            try:
                async for piece in found.content.iter_any():
                    await answer.write(piece)
            except (ConnectionError, aiohttp.ClientError, asyncio.CancelledError):
                pass
            finally:
                self.streams.discard(answer)
                if found.connection is not None and found.connection.transport is not None:
                    found.connection.transport.abort()  # TLS would end after the test's loop
            return answer
