"""The HTTP listener of the gateway, and its housekeeping."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from assay.core.errors import DependencyDown
from assay.edge.http_listener import Connections, bounded_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from assay.config.settings import RolloutSettings
    from assay.edge.clock import Clock
    from assay.edge.metrics import Metrics
    from assay.rollout.gateway.rewards import SessionRewards
    from assay.rollout.gateway.sessions import Sessions
    from assay.rollout.gateway.turns import Turns

BACKLOG: Final = 1_024
POLL_S: Final = 0.01
WATCH_EVERY_S: Final = 1.0
"""Of the metrics, and of the sessions that no one uses."""
BODY_S_MAX: Final = 30.0

log = structlog.get_logger(__name__)


class GatewayListener:
    """Serves the application beside the rollout service."""

    name = "gateway"

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: RolloutSettings,
        sessions: Sessions,
        turns: Turns,
        rewards: SessionRewards,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._settings = settings
        self.sessions = sessions
        self._rewards = rewards
        self._turns = turns
        self._clock = clock
        self._metrics = metrics
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> str:
        """Listen; returns the URL.

        Raises:
            OSError: the port is taken.
        """
        host, port = self._settings.host, self._settings.gateway_port
        self._socket = _listen(host, port)
        self._http = _Uvicorn(self._config())
        serving = asyncio.create_task(self._http.serve(sockets=[self._socket]), name="gateway")
        self._tasks.append(serving)
        while not self._http.started:
            if serving.done():
                raise DependencyDown("the gateway's listener ended")
            await self._clock.sleep(POLL_S)
        self._tasks.append(asyncio.create_task(self._watch(), name="gateway-watch"))
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{shown}:{self._socket.getsockname()[1]}"

    async def stop(self) -> None:
        """Let running calls end for `drain_s`, then stop."""
        self._http.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()
        await self._rewards.close()

    def _config(self) -> uvicorn.Config:
        connections_max = self._settings.gateway.connections_max
        connections = Connections(
            connections_max=connections_max, per_peer_max=connections_max, body_s_max=BODY_S_MAX
        )
        return uvicorn.Config(
            self._app,
            http=bounded_protocol(connections),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=max(1, round(self._settings.drain_s)),
        )

    async def _watch(self) -> None:
        while True:
            counts, waiting = self.sessions.counts(), self._turns.waiting
            self._metrics.gateway_seen(sessions=counts, waiting=waiting)
            await self._clock.sleep(WATCH_EVERY_S)
            closed = self.sessions.close_idle()
            if closed:
                log.info("sessions_idle", closed=closed)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the entry point."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    with contextlib.ExitStack() as undo:
        listener = socket.socket(family, socket.SOCK_STREAM)
        undo.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((bare, port))
            listener.listen(BACKLOG)
        except OSError as error:
            message = f"rollout.gateway_port: cannot listen on {host}:{port}: {error.strerror}"
            raise OSError(message) from error
        listener.settimeout(0)
        undo.pop_all()
    return listener
