"""Messages that come over a connection, and answers to them, as its account counts them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import grpc

from assay.edge.calls import STRANGERS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from assay.core.ids import TenantId
    from assay.edge.connections.traffic import Traffic
    from assay.edge.connections.watch import GrpcConnections

    Context = grpc.aio.ServicerContext[Any, Any]

_ANSWERING: Final[ContextVar[Traffic]] = ContextVar("answering")
"""The connection of the call that is being answered."""


class Incoming:
    """A client's messages. A read that was given up leaves the call without further reads."""

    def __init__(
        self,
        context: Context,
        account: Traffic,
        bytes_max: int,
        connections: GrpcConnections | None = None,
    ) -> None:
        self._context = context
        self._account = account
        self._bytes_max = bytes_max
        self._connections = connections
        self._caller = STRANGERS
        self._begun = False
        self.over = False
        """No more can be read: the client has ended its stream, or a read was given up."""

    async def read(self) -> bytes | None:
        """Wait for the next message; `None` at the end."""
        self.over = True
        with self._account.reading(self._bytes_max):
            body: Any = await self._context.read()
        self.over = body is grpc.aio.EOF
        if self.over:
            return None
        self._account.read(len(body))
        if not self._begun:
            self._begun = True
            if self._connections is not None:
                self._connections.message_read(self._caller)
        return bytes(body)

    def identify(self, tenant: TenantId) -> None:
        """The call has shown a valid token."""
        self._caller = tenant
        self._account.identify(tenant)

    @property
    def condemned(self) -> bool:
        """Whether its connection is being cut, so that the call need not be handled."""
        return self._account.condemned

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notice a call that is cancelled inside the block before a message of it was read."""
        try:
            yield
        except asyncio.CancelledError:
            if not self._begun and self._connections is not None:
                self._connections.call_cancelled(self._account, self._caller)
            raise

    async def all(self) -> AsyncGenerator[bytes, None]:
        """Every message to the end."""
        while (body := await self.read()) is not None:
            yield body


def answering(account: Traffic) -> None:
    """What this task sends from now on is an answer over this connection."""
    _ANSWERING.set(account)


def counted(serialize: Callable[[Any], bytes] | None) -> Callable[[Any], bytes] | None:
    """A handler's serializer, which counts what it gives the connection of its call."""
    if serialize is None:
        return None

    def serialized(message: Any) -> bytes:  # noqa: ANN401 a message
        body = serialize(message)
        account = _ANSWERING.get(None)
        if account is not None:
            account.answer(len(body))
        return body

    return serialized
