"""The HTTP listener of the gateway, and its housekeeping."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from assay.edge.connections.places import Connections
from assay.edge.http_listener import HttpListener, TlsFiles

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from assay.config.rollouts import RolloutSettings
    from assay.edge.clock import Clock
    from assay.edge.metrics import Metrics
    from assay.rollout.gateway.rewards import SessionRewards
    from assay.rollout.gateway.sessions import Sessions
    from assay.rollout.gateway.turns import AgentTurns

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
        turns: AgentTurns,
        rewards: SessionRewards,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self.sessions = sessions
        self._rewards = rewards
        self._turns = turns
        self._clock = clock
        self._metrics = metrics
        self._tasks: list[asyncio.Task[None]] = []
        most = settings.gateway.connections_max
        self._http = HttpListener(
            app,
            setting="rollout.gateway_port",
            connections=Connections(connections_max=most, per_peer_max=most, body_s_max=BODY_S_MAX),
            drain_s=settings.drain_s,
            keep_alive_s=settings.gateway.keep_alive_s,
            tls=TlsFiles(
                certificate=settings.tls_certificate,
                key=settings.tls_key,
                client_ca=settings.tls_client_ca,
                client_optional=True,  # agents have a session's key and nothing else
            ),
        )

    async def start(self) -> str:
        """Listen; returns the URL.

        Raises:
            OSError: the port is taken.
        """
        url = self._http.bind(self._settings.host, self._settings.gateway_port)
        await self._http.serve()
        self._tasks.append(asyncio.create_task(self._watch(), name="gateway-watch"))
        return url

    async def stop(self) -> None:
        """Let running calls end for `drain_s`, then stop."""
        self._http.stop_accepting()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.stopped()
        await self._rewards.close()

    async def _watch(self) -> None:
        while True:
            counts, waiting = self.sessions.counts(), self._turns.waiting
            self._metrics.gateway_seen(sessions=counts, waiting=waiting)
            await self._clock.sleep(WATCH_EVERY_S)
            closed = self.sessions.close_idle()
            if closed:
                log.info("sessions_idle", closed=closed)
