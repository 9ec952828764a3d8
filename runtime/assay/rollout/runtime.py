"""The rollout runtime's Python face: groups in, completions out, in batches.

A prompt becomes a group of K rollouts on shared KV. The worker thread decodes them; a rollout whose
decoding ended waits for its reward (`poll_rewards`, `score`), and comes back from `poll` as a
`Completed` with its tokens, their log-probs and the policy version of each.

Always true:
  - every rollout submitted comes back from `poll` exactly once, or is named by `WorkerCrashed`;
  - `submit` takes a whole group or nothing (`Saturated`, `InvalidRollout`);
  - nothing is called per token, and nothing here waits without a bound.

Units: `_s` seconds; tokens and blocks are counts.
"""

from __future__ import annotations

import array
import ctypes as ct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from assay.rollout.binding import load, ref_word
from assay.rollout.engines import AddressedEngine, ProbeEngine, native_ops
from assay.rollout.errors import (
    CrashCause,
    HostExhausted,
    InvalidRollout,
    Limit,
    RolloutGone,
    RuntimeClosed,
    Saturated,
    WorkerCrashed,
    WorkerStalled,
)
from assay.rollout.layout import (
    STATS_WORDS,
    STOP_BYTES_MAX,
    STOP_IDS_MAX,
    STOP_STRINGS_MAX,
    Completion,
    Descriptor,
    Flag,
    Member,
    Order,
    Outcome,
    Policy,
    Ref,
    Region,
    RuntimeSettings,
    Sampler,
    Shape,
    StatsWords,
    Status,
    Stop,
    TraceRecord,
    WorkerSettings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_LIMITS = (Limit.SLOTS, Limit.TRAJECTORY, Limit.REWARD, Limit.KV_BLOCKS, Limit.DECODE, Limit.SLOTS)
_CAUSES = (*CrashCause,)
_WORKER_CRASHED = 3
_POLL_MAX = 1024
_PAGES = ("base", "advised_huge", "huge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one group samples. temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """Bounds and manners of a runtime. None: derived from `slots`, the engine or the model."""

    seq_len_max: int = 1024
    """Tokens of prompt and response together, a slot."""
    kv_blocks: int | None = None
    """None: enough for every decoding rollout at its longest, without sharing."""
    decode_credits: int | None = None
    """Rollouts between admission and the reward stage; None: what a batch carries, twice."""
    reward_credits: int | None = None
    """Rollouts waiting for a score; None: `slots`."""
    trajectory_credits: int | None = None
    """Scored rollouts not yet polled; None: `slots`."""
    rows_max: int | None = None
    """Decode rows of a step; None: what the engine carries."""
    prefill_chunk: int = 128
    """Prompt tokens a step may spend beside its decode rows."""
    policy: Policy = Policy.FIFO
    aging_max: int = 1024
    """Admissions (and steps) after which a rollout goes first, whatever the policy."""
    prefix_cache: bool = True
    spin_s: float = 20e-6
    """How long the worker looks for work before it parks."""
    cpu: int | None = None
    """CPU the worker is pinned to."""
    numa_node: int | None = None
    """NUMA node that the KV arena is bound to."""
    huge_pages: bool = True
    trace_events_max: int = 1 << 16
    trace: bool = False
    native_scorer: bool = False
    """Score natively with a checksum of the sequence; for benches and soak."""
    scorer_cpu: int | None = None
    generation_first: int = 1
    index_first: int = 0


class RolloutRef(NamedTuple):
    """Names one rollout for ever: a slot and the generation of its tenant."""

    slot: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRequest:
    """A response that waits for its score."""

    ref: RolloutRef
    reward_id: int
    tokens: array.array[int]
    """Prompt and response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A rollout that ended. `reward` is None unless it was scored."""

    ref: RolloutRef
    user_id: int
    reward_id: int
    outcome: Outcome
    stop: Stop
    reward: float | None
    prompt: array.array[int]
    tokens: array.array[int]
    """What was generated; for Stop.ID and Stop.STRING the ending included."""
    logps: array.array[float]
    """Log-prob of each token under the distribution it was sampled from."""
    policy_versions: array.array[int]


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot; counts since creation. Words are named as in `STATS_WORDS`."""

    words: dict[str, int] = field(repr=False)

    def __getattr__(self, name: str) -> int:
        try:
            return self.words[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def kv_pages_kind(self) -> str:
        """Which pages the KV arena got: base, advised_huge (transparent) or huge (reserved)."""
        return _PAGES[self.words["kv_pages"]]


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


def _native_settings(
    slots: int, options: RuntimeOptions, rows: int, block_tokens: int
) -> RuntimeSettings:
    decode = _given(options.decode_credits, min(slots, 2 * rows))
    blocks = -(-options.seq_len_max // block_tokens) + 1
    return RuntimeSettings(
        shape=Shape(
            slots=slots,
            seq_max=options.seq_len_max,
            block_tokens=block_tokens,
            kv_blocks=_given(options.kv_blocks, decode * blocks),
            decode_credits=decode,
            reward_credits=_given(options.reward_credits, slots),
            trajectory_credits=_given(options.trajectory_credits, slots),
            generation_first=options.generation_first,
            index_first=options.index_first,
        ),
        worker=WorkerSettings(
            policy=options.policy,
            rows_max=rows,
            prefill_chunk=options.prefill_chunk,
            prefix_cache=options.prefix_cache,
            aging_max=options.aging_max,
            spin_ns=round(options.spin_s * 1e9),
            cpu=_given(options.cpu, -1),
        ),
        trace_capacity=options.trace_events_max,
        scorer=int(options.native_scorer),
        scorer_cpu=_given(options.scorer_cpu, -1),
        numa_node=_given(options.numa_node, -1),
        huge_pages=options.huge_pages,
    )


class _Vocabulary:
    """The bytes of every token, laid out as the worker reads them."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        offsets = array.array("I", [0])
        for token in token_bytes:
            offsets.append(offsets[-1] + len(token))
        self.offsets = (ct.c_uint32 * len(offsets)).from_buffer_copy(offsets)
        self.bytes = ct.create_string_buffer(b"".join(token_bytes))
        self.size = len(token_bytes)


class Runtime:
    """A running worker and its rings. Close it, or use it as a context manager.

    `submit`, `cancel`, `poll_rewards`, `score`, `stats` may be called from any thread; `poll` from
    several, one at a time.
    """

    def __init__(
        self,
        engine: AddressedEngine | ProbeEngine,
        slots: int,
        options: RuntimeOptions | None = None,
        *,
        token_bytes: Sequence[bytes] | None = None,
        start: bool = True,
    ) -> None:
        self.options = options = options or RuntimeOptions()
        self.engine = engine
        self.slots = slots
        self._lib = load()
        self._polling = threading.RLock()
        self._crashed: list[int] | None = None
        ops = native_ops(engine)
        rows = _given(options.rows_max, ops.batch_max)
        settings = _native_settings(slots, options, rows, ops.block_tokens)
        self._vocabulary = _Vocabulary(token_bytes) if token_bytes is not None else None
        if self._vocabulary is not None:
            if self._vocabulary.size != ops.vocab_size:
                raise InvalidRollout("token_bytes", f"needs {ops.vocab_size} entries")
            settings.token_offsets = ct.addressof(self._vocabulary.offsets)
            settings.token_bytes = ct.addressof(self._vocabulary.bytes)
        self.vocab_size: int = ops.vocab_size
        self._handle = self._create(settings, ops)
        self._region = Region.from_address(self._lib.assay_runtime_region(self._handle))
        self._base = ct.addressof(self._region)
        self._lib.assay_runtime_trace_on(self._handle, int(options.trace))
        self._lib.assay_runtime_set_policy_version(self._handle, engine.policy_version)
        if start:
            self.start()

    def _create(self, settings: RuntimeSettings, ops: ct.Structure) -> int:
        status = ct.c_int()
        handle = self._lib.assay_runtime_create(ct.byref(settings), ct.byref(ops), ct.byref(status))
        if handle:
            return int(handle)
        if status.value == Status.INVALID:
            raise InvalidRollout("options", "the bounds contradict each other or the engine's")
        raise HostExhausted("not enough memory for the rings or the KV arena")

    # ---- life

    def start(self) -> None:
        """Start the worker (and scorer) threads."""
        if self._lib.assay_runtime_start(self._live()) != Status.OK:
            raise HostExhausted("the worker thread could not be started")

    def close(self) -> None:
        """Stop the threads and free everything; rollouts in flight are lost. Twice is fine."""
        with self._polling:
            if self._handle:
                self._lib.assay_runtime_destroy(self._handle)
                self._handle = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def handle(self) -> int:
        """`assay_runtime *`, for native callers. Valid until `close`."""
        return self._live()

    def _live(self) -> int:
        if not self._handle:
            raise RuntimeClosed("the runtime is closed")
        return self._handle

    # ---- in

    def submit(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        seeds: Sequence[int],
        sampling: Sampling | None = None,
        user_ids: Sequence[int] | None = None,
        reward_ids: Sequence[int] | None = None,
        group: int = 0,
        stop_ids: Sequence[int] = (),
        stop_strings: Sequence[bytes] = (),
        want_reward: bool = True,
    ) -> list[RolloutRef]:
        """One group: a rollout for each seed. All are taken, or none (`Saturated`)."""
        self._raise_if_crashed()
        order = self._order(sampling or Sampling(), max_tokens, stop_ids, stop_strings)
        order.group = group
        order.flags = 0 if want_reward else Flag.NO_REWARD
        tokens = self._prompt(prompt, max_tokens)
        members = _members(seeds, user_ids, reward_ids)
        refs = (Ref * len(seeds))()
        status = self._lib.assay_runtime_submit(
            self._live(), ct.byref(order), tokens, len(tokens), members, len(seeds), refs
        )
        if status == Status.SATURATED:
            raise Saturated(self.limit())
        if status != Status.OK:
            raise InvalidRollout("max_tokens", "prompt and response do not fit the KV arena")
        return [RolloutRef(r.slot, r.generation) for r in refs]

    def _prompt(self, prompt: Sequence[int], max_tokens: int) -> ct.Array[ct.c_int32]:
        if not prompt:
            raise InvalidRollout("prompt", "needs at least one token")
        if max_tokens < 1:
            raise InvalidRollout("max_tokens", "must be at least 1")
        if len(prompt) + max_tokens > self.options.seq_len_max:
            raise InvalidRollout("max_tokens", f"with the prompt above {self.options.seq_len_max}")
        if min(prompt) < 0 or max(prompt) >= self.vocab_size:
            raise InvalidRollout("prompt", f"token ids are 0 to {self.vocab_size - 1}")
        return (ct.c_int32 * len(prompt))(*prompt)

    def _order(
        self,
        sampling: Sampling,
        max_tokens: int,
        stop_ids: Sequence[int],
        stop_strings: Sequence[bytes],
    ) -> Order:
        if len(stop_ids) > STOP_IDS_MAX:
            raise InvalidRollout("stop_ids", f"at most {STOP_IDS_MAX}")
        if len(stop_strings) > STOP_STRINGS_MAX:
            raise InvalidRollout("stop_strings", f"at most {STOP_STRINGS_MAX}")
        if stop_strings and self._vocabulary is None:
            raise InvalidRollout("stop_strings", "the runtime was given no token_bytes")
        if any(not 0 < len(s) <= STOP_BYTES_MAX for s in stop_strings):
            raise InvalidRollout("stop_strings", f"1 to {STOP_BYTES_MAX} bytes each")
        order = Order(
            sampler=Sampler(
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
                min_p=sampling.min_p,
            ),
            max_tokens=max(0, max_tokens),
            n_stop_ids=len(stop_ids),
            n_stop_strings=len(stop_strings),
        )
        order.stop_ids[: len(stop_ids)] = list(stop_ids)
        for i, text in enumerate(stop_strings):
            order.stop_lengths[i] = len(text)
            order.stop_bytes[i][: len(text)] = list(text)
        return order

    def cancel(self, ref: RolloutRef) -> None:
        """Ask for a rollout's end; it comes back from `poll` as CANCELLED, or as what it became."""
        self._raise_if_crashed()
        status = self._lib.assay_runtime_cancel(self._live(), ref_word(*ref))
        if status not in (Status.OK, Status.EMPTY):
            raise RolloutGone(f"{ref} is not in flight")

    def limit(self) -> Limit:
        """What would keep, or keeps, new work out."""
        return _LIMITS[self._lib.assay_runtime_limit(self._live())]

    # ---- rewards

    def poll_rewards(self, n: int = _POLL_MAX) -> list[RewardRequest]:
        """Up to n responses to score. Each is handed out once."""
        taken, status = (Descriptor * n)(), ct.c_int()
        got = self._lib.assay_runtime_reward_take(self._live(), taken, n, ct.byref(status))
        requests = [self._reward_request(taken[i]) for i in range(got)]
        return [r for r in requests if r is not None]

    def _reward_request(self, d: Descriptor) -> RewardRequest | None:
        ref = RolloutRef(d.slot, d.generation)
        buffer = (ct.c_int32 * d.seq_len)()
        status = self._lib.assay_runtime_copy(self._live(), ref_word(*ref), buffer, d.seq_len)
        if status != Status.OK:
            return None  # cancelled between the two calls
        return RewardRequest(ref=ref, reward_id=d.reward_id, tokens=array.array("i", bytes(buffer)))

    def score(self, ref: RolloutRef, reward: float) -> None:
        """Attach a reward. `Saturated`: poll completions first, then score again."""
        status = self._lib.assay_runtime_score(self._live(), ref_word(*ref), reward)
        if status == Status.SATURATED:
            raise Saturated(Limit.TRAJECTORY)
        if status != Status.OK:
            raise RolloutGone(f"{ref} does not wait for a reward")

    # ---- out

    def poll(self, n: int = _POLL_MAX) -> list[Completed]:
        """Up to n rollouts that ended; their slots are free again on return.

        After a crash: first what had completed, then `WorkerCrashed` with the rest.
        """
        with self._polling:
            self._bury_if_crashed()
            done = (Completion * n)()
            got = self._lib.assay_runtime_poll(self._live(), done, n)
            results = [self._completed(done[i]) for i in range(got)]
            self._lib.assay_runtime_release(self._live(), done, got)
            if self._crashed is None:
                return results
            self._crashed += [r.user_id for r in results if r.outcome is Outcome.CRASHED]
            alive = [r for r in results if r.outcome is not Outcome.CRASHED]
            if not alive and self.stats().queue_done == 0:
                raise self._crash_error()
            return alive

    def wait(self, timeout_s: float) -> float:
        """Park until something may have come up for `poll` or `poll_rewards`; seconds it took."""
        handle = self._live()
        seen = self._lib.assay_runtime_bell(handle)
        stats = self.stats()
        if stats.queue_done or stats.queue_reward or stats.worker_state == _WORKER_CRASHED:
            return 0.0
        return self._park(seen, timeout_s)

    def _park(self, seen: int, timeout_s: float) -> float:
        """Until the bell is no longer at `seen`; seconds it took."""
        timeout_ns = max(0, round(timeout_s * 1e9))
        return float(self._lib.assay_runtime_wait(self._live(), seen, timeout_ns)) / 1e9

    def drain(self, timeout_s: float) -> list[Completed]:
        """Poll until nothing is in flight. Rewards must be scored elsewhere meanwhile.

        `WorkerStalled` when rollouts are still in flight after timeout_s without one ending.
        """
        results: list[Completed] = []
        quiet_s, slice_s = 0.0, min(0.05, timeout_s)
        while quiet_s < timeout_s:
            seen = self._lib.assay_runtime_bell(self._live())
            batch = self.poll()
            results += batch
            stats = self.stats()
            if not batch and stats.in_flight == 0 and stats.queue_done == 0:
                return results
            quiet_s = 0.0 if batch else quiet_s + self._park(seen, slice_s)
        raise WorkerStalled(f"{self.stats().in_flight} rollouts still in flight")

    def _slice(self, typecode: str, at: int, slot: int, first: int, n: int) -> array.array[int]:
        start = self._base + at + 4 * (slot * self.options.seq_len_max + first)
        return array.array(typecode, ct.string_at(start, 4 * n))

    def _completed(self, c: Completion) -> Completed:
        g, slot, prompt, n = self._region, c.slot, c.prompt_len, c.n_generated
        logps: array.array[float] = array.array("f")
        logps.frombytes(self._slice("f", g.logps_at, slot, prompt, n).tobytes())
        return Completed(
            ref=RolloutRef(slot, c.generation),
            user_id=c.user_data,
            reward_id=c.reward_id,
            outcome=Outcome(c.outcome),
            stop=Stop(c.stop),
            reward=c.reward if c.scored else None,
            prompt=self._slice("i", g.tokens_at, slot, 0, prompt),
            tokens=self._slice("i", g.tokens_at, slot, prompt, n),
            logps=logps,
            policy_versions=self._slice("I", g.versions_at, slot, prompt, n),
        )

    # ---- crashes

    def _worker_crashed(self) -> bool:
        return bool(self.stats().worker_state == _WORKER_CRASHED)

    def _raise_if_crashed(self) -> None:
        if self._crashed is not None or self._worker_crashed():
            raise self._crash_error()

    def _bury_if_crashed(self) -> None:
        if self._worker_crashed():
            self._crashed = [] if self._crashed is None else self._crashed
            self._lib.assay_runtime_bury(self._live())

    def _crash_error(self) -> WorkerCrashed:
        stats = self.stats()
        detail = ct.c_int64(stats.crash_detail).value
        return WorkerCrashed(_CAUSES[stats.crash - 1], detail, self._crashed or ())

    # ---- weights

    def pause(self, timeout_s: float = 10.0) -> None:
        """Hold the worker between two steps. `WorkerStalled` when a step takes longer."""
        if not self._lib.assay_runtime_pause(self._live(), round(timeout_s * 1e9)):
            self._lib.assay_runtime_resume(self._live())
            raise WorkerStalled(f"no step ended within {timeout_s} s")
        self._raise_if_crashed()

    def resume(self) -> None:
        """Let the worker go on."""
        self._lib.assay_runtime_resume(self._live())

    def set_policy_version(self, version: int) -> None:
        """The weights are now `version`: stamped on new tokens, and cached prefixes of other
        versions are no longer matched. Call while paused, or before submitting."""
        self.engine.policy_version = version
        self._lib.assay_runtime_set_policy_version(self._live(), version)

    # ---- looking in

    def stats(self) -> Stats:
        """A snapshot of every counter and gauge."""
        words = StatsWords()
        self._lib.assay_runtime_stats(self._live(), ct.byref(words))
        return Stats({name: getattr(words, name) for name in STATS_WORDS})

    def set_trace(self, *, on: bool) -> None:
        """Start or stop recording events."""
        self._lib.assay_runtime_trace_on(self._live(), int(on))

    def read_trace(self, start: int = 0) -> tuple[list[TraceRecord], int, int]:
        """Events from position `start` on, the next position, and how many were overwritten."""
        n = 1 << max(1, (self.options.trace_events_max - 1).bit_length())
        records, following, lost = (TraceRecord * n)(), ct.c_uint64(), ct.c_uint64()
        got = self._lib.assay_runtime_trace_read(
            self._live(), start, records, n, ct.byref(following), ct.byref(lost)
        )
        return list(records[:got]), following.value, lost.value

    def nudge(self) -> None:
        """Have the worker run one iteration even if it is parked."""
        self._lib.assay_runtime_nudge(self._live())

    def audit(self) -> int:
        """0 when every KV invariant holds; the worker is held for it."""
        self.pause()
        try:
            return int(self._lib.assay_runtime_audit(self._live()))
        finally:
            self.resume()


def _members(
    seeds: Sequence[int], user_ids: Sequence[int] | None, reward_ids: Sequence[int] | None
) -> ct.Array[Member]:
    if not seeds:
        raise InvalidRollout("seeds", "a group has at least one rollout")
    users = user_ids if user_ids is not None else range(len(seeds))
    rewards = reward_ids if reward_ids is not None else users
    if len(users) != len(seeds) or len(rewards) != len(seeds):
        raise InvalidRollout("user_ids", "one for each seed")
    members = (Member * len(seeds))()
    for member, (seed, user_id, reward_id) in zip(
        members, zip(seeds, users, rewards, strict=True), strict=True
    ):
        member.seed, member.user_data, member.reward_id = seed, user_id, reward_id
    return members
