"""Weights into a slot of the device that the kernel does not read: packed on this side, then
copied.

A slot is written as a whole when all of it has come and is right: a push that is cut short or wrong
leaves nothing that could be activated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.cuda.weights.packed import Packed, PackedAdapter, adapter_bytes, packed_bytes
from assay.rollout.cuda.weights.rotated import Rotated
from assay.rollout.models.staging import (
    Digest,
    Share,
    StagedWeights,
    adapter_digest,
    adapter_line,
)
from assay.rollout.models.tensor_checks import (
    Checksums,
    ExpectedTensors,
    bytes_of,
    in_memory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from assay.rollout.cuda.sizes import Sizes
    from assay.rollout.models.adapters import Adapter
    from assay.rollout.models.tensor_checks import AnyTensor


@dataclass(frozen=True, slots=True)
class StagedPlace:
    """What of the device's memory a version is."""

    weights: int = 0
    """Slot of whole weights: 0 or 1."""
    adapter: int = 0
    """Slot of the adapter over them: 1 or 2; 0: none."""
    merged: bool = False
    """The slot of whole weights has a rotation in it."""


class CudaStaging:
    """One run that stages one version."""

    def __init__(
        self,
        sizes: Sizes,
        write: Callable[[NDArray[np.uint8]], None],
        *,
        share_max: float,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Stage for a kernel of these sizes; `write` copies a packed slot to the device."""
        self._sizes, self._write = sizes, write
        self._share = Share(share_max, pause)
        self._work_s, self._bytes = 0.0, 0

    def run(self, version: int, tensors: Iterable[AnyTensor]) -> StagedWeights:
        """Whole weights.

        Raises:
            InvalidWeights: names the tensor.
        """
        packed = np.zeros(packed_bytes(self._sizes), dtype=np.uint8)
        to, digest = Packed(self._sizes, packed), Digest()
        expected = ExpectedTensors(self._sizes.config)
        for coming in tensors:
            with _Work(self):
                expected.check(coming)
                one = in_memory(coming)
                checksums = Checksums(one)
                checksums.update(bytes_of(one.tensor.data))
                checked = checksums.checked()
                to.put(one.kind, one.layer, one.tensor)
                digest.add(one.kind, one.layer, one.tensor, checked)
                expected.came(one)
                self._bytes += one.tensor.data.nbytes
        expected.end()
        self._write(packed)
        return StagedWeights(
            version=version, digest=digest.hexdigest(), bytes=self._bytes, work_s=self._work_s
        )

    def run_adapter(self, version: int, adapter: Adapter, matrices: str) -> StagedWeights:
        """A LoRA adapter over the whole weights of this digest.

        Raises:
            InvalidWeights: names the projection.
        """
        packed = np.zeros(adapter_bytes(self._sizes), dtype=np.uint8)
        to, lines = PackedAdapter(self._sizes, packed), []
        for one in adapter.projections:
            with _Work(self):
                self._bytes += to.put(one)
                lines.append(adapter_line(one))
        if lines:
            self._write(packed)
        return StagedWeights(
            version=version,
            digest=adapter_digest(matrices, lines),
            bytes=self._bytes,
            work_s=self._work_s,
            matrices=matrices if lines else "",
        )

    def run_rotation(
        self, version: int, adapter: Adapter, matrices: str, whole: NDArray[np.uint8]
    ) -> StagedWeights:
        """An OFT adapter, merged into a copy of the whole weights of this digest.

        Args:
            version: of the result.
            adapter: its projections, at least one.
            matrices: the digest of the whole weights.
            whole: they, packed.

        Raises:
            InvalidWeights: names the projection.
        """
        packed = whole.copy()
        to, lines = Rotated(self._sizes, packed), []
        for one in adapter.projections:
            with _Work(self):
                self._bytes += to.put(one)
                lines.append(adapter_line(one))
        self._write(packed)
        return StagedWeights(
            version=version,
            digest=adapter_digest(matrices, lines),
            bytes=self._bytes,
            work_s=self._work_s,
            matrices=matrices,
        )

    def worked(self, work_s: float) -> None:
        """Rest for it, as the share of a core demands."""
        self._work_s += work_s
        self._share.worked(work_s)


class _Work:
    """Measures the CPU time of a piece of staging."""

    def __init__(self, staging: CudaStaging) -> None:
        self._staging = staging

    def __enter__(self) -> None:
        self._begun = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self._staging.worked(time.thread_time() - self._begun)
