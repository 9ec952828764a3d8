"""Engines of a runtime: a model's engine, or the probe, which needs no model."""

from __future__ import annotations

import ctypes as ct
import hashlib
import platform
import threading
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from assay.rollout.errors import EngineLent
from assay.rollout.layout import EngineOps, Probe
from assay.rollout.library.binding import build_id, load


@cache
def libc() -> str:
    """The C library, whose cosines make the rotary tables."""
    return " ".join(platform.libc_ver()).strip() or "unknown"


class Lending:
    """One engine serves one runtime: a runtime borrows the engine until the runtime is closed."""

    def __init__(self) -> None:
        self._lending = threading.Lock()

    @property
    def lent(self) -> bool:
        """Whether a runtime uses it."""
        return self._lending.locked()

    def lend(self) -> None:
        """Mark it as in use.

        Raises:
            EngineLent: it is in use.
        """
        if not self._lending.acquire(blocking=False):
            raise EngineLent("a runtime decodes with this engine; close that runtime first")

    def give_back(self) -> None:
        """Mark it as free again."""
        self._lending.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """Everything except weights and prompt that determines the bits of a rollout."""

    build: str
    """SHA-256 of the compiled library, hex."""
    libc: str
    isa: str
    weight_dtype: str
    kv_dtype: str


class AddressedEngine(Protocol):
    """A native engine behind an address: `assay.rollout.models.Engine`."""

    policy_version: int

    @property
    def identity(self) -> EngineIdentity:
        """The code that computes."""
        ...

    def weights_sha256(self, version: int) -> str:
        """SHA-256 of the weights that `version` stands for, hex."""
        ...

    def lend(self) -> None: ...

    def give_back(self) -> None: ...

    def check_ready(self, version: int) -> None:
        """Refuse what `activate` would refuse now."""
        ...

    def activate(self, version: int) -> None:
        """Decode with this version of the weights; call between steps."""
        ...

    @property
    def address(self) -> int:
        """`assay_engine *`; it outlives the runtime."""
        ...


class ProbeEngine(Lending):
    """The engine without a model: tokens are a function of what it reads from the KV blocks.

    `bytes_a_position` is the size of one KV position, `spin_ns` the simulated work of a step.
    `fail_at_step` and `fault_at_step` make a step return an error, or write to address zero.
    `misbehave` makes every step commit each violation that the hot-path guard detects.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 257,
        block_tokens: int = 16,
        seq_len_max: int = 1 << 16,
        batch_max: int = 64,
        step_tokens_max: int = 4096,
        read_all: bool = False,
        bytes_a_position: int = 8,
        spin_ns: int = 0,
        fail_at_step: int = 0,
        fault_at_step: int = 0,
        misbehave: int = 0,
    ) -> None:
        super().__init__()
        self.probe = Probe(
            vocab_size=vocab_size,
            block_tokens=block_tokens,
            read_all=read_all,
            bytes_a_position=bytes_a_position,
            spin_ns=spin_ns,
            fail_at_step=fail_at_step,
            fault_at_step=fault_at_step,
            misbehave=misbehave,
        )
        self._bounds = (seq_len_max, batch_max, step_tokens_max)

    @property
    def policy_version(self) -> int:
        """Stamped on every token; set it between steps."""
        return int(self.probe.policy_version)

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self.probe.policy_version = version

    def check_ready(self, version: int) -> None:
        """Every version is ready."""

    def activate(self, version: int) -> None:
        """The probe's weights are their version number."""
        self.policy_version = version

    @property
    def identity(self) -> EngineIdentity:
        """The code that computes; there is no model."""
        return EngineIdentity(
            build=build_id(), libc=libc(), isa="probe", weight_dtype="none", kv_dtype="none"
        )

    def weights_sha256(self, version: int) -> str:
        """The probe's tokens depend on the version and on nothing else."""
        return hashlib.sha256(f"probe {version}".encode()).hexdigest()

    def native_ops(self) -> EngineOps:
        """The callbacks for the core."""
        ops = EngineOps()
        load().assay_probe_ops(ct.byref(self.probe), *self._bounds, ct.byref(ops))
        return ops


def native_ops(engine: AddressedEngine | ProbeEngine) -> EngineOps:
    """The core's callbacks into `engine`."""
    if isinstance(engine, ProbeEngine):
        return engine.native_ops()
    ops = EngineOps()
    load().assay_engine_ops_of(engine.address, ct.byref(ops))
    return ops
