"""Stages new weights into an engine's second slot while the first one decodes.

Invariants:
  - one staging at a time writes to the second slot, and no activation happens during it;
  - a tensor is checked (name, shape, dtype, checksum, finite values) before it counts; after any
    error the slot holds nothing that can be activated, and the active slot is untouched;
  - a version number identifies one set of weights forever, so that keys and values cached under it
  can be used again when it returns. The last `VERSIONS_MAX` numbers are remembered; numbers below
  the forgotten ones are refused.

Tensors are packed in pieces of at most `PIECE_BYTES`, so that a share of a core below 1 is kept to
within some milliseconds; with all of a core, checksums are computed by a second thread, unless the
tensor's sender needs a core itself. The bytes of a tensor need not be in memory together: rows go
into the slot as they come.
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import math
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.rollout.errors import (
    HostExhausted,
    InvalidWeights,
    WeightsNotReady,
    WeightsProblem,
)
from assay.rollout.interface.checks import check_number
from assay.rollout.layout import AdapterPiece, Piece
from assay.rollout.models.model import DType, Tensor, TensorKind
from assay.rollout.models.tensor_checks import (
    PIECES_KEPT,
    AnyTensor,
    Checksums,
    ExpectedTensors,
    Rows,
    StagedTensor,
    tensor_digest,
    where_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    import numpy as np
    from numpy.typing import NDArray

    from assay.rollout.models.adapters import AdaptedProjection, Adapter
    from assay.rollout.models.model import Model, ModelConfig, TensorKey

PIECE_BYTES: Final = 1 << 17
PIECE_BYTES_ALONE: Final = 1 << 20
"""With all of a core: a cache still holds a piece after its checksum."""
VERSIONS_MAX: Final = 4096
SHARE_MIN: Final = 0.001
CHECKED_BESIDE_BYTES: Final = 1 << 18
"""Tensors of this size are checked by a thread of their own while this one packs them, if staging
has all of a core and another one is idle: with a share below it, two threads would take more; where
a sender and the transport work too, they are interrupted by each other."""
REST_AFTER_S: Final = 0.002
"""CPU time of staging between two rests: each ends by interrupting a thread that decodes, with cold
caches, which doubles the cost of what follows."""
_NO_MEMORY, _NOT_FINITE = -2, -11


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWeights:
    """Weights that are ready in the second slot."""

    version: int
    digest: str
    """SHA-256 over kind, layer, dtype, shape and `TensorDigest` of every tensor, as received."""
    bytes: int
    work_s: float
    """Seconds of a core for checking and packing."""
    matrices: str = ""
    """With an adapter: the digest of the whole weights below it; empty: no adapter."""
    in_file: bool = False
    """They lie in a file: their activation holds the engine while it exchanges both slots."""


def tensors_of(model: Model) -> Iterator[StagedTensor]:
    """A model's tensors in the order of its config."""
    for kind, layer, _ in model.check().config.tensor_shapes():
        yield StagedTensor(kind=kind, layer=layer, tensor=model.tensors[kind, layer])


class Digest:
    """Digest of a set of weights; the order of its tensors does not matter."""

    def __init__(self) -> None:
        self._tensors: dict[TensorKey, str] = {}

    def add(self, kind: TensorKind, layer: int, tensor: Tensor | AnyTensor, digest: str) -> None:
        """Add one tensor with its `TensorDigest`."""
        shape = "x".join(map(str, tensor.shape))
        self._tensors[kind, layer] = f"{kind.name} {layer} {tensor.dtype.name} {shape} {digest}\n"

    def hexdigest(self) -> str:
        """Digest of all added tensors."""
        lines = (line for _, line in sorted(self._tensors.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def digest_of(model: Model) -> str:
    """What `StagedWeights.digest` would be for this model."""
    digest = Digest()
    for one in tensors_of(model):
        digest.add(one.kind, one.layer, one.tensor, tensor_digest(one.tensor.data))
    return digest.hexdigest()


def weights_sha256(form: str, digest: str) -> str:
    """Identifier of weights in a receipt.

    Args:
        form: `Model.form_sha256`.
        digest: digest of the tensors, as `digest_of` and `StagedWeights.digest`.
    """
    return hashlib.sha256(f"{form} {digest}".encode()).hexdigest()


class Versions:
    """Which weights each version number identifies."""

    def __init__(self, versions_max: int = VERSIONS_MAX) -> None:
        self._names: dict[int, str] = {}
        self._versions_max = versions_max
        self._forgotten_max = -1

    def check(self, version: int, digest: str) -> None:
        """Refuse a number that identifies other weights.

        Raises:
            InvalidWeights: `version`; also when the number may have been forgotten.
        """
        known = self._names.get(version)
        if known is not None and known != digest:
            raise InvalidWeights("version", WeightsProblem.VERSION, f"{version} names others")
        if known is None and version <= self._forgotten_max:
            needed = f"above {self._forgotten_max}, not {version}"
            raise InvalidWeights("version", WeightsProblem.VERSION, needed)

    def named(self, version: int) -> str:
        """The digest of the number's weights; empty: none, or forgotten."""
        return self._names.get(version, "")

    def name(self, version: int, digest: str) -> None:
        """Assign the number to these weights from now on; see `check`."""
        self.check(version, digest)
        self._names.pop(version, None)
        self._names[version] = digest
        while len(self._names) > self._versions_max:
            oldest = next(iter(self._names))
            del self._names[oldest]
            self._forgotten_max = max(self._forgotten_max, oldest)


class Share:
    """Keeps a thread to its share of a core."""

    def __init__(self, share_max: float, pause: Callable[[float], None]) -> None:
        self._rest = 1.0 / check_number("share_max", share_max, SHARE_MIN, 1.0) - 1.0
        self._pause = pause
        self._owed_s = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a core, and no rest is needed."""
        return self._rest == 0

    def worked(self, work_s: float) -> None:
        """Rest for this much CPU time, and for what was not rested for before."""
        self._owed_s += work_s
        if self._rest > 0 and self._owed_s >= REST_AFTER_S:
            self._pause(self._owed_s * self._rest)
            self._owed_s = 0.0


class Staging:
    """One run that stages tensors into the second slot of the engine at `address`."""

    def __init__(
        self,
        library: ct.CDLL,
        address: int,
        config: ModelConfig,
        *,
        share_max: float,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._library = library
        self._address = address
        self._expected = ExpectedTensors(config)
        self._share = Share(share_max, pause)
        self._digest = Digest()
        self._bytes, self._work_s = 0, 0.0
        self._taken = 0
        """Pieces so far."""
        self._beside: deque[tuple[int, Future[float], Callable[[], None] | None]] = deque()
        """Numbers of pieces that another thread reads for their checksum, and what follows it."""

    def run(self, version: int, tensors: Iterable[AnyTensor]) -> StagedWeights:
        """Stage them all.

        Raises:
            InvalidWeights: names the tensor.
            HostExhausted: no memory for the slot.
        """
        if self._library.assay_engine_stage_begin(self._address) == _NO_MEMORY:
            raise HostExhausted("no room for a second slot of weights: see rollout.second_slot_dir")
        with ThreadPoolExecutor(1, thread_name_prefix="assay-checksum") as beside:
            for one in tensors:
                self._take(one, beside)
            self._wait_beside(self._taken)
        self._expected.end()
        return StagedWeights(
            version=version,
            digest=self._digest.hexdigest(),
            bytes=self._bytes,
            work_s=self._work_s,
        )

    def _take(self, one: AnyTensor, beside: Executor) -> None:
        target = _Target(self._expected.check(one), one)
        self._expected.came(one)
        checksums = Checksums(one)

        def checked() -> None:
            self._digest.add(one.kind, one.layer, one, checksums.checked())

        is_beside = self._share.is_whole and one.idle_core and target.bytes >= CHECKED_BESIDE_BYTES
        for piece in self._pieces(one):
            if not is_beside:
                self._pack(target, piece, checksums)
                continue
            updating = beside.submit(_update, checksums, piece)
            self._beside.append((self._taken, updating, None))
            self._pack(target, piece)
        if is_beside:
            self._beside.append((self._taken, updating, checked))
        else:
            checked()

    def _pieces(self, one: AnyTensor) -> Iterator[memoryview]:
        """Those of a tensor; no piece changes before the second thread has read it."""
        pieces = iter(one.pieces)
        while True:
            self._wait_beside(self._taken + 1 - PIECES_KEPT)
            if (piece := next(pieces, None)) is None:
                return
            self._taken += 1
            yield piece

    def _wait_beside(self, number: int) -> None:
        """Until the second thread has read the pieces up to this one."""
        while self._beside and self._beside[0][0] <= number:
            _, updating, then = self._beside.popleft()
            if then is None:
                self._work_s += updating.result()
            else:
                then()

    def _pack(self, target: _Target, piece: memoryview, checksums: Checksums | None = None) -> None:
        """Into the slot, part by part; updates `checksums`."""
        self._bytes += len(piece)
        step = target.step(PIECE_BYTES_ALONE if self._share.is_whole else PIECE_BYTES)
        for start in range(0, len(piece), step):
            begun = time.thread_time()
            part = piece[start : start + step]
            if checksums is not None:
                checksums.update(part)
            for rows in target.rows.cut(part):
                self._stage(target, rows)
            work_s = time.thread_time() - begun
            self._work_s += work_s
            self._share.worked(work_s)

    def _stage(self, target: _Target, rows: NDArray[np.uint8]) -> None:
        status = self._library.assay_engine_stage(self._address, ct.byref(target.next(rows)))
        if status == _NOT_FINITE:
            problem = "a value is not finite in the dtype that it is stored in"
            raise InvalidWeights(target.where, WeightsProblem.NOT_FINITE, problem)
        if status != 0:
            raise InvalidWeights(
                target.where, WeightsProblem.SHAPE, "the engine has no room for it"
            )


class _Target:
    """Where the next rows of a tensor go."""

    def __init__(self, where: str, one: AnyTensor) -> None:
        self.where = where
        *_, cols = one.shape
        self._row_bytes = cols * one.dtype.bytes
        self._n_rows = math.prod(one.shape) // cols
        self._at, self._one = 0, one
        self.bytes = self._n_rows * self._row_bytes
        self.rows = Rows(self._row_bytes)

    def step(self, bytes_max: int) -> int:
        """Bytes of whole rows, at most so many if a row is not longer."""
        return max(1, bytes_max // self._row_bytes) * self._row_bytes

    def next(self, rows: NDArray[np.uint8]) -> Piece:
        """These, which follow the ones before."""
        start, self._at = self._at, self._at + len(rows) // self._row_bytes
        return Piece(
            tensor=self._one.kind,
            layer=self._one.layer,
            dtype=self._one.dtype,
            rows=self._n_rows,
            cols=self._row_bytes // self._one.dtype.bytes,
            start=start,
            end=self._at,
            data=rows.ctypes.data,
        )


class AdapterStaging:
    """Stages one adapter over the active matrices, in the engine's second slot."""

    def __init__(
        self,
        library: ct.CDLL,
        address: int,
        *,
        share_max: float,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._library, self._address = library, address
        self._share = Share(share_max, pause)

    def run(self, version: int, adapter: Adapter, matrices: str) -> StagedWeights:
        """Stage it; `matrices` is the digest of the active slot's whole weights.

        Raises:
            InvalidWeights: names the projection.
            HostExhausted: no memory for the slot.
        """
        begun = last = time.thread_time()
        n = len(adapter.projections)
        pieces = (AdapterPiece * max(1, n))(*map(_piece, adapter.projections))
        begin = self._library.assay_engine_stage_adapter_begin
        _check_piece(begin(self._address, pieces, n), "adapter")
        lines, size = [], 0
        for one, piece in zip(adapter.projections, pieces, strict=False):
            size += self._stage(one, piece)
            lines.append(adapter_line(one))
            now = time.thread_time()
            self._share.worked(now - last)
            last = now
        return StagedWeights(
            version=version,
            digest=adapter_digest(matrices, lines),
            bytes=size,
            work_s=time.thread_time() - begun,
            matrices=matrices if n else "",
        )

    def _stage(self, one: AdaptedProjection, piece: AdapterPiece) -> int:
        a = _float32(one.a)
        b = None if one.b is None else _float32(one.b)
        piece.a, piece.b = _address(a), None if b is None else _address(b)
        status = self._library.assay_engine_stage_adapter(self._address, ct.byref(piece))
        if status != 0:
            _check_piece(status, where_of(one.tensor, one.layer))
        return a.nbytes + (0 if b is None else b.nbytes)


def _float32(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.data if tensor.dtype is DType.F32 else tensor.to_float32()


def _address(array: NDArray[np.float32]) -> int:
    """As `array.ctypes.data`, which makes an object first."""
    return int(array.__array_interface__["data"][0])


def adapter_digest(matrices: str, lines: Iterable[str]) -> str:
    """Of an adapter over the whole weights of a digest; without a line, theirs.

    Args:
        matrices: the digest of the whole weights.
        lines: `adapter_line` of each projection, in order.
    """
    of_adapter = "".join(lines)
    whole = f"adapter over {matrices}\n{of_adapter}"
    return hashlib.sha256(whole.encode()).hexdigest() if of_adapter else matrices


def adapter_line(one: AdaptedProjection) -> str:
    """All that is said of a projection in an adapter's digest."""
    parts = [
        f"{where_of(one.tensor, one.layer)} {one.kind.name} {one.size} {one.scale!r} {one.terms}"
    ]
    for part in (one.a, one.b):
        if part is not None:
            parts.append(f"{part.dtype.name} {part.shape} {part.digest()}")
    return "".join(f"{part}\n" for part in parts)


def _piece(one: AdaptedProjection) -> AdapterPiece:
    n_blocks = 0 if one.b is not None else one.a.shape[0]
    sizes = one.rows, one.cols, one.size, n_blocks  # in the order of the structure: by name is slow
    return AdapterPiece(one.tensor, one.layer, one.kind, DType.F32, *sizes, one.terms, one.scale)


def _check_piece(status: int, where: str) -> None:
    if status == _NO_MEMORY:
        raise HostExhausted("not enough memory for an adapter in the second slot")
    if status == _NOT_FINITE:
        raise InvalidWeights(where, WeightsProblem.NOT_FINITE, "a value is not finite")
    if status != 0:
        problem = f"the engine does not take it (status {status})"
        raise InvalidWeights(where, WeightsProblem.SHAPE, problem)


class Slots:
    """Content of an engine's two slots, by version. Not thread-safe: its owner locks."""

    def __init__(self, version: int, digest: str) -> None:
        self.versions = Versions()
        self.versions.name(version, digest)
        self.active, self.active_digest = version, digest
        self.active_matrices = ""
        self.ready: StagedWeights | None = None
        """Version in the second slot; after a swap, the previously active one."""

    def renamed(self, version: int) -> None:
        """The active weights get this number from now on."""
        self.versions.name(version, self.active_digest)
        self.active = version

    def staged(self, weights: StagedWeights) -> None:
        """The second slot is complete."""
        self.versions.name(weights.version, weights.digest)
        self.ready = weights

    def check_ready(self, version: int) -> None:
        """Refuse to activate a version that is not ready.

        Raises:
            WeightsNotReady: names the version that is.
        """
        if self.ready is None or self.ready.version != version:
            ready = None if self.ready is None else self.ready.version
            raise WeightsNotReady.unstaged(version, ready)

    def swapped(self) -> None:
        """The slots were exchanged."""
        if self.ready is None:
            raise WeightsNotReady("the second slot has nothing")
        old = StagedWeights(
            version=self.active,
            digest=self.active_digest,
            bytes=self.ready.bytes,
            work_s=0.0,
            matrices=self.active_matrices,
            in_file=self.ready.in_file,
        )
        self.active, self.active_digest = self.ready.version, self.ready.digest
        self.active_matrices = self.ready.matrices
        self.ready = old


def _update(checksums: Checksums, piece: memoryview) -> float:
    """Adds a piece; returns the CPU time that it took."""
    begun = time.thread_time()
    checksums.update(piece)
    return time.thread_time() - begun
