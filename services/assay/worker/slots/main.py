"""A slot: one process that runs the requests of one stage.

It holds no credentials and no connection except its channel to the host, and processes one
assignment after another until that channel closes. The next one may arrive while it works. An
exception of a handler is a failed attempt.
Running out of memory is the request's fault only if nothing else used that memory: alone, in a
process that has served nothing before.
"""

import contextlib
import os
import resource
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Never

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.codec import unpack_handover
from assay.core.ids import PipelineName, owner_of
from assay.core.tools.lru import LruCache, TenantCache
from assay.core.tools.response import CUT, response_text
from assay.core.verdict import TEXT_CHARS_MAX, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.confine import confine_process
from assay.verifiers.intake import (
    last_answer,
    parse_messages,
    parse_reference,
    parse_settings,
)
from assay.verifiers.port import (
    AuditingHandler,
    FaultFindingHandler,
    GroupHandler,
    GroupWork,
    HandlerContext,
    PipelineDefinition,
    PipelineSettings,
    StageDefinition,
    StageHandler,
    TrustingGroupHandler,
    TrustingHandler,
    Work,
    resource_limited,
)
from assay.verifiers.total import TRIVIAL, judged
from assay.verifiers.version import version_after
from assay.worker.artifacts.client import SlotArtifacts
from assay.worker.artifacts.permits import SlotPermits
from assay.worker.forking import processes
from assay.worker.slots import messages
from assay.worker.slots.frames import BlockingFrames

SETTINGS_REMEMBERED_MAX: Final = 256
REFERENCE_BYTES_REMEMBERED_MAX: Final = 16 * 1024**2
TELL_NS: Final = 20_000_000
"""Answers to audits go together, and no later than this after they are known, unless the
next audit takes longer."""
REFERENCE_BYTES_REMEMBERED_EACH: Final = 1_024
"""Added to the size of every reference, so that small ones are bounded in number too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """Configuration of every slot of a host."""

    sandbox: SandboxSettings
    verifiers: VerifierSettings
    scratch: Path
    shared: Path
    """A directory that outlives the host."""
    computed: Path | None = None
    """See `HandlerContext.computed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a stage server prepares for its slots."""

    stage: StageDefinition
    pipelines: Mapping[PipelineName, PipelineDefinition]
    settings: SlotSettings
    artifacts: SlotArtifacts
    make_handler: Callable[[HandlerContext], StageHandler | GroupHandler]


class _Retire(Exception):
    """This process must stop serving; another slot gets its remaining work."""


class _Opened(NamedTuple):
    """A work, ready for the handler, the usage of earlier stages, and the version of them all."""

    work: Work
    before: ResourceUse
    version: str
    cut: str = ""
    """Length of a response that is longer than the service takes; `work` has its beginning."""


class SlotWorker:
    """Processes assignments. Used from one thread."""

    def __init__(
        self,
        workshop: Workshop,
        handler: StageHandler | GroupHandler,
        frames: BlockingFrames,
        clock: Clock,
    ) -> None:
        self._workshop = workshop
        self._handler = handler
        # Asked once: whether an object has a protocol, Python finds out by all its attributes.
        self._groups = handler if isinstance(handler, GroupHandler) else None
        self._single = None if isinstance(handler, GroupHandler) else handler
        self._frames = frames
        self._clock = clock
        self._served = 0
        self._settings: LruCache[messages.WireTask, PipelineSettings] = LruCache(
            weight_max=SETTINGS_REMEMBERED_MAX
        )
        self._references: TenantCache[tuple[str, bytes], tuple[int, Any]] = TenantCache(
            weight_max=REFERENCE_BYTES_REMEMBERED_MAX, weigh=lambda kept: kept[0]
        )
        self._memory_bytes_max = (
            _peak_bytes() + workshop.stage.spec.resources.memory_bytes // 2
            if workshop.stage.confined
            else 0
        )

    def serve(self) -> None:
        """Serve until an END frame arrives or the host is gone."""
        while (frame := self._frames.receive()) is not None:
            if frame[0] == messages.END:
                return
            if frame[0] == messages.AUDIT:
                if self._audit(frame):
                    return
                continue
            if frame[0] == messages.TAKE_BACK:
                continue  # too late: it is judged
            if self._frames.next_is(messages.TAKE_BACK):
                self._frames.send(messages.TAKEN_BACK)
                continue
            try:
                if self._assignment(frame):
                    return
            except _Retire:
                self._frames.send(messages.RETIRE)
                return

    def _audit(self, frame: Sequence[object]) -> bool:
        """Audit references; True means that the slot retires."""
        audits = messages.read_audits(frame)
        answers: list[tuple[messages.Found, str]] = []
        told_ns = self._clock.monotonic_ns()
        retiring = False
        for at, (task, wire) in enumerate(audits, 1):
            answers.append(self._answer(task, wire))
            is_last = at == len(audits)
            if is_last or self._clock.monotonic_ns() - told_ns > TELL_NS:
                retiring = is_last and self._is_too_large
                self._frames.send(messages.AUDITED, answers, retiring)
                answers, told_ns = [], self._clock.monotonic_ns()
        return retiring

    def _answer(
        self, task: messages.WireTask, wire: messages.WireWork
    ) -> tuple[messages.Found, str]:
        try:
            return self._found(self._open(wire, task).work), ""
        except Exception as problem:  # noqa: BLE001 - the boundary for exceptions of handlers
            return None, _last_lines(problem)

    def _found(self, work: Work) -> messages.Found:
        if isinstance(self._handler, FaultFindingHandler):
            return self._handler.fault(work)
        if isinstance(self._handler, AuditingHandler):
            return self._handler.lets_pass(work)
        raise TypeError("its handler does not audit")

    def _assignment(self, frame: Sequence[object]) -> bool:
        """Process it; True means that the slot retires."""
        tasks, works, individually = messages.read_works(frame)
        if not individually and len(works) > 1:
            return self._say(self._together(works, tasks), is_last=True)
        retiring = False
        for at, wire in enumerate(works):
            is_last = at == len(works) - 1
            retiring = self._say([self._alone(at, wire, tasks[wire.task])], is_last=is_last)
        return retiring

    def _say(self, verdicts: list[tuple[object, ...]], *, is_last: bool) -> bool:
        """Caches of a handler grow; the memory limit is for requests, so retire in time."""
        retiring = is_last and self._is_too_large
        self._frames.send(messages.VERDICTS, verdicts, retiring)
        return retiring

    @property
    def _is_too_large(self) -> bool:
        limit = self._memory_bytes_max
        return bool(limit) and _peak_bytes() > limit

    # -- one by one ----------------------------------------------------------------------------

    def _alone(
        self, index: int, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...]:
        started_ns = self._clock.monotonic_ns()
        try:
            said = self._judge([wire], [task])[0]
        except MemoryError:
            if self._served or not self._workshop.stage.confined:
                raise _Retire from None
            said = self._out_of_memory(wire, task)
        except Exception as error:  # noqa: BLE001 - the boundary for exceptions of handlers
            said = messages.failed(_last_lines(error))
        self._served += 1
        return (index, started_ns, self._clock.monotonic_ns(), said)

    def _out_of_memory(
        self, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...]:
        if wire.members:  # the host finds out which of them is to blame
            return messages.failed("memory ran out", limit="memory_limit")
        settings = self._settings_of(self._pipeline_of(task), task)
        evidence = Evidence(verdict="memory_limit", error="memory ran out")
        carried = unpack_handover(wire.handover)
        return messages.said_by(
            resource_limited(settings=settings, evidence=evidence),
            carried.use,
            version=version_after(carried.pipeline_version, task.version),
        )

    # -- together ------------------------------------------------------------------------------

    def _together(
        self, works: Sequence[messages.WireWork], tasks: Sequence[messages.WireTask]
    ) -> list[tuple[object, ...]]:
        """One call of the handler for all; if it raises, one call for each, to find the cause."""
        started_ns = self._clock.monotonic_ns()
        try:
            said = self._judge(works, [tasks[wire.task] for wire in works])
        except MemoryError:
            raise _Retire from None
        except Exception:  # noqa: BLE001 - raised again for the work that causes it, and reported then
            return [self._alone(index, wire, tasks[wire.task]) for index, wire in enumerate(works)]
        finished_ns = self._clock.monotonic_ns()
        self._served += len(works)
        return [(index, started_ns, finished_ns, each) for index, each in enumerate(said)]

    def _judge(
        self, works: Sequence[messages.WireWork], tasks: Sequence[messages.WireTask]
    ) -> list[tuple[object, ...]]:
        """Call the handler for these works, each with its task."""
        self._workshop.artifacts.serve(owner_of(_tenants(works)))
        if self._single is not None:
            opened = list(map(self._single_of, works, tasks))
            whole = [one for one in opened if not one.cut]
            said = iter(_said(self._verdicts([one.work for one in whole]), whole))
            return [_too_long(one) if one.cut else next(said) for one in opened]
        handler = self._groups
        assert handler is not None  # noqa: S101 - for the checker
        groups = [
            [self._member(wire, member, task) for member in wire.members]
            for wire, task in zip(works, tasks, strict=True)
        ]
        verdicts = handler.run_groups(
            [
                GroupWork(works=[one.work for one in group], submitted=wire.submitted)
                for wire, group in zip(works, groups, strict=True)
            ]
        )
        if len(verdicts) != len(groups):
            raise RuntimeError(f"verdicts about {len(verdicts)} of {len(groups)} groups")
        return [messages.said_of_group(_said(*one)) for one in zip(verdicts, groups, strict=True)]

    def _verdicts(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        handler = self._single
        assert handler is not None  # noqa: S101 - for the checker
        if len(works) == 1 and self._workshop.stage.confined:
            return [judged(handler, works[0])]
        return handler.run(works) if works else ()

    # -- payloads ------------------------------------------------------------------------------

    def _member(
        self, group: messages.WireWork, member: Sequence[Any], task: messages.WireTask
    ) -> _Opened:
        return self._trusted(self._open(messages.WireWork(*member), task), group.control)

    def _single_of(self, wire: messages.WireWork, task: messages.WireTask) -> _Opened:
        return self._trusted(self._open(wire, task), wire.control)

    def _trusted(self, opened: _Opened, control: int) -> _Opened:
        """The work, or a control in its place: the handler's own, or a trivial response."""
        if not control:
            return opened
        if isinstance(self._handler, TrustingHandler | TrustingGroupHandler):
            return opened._replace(work=self._handler.trusted(opened.work), cut="")
        response, keeps = TRIVIAL[(control - 1) % len(TRIVIAL)]
        trivial = replace(opened.work, response=response, messages=())
        trivial = trivial if keeps else replace(trivial, handover=b"")
        return opened._replace(work=trivial, cut="")

    def _open(self, wire: messages.WireWork, task: messages.WireTask) -> _Opened:
        pipeline = self._pipeline_of(task)
        carried = unpack_handover(wire.handover)
        transcript = parse_messages(wire.messages, "messages") if wire.messages else ()
        files = dict(wire.artifacts)
        work = Work(
            response=response_text(wire.response) or last_answer(transcript),
            reference=self._reference_of(pipeline, wire.reference, wire.tenant),
            settings=self._settings_of(pipeline, task),
            handover=carried.artifact,
            messages=transcript,
            artifacts=files,
            tenant=wire.tenant,
            fault=wire.fault,
        )
        version = version_after(carried.pipeline_version, task.version)
        return _Opened(work, carried.use, version, files.pop(CUT, b"").decode("ascii"))

    def _pipeline_of(self, task: messages.WireTask) -> PipelineDefinition:
        return self._workshop.pipelines[PipelineName(task.pipeline)]

    def _settings_of(
        self, pipeline: PipelineDefinition, task: messages.WireTask
    ) -> PipelineSettings:
        settings = self._settings.get(task)
        if settings is None:
            settings = parse_settings(pipeline, task.settings_json)
            self._settings.put(task, settings)
        return settings

    def _reference_of(self, pipeline: PipelineDefinition, packed: bytes, tenant: str) -> object:
        """The K responses of a group share their reference, so it is parsed once."""
        key = (pipeline.spec.name, packed)
        kept = self._references.get(tenant, key)
        if kept is None:
            weight = len(packed) + REFERENCE_BYTES_REMEMBERED_EACH
            kept = (weight, parse_reference(pipeline, packed))
            self._references.put(tenant, key, kept)
        return kept[1]


def _tenants(works: Sequence[messages.WireWork]) -> Iterator[str]:
    for wire in works:
        yield from (messages.WireWork(*one).tenant for one in wire.members or (wire,))


def _too_long(one: _Opened) -> tuple[object, ...]:
    evidence = Evidence(verdict="too_long", error=f"response has {one.cut} bytes")
    settings: PipelineSettings = one.work.settings
    ended = resource_limited(settings=settings, evidence=evidence)
    return messages.said_by(ended, one.before, version=one.version)


def _said(verdicts: Sequence[StageVerdict], opened: Sequence[_Opened]) -> list[tuple[object, ...]]:
    if len(verdicts) != len(opened):
        raise RuntimeError(f"{len(verdicts)} verdicts about {len(opened)} requests")
    return [
        messages.said_by(verdict, one.before, version=one.version)
        for verdict, one in zip(verdicts, opened, strict=True)
    ]


def be_slot(workshop: Workshop, channel: socket.socket, number: str) -> Never:
    """Be a slot until the host closes the channel; in a process forked for it."""
    code = 1
    frames = BlockingFrames(channel)
    try:
        processes.set_name(f"slot:{workshop.stage.spec.name}")
        _serve(workshop, frames, number)
        code = 0
    except ConnectionError:  # the host is gone, and its request with it
        code = 0
    except BaseException as error:  # noqa: BLE001 - every failure is reported to the host
        with contextlib.suppress(Exception):
            frames.send(messages.BROKEN, _last_lines(error))
    finally:
        os._exit(code)


def _serve(workshop: Workshop, frames: BlockingFrames, number: str) -> None:
    workshop.artifacts.connect(frames)
    scratch = workshop.settings.scratch / workshop.stage.spec.name / number
    if not workshop.stage.confined:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = workshop.make_handler(
        HandlerContext(
            artifacts=workshop.artifacts,
            sandbox=workshop.settings.sandbox,
            verifiers=workshop.settings.verifiers,
            scratch=scratch,
            shared=workshop.settings.shared,
            permits=SlotPermits(frames),
        )
    )
    missing: tuple[str, ...] = ()
    if workshop.stage.confined:
        missing = confine_process(
            workshop.settings.sandbox, memory_bytes=workshop.stage.spec.resources.memory_bytes
        ).missing
        processes.die_with_parent(os.getppid())
    worker = SlotWorker(workshop, handler, frames, Clock())
    frames.send(messages.READY, missing)
    worker.serve()
    handler.close()


def _last_lines(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-TEXT_CHARS_MAX:]


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
