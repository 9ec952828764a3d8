"""The client's messages of a push, before they are sent: to be cut, spoilt and mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.client.rollouts.pushes import bodies
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from assay.client.rollouts import Weight


async def pieces(
    first: rollout_pb2.PushWeightsRequest, weights: Mapping[str, Weight], **sizes: Any
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    """The messages; see `bodies`."""
    async for body in bodies(first, weights, **sizes):
        yield rollout_pb2.PushWeightsRequest.FromString(body)


async def serialized(
    messages: AsyncIterator[rollout_pb2.PushWeightsRequest],
) -> AsyncIterator[bytes]:
    """As the client sends them."""
    async for message in messages:
        yield message.SerializeToString()
