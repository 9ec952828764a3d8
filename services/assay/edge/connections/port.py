"""A gRPC port behind a front: what strangers send is paced and measured before gRPC parses it.

For ports with one caller, the operator, its workers or KEDA: all who have a token, or need none,
are one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import grpc

from assay.config.access import TlsBranch
from assay.edge.connections.front import LOOPBACK, Front
from assay.edge.connections.tls import server_tls
from assay.edge.connections.watch import GrpcConnections
from assay.edge.grpc_edge import take_port

CONNECTIONS_MAX: Final = 1_024


class FrontedPort:
    """One port; `connections` goes to the server's `GrpcEdge`, whose options are `watched`."""

    def __init__(
        self, *, time_s: Callable[[], float], connections_max: int = CONNECTIONS_MAX
    ) -> None:
        """`time_s`: monotonic, in seconds."""
        self.connections = GrpcConnections(time_s=time_s)
        self._time_s = time_s
        self._connections_max = connections_max
        self._front: Front | None = None
        self._watching: asyncio.Task[None] | None = None

    async def open(
        self, server: grpc.aio.Server, host: str, port: int, *, setting: str, tls: TlsBranch
    ) -> str:
        """Start the server behind the port; returns `host:port`.

        Raises:
            OSError: the port is taken, or certificate and key cannot be read or do not match.
        """
        self._front = front = Front(
            connections=self.connections,
            connections_max=self._connections_max,
            time_s=self._time_s,
            one_tenant=True,
        )
        address = front.bind(host, port, setting=setting)
        try:
            context = server_tls(
                tls.tls_certificate, tls.tls_key, tls.tls_client_ca, setting=setting
            )
            behind = take_port(server, LOOPBACK, 0, setting=setting)
        except OSError:
            front.stop_accepting()
            raise
        await server.start()
        inner_port = int(behind.rpartition(":")[2])
        self.connections.listen(inner_port)
        await front.serve(inner_port, tls=context)
        self._watching = asyncio.create_task(self.connections.run(), name="connections")
        return address

    async def stop(self, server: grpc.aio.Server, drain_s: float) -> None:
        """Accept no more, let calls finish, end all connections."""
        if self._front is not None:
            self._front.stop_accepting()
        if self._watching is not None:  # its descriptors are gRPC's, which closes them first
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await server.stop(drain_s)
        if self._front is not None:
            await self._front.stop()
