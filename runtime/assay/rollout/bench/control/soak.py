"""`soak`: very many tiny rollouts; nothing may be lost, mixed up or leaked.

Groups, prompts and lengths are random; some rollouts are cancelled; credits are so few that
every stage is full most of the time; a few hundred slots are reused thousands of times, across the
wrap of their generations and of the rings' indices. Checked after each part: the conservation of
rollouts, the return of every credit and block, the KV invariants, that every reward is the hash of
the tokens that were returned, and resident memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assay.rollout.bench.control.native import Drive, drive
from assay.rollout.bench.harness.machine import resident_bytes
from assay.rollout.layout import AdmissionPolicy
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.rollout.local.native_runtime import Stats

SLOTS = 256
OPTIONS = RuntimeOptions(
    seq_len_max=48,
    kv_blocks=160,
    decode_credits=48,
    reward_credits=16,
    trajectory_credits=24,
    policy=AdmissionPolicy.PREFIX_SHARING,
    aging_max=64,
    native_scorer=True,
    generation_first=0xFFFFFC00,
    index_first=(1 << 64) - 100_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Counts of one part, and the state after it."""

    rollouts: int
    completed: int
    cancelled: int
    full: int
    tokens: int
    seconds: float
    resident_bytes: int
    evictions: int
    copies: int
    blocked: int


class SoakFailed(RuntimeError):
    """An invariant did not hold."""


def _decode_credits(slots: int) -> int:
    return min(OPTIONS.decode_credits or slots, slots)


def _expect(stats: Stats, slots: int, audit: int, wrong: int) -> None:
    checks = {
        "every rollout ended": stats.submitted == stats.completed + stats.failed,
        "every slot is free": stats.slots_free == slots,
        "every block came back": stats.kv_in_use == 0,
        "every block credit came back": stats.kv_available == OPTIONS.kv_blocks,
        "every decode credit came back": stats.decode_available == _decode_credits(slots),
        "every reward credit came back": stats.reward_available == OPTIONS.reward_credits,
        "every trajectory credit came back": stats.trajectory_available
        == OPTIONS.trajectory_credits,
        "no illegal transition": stats.illegal == 0,
        "no damaged descriptor": stats.corrupt == 0,
        "KV invariants": audit == 0,
        "rewards belong to their tokens": wrong == 0,
    }
    broken = [name for name, holds in checks.items() if not holds]
    if broken:
        raise SoakFailed(f"{broken}: {stats.words}")


def soak(rollouts: int, parts: int, seed: int, slots: int = SLOTS) -> Iterator[Part]:
    """Run `rollouts` in `parts`, on one runtime throughout."""
    engine = ProbeEngine(batch_max=32, step_tokens_max=512, block_tokens=4)
    options = replace(OPTIONS, decode_credits=_decode_credits(slots))
    with Runtime(engine, slots, options) as runtime:
        for part in range(parts):
            n = rollouts * (part + 1) // parts - rollouts * part // parts
            work = Drive(
                rollouts=n,
                group=8,
                prompt_len=24,
                max_tokens=8,
                vary=True,
                cancel_one_in=16,
                seed=seed + part,
            )
            done = drive(runtime, work)
            audit = runtime.audit()
            stats = runtime.stats()
            _expect(stats, slots, audit, done.wrong)
            if done.submitted != n or done.completed + done.cancelled != n:
                raise SoakFailed(f"{n} rollouts became {done}")
            yield Part(
                rollouts=n,
                completed=done.completed,
                cancelled=done.cancelled,
                full=done.full,
                tokens=done.tokens,
                seconds=done.seconds,
                resident_bytes=resident_bytes(),
                evictions=stats.kv_evictions,
                copies=stats.kv_copies,
                blocked=stats.blocked,
            )
