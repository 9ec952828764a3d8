"""The one door of all adapters to the platform: samples in, judgements out.

A `Scorer` runs the asynchronous client on a thread of its own, one per process, so that it serves
threads and any event loop alike, and loops that come and go. It can be pickled and survives a fork:
the connection is made on first use, per process.

Two forms: `judge` takes the samples of a step, which become one batch. `judge_one` is for hooks
that see one response per call: calls that run at the same time, or belong to one step, share a
batch, which is sealed when it holds `step_size` samples or when nothing was open for `quiet_s`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import difflib
import hashlib
import json
import logging
import os
import threading
import weakref
from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from assay.client import Backoff, forks
from assay.client.loop_thread import LoopThread
from assay.core.errors import InvalidRequest
from assay.integrations.step import REJECTED_INVALID, Patience, Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from assay.client import Batch, Client
    from assay.client.http import AsyncHttpBatch, AsyncHttpClient
    from assay.integrations.judgement import Judgement
    from assay.integrations.sample import Sample

LOG: Final = logging.getLogger("assay.integrations")
URL_DEFAULT: Final = "127.0.0.1:8470"
STEP_SAMPLES_MAX: Final = 16_384
"""Most samples of a batch that `judge_one` fills; the next one opens another."""

REFUSED_MAX: Final = 16
"""So many samples in a row that are refused before any was scored are a mistake of the caller."""
EXIT_S: Final = 5.0
"""How long a process that ends waits for its open steps to be withdrawn."""
NEAR: Final = 0.8
"""How much of a name has to agree with an option's to be taken for a slip."""
INCOMPLETE_S: Final = 60.0
"""When a step of known size that got fewer samples is closed, without a deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What is scored where, and for how long a step waits; the options of every adapter."""

    pipeline: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the pipeline."""
    url: str = ""
    """`host:port`, or `http://host:port` of the HTTP port, which needs neither grpcio nor protobuf;
    with TLS `grpcs://` or `https://`; empty: that of `ASSAY_URL`."""
    token: str | None = None
    """The tenant's token; by default that of `ASSAY_TOKEN`."""
    root_certificates: bytes | None = None
    """Of the service; with TLS by default those in the file `ASSAY_CA`. What is shown to a service
    that asks for a certificate is in `ASSAY_CERTIFICATE` and `ASSAY_KEY`."""
    task: str = ""
    """Name of the training job, under which its history is kept; empty: made from pipeline and
    settings."""
    deadline_s: float | None = None
    """When a step needs its rewards, from its first sample on; `None`: the service's estimate."""
    patience_s: float = 900.0
    """How long a step waits without any new result; then what is open stays unscored."""
    say_every_s: float = 30.0
    """How often a waiting step says so."""
    retry_s: float = 10.0
    """How long the client repeats one call before the step says what is wrong."""
    step_size: int = 0
    """Samples of a step that this process scores one by one; 0 = unknown."""
    quiet_s: float = 2.0
    """A step of unknown size ends when nothing was open for this long."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InvalidRequest: an option is wrong; `field` names it.
        """
        for name in ("patience_s", "say_every_s", "retry_s", "quiet_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidRequest(f"{name}: must be finite and more than 0", field=name)
        if self.deadline_s is not None and not 0 < self.deadline_s < float("inf"):
            raise InvalidRequest("deadline_s: must be finite and more than 0", field="deadline_s")
        if self.step_size < 0:
            raise InvalidRequest("step_size: must not be negative", field="step_size")
        if not self.pipeline:
            raise InvalidRequest("pipeline: must be named", field="pipeline")

    @property
    def task_id(self) -> str:
        """The name of the task."""
        if self.task:
            return self.task
        settings = json.dumps(dict(self.settings), sort_keys=True)
        digest = hashlib.blake2b(settings.encode(), digest_size=4).hexdigest()
        return f"{self.pipeline}-{digest}" if self.settings else self.pipeline

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read `ASSAY_PIPELINE` (default `math`) and the other variables of docs/integrations.

        Raises:
            InvalidRequest: a variable has no value of its kind; `field` names it.
        """

        def number(name: str, default: float) -> float:
            try:
                return float(environment.get(name) or default)
            except ValueError:
                raise InvalidRequest(f"{name}: is not a number", field=name) from None

        try:
            settings = json.loads(environment.get("ASSAY_PIPELINE_SETTINGS") or "{}")
        except ValueError:
            settings = None
        if not isinstance(settings, dict):
            message = "ASSAY_PIPELINE_SETTINGS: is not a JSON object"
            raise InvalidRequest(message, field="ASSAY_PIPELINE_SETTINGS")
        return cls(
            pipeline=environment.get("ASSAY_PIPELINE") or "math",
            settings=settings,
            url=environment.get("ASSAY_URL", ""),
            task=environment.get("ASSAY_TASK", ""),
            deadline_s=number("ASSAY_DEADLINE_S", 0) or None,
            patience_s=number("ASSAY_PATIENCE_S", 900),
            step_size=int(number("ASSAY_STEP_SIZE", 0)),
        )


class Scorer:
    """See the module's text; safe to share between threads."""

    def __init__(self, scoring: Scoring) -> None:
        self.scoring = scoring
        self._engine: _Engine | None = None
        self._process = 0
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """In a forked process another thread of the parent's may have held the lock."""
        self._lock = threading.Lock()

    @classmethod
    def of(cls, scoring: Scoring | str, **options: Any) -> Scorer:
        """Make one from options: `Scorer.of("math", url=..., deadline_s=60)`."""
        if isinstance(scoring, str):
            return cls(Scoring(pipeline=scoring, **options))
        return cls(replace(scoring, **options) if options else scoring)

    def __reduce__(self) -> tuple[type[Scorer], tuple[Scoring]]:
        """Pickle without the connection."""
        return (type(self), (self.scoring,))

    def judge(self, samples: Sequence[Sample]) -> list[Judgement]:
        """Score the samples of a step as one batch; a judgement for each, in their order.

        Raises:
            AssayError: the options or all samples are wrong, and nothing was scored before.
        """
        engine = self._running()
        return engine.loop.run(engine.judge(samples))

    async def judge_async(self, samples: Sequence[Sample]) -> list[Judgement]:
        """As `judge`, from any event loop."""
        engine = self._running()
        return await asyncio.wrap_future(engine.loop.start(engine.judge(samples)))

    def start_one(self, sample: Sample) -> Future[Judgement]:
        """Begin to score one sample, in the batch of its step; the future may be waited for."""
        engine = self._running()
        return engine.loop.start(engine.judge_one(sample))

    def judge_one(self, sample: Sample) -> Judgement:
        """Score one sample, in the batch of its step."""
        engine = self._running()
        return engine.loop.run(engine.judge_one(sample))

    async def judge_one_async(self, sample: Sample) -> Judgement:
        """As `judge_one`, from any event loop."""
        return await asyncio.wrap_future(self.start_one(sample))

    def close(self, *, wait_s: float | None = None) -> None:
        """Close the connection of this process; the next use makes a new one.

        Raises:
            TimeoutError: that takes more than `wait_s`.
        """
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None and self._process == os.getpid():
            engine.loop.start(engine.close()).result(wait_s)
            engine.loop.close()

    def _running(self) -> _Engine:
        with self._lock:
            if self._engine is None or self._process != os.getpid():
                self._engine = engine = _Engine(self.scoring)
                _OPEN.add(self)
                self._process = os.getpid()
                weakref.finalize(self, engine.retire, self._process).atexit = False
            return self._engine


_OPEN: Final[weakref.WeakSet[Scorer]] = weakref.WeakSet()
"""Scorers that have had a connection."""


def _close_at_exit() -> None:
    """Withdraw what no one waits for any longer; the loops end before the interpreter does."""
    for scorer in list(_OPEN):
        with contextlib.suppress(Exception):
            scorer.close(wait_s=EXIT_S)


atexit.register(_close_at_exit)
_SHARED: Final[dict[str, Scorer]] = {}
_SHARED_LOCK: Final = threading.Lock()


def shared_scorer(options: Mapping[str, Any] = MappingProxyType({})) -> Scorer:
    """The scorer of this process for these options, for trainers that call plain functions.

    What is not an option of `Scoring` is ignored, as trainers add their own; without a pipeline the
    environment's is used.

    Raises:
        InvalidRequest: a name is one of ours with a slip, or a value is wrong.
    """
    known = {name: options[name] for name in options if name in Scoring.__dataclass_fields__}
    name = json.dumps(known, sort_keys=True, default=dict)
    with _SHARED_LOCK:
        if name not in _SHARED:
            _check_names(options)
            given = json.loads(name)
            named = "pipeline" in given
            scoring = Scoring(**given) if named else replace(Scoring.from_environment(), **given)
            _SHARED[name] = Scorer(scoring)
        return _SHARED[name]


def _check_names(options: Mapping[str, Any]) -> None:
    ours = Scoring.__dataclass_fields__
    for name in options:
        near = difflib.get_close_matches(name, ours, n=1, cutoff=NEAR)
        if near and name not in ours:
            raise InvalidRequest(f"{name}: no option; meant is perhaps {near[0]!r}", field=name)


def close() -> None:
    """Close the connections of `shared_scorer`."""
    with _SHARED_LOCK:
        scorers = list(_SHARED.values())
        _SHARED.clear()
    for scorer in scorers:
        scorer.close()


class _Engine:
    """What runs on the thread's event loop."""

    def __init__(self, scoring: Scoring) -> None:
        self.loop = LoopThread()
        self._scoring = scoring
        self._client: Client | AsyncHttpClient | None = None
        self._filling: Step | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._proven = False
        self._judged = 0
        self._refused = 0
        self._unscored: Counter[str] = Counter()
        self._causes: dict[str, str] = {}
        """The first one per outcome."""

    async def judge(self, samples: Sequence[Sample]) -> list[Judgement]:
        if not samples:
            return []
        step = self._step(size=len(samples))
        proven = self._proven
        futures = step.add(samples)
        step.close()
        work = self._start(step)
        try:
            judged = await asyncio.gather(*futures)
        except BaseException:
            work.cancel()
            raise
        if not proven and all(one.outcome == REJECTED_INVALID for one in judged):
            raise InvalidRequest(f"all samples were refused; the first: {judged[0].cause}")
        return judged

    async def judge_one(self, sample: Sample) -> Judgement:
        step = self._filling
        if step is None or step.closed:
            step = self._filling = self._step(size=self._scoring.step_size)
            self._start(step)
        (future,) = step.add([sample])
        if step.count >= (self._scoring.step_size or STEP_SAMPLES_MAX):
            step.close()
        try:
            judged = await future
        finally:
            self._close_when_quiet(step)
        if self._refused >= REFUSED_MAX and not self._proven:
            raise InvalidRequest(f"all of {self._refused} samples were refused: {judged.cause}")
        return judged

    def _close_when_quiet(self, step: Step) -> None:
        added = step.count

        def close_if_quiet() -> None:
            if step.count == added and not step.open_count:
                step.close()

        scoring = self._scoring
        quiet_s = scoring.quiet_s
        if scoring.step_size:  # it is closed when full; this is for a step that stays incomplete
            quiet_s = max(quiet_s, scoring.deadline_s or INCOMPLETE_S)
        if not step.open_count:
            asyncio.get_running_loop().call_later(quiet_s, close_if_quiet)

    def retire(self, process: int) -> None:
        """End when the steps have; for a scorer that was dropped, as by a notebook. Never waits."""
        if os.getpid() == process and self.loop.running:
            self.loop.start(self._retired())

    async def _retired(self) -> None:
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.close()
        self.loop.stop()

    async def close(self) -> None:
        for work in self._running:
            work.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    def _step(self, *, size: int) -> Step:
        scoring = self._scoring
        if self._client is None:
            self._client = _client(scoring)
        client = self._client

        async def open_batch(batch_id: str) -> Batch | AsyncHttpBatch:
            task = await client.register_task(
                scoring.task_id, pipeline=scoring.pipeline, settings=scoring.settings or None
            )
            return await client.open_batch(
                task, size=size, batch_id=batch_id, deadline_s=scoring.deadline_s
            )

        patience = Patience(total_s=scoring.patience_s, say_every_s=scoring.say_every_s)
        return Step(
            open_batch=open_batch,
            patience=patience,
            proven=lambda: self._proven,
            judged=self._count,
        )

    def _start(self, step: Step) -> asyncio.Task[None]:
        work = asyncio.create_task(step.run())
        self._running.add(work)
        work.add_done_callback(self._ended)
        return work

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._running.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            LOG.error("a step ended by an error of the adapter", exc_info=error)
        if self._unscored:
            causes = ", ".join(
                f"{n} {self._causes[name]}" for name, n in sorted(self._unscored.items())
            )
            LOG.warning(
                "%d of %d samples unscored, which is no reward: %s",
                *(self._unscored.total(), self._judged, causes),
            )
        self._judged = 0
        self._unscored.clear()
        self._causes.clear()

    def _count(self, judged: Judgement) -> None:
        self._proven = self._proven or judged.scored
        self._judged += 1
        self._refused = self._refused + 1 if judged.outcome == REJECTED_INVALID else 0
        if not judged.scored:
            self._unscored[judged.outcome] += 1
            self._causes.setdefault(judged.outcome, judged.cause)


def _client(scoring: Scoring) -> Client | AsyncHttpClient:
    """The client for the scheme of the URL; grpcio is imported only where it is used.

    Raises:
        InvalidRequest: `url` or `token` is malformed.
    """
    url = scoring.url or os.environ.get("ASSAY_URL") or URL_DEFAULT
    options: dict[str, Any] = {
        "token": scoring.token,
        "root_certificates": scoring.root_certificates,
        "backoff": Backoff(total_s=scoring.retry_s),
        "timeout_s": max(scoring.retry_s, 1.0),
    }
    if url.startswith(("http://", "https://")):
        from assay.client.http import AsyncHttpClient

        return AsyncHttpClient(url, **options)
    from assay.client import Client

    return Client(url, **options)
