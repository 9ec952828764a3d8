"""The device's memory: what a kernel needs is reserved before it starts, and filled for the first
time."""

from __future__ import annotations

import ctypes as ct
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.cuda.machine import Machine, Params
from assay.rollout.cuda.weights.packed import Packed, adapter_bytes, packed_bytes, turns_of

if TYPE_CHECKING:
    from assay.rollout.cuda.link import Limits
    from assay.rollout.cuda.sizes import Sizes
    from assay.rollout.local.native_runtime import Vocabulary
    from assay.rollout.models.model import Model


def reserve(machine: Machine, sizes: Sizes, limits: Limits, weight_slots: int, link: int) -> Params:
    """Everything but the link, zeroed.

    Args:
        machine: the device.
        sizes: of the kernel.
        limits: of the engine.
        weight_slots: of whole weights: 1 or 2.
        link: its address, as the device sees it.

    Raises:
        DeviceExhausted: there is too little memory.
    """
    half = limits.kv_blocks * sizes.kv_block_bytes() // 2
    weights = [machine.reserve(packed_bytes(sizes)) for _ in range(weight_slots)]
    n_adapters = 2 if sizes.rank else 0
    adapters = [machine.reserve(adapter_bytes(sizes)) for _ in range(n_adapters)]
    return Params(
        state=machine.reserve(sizes.state_bytes(limits.slots, limits.kv_blocks)),
        link=link,
        scratch=machine.reserve(sizes.scratch["SCRATCH_BYTES"]),
        weights=(ct.c_uint64 * 2)(*weights),
        adapters=(ct.c_uint64 * 2)(*adapters),
        keys=machine.reserve(half),
        values=machine.reserve(half),
        turns=machine.reserve(4 * limits.seq_max * sizes.head_dim),
        barrier=machine.reserve(4),
    )


def tell_vocabulary(machine: Machine, params: Params, vocabulary: Vocabulary) -> None:
    """The bytes of each token, for stop strings.

    Raises:
        DeviceExhausted: there is too little memory.
    """
    parts = {"token_offsets": bytes(vocabulary.offsets), "token_bytes": vocabulary.bytes.raw}
    for name, part in parts.items():
        at = machine.reserve(len(part))
        machine.write(at, np.frombuffer(part, dtype=np.uint8))
        setattr(params, name, at)


def tell_model(machine: Machine, params: Params, sizes: Sizes, model: Model) -> None:
    """Whole weights into the first slot, and the turns of positions.

    Raises:
        InvalidWeights: a value is not finite.
    """
    packed = np.zeros(packed_bytes(sizes), dtype=np.uint8)
    Packed(sizes, packed).fill(model)
    machine.write(params.weights[0], packed)
    machine.write(params.turns, turns_of(model, sizes))
