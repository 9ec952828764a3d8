"""The native engine, created from a model and owned by Python.

Python is on no token's path: the control core drives the engine through its address, and the
`Driver` (for tests, benches and offline scoring) hands whole batches over.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from assay.core.errors import InvalidRequest
from assay.rollout.binding import load
from assay.rollout.layout import ModelShape, NativeEngineInfo, NativeEngineSettings
from assay.rollout.models.model import DType, Model, TensorKind

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import numpy as np

    from assay.rollout.models.model import Tensor


class Isa(IntEnum):
    """Vector code, numbered as in engine.h (`assay_isa`)."""

    AUTO = 0
    PORTABLE = 1
    AVX2 = 2
    AVX512 = 3
    AMX = 4


class EngineError(InvalidRequest, RuntimeError):
    """The engine refused what it was given; `status` is its `assay_engine_status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class EngineInfo:
    """What an engine found and took; sizes in bytes."""

    isa: str
    n_threads: int
    huge_pages: bool
    weight_bytes: int
    matrix_bytes: int
    """Of the weights, what one decode step streams."""
    workspace_bytes: int
    kv_block_bytes: int
    parks: int
    """Times a thread of the pool gave up spinning since creation."""


@dataclass(frozen=True)
class EngineSettings:
    """How an engine runs; see `assay_engine_settings`."""

    weight_dtype: DType = DType.BF16
    kv_dtype: DType | None = None
    """None: the dtype of the weights."""
    threads: int = 0
    """Threads of a step, the caller's included; 0: chosen by the model's size."""
    batch_max: int = 16
    step_tokens_max: int = 256
    block_tokens: int = 16
    seq_len_max: int | None = None
    """Positions to make room for; None: what the model was trained for."""
    isa: Isa = Isa.AUTO
    first_cpu: int | None = None
    """Pool thread i is pinned to cpu first_cpu + i (the caller pins itself); None: not pinned."""
    spin_max: int = 0


class Engine:
    """A decode engine. Close it, or use it as a context manager."""

    def __init__(self, address: int, model: Model, settings: EngineSettings) -> None:
        self._library = load()
        self._address = address
        self.config = model.config
        self.settings = settings

    @classmethod
    def create(cls, model: Model, settings: EngineSettings | None = None) -> Engine:
        """Copies the model's tensors into the engine's arena; the model may go away after."""
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
    def policy_version(self) -> int:
        """Version of the weights, stamped on every entry of a step. Set it between steps."""
        return int(self._library.assay_engine_policy_version(self.address))

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self._library.assay_engine_set_policy_version(self.address, version)

    def close(self) -> None:
        """Frees the engine; closing twice is fine."""
        if self._address:
            self._library.assay_engine_destroy(self._address)
            self._address = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
    """The model's sizes as the native engine is told them."""
    config = model.config
    kv_dtype = settings.weight_dtype if settings.kv_dtype is None else settings.kv_dtype
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
        kv_dtype=kv_dtype,
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
