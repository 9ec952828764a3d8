"""Pauses that hold while their caller is there."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from assay.core.errors import FailedPrecondition
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from assay.client.connection import Connection
    from assay.v1 import rollout_pb2_grpc


_log = logging.getLogger(__name__)


class PauseKeeper:
    """A stream for each pause of this client. The service ends a pause soon after its stream, which
    ends with the process, also with one that is killed."""

    def __init__(self, connection: Connection, stub: rollout_pb2_grpc.RolloutServiceStub) -> None:
        self._connection, self._stub = connection, stub
        self._streams: dict[str, asyncio.Task[None]] = {}

    async def keep(self, pause_id: str) -> None:
        """Hold it from now on; returns when the service has the stream.

        A service of a release without such streams holds a pause by itself, for ten minutes.

        Raises:
            AssayError: the service refuses the stream; the pause holds for its `hold_ms`.
        """
        opened = asyncio.Event()
        request = rollout_pb2.KeepPausedRequest(pause_id=pause_id)
        holding = self._connection.hold_open(self._stub.KeepPaused, request, opened)
        stream = self._streams[pause_id] = asyncio.create_task(holding)
        stream.add_done_callback(_end_is_known)
        waiting = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait({waiting, stream}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.leave(pause_id)
            raise
        finally:
            waiting.cancel()
        if stream.done():
            del self._streams[pause_id]
            try:
                stream.result()
            except FailedPrecondition as refused:
                if not _is_unknown_call(refused):
                    raise
                _log.warning(
                    "the rollout service is of a release without KeepPaused: pause %s ends after "
                    "ten minutes if it is not resumed, also while this client is connected",
                    pause_id,
                )

    def leave(self, pause_id: str) -> None:
        """Hold a pause no longer: its stream ends."""
        stream = self._streams.pop(pause_id, None)
        if stream is not None:
            stream.cancel()

    async def close(self) -> None:
        """Give up all pauses, and wait until their streams have ended."""
        streams = list(self._streams.values())
        for pause_id in list(self._streams):
            self.leave(pause_id)
        await asyncio.gather(*streams, return_exceptions=True)


def _is_unknown_call(refused: FailedPrecondition) -> bool:
    cause = refused.__cause__
    unknown = grpc.StatusCode.UNIMPLEMENTED
    return isinstance(cause, grpc.aio.AioRpcError) and cause.code() is unknown


def _end_is_known(stream: asyncio.Task[None]) -> None:
    """Mark its error as retrieved: who resumes the pause gets it from the service."""
    if not stream.cancelled():
        stream.exception()
