"""The Python API of the rollout runtime: groups in, completions out, in batches.

A prompt becomes a group of K rollouts on shared KV. The worker thread decodes them. A rollout that
finished decoding waits for its reward (`poll_rewards`, `score`), and `poll` returns it as a
`Completed` with its tokens, their log-probs and the policy version of each.

Invariants:
  - every submitted rollout is returned by `poll` exactly once, or is named by `WorkerCrashed`;
    an interrupted call (Ctrl-C) loses nothing: the next call returns what it had taken;
  - `submit` accepts a whole group or nothing (`EngineSaturated`, `InvalidRollout`);
  - a call holds the native runtime until it returns: one during or after `close`, or in a forked
    child, raises `RuntimeClosed`;
  - nothing is called per token, and no wait is unbounded.

Units: `_s` seconds; tokens and blocks are counts.
"""

from __future__ import annotations

import array
import ctypes as ct
import itertools
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from assay.rollout.errors import (
    CrashCause,
    EngineSaturated,
    InvalidRollout,
    Limit,
    RolloutGone,
    WorkerCrashed,
    WorkerStalled,
)
from assay.rollout.interface.checks import (
    SLOTS_MAX,
    U32_MAX,
    check_integer,
    check_number,
)
from assay.rollout.interface.receipts import receipt_of
from assay.rollout.interface.rollouts import (
    Activation,
    Completed,
    Group,
    Progress,
    RolloutRef,
    ScoreRequest,
    native_members,
    native_order,
)
from assay.rollout.layout import (
    Asked,
    Completion,
    Descriptor,
    PauseMode,
    Ref,
    RolloutOutcome,
    StatsWords,
    Status,
    Stop,
)
from assay.rollout.library.binding import monotonic_ns, ref_word
from assay.rollout.local.native_runtime import Mailbox, NativeRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.interface.rollouts import GroupOptions
    from assay.rollout.library.engines import AddressedEngine, ProbeEngine
    from assay.rollout.local.options import RuntimeOptions


_LIMITS = (
    Limit.SLOTS,
    Limit.TRAJECTORY,
    Limit.REWARD,
    Limit.KV_BLOCKS,
    Limit.DECODE,
    Limit.SLOTS,
)
_CAUSES = (*CrashCause,)
_WORKER_CRASHED = 3
_FLOAT_MAX = sys.float_info.max
_POLL_MAX = 1024
_PEEK_MAX = 256


class Pause:
    """Holds the worker between two steps until `resume`, which counts once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.cell = ct.c_uint32(0)

    def resume(self) -> None:
        """Let the worker continue, unless another pause holds it."""
        self._runtime._resume(self)  # noqa: SLF001 - a pause is a part of its runtime

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()

    def __del__(self) -> None:
        if self.cell.value:
            self.resume()


class Runtime(NativeRuntime):
    """A running worker and its rings. Close it, or use it as a context manager.

    Every call may be made from any thread, including during `close`. A runtime that is dropped is
    closed when it is garbage-collected, at the latest when the interpreter exits.
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
        check_integer("slots", slots, 1, SLOTS_MAX)
        self._polling, self._rewarding = threading.RLock(), threading.RLock()
        self._ready: dict[RolloutRef, Completed] = {}
        self._waiting: dict[RolloutRef, ScoreRequest] = {}
        self._crashed: dict[RolloutRef, int] | None = None
        self._done = Mailbox(Completion, min(slots, _POLL_MAX))
        self._rewards = Mailbox(Descriptor, min(slots, _POLL_MAX))
        super().__init__(engine, slots, options, token_bytes=token_bytes, start=start)

    # ---- in

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        """Submit one group: a rollout for each seed; all or none (`EngineSaturated`)."""
        group = Group.of(prompt, options)
        group.check(self._bounds)
        self._raise_if_crashed()
        order = native_order(group)
        tokens = (ct.c_int32 * len(prompt)).from_buffer(array.array("i", prompt))
        members, refs = native_members(group), (Ref * len(group.seeds))()
        status = self._call(
            self._lib.assay_host_submit,
            ct.byref(order),
            tokens,
            len(tokens),
            members,
            len(members),
            refs,
        )
        if status == Status.SATURATED:
            raise EngineSaturated(self.limit())
        if status != Status.OK:
            raise InvalidRollout("max_tokens", "prompt and response do not fit the KV arena")
        return [RolloutRef(r.slot, r.generation) for r in refs]

    def cancel(self, ref: RolloutRef) -> None:
        """Request a rollout's end; `poll` returns it as CANCELLED, or as what it became."""
        self._raise_if_crashed()
        status = self._call(self._lib.assay_host_cancel, _word(ref))
        if status not in (Status.OK, Status.EMPTY):
            raise RolloutGone(f"{ref} is not in flight")

    def limit(self) -> Limit:
        """The limit that blocks new work, deepest stage first."""
        limit = ct.c_int()
        self._call(self._lib.assay_host_limit, ct.byref(limit))
        return _LIMITS[limit.value]

    # ---- rewards

    def poll_rewards(self, n: int = _POLL_MAX) -> list[ScoreRequest]:
        """Return up to n responses to score. Each is returned once."""
        handed: dict[RolloutRef, ScoreRequest] = {}
        try:
            with self._rewarding:
                self._take_rewards(n)
                handed = dict(itertools.islice(self._waiting.items(), n))
                self._waiting = {r: w for r, w in self._waiting.items() if r not in handed}
            return list(handed.values())
        except BaseException:
            with self._rewarding:
                self._waiting = {**handed, **self._waiting}
            raise

    def _take_rewards(self, n: int) -> None:
        """Move new responses into `_waiting`. After an interrupt, the next call resumes."""
        box = self._rewards
        if box.count.value == 0:
            room = min(n, box.capacity)
            self._call(self._lib.assay_host_reward_take, box.entries, room, ct.byref(box.count))
        for i in range(box.count.value):
            request = self._reward_request(box.entries[i])
            if request is not None:
                self._waiting[request.ref] = request
        box.count.value = 0

    def _reward_request(self, d: Descriptor) -> ScoreRequest | None:
        ref = RolloutRef(d.slot, d.generation)
        buffer = (ct.c_int32 * d.seq_len)()
        status = self._call(self._lib.assay_host_copy, _word(ref), buffer, d.seq_len)
        if status != Status.OK:
            return None  # cancelled between the two calls
        return ScoreRequest(
            ref=ref,
            reward_id=d.reward_id,
            tokens=array.array("i", bytes(buffer)),
            decoded_ns=monotonic_ns(d.posted),
        )

    def score(self, ref: RolloutRef, reward: float) -> None:
        """Attach a reward. `EngineSaturated`: poll completions first, then score again."""
        check_number("reward", reward, -_FLOAT_MAX, _FLOAT_MAX)
        status = self._call(self._lib.assay_host_score, _word(ref), reward)
        if status == Status.SATURATED:
            raise EngineSaturated(Limit.TRAJECTORY)
        if status != Status.OK:
            raise RolloutGone(f"{ref} does not wait for a reward")

    # ---- out

    def poll(self, n: int = _POLL_MAX) -> list[Completed]:
        """Return up to n ended rollouts; their slots are free again on return.

        After a crash: first all that had completed, then `WorkerCrashed` with the rest.
        """
        handed: dict[RolloutRef, Completed] = {}
        try:
            self._move(n, handed)
            return list(handed.values())
        except BaseException:
            self._take_back(handed)
            raise

    def _move(self, n: int, handed: dict[RolloutRef, Completed]) -> None:
        """Put up to n ended rollouts into `handed`. After an interrupt, both lists may hold one."""
        with self._polling:
            self._bury_if_crashed()
            self._collect(n)
            handed.update(itertools.islice(self._ready.items(), n))
            self._ready = {r: c for r, c in self._ready.items() if r not in handed}
        if not handed:
            self._raise_if_all_came_back()

    def _take_back(self, handed: dict[RolloutRef, Completed]) -> None:
        """The call that took them did not return: the next one returns them."""
        with self._polling:
            self._ready = {**handed, **self._ready}

    def _collect(self, n: int) -> None:
        """Move ended rollouts into `_ready` and free their slots. After an interrupt at any point,
        the next call resumes: every step may be repeated, and a slot is read before it is freed."""
        box = self._done
        if box.count.value == 0:
            room = min(n, box.capacity)
            self._call(self._lib.assay_host_poll, box.entries, room, ct.byref(box.count))
        for i in range(box.count.value):
            self._keep(box.entries[i])
        if box.count.value:
            self._call(self._lib.assay_host_release, box.entries, box.count.value)
        box.count.value = 0

    def _keep(self, c: Completion) -> None:
        ref = RolloutRef(c.slot, c.generation)
        if c.outcome == RolloutOutcome.CRASHED and self._crashed is not None:
            self._crashed[ref] = c.user_data
        elif ref not in self._ready:
            completed = self._completed(c)
            if completed is not None:
                self._ready[ref] = completed

    def wait(self, timeout_s: float) -> float:
        """Park until `poll` or `poll_rewards` may have something; return the seconds it took."""
        seen = self._bell()
        stats = self.stats()
        ready = self._ready or self._waiting or stats.queue_done or stats.queue_reward
        if ready or stats.worker_state == _WORKER_CRASHED:
            return 0.0
        return self._park(seen, timeout_s)

    def _bell(self) -> int:
        seen = ct.c_uint32()
        self._call(self._lib.assay_host_bell, ct.byref(seen))
        return seen.value

    def _park(self, seen: int, timeout_s: float) -> float:
        """Wait until the bell differs from `seen`; return the seconds it took."""
        took_ns = ct.c_uint64()
        timeout_ns = max(0, round(timeout_s * 1e9))
        self._call(self._lib.assay_host_wait, seen, timeout_ns, ct.byref(took_ns))
        return took_ns.value / 1e9

    def drain(self, timeout_s: float) -> list[Completed]:
        """Poll until nothing is in flight. Another thread must score rewards in the meantime.

        Raises `WorkerStalled` when rollouts are in flight and none ended for timeout_s; the next
        `poll` returns those that had ended until then.
        """
        results: dict[RolloutRef, Completed] = {}
        try:
            quiet_s, slice_s = 0.0, min(0.05, timeout_s)
            while quiet_s < timeout_s:
                seen, had = self._bell(), len(results)
                self._move(_POLL_MAX, results)
                stats = self.stats()
                fresh = len(results) > had
                if not fresh and stats.in_flight == 0 and stats.queue_done == 0:
                    return list(results.values())
                quiet_s = 0.0 if fresh else quiet_s + self._park(seen, slice_s)
            self._stalled(f"{self.stats().in_flight} rollouts still in flight")
        except BaseException:
            self._take_back(results)
            raise

    @staticmethod
    def _stalled(what: str) -> NoReturn:
        raise WorkerStalled(what)

    def _completed(self, c: Completion) -> Completed | None:
        """Content of a completion; `None` when its slot was freed before."""
        n = c.prompt_len + c.n_generated
        tokens = array.array("i", bytes(4 * n))
        logps = array.array("f", bytes(4 * c.n_generated))
        versions = array.array("I", bytes(4 * c.n_generated))
        asked = Asked()
        places = (buffer.buffer_info()[0] for buffer in (tokens, logps, versions))
        if self._call(self._lib.assay_host_contents, ct.byref(c), *places) != Status.OK:
            return None
        if self._call(self._lib.assay_host_asked, ct.byref(c), ct.byref(asked)) != Status.OK:
            return None
        prompt, made = tokens[: c.prompt_len], tokens[c.prompt_len :]
        return Completed(
            ref=RolloutRef(c.slot, c.generation),
            user_id=c.user_data,
            reward_id=c.reward_id,
            outcome=RolloutOutcome(c.outcome),
            stop=Stop(c.stop),
            reward=c.reward if c.scored else None,
            prompt=prompt,
            tokens=made,
            logps=logps,
            policy_versions=versions,
            receipt=receipt_of(asked, prompt, made, logps, versions, self.engine),
        )

    def peek(self, ref: RolloutRef, start: int = 0, n: int = _PEEK_MAX) -> Progress:
        """Return up to n tokens of a decoding rollout, from index `start` on.

        Raises:
            RolloutGone: it ended and was polled.
        """
        check_integer("start", start, 0, U32_MAX)
        room = check_integer("n", n, 1, _PEEK_MAX)
        tokens, logps, versions, got = (
            (ct.c_int32 * room)(),
            (ct.c_float * room)(),
            (ct.c_uint32 * room)(),
            ct.c_uint32(),
        )
        places = (tokens, logps, versions, ct.byref(got))
        if self._call(self._lib.assay_host_peek, _word(ref), start, room, *places) != Status.OK:
            raise RolloutGone(f"{ref} ended and was polled")
        made = 4 * got.value
        return Progress(
            tokens=array.array("i", bytes(tokens)[:made]),
            logps=array.array("f", bytes(logps)[:made]),
            policy_versions=array.array("I", bytes(versions)[:made]),
        )

    # ---- crashes

    def _worker_crashed(self) -> bool:
        """Part of every `submit` and `poll`, so it reads one counter and not all of them."""
        words = StatsWords()
        self._call(self._lib.assay_host_stats, ct.byref(words))
        return bool(words.worker_state == _WORKER_CRASHED)

    def _raise_if_crashed(self) -> None:
        if self._crashed is not None or self._worker_crashed():
            raise self._crash_error()

    def _bury_if_crashed(self) -> None:
        if self._worker_crashed():
            self._crashed = {} if self._crashed is None else self._crashed
            self._call(self._lib.assay_host_bury)

    def _crash_error(self) -> WorkerCrashed:
        stats = self.stats()
        detail = ct.c_int64(stats.crash_detail).value
        gone = tuple((self._crashed or {}).values())
        return WorkerCrashed(_CAUSES[stats.crash - 1], detail, gone)

    def _raise_if_all_came_back(self) -> None:
        """After a crash: completed rollouts were polled; report the rest."""
        if self._crashed is not None and self.stats().queue_done == 0:
            raise self._crash_error()

    # ---- weights

    def pause(self, timeout_s: float = 10.0, *, mode: PauseMode = PauseMode.IN_PLACE) -> Pause:
        """Hold the worker between two steps until the returned pause is resumed.

        Pauses are counted: the worker continues when all are resumed.

        Args:
            timeout_s: how long to wait until it is held; FINISH takes as long as the
                longest running rollout.
            mode: what happens to running rollouts. Those that wait for a reward do not run.

        Raises:
            WorkerStalled: it was not held in time; nothing is paused.
        """
        pause = Pause(self)
        try:
            cell = ct.byref(pause.cell)
            timeout_ns = round(timeout_s * 1e9)
            status = self._call(self._lib.assay_host_pause, cell, mode, timeout_ns)
            if status == Status.STALLED:
                self._stalled(f"not held within {timeout_s} s")
            self._raise_if_crashed()
        except BaseException:
            pause.resume()
            raise
        return pause

    def _resume(self, pause: Pause) -> None:
        self._lib.assay_host_resume(self._handle, ct.byref(pause.cell))

    def activate(
        self,
        version: int,
        *,
        mode: PauseMode = PauseMode.IN_PLACE,
        timeout_s: float = 10.0,
    ) -> Activation:
        """Decode with weights that `Engine.stage` made ready, or with the previously active ones.

        Tokens and cached keys and values carry the version that computed them.

        Raises:
            WeightsNotReady: the engine has no such version; nothing changed.
            WorkerStalled: as `pause`; nothing changed.
        """
        check_integer("version", version, 0, U32_MAX)
        self.engine.check_ready(version)  # before rollouts are held, drained or retracted for it
        asked = time.perf_counter()
        with self.pause(timeout_s, mode=mode):
            held = time.perf_counter()
            previous = self.engine.policy_version
            try:
                self.engine.activate(version)
            finally:  # later admissions must look up the cache of the active weights
                active = self.engine.policy_version
                self._call(self._lib.assay_host_set_policy_version, active)
        done = time.perf_counter()
        return Activation(
            version=version, previous=previous, wait_s=held - asked, pause_s=done - held
        )

    def set_policy_version(self, version: int) -> None:
        """Set the weights' version: it is stamped on new tokens, and cached prefixes of other
        versions no longer match. Call while paused, or before submitting."""
        check_integer("version", version, 0, U32_MAX)
        self.engine.policy_version = version
        self._call(self._lib.assay_host_set_policy_version, version)

    def audit(self) -> int:
        """0 when every KV invariant holds; the worker is held for it."""
        found = ct.c_int()
        with self.pause():
            self._call(self._lib.assay_host_audit, ct.byref(found))
        return found.value


def _word(ref: RolloutRef) -> int:
    slot, generation = ref
    check_integer("ref", slot, 0, U32_MAX)
    return ref_word(slot, check_integer("ref", generation, 0, U32_MAX))
