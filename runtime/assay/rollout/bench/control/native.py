"""Python bindings of the native parts of the benches (`native/bench.h`)."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from assay.rollout.library.binding import declare, load

if TYPE_CHECKING:
    from assay.rollout.local.runtime import Runtime

_P, _U64, _U32, _I32 = ct.c_void_p, ct.c_uint64, ct.c_uint32, ct.c_int32


class _Drive(ct.Structure):
    _fields_ = (
        ("rollouts", _U64),
        ("group", _U32),
        ("prompt_len", _U32),
        ("max_tokens", _U32),
        ("vary", _U32),
        ("cancel_one_in", _U32),
        ("want_reward", _U32),
        ("prompts", _U32),
        ("cpu", _I32),
        ("seed", _U64),
    )


class _Driven(ct.Structure):
    _fields_ = (
        ("seconds", ct.c_double),
        *((name, _U64) for name in ("submitted", "completed", "cancelled", "tokens")),
        *((name, _U64) for name in ("full", "wrong")),
    )


class _Taxed(ct.Structure):
    _fields_ = (("steps", _U64), ("seconds", ct.c_double))


class Tax(IntEnum):
    """How a step is passed to the worker."""

    EVENTFD = 0
    POLLING = 1
    RING = 2
    RESIDENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """Work for a runtime; with `vary`, lengths and groups are uniform up to the bounds given."""

    rollouts: int
    group: int = 8
    prompt_len: int = 16
    max_tokens: int = 8
    vary: bool = False
    cancel_one_in: int = 0
    want_reward: bool = True
    prompts: int = 64
    cpu: int = -1
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """Result of a run."""

    seconds: float
    submitted: int
    completed: int
    cancelled: int
    tokens: int
    full: int
    wrong: int


def _library() -> ct.CDLL:
    library = load()
    declare(
        library,
        {
            "assay_bench_ring": (ct.c_double, (_U64, _U64, _U64, _I32, _I32)),
            "assay_bench_queue": (ct.c_double, (_U64, _U64, _I32, _I32)),
            "assay_bench_latency": (ct.c_bool, (_U64, _I32, _I32, _P)),
            "assay_bench_drive": (None, (ct.c_uint64, _P, _P)),
            "assay_bench_tax": (None, (_U32, _I32, _I32, _U32, _U64, ct.c_double, _P)),
        },
    )
    return library


def ring_seconds(n: int, batch: int, cpus: tuple[int, int], capacity: int = 1024) -> float:
    """Move n sealed and checked descriptors through one SPSC ring."""
    return _sound(_library().assay_bench_ring(n, batch, capacity, *cpus))


def queue_seconds(n: int, cpus: tuple[int, int], capacity: int = 1024) -> float:
    """Move n descriptors one by one through the MPMC queue."""
    return _sound(_library().assay_bench_queue(n, capacity, *cpus))


def _sound(seconds: float) -> float:
    if seconds <= 0:
        raise RuntimeError("a descriptor was lost or damaged")
    return seconds


def latencies_ns(n: int, cpus: tuple[int, int]) -> list[float]:
    """Latency from post to consume, of n descriptors posted one after the other."""
    out = (ct.c_double * n)()
    if not _library().assay_bench_latency(n, *cpus, out):
        raise RuntimeError("no thread or no memory")
    return sorted(out)


def drive(runtime: Runtime, work: Drive) -> Driven:
    """Run the work from a native thread of control, without Python in the loop."""
    names = [name for name, *_ in _Drive._fields_]
    request = _Drive(**{name: int(getattr(work, name)) for name in names})
    out = _Driven()
    _library().assay_bench_drive(runtime.handle, ct.byref(request), ct.byref(out))
    return Driven(**{name: getattr(out, name) for name, *_ in _Driven._fields_})


def tax(
    mode: Tax, *, cpus: tuple[int, int], hogs: int, steps_an_order: int, seconds: float
) -> tuple[int, float]:
    """Number of steps run, and the seconds they took."""
    out = _Taxed()
    _library().assay_bench_tax(mode, *cpus, hogs, steps_an_order, seconds, ct.byref(out))
    return out.steps, out.seconds
