"""The messages of a push of weights."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final

from assay.client import wire
from assay.core.errors import InvalidRequest
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from assay.client.rollouts.types import Weight

PIECE_BYTES: Final = 4 * 1024**2
"""Weights are sent in messages of this size."""
ADAPTER_KINDS: Final = {
    "LORA": rollout_pb2.WEIGHTS_KIND_LORA,
    "OFT": rollout_pb2.WEIGHTS_KIND_OFT,
}


def full_push(version: int, core_share_max: float) -> rollout_pb2.PushWeightsRequest:
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(policy_version=version, core_share_max=core_share_max)


def adapter_push(
    version: int, config: Mapping[str, Any], base_version: int | None, core_share_max: float
) -> rollout_pb2.PushWeightsRequest:
    kind = str(config.get("peft_type", "")).upper()
    if kind not in ADAPTER_KINDS:
        raise InvalidRequest("config: peft_type is LORA or OFT", field="config")
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(
            policy_version=version,
            core_share_max=core_share_max,
            kind=ADAPTER_KINDS[kind],
            adapter=rollout_pb2.AdapterConfig(
                config_json=wire.object_text(config, "config"), base_version=base_version
            ),
        )


def pieces(
    first: rollout_pb2.PushWeightsRequest, weights: Mapping[str, Weight]
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    """The messages of a push. Everything is checked before the first: gRPC ends a call whose
    messages raise as if it had been cancelled.

    Raises:
        InvalidRequest: a tensor's bytes are not contiguous, or its head cannot be written.
    """
    tensors = []
    for name, weight in weights.items():
        with wire.holding(f"weights.{name}"):
            head = rollout_pb2.TensorHead(name=name, dtype=weight.dtype, shape=weight.shape)
            tensors.append((head, memoryview(weight.data).cast("B")))
    return _messages(first, tensors)


async def _messages(
    first: rollout_pb2.PushWeightsRequest,
    tensors: Sequence[tuple[rollout_pb2.TensorHead, memoryview]],
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    for head, data in tensors:
        head.sha256 = await asyncio.to_thread(_sha256, data)
        first.tensor.CopyFrom(head)
        for start in range(0, max(1, len(data)), PIECE_BYTES):
            first.data = bytes(data[start : start + PIECE_BYTES])
            yield first
            first = rollout_pb2.PushWeightsRequest()


def _sha256(data: memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
