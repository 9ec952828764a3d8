"""The native engine, created from a model and owned by Python.

Python does no per-token work: the control core drives the engine through its address, and the
`Driver` (for tests, benches and offline scoring) passes whole batches.
"""

from __future__ import annotations

import ctypes
import math
import tempfile
import threading
import weakref
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from assay.core.errors import InvalidRequest
from assay.rollout.errors import (
    EngineLent,
    HostExhausted,
    InvalidWeights,
    WeightsNotReady,
    WeightsProblem,
)
from assay.rollout.interface.checks import U32_MAX, check_integer
from assay.rollout.layout import ModelShape, NativeEngineInfo, NativeEngineSettings
from assay.rollout.library.binding import build_id, load
from assay.rollout.library.engines import EngineIdentity, Lending, libc
from assay.rollout.models.model import DType, Model, TensorKind
from assay.rollout.models.staging import (
    AdapterStaging,
    Slots,
    StagedWeights,
    Staging,
    digest_of,
    weights_sha256,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import numpy as np

    from assay.rollout.models.adapters import Adapter
    from assay.rollout.models.model import Tensor
    from assay.rollout.models.tensor_checks import AnyTensor


class Isa(IntEnum):
    """Instruction set of the kernels, numbered as in engine.h (`assay_isa`)."""

    AUTO = 0
    PORTABLE = 1
    AVX2 = 2
    AVX512 = 3
    AMX = 4


class EngineError(InvalidRequest, RuntimeError):
    """The engine refused its input; `status` is its `assay_engine_status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class EngineInfo:
    """What an engine detected and allocated; sizes in bytes."""

    isa: str
    n_threads: int
    huge_pages: bool
    weight_bytes: int
    matrix_bytes: int
    """Bytes of weights that one decode step streams."""
    workspace_bytes: int
    kv_block_bytes: int
    parks: int
    """Times that a thread of the pool stopped spinning and parked, since creation."""


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine; see `assay_engine_settings`."""

    weight_dtype: DType = DType.BF16
    kv_dtype: DType = DType.F32
    """float32 keeps log-probs close to the trainer's; BF16 halves the arena and changes log-probs
    by what `assay bench mismatch` prints."""
    threads: int = 0
    """Threads per step, the caller's included; 0: chosen by the model's size."""
    batch_max: int = 16
    step_tokens_max: int = 256
    block_tokens: int = 16
    seq_len_max: int | None = None
    """Positions to allocate for; None: the model's training context."""
    isa: Isa = Isa.AUTO
    first_cpu: int | None = None
    """Pool thread i is pinned to cpu first_cpu + i (the caller pins itself); None: not pinned."""
    spin_max: int = 0
    weight_slots: int = 2
    """2: the first `stage` allocates a second slot of weights; 1: staging is refused."""
    second_slot_dir: Path | None = None
    """Folder in which the second slot's matrices lie in a file, where memory has room for one set:
    staging goes on beside decoding, and `activate` holds the engine while it exchanges both. Not in
    memory itself (`/dev/shm`). None: they lie in memory, and nothing is copied."""


class Engine(Lending):
    """A decode engine. Close it, or use it as a context manager; a dropped engine is freed.

    While a runtime uses it, it cannot be closed (`EngineLent`).
    """

    def __init__(self, address: int, model: Model, settings: EngineSettings) -> None:
        super().__init__()
        self._library = load()
        self._address = address
        self._freed = weakref.finalize(self, self._library.assay_engine_destroy, address)
        self.config = model.config
        self.settings = settings
        self._slots = Slots(0, digest_of(model))
        self._slots_lock, self._staging = threading.Lock(), threading.Lock()

    @classmethod
    def create(cls, model: Model, settings: EngineSettings | None = None) -> Engine:
        """Copy the model's tensors into the engine's arena; the model may be freed afterwards."""
        settings = settings or EngineSettings()
        library = load()
        status = ctypes.c_int(0)
        message = ctypes.create_string_buffer(256)
        frequencies, gain = model.rope()
        address = library.assay_engine_create(
            ctypes.byref(native_shape(model, settings, gain)),
            ctypes.byref(_native_settings(settings)),
            ctypes.byref(status),
            message,
            len(message),
        )
        if not address:
            raise EngineError(status.value, message.value.decode())
        engine = cls(address, model, settings)
        try:
            engine._load_all(model)
            engine._load(TensorKind.ROPE_INV_FREQ, 0, DType.F32, frequencies)
            engine._check(library.assay_engine_seal(address))
            engine._place_second_slot()
            engine._identify(model)
        except BaseException:
            engine.close()
            raise
        return engine

    @property
    def address(self) -> int:
        """`assay_engine *`, for the control core. Valid until `close`."""
        if not self._address:
            raise EngineError(-1, "the engine is closed")
        return self._address

    @property
    def info(self) -> EngineInfo:
        raw = NativeEngineInfo()
        self._library.assay_engine_get_info(self.address, ctypes.byref(raw))
        return EngineInfo(
            isa=raw.isa.decode(),
            n_threads=raw.n_threads,
            huge_pages=bool(raw.huge_pages),
            weight_bytes=raw.weight_bytes,
            matrix_bytes=raw.matrix_bytes,
            workspace_bytes=raw.workspace_bytes,
            kv_block_bytes=raw.kv_block_bytes,
            parks=raw.parks,
        )

    @property
    def identity(self) -> EngineIdentity:
        """The code that computes; constant for the engine's life."""
        return self._identity

    def weights_sha256(self, version: int) -> str:
        """SHA-256 of the weights that `version` stands for, hex."""
        return weights_sha256(self._form, self._slots.versions.named(version))

    @property
    def policy_version(self) -> int:
        """Version of the weights, stamped on every entry of a step. Set it between steps."""
        return int(self._library.assay_engine_policy_version(self.address))

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        with self._slots_lock:
            self._slots.renamed(version)
            self._library.assay_engine_set_policy_version(self.address, version)

    @property
    def weights_digest(self) -> str:
        """SHA-256 of the active weights, as `StagedWeights.digest`."""
        return self._slots.active_digest

    @property
    def ready_version(self) -> int | None:
        """What `activate` would accept: the version last staged, or the previously active one."""
        ready = self._slots.ready
        return None if ready is None else ready.version

    def stage(
        self, version: int, tensors: Iterable[AnyTensor], *, share_max: float = 1.0
    ) -> StagedWeights:
        """Copy whole weights into the second slot, from any thread, while steps continue.

        The slot's old content is lost from the first tensor on: a rollback to it needs staging.

        Args:
            version: 0 to 2^32 - 1; a number identifies the same weights forever.
            tensors: every tensor of the model, in any order. Rotary frequencies stay as they are.
            share_max: share of one core's time for staging, 0.001 to 1.

        Raises:
            InvalidWeights: a tensor is unknown, missing, repeated, of another shape or dtype,
                damaged or not finite, or the version names other weights. Nothing is staged then.
            WeightsNotReady: another thread stages, or the engine has one slot.
            HostExhausted: no memory for the second slot.
        """
        staging = Staging(self._library, self._address, self.config, share_max=share_max)
        in_file = self.settings.second_slot_dir is not None
        return self._stage(version, lambda: replace(staging.run(version, tensors), in_file=in_file))

    def stage_adapter(
        self,
        version: int,
        adapter: Adapter,
        *,
        base_version: int | None = None,
        share_max: float = 1.0,
    ) -> StagedWeights:
        """Stage a LoRA or OFT adapter over the active matrices in the second slot.

        It is never merged: each projection computes W x and the adapter's contribution separately,
        bit-identical for every batch. It replaces an active adapter; it is not added to it.
        An adapter without projections means the matrices alone.

        Args:
            version: 0 to 2^32 - 1; a number identifies the same weights forever.
            adapter: its projections.
            base_version: the version of the whole weights that it belongs to; None: those in use.
            share_max: share of one core's time for staging, 0.001 to 1.

        Raises:
            InvalidWeights: values are not finite, the version identifies other weights, or the
                matrices in use are not those of `base_version`.
            WeightsNotReady: another thread stages, or the engine has one slot.
            HostExhausted: no memory for it.
        """
        staging = AdapterStaging(self._library, self._address, share_max=share_max)

        def run() -> StagedWeights:  # nothing is activated while it runs
            slots = self._slots
            matrices = slots.active_matrices or slots.active_digest
            if base_version is not None and slots.versions.named(base_version) != matrices:
                detail = f"the matrices in use are not those of version {base_version}"
                raise InvalidWeights("base_version", WeightsProblem.VERSION, detail)
            return staging.run(version, adapter, matrices)

        return self._stage(version, run)

    def _stage(self, version: int, run: Callable[[], StagedWeights]) -> StagedWeights:
        check_integer("version", version, 0, U32_MAX)
        if self.settings.weight_slots < 2:
            raise WeightsNotReady.of_one_slot()
        if not self._staging.acquire(blocking=False):
            raise WeightsNotReady("another thread stages weights")
        try:
            with self._slots_lock:
                self._slots.ready = None
            weights = run()
            with self._slots_lock:
                self._slots.versions.check(version, weights.digest)
                self._check(self._library.assay_engine_stage_end(self.address))
                self._slots.staged(weights)
        finally:
            self._staging.release()
        return weights

    def check_ready(self, version: int) -> None:
        """Refuse what `activate` would refuse now.

        Raises:
            WeightsNotReady: neither slot has this version.
        """
        with self._slots_lock:
            if version != self._slots.active:
                self._slots.check_ready(version)

    def activate(self, version: int) -> None:
        """Decode with this version from now on; call between steps (see `Runtime.activate`).

        The previously active version stays in the other slot and can be activated again. Whole
        weights in a file (`second_slot_dir`) are read, and those in use written there, meanwhile.

        Raises:
            WeightsNotReady: neither slot has it.
        """
        with self._slots_lock:
            if version == self._slots.active:
                return
            self._slots.check_ready(version)
            self._check(self._library.assay_engine_swap(self.address, version))
            self._slots.swapped()

    def close(self) -> None:
        """Free the engine; closing it twice is allowed.

        Raises:
            EngineLent: a runtime uses it, or a thread stages weights into it.
        """
        if not self._address:
            return
        if not self._staging.acquire(blocking=False):
            raise EngineLent.staging()
        try:
            self.lend()  # never returned: from now on no runtime can borrow it
            self._address = 0
            self._freed()
        finally:
            self._staging.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _place_second_slot(self) -> None:
        folder = self.settings.second_slot_dir
        if folder is None:
            return
        try:
            with tempfile.TemporaryFile(dir=folder) as file:  # it has no name, so nothing is left
                status = self._library.assay_engine_second_in_file(self._address, file.fileno())
        except OSError as error:
            message = f"the folder for the second slot of weights: {error}"
            raise HostExhausted(message) from None
        self._check(status)

    def _identify(self, model: Model) -> None:
        self._form = model.form_sha256()
        self._identity = EngineIdentity(
            build=build_id(),
            libc=libc(),
            isa=self.info.isa,
            weight_dtype=self.settings.weight_dtype.name,
            kv_dtype=self.settings.kv_dtype.name,
        )

    def _load_all(self, model: Model) -> None:
        for kind, layer, _ in model.check().config.tensor_shapes():
            tensor: Tensor = model.tensors[kind, layer]
            self._load(kind, layer, tensor.dtype, tensor.data)

    def _load(self, kind: TensorKind, layer: int, dtype: DType, data: np.ndarray) -> None:
        rows, cols = data.shape if data.ndim == 2 else (1, math.prod(data.shape))
        self._check(
            self._library.assay_engine_load(
                self._address, kind, layer, data.ctypes.data, dtype, rows, cols
            )
        )

    def _check(self, status: int) -> None:
        if status != 0:
            raise EngineError(status, self._library.assay_engine_status_text(status).decode())


def native_shape(model: Model, settings: EngineSettings, rope_gain: float) -> ModelShape:
    """The model's sizes in the native engine's form."""
    config = model.config
    return ModelShape(
        dim=config.dim,
        n_layers=config.n_layers,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        hidden_dim=config.hidden_dim,
        vocab_size=config.vocab_size,
        seq_len_max=settings.seq_len_max or config.positions_max,
        rms_eps=config.rms_eps,
        rope_gain=rope_gain,
        weight_dtype=settings.weight_dtype,
        kv_dtype=settings.kv_dtype,
        tied_embeddings=config.tied_embeddings,
        qk_norm=config.qk_norm,
        qkv_bias=config.qkv_bias,
        out_bias=config.out_bias,
        mlp_bias=config.mlp_bias,
    )


def _native_settings(settings: EngineSettings) -> NativeEngineSettings:
    return NativeEngineSettings(
        n_threads=settings.threads,
        batch_max=settings.batch_max,
        step_tokens_max=settings.step_tokens_max,
        block_tokens=settings.block_tokens,
        spin_max=settings.spin_max,
        first_cpu=-1 if settings.first_cpu is None else settings.first_cpu,
        isa=settings.isa,
    )
