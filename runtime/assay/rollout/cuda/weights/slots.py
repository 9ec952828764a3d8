"""Which version lies where in the device's memory: two slots of whole weights, two of adapters.

Invariants:
  - what the kernel reads is never written: a version is staged where the active one is not;
  - a rotation is merged into a copy of whole weights, in the slot that is not active. The whole
    weights below it are kept on this side as long as a version that can be used has a rotation in
    it, so that the next adapter over them finds them;
  - at most one version is ready beside the active one; from the first byte that is staged on, none
  is, until all has come and is right.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from assay.rollout.cuda.weights.packed import packed_bytes
from assay.rollout.cuda.weights.rotated import check_shapes
from assay.rollout.cuda.weights.staging import CudaStaging, StagedPlace
from assay.rollout.errors import InvalidWeights, WeightsNotReady, WeightsProblem
from assay.rollout.interface.checks import U32_MAX, check_integer
from assay.rollout.models.staging import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from assay.rollout.cuda.machine import Machine, Params
    from assay.rollout.cuda.sizes import Sizes
    from assay.rollout.models.adapters import Adapter
    from assay.rollout.models.staging import StagedWeights
    from assay.rollout.models.tensor_checks import AnyTensor


class DeviceSlots:
    """One engine's weight slots on the device; any thread may call."""

    def __init__(
        self, sizes: Sizes, machine: Machine, params: Params, version: int, digest: str
    ) -> None:
        """Begin with whole weights of this digest in the first slot."""
        self._sizes, self._machine, self._params = sizes, machine, params
        self._slots = Slots(version, digest)
        self._active, self._ready = StagedPlace(), StagedPlace()
        self._activations = 0
        self._whole: tuple[str, NDArray[np.uint8]] | None = None
        """Digest and bytes of the packed whole weights below a rotation."""
        self._staging = threading.Lock()
        self._known = threading.Lock()
        """Held while the fields change, and during an activation."""

    @property
    def active_version(self) -> int:
        """What the kernel decodes with."""
        return self._slots.active

    @property
    def ready_version(self) -> int | None:
        """What `change` would accept beside the active version."""
        ready = self._slots.ready
        return None if ready is None else ready.version

    def stage(self, version: int, tensors: Iterable[AnyTensor], share_max: float) -> StagedWeights:
        """Stage whole weights into the second slot while the kernel decodes.

        Args:
            version: 0 to 2^32 - 2; a number identifies the same weights forever.
            tensors: every tensor of the model, in any order. Rotary frequencies stay as they are.
            share_max: share of one core's time for staging, 0.001 to 1.

        Raises:
            InvalidWeights: a tensor is unknown, missing, repeated, of another shape or dtype,
                damaged or not finite, or the version names other weights. Nothing is staged then.
            WeightsNotReady: another thread stages, or there is one slot of weights.
        """
        if self._params.weights[1] == 0:
            raise WeightsNotReady.of_one_slot()

        def run(active: StagedPlace) -> tuple[StagedWeights, StagedPlace]:
            place = StagedPlace(weights=1 - active.weights)
            staging = self._staging_at(self._params.weights[place.weights], share_max)
            return staging.run(version, tensors), place

        return self._stage(version, run)

    def stage_adapter(
        self, version: int, adapter: Adapter, base_version: int | None, share_max: float
    ) -> StagedWeights:
        """Stage an adapter over the whole weights in use: LoRA for the kernel to apply beside them,
        OFT merged into a copy of them, in the second slot of whole weights.

        Args:
            version: 0 to 2^32 - 2; a number identifies the same weights forever.
            adapter: its projections; none means the whole weights alone.
            base_version: the version of the whole weights that it belongs to; None: those in use.
            share_max: share of one core's time for staging, 0.001 to 1.

        Raises:
            InvalidWeights: it is LoRA and OFT, LoRA of a rank above `Tuning.adapter_rank`, not of
                the model's shapes, or not finite, the version identifies other weights, or the
                whole weights in use are not those of `base_version`.
            WeightsNotReady: another thread stages, or it is OFT and there is one slot of weights.
        """
        rotates = any(one.b is None for one in adapter.projections)
        if rotates and self._params.weights[1] == 0:
            raise WeightsNotReady(
                "OFT is merged into a second slot; the engine was made with weight_slots=1"
            )

        def run(active: StagedPlace) -> tuple[StagedWeights, StagedPlace]:
            matrices = self._slots.active_matrices or self._slots.active_digest
            if base_version is not None and self._slots.versions.named(base_version) != matrices:
                detail = f"the whole weights in use are not those of version {base_version}"
                raise InvalidWeights("base_version", WeightsProblem.VERSION, detail)
            check_shapes(self._sizes.config, adapter)
            if rotates:
                place = StagedPlace(1 - active.weights, merged=True)
                staging = self._staging_at(self._params.weights[place.weights], share_max)
                whole = self._whole_below(active, matrices)
                return staging.run_rotation(version, adapter, matrices, whole), place
            slot = 2 if active.adapter == 1 else 1
            staging = self._staging_at(self._params.adapters[slot - 1], share_max)
            staged = staging.run_adapter(version, adapter, matrices)
            weights = self._unrotated(active, matrices)
            return staged, StagedPlace(weights, slot if staged.matrices else 0)

        return self._stage(version, run)

    def _whole_below(self, active: StagedPlace, matrices: str) -> NDArray[np.uint8]:
        """The whole weights in use, without a rotation; read from the device where they are."""
        if self._whole is None or self._whole[0] != matrices:
            at = self._params.weights[active.weights]
            self._whole = matrices, self._machine.read(at, packed_bytes(self._sizes))
        return self._whole[1]

    def _unrotated(self, active: StagedPlace, matrices: str) -> int:
        """The slot that has the whole weights in use without a rotation; written if none has."""
        if not active.merged:
            return active.weights
        whole = self._whole_below(active, matrices)
        self._machine.write(self._params.weights[1 - active.weights], whole)
        return 1 - active.weights

    def _staging_at(self, at: int, share_max: float) -> CudaStaging:
        return CudaStaging(
            self._sizes, lambda packed: self._machine.write(at, packed), share_max=share_max
        )

    def _stage(
        self, version: int, run: Callable[[StagedPlace], tuple[StagedWeights, StagedPlace]]
    ) -> StagedWeights:
        """Have `run` stage beside the active place; nothing is activated while it runs."""
        check_integer("version", version, 0, U32_MAX - 1)
        if not self._staging.acquire(blocking=False):
            raise WeightsNotReady("another thread stages weights")
        try:
            with self._known:
                self._slots.ready = None
                active = self._active
            weights, place = run(active)
            with self._known:
                self._slots.staged(weights)
                self._ready = place
                if not (active.merged or place.merged):
                    self._whole = None
        finally:
            self._staging.release()
        return weights

    def check_ready(self, version: int) -> None:
        """Refuse what `change` would refuse now.

        Raises:
            WeightsNotReady: neither slot has this version.
        """
        with self._known:
            self._check_ready(version)

    def _check_ready(self, version: int) -> None:
        if version != self._slots.active:
            self._slots.check_ready(version)

    def change(self, version: int, tell: Callable[[int], None]) -> int:
        """Have the kernel go on with a version; return the one before, which stays ready.

        Args:
            version: the active one, or the one that is ready.
            tell: gives the kernel a word and returns once it reads by it.

        Raises:
            WeightsNotReady: neither slot has it. What `tell` raises; nothing changed then.
        """
        with self._known:
            self._check_ready(version)
            previous = self._slots.active
            if version != previous:
                self._activations += 1
                tell(self._word(self._ready, version))
                self._active, self._ready = self._ready, self._active
                self._slots.swapped()
        return previous

    def close(self, timeout_s: float) -> bool:
        """Nothing is staged any more; False: a thread still does after this time."""
        return self._staging.acquire(timeout=timeout_s)

    @property
    def word(self) -> int:
        """What the kernel begins with."""
        return self._word(self._active, self._slots.active)

    def _word(self, place: StagedPlace, version: int) -> int:
        """As `use_weights` in kernel.cu reads it; each differs from the one before."""
        number = self._activations & 0x1FFFFFFF
        return number << 35 | place.adapter << 33 | place.weights << 32 | version
