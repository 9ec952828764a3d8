"""The messages of a push of weights."""

from __future__ import annotations

import asyncio
import hashlib
import math
from typing import TYPE_CHECKING, Any, Final

from assay.client import wire
from assay.core.errors import InvalidRequest
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from assay.client.rollouts.types import Weight

    _Tensor = tuple[rollout_pb2.TensorHead, memoryview]

PIECE_BYTES: Final = 4 * 1024**2
"""Largest data of a message; larger tensors are sent in pieces."""
TOGETHER_BYTES: Final = 1024**2
"""Tensors below this size are sent together, up to this size: a message has a cost of its own."""
WIDTHS: Final = {"F32": 4, "F16": 2, "BF16": 2}
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
    first: rollout_pb2.PushWeightsRequest,
    weights: Mapping[str, Weight],
    *,
    together_bytes: int = TOGETHER_BYTES,
    piece_bytes: int = PIECE_BYTES,
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    """The messages of a push. Everything is checked before the first: gRPC ends a call whose
    messages raise as if it had been cancelled.

    Args:
        first: the push.
        weights: its tensors.
        together_bytes: small tensors are sent together up to this size.
        piece_bytes: largest data of a message with one tensor.

    Raises:
        InvalidRequest: a tensor's bytes are not contiguous, or its head cannot be written.
    """
    tensors = []
    for name, weight in weights.items():
        with wire.holding(f"weights.{name}"):
            head = rollout_pb2.TensorHead(name=name, dtype=weight.dtype, shape=weight.shape)
            tensors.append((head, memoryview(weight.data).cast("B")))
    return _messages(first, list(_bundles(tensors, together_bytes)), piece_bytes)


async def _messages(
    first: rollout_pb2.PushWeightsRequest, bundles: Sequence[Sequence[_Tensor]], piece_bytes: int
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    message = first
    for together in bundles:
        sums = await asyncio.to_thread(_checksums, together)
        for (head, _), sha256 in zip(together, sums, strict=True):
            head.sha256 = sha256
        if len(together) > 1:
            message.tensors.extend(head for head, _ in together)
            message.data = b"".join(data for _, data in together)
            yield message
            message = rollout_pb2.PushWeightsRequest()
            continue
        [(head, data)] = together
        message.tensor.CopyFrom(head)
        for start in range(0, max(1, len(data)), piece_bytes):
            message.data = bytes(data[start : start + piece_bytes])
            yield message
            message = rollout_pb2.PushWeightsRequest()


def _bundles(tensors: Sequence[_Tensor], bytes_max: int) -> Iterator[Sequence[_Tensor]]:
    """Tensors that fit into one message, and others by themselves; in their order.

    One whose bytes are not those of its head goes by itself: the service then names it.
    """
    together: list[_Tensor] = []
    size = 0
    for head, data in tensors:
        alone = len(data) != math.prod(head.shape) * WIDTHS.get(head.dtype, 0)
        if together and (alone or size + len(data) > bytes_max):
            yield together
            together, size = [], 0
        together.append((head, data))
        size = bytes_max if alone else size + len(data)
    if together:
        yield together


def _checksums(together: Sequence[_Tensor]) -> list[str]:
    return [hashlib.sha256(data).hexdigest() for _, data in together]
