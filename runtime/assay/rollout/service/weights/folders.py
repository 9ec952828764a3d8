"""Pushes to a remote engine: a folder that its server reads, then the server's own call.

The folder is below `rollout.engine_weights_dir`, which this service and the server see at the same
path. Whole weights become one safetensors file per tensor with an index, so that memory holds one
tensor; an adapter becomes peft's two files.

Invariants:
  - a push that is cut short, has a wrong tensor, or that the server refuses, leaves no folder and
  nothing that could be activated;
  - folders of the active version, of the one before it and of the staged one are kept, because a
  server that was restarted reads them again; older ones are removed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.core.errors import FailedPrecondition
from assay.core.tools.safetensors import Stored, pieces
from assay.rollout.errors import InvalidWeights, WeightsNotReady, WeightsProblem
from assay.rollout.models.staging import StagedWeights
from assay.rollout.service.weights.forms import checked_sha256
from assay.rollout.service.weights.parts import Assembly, Head, PushKind, PushSpec, whole_tensors
from assay.rollout.service.weights.shared import tensors_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from assay.rollout.service.weights.parts import WeightPart

ADAPTER_BYTES_MAX: Final = 1 << 32
TENSOR_BYTES_MAX: Final = 1 << 34
TENSORS_MAX: Final = 1 << 16
INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
_WIDTHS: Final = {"F32": 4, "F16": 2, "BF16": 2}


class PushedServer(Protocol):
    """A remote engine; `RemoteEngine` is one."""

    @property
    def takes(self) -> frozenset[str]: ...
    @property
    def policy_version(self) -> int: ...
    def stage(self, version: int, path: str) -> None: ...


class ServerFolder:
    """See the module. One push at a time."""

    def __init__(self, server: PushedServer, folder: Path, model_folder: Path | None) -> None:
        """Push to `server`.

        Args:
            server: the engine.
            folder: where folders are written.
            model_folder: has the `config.json` that whole weights need.
        """
        self._server = server
        self._folder = folder
        self._config = None if model_folder is None else model_folder / CONFIG
        self._pushing = threading.Lock()
        self._made: dict[int, Path] = {}
        self._history: list[int] = []
        self._ready: int | None = None

    @property
    def ready_version(self) -> int | None:
        """The staged version; `None` once it is active."""
        return None if self._ready == self._server.policy_version else self._ready

    async def receive(
        self, push: PushSpec, parts: AsyncIterator[WeightPart], shared_dir: Path | None
    ) -> StagedWeights:
        """Write the tensors and have the server stage them.

        Raises:
            FailedPrecondition: this server takes no pushes of this kind, or refused them.
            InvalidWeights: names the tensor.
            WeightsNotReady: another push is running.
            DependencyDown: the server did not answer.
        """
        if not self._pushing.acquire(blocking=False):
            raise WeightsNotReady("another push is running")
        try:
            self._check(push)
            begun = time.perf_counter()
            place = Path(await asyncio.to_thread(self._new_folder, push.version))
            try:
                files = _Files(place, push)
                if push.shared_file:
                    await asyncio.to_thread(files.take_all, shared_dir)
                else:
                    async for found in whole_tensors(parts, files.begin):
                        await asyncio.to_thread(files.take_each, found)
                await asyncio.to_thread(files.finish, self._config)
                await asyncio.to_thread(self._server.stage, push.version, str(place))
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
                raise
            self._keep(push.version, place)
            return StagedWeights(
                version=push.version,
                digest=files.digest(),
                bytes=files.bytes,
                work_s=time.perf_counter() - begun,
            )
        finally:
            self._pushing.release()

    def _check(self, push: PushSpec) -> None:
        if push.kind not in self._server.takes:
            can = ", ".join(sorted(self._server.takes)) or "none"
            message = f"this server takes pushes of kind: {can}"
            raise FailedPrecondition(message, field="kind")
        if push.base_version is not None:
            message = "base_version: the server applies adapters to the weights it started with"
            raise FailedPrecondition(message, field="base_version")
        if push.version in (0, self._server.policy_version):
            message = f"{push.version} is the version of other weights"
            raise InvalidWeights("version", WeightsProblem.REPEATED, message)
        if push.kind is PushKind.FULL and (self._config is None or not self._config.is_file()):
            message = "whole weights need rollout.tokenizer: the model's folder with config.json"
            raise FailedPrecondition(message, field="kind")

    def _new_folder(self, version: int) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f"version-{version}-", dir=self._folder.resolve())
        os.chmod(made, 0o755)  # noqa: S103, PTH101 - the server may be another user
        return made

    def _keep(self, version: int, place: Path) -> None:
        old = self._made.pop(version, None)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        self._made[version], self._ready = place, version
        active = self._server.policy_version
        if active not in self._history[-1:]:
            self._history.append(active)
        kept = {version, *self._history[-2:]}
        del self._history[:-2]
        for other in [one for one in self._made if one not in kept]:
            shutil.rmtree(self._made.pop(other), ignore_errors=True)


class _Files:
    """The files of one push."""

    def __init__(self, place: Path, push: PushSpec) -> None:
        self._place, self._push = place, push
        self._adapter = push.kind is not PushKind.FULL
        self._tensors: dict[str, Stored] = {}
        self._map: dict[str, str] = {}
        self._sums: dict[str, str] = {}
        self._begun: set[str] = set()
        self.bytes = 0

    def begin(self, head: Head, data: memoryview | None) -> Assembly:
        """Check a tensor before its bytes."""
        if head.name in self._begun:
            raise InvalidWeights(head.where, WeightsProblem.REPEATED, "came twice")
        if not head.name or len(self._begun) >= TENSORS_MAX:
            detail = f"a name; at most {TENSORS_MAX} tensors"
            raise InvalidWeights(head.where, WeightsProblem.UNKNOWN, detail)
        size = math.prod(head.shape) * _WIDTHS.get(head.dtype, 1)
        left = shutil.disk_usage(self._place).free
        most = ADAPTER_BYTES_MAX - self.bytes if self._adapter else TENSOR_BYTES_MAX
        if not head.shape or size > min(left, most):
            detail = f"{size} bytes; there is room for {min(left, most)}"
            raise InvalidWeights(head.where, WeightsProblem.SHAPE, detail)
        self._begun.add(head.name)
        return Assembly(head, head.shape, data)

    def take_all(self, shared_dir: Path | None) -> None:
        """Copy the tensors of a shared file."""
        for assembly in tensors_in(shared_dir, self._push.shared_file, self.begin):
            self.take(assembly)

    def take_each(self, found: Iterable[Assembly]) -> None:
        """Keep these tensors; see `take`."""
        for assembly in found:
            self.take(assembly)

    def take(self, assembly: Assembly) -> None:
        """Keep a complete tensor, if its checksum is right."""
        head, data = assembly.head, assembly.data
        self._sums[head.name] = checked_sha256(head, data)
        self.bytes += len(data)
        stored = Stored(head.dtype, head.shape, data)
        if self._adapter:
            self._tensors[head.name] = stored
        else:
            file = f"model-{len(self._map):05d}.safetensors"
            _write(self._place / file, {head.name: stored})
            self._map[head.name] = file

    def finish(self, config: Path | None) -> None:
        """Write the other files."""
        if not self._sums:
            raise FailedPrecondition("a push without tensors", field="tensor")
        if not self._adapter:
            (self._place / INDEX).write_text(json.dumps({"weight_map": self._map}))
            if config is not None:
                shutil.copyfile(config, self._place / CONFIG)
            return
        _write(self._place / "adapter_model.safetensors", self._tensors)
        (self._place / "adapter_config.json").write_text(json.dumps(self._adapter_config()))

    def _adapter_config(self) -> dict[str, Any]:
        where, kind = "adapter.config_json", self._push.kind
        try:
            config = json.loads(self._push.config_json)
        except (ValueError, RecursionError) as error:
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, f"not JSON: {error}") from None
        if not isinstance(config, dict):
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, "not an object")
        config = {"peft_type": kind.upper(), **config}
        if str(config["peft_type"]).lower() != kind:
            detail = f"peft_type {config['peft_type']} in a push of kind {kind}"
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, detail)
        return config

    def digest(self) -> str:
        """SHA-256 over names and digests; the order of the tensors does not matter."""
        listed = json.dumps(sorted(self._sums.items()))
        return hashlib.sha256(listed.encode()).hexdigest()


def _write(path: Path, tensors: Mapping[str, Stored]) -> None:
    with path.open("wb") as file:
        file.writelines(pieces(tensors))
