"""`CudaEngine`: a `RolloutEngine` around one persistent kernel.

The host writes prompts and orders into the link and reads results from it; it launches once.
Everything is reserved before the launch. A change of weights is a copy into the second slot and
one word that the kernel reads between two tokens.
"""

from __future__ import annotations

import array
import struct
import sys
import time
from typing import TYPE_CHECKING, Final, Self, Unpack

from assay.rollout.cuda.holds import Holds
from assay.rollout.cuda.ledger import CudaLedger
from assay.rollout.cuda.link import CudaStats, HoldMode, HostLink, places
from assay.rollout.cuda.memory import reserve, tell_model, tell_vocabulary
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.cuda.watch import TraceLog, Watch
from assay.rollout.cuda.weights.slots import DeviceSlots
from assay.rollout.errors import (
    EngineLent,
    InvalidRollout,
    RuntimeClosed,
    WorkerStalled,
)
from assay.rollout.interface.checks import U32_MAX, check_integer, check_number
from assay.rollout.interface.rollouts import (
    Activation,
    Bounds,
    Completed,
    Group,
    GroupOptions,
    Progress,
    RolloutRef,
    ScoreRequest,
    native_order,
)
from assay.rollout.layout import (
    Completion,
    Event,
    Flag,
    Kind,
    PauseMode,
    RolloutOutcome,
    Row,
    Stop,
)
from assay.rollout.local.native_runtime import Vocabulary
from assay.rollout.models.staging import digest_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from assay.rollout.cuda.holds import HoldsPause
    from assay.rollout.cuda.ledger import LedgerTenant
    from assay.rollout.cuda.machine import Machine
    from assay.rollout.cuda.sizes import Sizes
    from assay.rollout.layout import TraceRecord
    from assay.rollout.models.adapters import Adapter
    from assay.rollout.models.model import Model, ModelConfig
    from assay.rollout.models.staging import StagedWeights
    from assay.rollout.models.tensor_checks import AnyTensor

_NEWEST: Final = 1024
_PEEK_MAX: Final = 256
_FLOAT_MAX: Final = sys.float_info.max
_STOP: Final = 1
_TRACE: Final = 2
_ALIGNING: Final = 16
"""Round trips that align the device's clock before the trace is read."""
_ECHO_S: Final = 30.0
_POST_S: Final = 1.0
"""A command waits this long for a place; the ring has one for each that a rollout can have."""


class CudaEngine:
    """Close it, or use it as a context manager.

    Args:
        model: its weights, which are version `version`.
        machine: makes the device for a kernel of these sizes: `GpuMachine`, or a host build.
        options: limits.
        version: 0 to 2^32 - 2.
        token_bytes: of each token; None: stop strings are refused.

    Raises:
        UnsupportedModel: the kernel does not take this model.
        InvalidRollout: an option; `field` names it.
        DeviceExhausted: too little memory.
    """

    def __init__(
        self,
        model: Model,
        machine: Callable[[Sizes], Machine],
        options: CudaOptions | None = None,
        *,
        version: int = 0,
        token_bytes: Sequence[bytes] | None = None,
    ) -> None:
        from assay.rollout.cuda.sizes import Sizes

        self.options = options or CudaOptions()
        self.options.check()
        check_integer("version", version, 0, U32_MAX - 1)
        self.sizes = Sizes(model.config, self.options.tuning, self.options.seq_len_max)
        limits = self.options.limits(self.sizes)
        self._bounds = Bounds(
            slots=limits.slots,
            vocab_size=model.config.vocab_size,
            seq_len_max=limits.seq_max,
            stop_strings=token_bytes is not None,
        )
        if token_bytes is not None and len(token_bytes) != self._bounds.vocab_size:
            raise InvalidRollout("token_bytes", f"needs {self._bounds.vocab_size} entries")
        self._limits = limits
        self._closed = False
        self.machine = machine(self.sizes)
        try:
            self._begin(model, version, token_bytes)
        except BaseException:
            self.machine.close(0.0)
            raise

    def _begin(self, model: Model, version: int, token_bytes: Sequence[bytes] | None) -> None:
        limits, machine = self._limits, self.machine
        host_at, device_at = machine.share(places(limits)["bytes"])
        self._link = HostLink(host_at, limits)
        self._params = reserve(machine, self.sizes, limits, self.options.weight_slots, device_at)
        if token_bytes is not None:
            tell_vocabulary(machine, self._params, Vocabulary(token_bytes))
        self._ledger = CudaLedger(limits.slots, limits.generation_first, limits.trajectory_credits)
        self._watch = Watch(self._link, self._ledger, machine, self.options.hang_s)
        self._trace = TraceLog(self._link, limits.trace_events)
        self._news = self._watch.news
        self._holds = Holds(self._link, self._news, self.raise_if_lost)
        tell_model(machine, self._params, self.sizes, model)
        self._slots = DeviceSlots(self.sizes, machine, self._params, version, digest_of(model))
        self._link.head.weights = self._slots.word
        machine.start(self._params)
        self._watch.start()

    @property
    def fallback(self) -> str:
        """What device or model cost beyond those that the kernel was cut for; empty: nothing."""
        lacks, extras = self.machine.lacks, self.sizes.extras
        said = [f"general kernel: {lacks}"] if lacks else []
        return "; ".join([*said, *([f"general shapes: {extras}"] if extras else [])])

    # ---- in

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        """See `RolloutEngine`."""
        group = Group.of(prompt, options)
        with self._open():
            group.check(self._bounds)
            self._check_blocks(len(group.prompt), group.max_tokens)
            tenants = self._ledger.take(group, array.array("i", group.prompt))
            leader = tenants[0].ref
            aux = leader.generation << 32 | leader.slot
            for tenant, (seed, _, _) in zip(tenants, group.members(), strict=True):
                self._write_row(tenant, group, seed)
                self._trace.mark(Event.POSTED, tenant.ref)
                self._post(Kind.PREFILL, tenant.ref, aux)
            return [tenant.ref for tenant in tenants]

    def _check_blocks(self, prompt_len: int, max_tokens: int) -> None:
        needed = -(-(prompt_len + max_tokens - 1) // self.sizes.tuning.block_tokens)
        if needed > self._limits.kv_blocks:
            raise InvalidRollout("max_tokens", f"needs {needed} of {self._limits.kv_blocks} blocks")

    def _write_row(self, tenant: LedgerTenant, group: Group, seed: int) -> None:
        order = native_order(group)
        row = Row(
            user_data=tenant.user_id,
            group=order.group,
            reward_id=tenant.reward_id,
            prompt_len=len(tenant.prompt),
            max_tokens=order.max_tokens,
            flags=Flag.NO_REWARD if not group.want_reward else 0,
            sampler=order.sampler,
            n_stop_ids=order.n_stop_ids,
            n_stop_strings=order.n_stop_strings,
            stop_ids=order.stop_ids,
            stop_lengths=order.stop_lengths,
            stop_bytes=order.stop_bytes,
        )
        row.sampler.seed = seed
        self._link.rows[tenant.ref.slot] = row
        self._link.write_prompt(tenant.ref.slot, tenant.prompt)

    def _post(self, kind: Kind, ref: RolloutRef, aux: int = 0) -> None:
        deadline = time.perf_counter() + _POST_S
        while not self._link.command(kind, ref.slot, ref.generation, aux):
            self.raise_if_lost()
            if time.perf_counter() > deadline:
                raise WorkerStalled("the kernel does not take commands")

    def cancel(self, ref: RolloutRef) -> None:
        """See `RolloutEngine`."""
        with self._open():
            tenant = self._ledger.running(ref)
            if not tenant.cancelled:
                self._post(Kind.CANCEL, ref)
                tenant.cancelled = True

    def score(self, ref: RolloutRef, reward: float) -> None:
        """See `RolloutEngine`."""
        check_number("reward", reward, -_FLOAT_MAX, _FLOAT_MAX)
        with self._open():
            self._ledger.scored(ref)
            self._trace.mark(Event.SCORED, ref)
            (bits,) = struct.unpack("<Q", struct.pack("<d", reward))
            self._post(Kind.TRAJECTORY, ref, bits)

    # ---- out

    def poll_rewards(self, n: int = _NEWEST) -> list[ScoreRequest]:
        """See `RolloutEngine`. After a loss: the error, once `poll` has returned what had ended."""
        with self._open(even_if_lost=True):
            if not self._ledger.ready:
                self.raise_if_lost()
            if self._watch.lost is not None:
                return []
            offset = self._watch.clock.offset_ns
            return [
                ScoreRequest(
                    ref=tenant.ref,
                    reward_id=tenant.reward_id,
                    tokens=_array("i", self._link.tokens(tenant.ref.slot, 0, length)),
                    decoded_ns=posted + offset,
                )
                for tenant, length, posted in self._ledger.to_score(n)
            ]

    def poll(self, n: int = _NEWEST) -> list[Completed]:
        """See `RolloutEngine`. After a loss: first all that had ended, then the error.

        Raises:
            KernelHung, KernelFailed: `rollouts` are the user ids of those that are lost.
        """
        with self._open(even_if_lost=True):
            tenants = self._ledger.hand_out(n)
            if not tenants:
                self.raise_if_lost()
            return [self._collect(tenant) for tenant in tenants]

    def _collect(self, tenant: LedgerTenant) -> Completed:
        line = tenant.ended or Completion()  # hand_out returns ended ones only
        slot, start, n = tenant.ref.slot, line.prompt_len, line.n_generated
        completed = Completed(
            ref=tenant.ref,
            user_id=tenant.user_id,
            reward_id=tenant.reward_id,
            outcome=RolloutOutcome(line.outcome),
            stop=Stop(line.stop),
            reward=line.reward if line.scored else None,
            prompt=tenant.prompt,
            tokens=_array("i", self._link.tokens(slot, start, n)),
            logps=array.array("f", self._link.logps(slot, start, n)),
            policy_versions=_array("I", self._link.versions(slot, start, n)),
        )
        self._trace.mark(Event.OBSERVED, tenant.ref)
        if self._watch.lost is None:
            self._post(Kind.FREE, tenant.ref)
        self._ledger.free(tenant.ref)
        return completed

    def peek(self, ref: RolloutRef, start: int = 0, n: int = _PEEK_MAX) -> Progress:
        """Return up to n tokens of a rollout that was not polled yet, from index `start` on.

        Raises:
            RolloutGone: it was polled.
        """
        check_integer("start", start, 0, U32_MAX)
        check_integer("n", n, 1, _PEEK_MAX)
        with self._open():
            tenant = self._ledger.tenant(ref)
            there = self._link.generated(ref.slot, ref.generation) - start
            made, at = max(0, min(n, there)), len(tenant.prompt) + start
            return Progress(
                tokens=_array("i", self._link.tokens(ref.slot, at, made)),
                logps=array.array("f", self._link.logps(ref.slot, at, made)),
                policy_versions=_array("I", self._link.versions(ref.slot, at, made)),
            )

    def wait(self, timeout_s: float) -> float:
        """See `RolloutEngine`."""
        check_number("timeout_s", timeout_s, 0.0)
        began = time.perf_counter()
        with self._open(even_if_lost=True):
            self._news.wait_for(
                lambda: self._ledger.has_news or self._watch.lost is not None or self._closed,
                timeout_s,
            )
        return time.perf_counter() - began

    # ---- pauses and weights

    def pause(self, timeout_s: float = 10.0, *, mode: PauseMode = PauseMode.IN_PLACE) -> HoldsPause:
        """See `RolloutEngine`."""
        check_number("timeout_s", timeout_s, 0.0)
        with self._open():
            return self._holds.pause(HoldMode(mode + 1), timeout_s)

    @property
    def config(self) -> ModelConfig:
        """Sizes and constants of the model."""
        return self.sizes.config

    @property
    def ready_version(self) -> int | None:
        """What `activate` would accept beside the active version."""
        return self._slots.ready_version

    def stage(
        self, version: int, tensors: Iterable[AnyTensor], *, share_max: float = 1.0
    ) -> StagedWeights:
        self._open()
        return self._slots.stage(version, tensors, share_max)

    def stage_adapter(
        self,
        version: int,
        adapter: Adapter,
        *,
        base_version: int | None = None,
        share_max: float = 1.0,
    ) -> StagedWeights:
        self._open()
        return self._slots.stage_adapter(version, adapter, base_version, share_max)

    def activate(
        self, version: int, *, mode: PauseMode = PauseMode.IN_PLACE, timeout_s: float = 10.0
    ) -> Activation:
        """See `RolloutEngine`; `stage` makes versions ready. The version before stays ready."""
        self._open()
        self._slots.check_ready(version)
        began = time.perf_counter()
        with self.pause(timeout_s, mode=mode):
            held = time.perf_counter()
            previous = self._slots.change(version, lambda word: self._use(word, held + timeout_s))
        ended = time.perf_counter()
        return Activation(
            version=version, previous=previous, wait_s=held - began, pause_s=ended - held
        )

    def _use(self, word: int, until_s: float) -> None:
        head = self._link.head
        with self._open():
            head.weights = word
            try:
                self._holds.until(lambda: head.active == word, until_s)
            except BaseException:
                head.weights = head.active
                raise

    # ---- state

    def stats(self) -> CudaStats:
        """See `RolloutEngine`."""
        with self._open(even_if_lost=True):
            counts, gauges, ledger = self._link.counts(), self._link.gauges(), self._ledger
            return CudaStats(
                submitted=ledger.submitted,
                completed=ledger.completed,
                failed=ledger.failed,
                in_flight=ledger.in_flight,
                slots_free=ledger.slots_free,
                policy_version=self._slots.active_version,
                decode_tokens=counts.generated,
                steps=int(self._link.head.steps),
                decode_available=gauges.decode_available,
                reward_available=gauges.reward_available,
                trajectory_available=gauges.trajectory_available,
                queue_prefill=gauges.waiting,
                queue_decode=gauges.active,
                queue_reward=len(ledger.awaiting),
                queue_trajectory=gauges.parked,
                queue_done=ledger.ready,
                kv_available=counts.blocks_free,
                kv_in_use_peak=counts.blocks_used_max,
                barriers=int(self._link.head.barriers),
                launches=1,
                placement=self.machine.placement,
            )

    def echo(self, timeout_s: float = 1.0) -> int:
        """One round trip host -> kernel -> host over the link, ns; the kernel answers between
        steps.

        Raises:
            WorkerStalled: no answer in time.
        """
        head = self._link.head
        wanted, began = (int(head.echo) + 1), time.perf_counter_ns()
        head.echo = wanted
        while head.echoed != wanted:
            if time.perf_counter_ns() - began > timeout_s * 1e9:
                raise WorkerStalled("the kernel does not answer")
        ended = time.perf_counter_ns()
        device = int(head.echoed_at)
        with self._news:
            self._watch.clock = self._watch.clock.with_instant(device, sent=began, received=ended)
        return ended - began

    # ---- the trace

    def set_trace(self, *, on: bool) -> None:
        """Record the instants of `Event` from now on, by the device and by this side, or stop."""
        with self._open():
            self._trace.is_on = on
            self._link.head.stop = _TRACE * on

    def read_trace(self, start: int = 0) -> tuple[list[TraceRecord], int, int]:
        """Events from position `start` on in ns of CLOCK_MONOTONIC, the next position, and how many
        were overwritten. Aligns the device's clock first (`clock_error_ns`).

        Raises:
            WorkerStalled: the kernel does not answer.
        """
        check_integer("start", start, 0, (1 << 63) - 1)
        with self._open():
            for _ in range(_ALIGNING):
                self.echo(_ECHO_S)
            return self._trace.read(start, self._watch.clock)

    @property
    def clock_error_ns(self) -> int | None:
        """Most that instants of the device are wrong by beside those of the host; None: the clocks
        have not been aligned yet."""
        return self._watch.clock.error_ns

    def raise_if_lost(self) -> None:
        """Raises:
        KernelHung, KernelFailed: the kernel is gone.
        """
        if self._watch.lost is not None:
            raise self._watch.lost

    def _open(self, *, even_if_lost: bool = False) -> threading.Condition:
        with self._news:
            if self._closed:
                raise RuntimeClosed("the engine is closed")
            if not even_if_lost:
                self.raise_if_lost()
        return self._news

    def close(self, timeout_s: float = 30.0) -> None:
        """See `RolloutEngine`.

        Raises:
            WorkerStalled: the kernel did not end in time; its memory is not freed.
            EngineLent: a thread still stages weights after that time; nothing is freed.
        """
        with self._news:
            if self._closed:
                return
            self._closed = True
            self._link.head.stop = _STOP
            self._news.notify_all()
        self._watch.stop()
        if not self._slots.close(timeout_s):
            raise EngineLent.staging()
        if not self.machine.close(timeout_s):
            raise WorkerStalled(f"the kernel did not end within {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _array(code: str, raw: bytes) -> array.array[int]:
    return array.array(code, raw)
