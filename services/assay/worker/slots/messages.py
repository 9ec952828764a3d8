"""Messages between the host and a slot, checked on arrival.

    host -> slot    WORK       tasks, works, individually    one assignment; a second one may wait
                    TAKE_BACK                                the one before, if it is not begun
                    ARTIFACT   content or None, make         answer to the ask before
                    PERMITTED  seconds to wait               answer to PERMIT; 0: it may call
                    AUDIT      a list of (task, work)        what is wrong with their references?
                    END                                      close the handler and exit
    slot -> host    READY                                    warm and confined
                    VERDICTS   a list of them, retiring      in the order of the works
                    RETIRE                                   blameless; give the rest to another
                    TAKEN_BACK                               it is not begun, nor will be
                    BROKEN     text                          could not start, or ends by a bug
                    FIND/ASK   key                           an artifact: look / look or make
                    MADE       key, content                  the making asked for is done
                    GIVEN_UP   key                           ... has failed
                    PERMIT     tenant, provider, limits      leave to call a provider
                    AUDITED    a list of (found, error),     the next ones in the order asked;
                               retiring                      from a slot that only audits

Invariant: everything that a slot sends becomes one of the values below or raises `ProtocolError`.
Its contents are not trusted (times are capped by the host's measurements, texts and sizes are
bounded).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from assay.core.codec import CodecError, pack_body, pack_handover, unpack_body, unpack_handover
from assay.core.outcome import Outcome
from assay.core.tools.quick import quick
from assay.core.tools.rewards import is_finite
from assay.core.verdict import (
    COMPONENT_NAME_CHARS_MAX,
    COMPONENTS_MAX,
    TEXT_CHARS_MAX,
    Component,
    Ended,
    HandedOver,
    ResourceUse,
    StageVerdict,
)
from assay.worker.slots.frames import ProtocolError

WORK: Final = "work"
ARTIFACT: Final = "artifact"
TAKE_BACK: Final = "take_back"
TAKEN_BACK: Final = "taken_back"
AHEAD: Final = frozenset({WORK, TAKE_BACK})
"""Frames that may arrive while a slot works."""
END: Final = "end"
READY: Final = "ready"
VERDICTS: Final = "verdicts"
RETIRE: Final = "retire"
BROKEN: Final = "broken"
FIND: Final = "find"
ASK: Final = "ask"
MADE: Final = "made"
GIVEN_UP: Final = "given_up"
PERMIT: Final = "permit"
PERMITTED: Final = "permitted"
AUDIT: Final = "audit"
AUDITED: Final = "audited"

KEY_CHARS_MAX: Final = 256
PERMIT_LIMITS_MAX: Final = 4
HOSTS_KEYS: Final = "audit:"
"""Beginning of the keys of artifacts that only hosts read and write."""
_ENDED: Final = "ended"
_UNAUDITED: Final = "unaudited"
_HANDED_OVER: Final = "handed_over"
_FAILED: Final = "failed"
_GROUP: Final = "group"
_OUTCOMES: Final = {
    outcome.value: outcome
    for outcome in (Outcome.SCORED, Outcome.RESOURCE_LIMIT, Outcome.REJECTED_INVALID)
}
"""Outcomes that a stage may report; the others are reserved for the platform."""


class WireWork(NamedTuple):
    """A request on its way to a slot."""

    task: int
    """Index into the frame's tasks."""
    response: bytes
    reference: bytes
    handover: bytes
    messages: bytes = b""
    artifacts: Sequence[tuple[str, bytes]] = ()
    members: Sequence[Sequence[Any]] = ()
    """Of a whole group: the fields of each request's own `WireWork`; the fields above are empty."""
    submitted: int = 0
    """Requests of the group, with those that are not among the members."""
    tenant: str = ""
    """For limits that handlers share; empty for a whole group."""
    control: int = 0
    """The response, or that of a group's only member, is to be replaced by a trusted one. Counts
    the times in a row, from 1; 0: no control."""
    fault: str | None = None
    """See `Work.fault`."""


class WireTask(NamedTuple):
    """The data that requests of one task share."""

    pipeline: str
    settings_json: bytes
    version: str = ""
    """Of the pipeline with these settings on this host."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SaidEnded:
    """The stage ends the request."""

    outcome: Outcome
    reward: float | None
    body: bytes
    unaudited: bool = False
    """See `Ended.unaudited`."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SaidHandedOver:
    """The stage hands over to the next one."""

    handover: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidFailed:
    """The handler raised."""

    error: str
    limit: str = ""
    """The limit that the slot itself saw broken; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidGroup:
    """The verdicts on a group, one per member, in order."""

    members: tuple[SaidEnded | SaidHandedOver | SaidFailed, ...]


Said = SaidEnded | SaidHandedOver | SaidFailed | SaidGroup

Found = bool | str | None
"""What an audit found: whether an empty response passes (`AuditingHandler`), the control that the
reference fails (`FaultFindingHandler`), or nothing."""


class Verdict(NamedTuple):
    """The result of one work of the assignment; times are of the machine's monotonic clock."""

    at: int
    """Its index in the assignment."""
    started_ns: int
    finished_ns: int
    said: Said


# -- in the slot ---------------------------------------------------------------------------------


def read_works(frame: Sequence[object]) -> tuple[list[WireTask], list[WireWork], bool]:
    """Decode the host's WORK frame.

    Raises:
        ProtocolError: it is not such a frame.
    """
    match frame:
        case ["work", list() as tasks, list() as works, bool() as individually]:
            return (
                [WireTask(*task) for task in tasks],
                [WireWork(*work) for work in works],
                individually,
            )
    raise ProtocolError("not a work frame")


def read_audits(frame: Sequence[object]) -> list[tuple[WireTask, WireWork]]:
    """Decode the host's AUDIT frame.

    Raises:
        ProtocolError: it is not such a frame.
    """
    match frame:
        case ["audit", list() as audits]:
            return [(WireTask(*task), WireWork(*work)) for task, work in audits]
    raise ProtocolError("not an audit frame")


def said_by(verdict: StageVerdict, before: ResourceUse, *, version: str = "") -> tuple[object, ...]:
    """A handler's verdict in wire form.

    Args:
        verdict: of the handler.
        before: usage of earlier stages.
        version: of the pipeline, over all stages so far.
    """
    use = before.plus(verdict.use)
    if isinstance(verdict, HandedOver):
        return (_HANDED_OVER, pack_handover(verdict.artifact, use, pipeline_version=version))
    if (why := _unfit(verdict)) is not None:
        return (_FAILED, why)
    word = _UNAUDITED if verdict.unaudited else _ENDED
    body = pack_body(
        verdict.evidence,
        use,
        components=verdict.components,
        pipeline_version=version,
        rescorable=verdict.rescorable,
    )
    return (word, verdict.outcome.value, verdict.reward, body)


def _unfit(ended: Ended) -> str | None:
    if ended.outcome is Outcome.INFRA_FAILED:
        return ended.evidence.error[-TEXT_CHARS_MAX:] or "the handler returned INFRA_FAILED"
    if ended.outcome.value not in _OUTCOMES:
        return f"the handler returned {ended.outcome}, which a stage may not report"
    if ended.reward is not None and not is_finite(ended.reward):
        return "the handler returned a reward that is no finite number"
    return _unfit_components(ended.components)


def _unfit_components(components: Sequence[Component]) -> str | None:
    if len(components) > COMPONENTS_MAX:
        return f"the handler returned {len(components)} components; at most {COMPONENTS_MAX}"
    if len({one.name for one in components}) != len(components):
        return "the handler returned two components of one name"
    for one in components:
        if not (one.name.isprintable() and 0 < len(one.name) <= COMPONENT_NAME_CHARS_MAX):
            return f"the handler returned a component named {one.name[:200]!r}"
        if not (is_finite(one.value) and is_finite(one.weight)):
            return f"the handler returned component {one.name} that is no finite number"
    return None


def said_of_group(members: Sequence[tuple[object, ...]]) -> tuple[object, ...]:
    """The verdicts on a group in wire form; `members`: each as `said_by` returns it."""
    return (_GROUP, members)


def failed(error: str, *, limit: str = "") -> tuple[object, ...]:
    """The wire form of a handler's exception."""
    return (_FAILED, error[-TEXT_CHARS_MAX:], limit)


# -- in the host ---------------------------------------------------------------------------------


def read_verdicts(frame: Sequence[object], works: int) -> tuple[list[Verdict], bool]:
    """Check a VERDICTS frame for an assignment of that many works; True = the slot retires.

    Raises:
        ProtocolError: it is not such a frame, or its contents are impossible.
    """
    match frame:
        case ["verdicts", list() as verdicts, bool() as retiring] if len(verdicts) <= works:
            return [_verdict(verdict, works) for verdict in verdicts], retiring
    raise ProtocolError("not a verdicts frame")


def _verdict(fields: object, works: int) -> Verdict:
    match fields:
        case [int() as index, int() as started_ns, int() as finished_ns, list() as said] if (
            0 <= index < works
        ):
            return Verdict(index, started_ns, finished_ns, _said(said))
    raise ProtocolError("not a verdict")


def _said(said: list[object]) -> Said:
    match said:
        case ["group", list() as members]:
            return SaidGroup(members=tuple(map(_said_of_member, members)))
    return _said_of_member(said)


def _said_of_member(said: object) -> SaidEnded | SaidHandedOver | SaidFailed:
    match said:
        case ["ended", str() as word, None | float() | int() as reward, bytes() as body]:
            return _ended(word, reward, body)
        case ["unaudited", "SCORED" as word, float() | int() as reward, bytes() as body]:
            return replace(_ended(word, reward, body), unaudited=True)
        case ["handed_over", bytes() as handover]:
            _check(unpack_handover, handover)
            return SaidHandedOver(handover=handover)
        case ["failed", str() as error]:
            return SaidFailed(error=error[-TEXT_CHARS_MAX:])
        case ["failed", str() as error, "" | "memory_limit" as limit]:
            return SaidFailed(error=error[-TEXT_CHARS_MAX:], limit=limit)
    raise ProtocolError("not a verdict")


def _ended(word: str, reward: float | None, body: bytes) -> SaidEnded:
    outcome = _OUTCOMES.get(word)
    if outcome is None or outcome.carries_reward != (reward is not None):
        message = f"outcome {word[:50]!r} with reward {reward!r}"
        raise ProtocolError(message)
    if reward is not None and not math.isfinite(reward):
        message = f"reward {reward}"
        raise ProtocolError(message)
    _check(unpack_body, body)
    as_float = None if reward is None else float(reward)
    return SaidEnded(outcome=outcome, reward=as_float, body=body)


def _check(read: Callable[[bytes], object], packed: bytes) -> None:
    try:
        read(packed)
    except CodecError as error:
        raise ProtocolError(str(error)) from error


def read_audited(frame: Sequence[object]) -> tuple[list[tuple[Found, str]], bool]:
    """Decode an AUDITED frame: what was found or why nothing was, each; whether the slot retires.

    Raises:
        ProtocolError: it is not such a frame.
    """
    match frame:
        case ["audited", [_, *_] as answers, bool() as retiring]:
            return [_found(answer) for answer in answers], retiring
    raise ProtocolError("not an audited frame")


def _found(answer: object) -> tuple[Found, str]:
    match answer:
        case [None | bool() as found, str() as error]:
            return found, error[-TEXT_CHARS_MAX:]
        case [str() as fault, ""]:
            return fault[:TEXT_CHARS_MAX], ""
    raise ProtocolError("not what an audit found")


def read_permit(frame: Sequence[object]) -> tuple[str, str, dict[str, tuple[int, int]]]:
    """Tenant, provider and limits of a PERMIT frame.

    Raises:
        ProtocolError: it is something else.
    """
    match frame:
        case [_, str() as tenant, str() as provider, list() as limits] if (
            len(provider) <= KEY_CHARS_MAX and len(limits) <= PERMIT_LIMITS_MAX
        ):
            found = {}
            for limit in limits:
                match limit:
                    case [str() as kind, int() as cost, int() as most] if cost >= 0 and most >= 0:
                        found[kind[:KEY_CHARS_MAX]] = (cost, most)
                    case _:
                        raise ProtocolError("not a limit")
            return tenant, provider, found
    raise ProtocolError("not a request for a permit")


def read_key(frame: Sequence[object]) -> str:
    """The key of a FIND, ASK, MADE or GIVEN_UP frame.

    Raises:
        ProtocolError: it has none.
    """
    match frame:
        case [_, str() as key, *_] if 0 < len(key) <= KEY_CHARS_MAX:
            if not key.startswith(HOSTS_KEYS):
                return key
    raise ProtocolError("not an artifact key of a slot")


def read_content(frame: Sequence[object]) -> bytes:
    """The content of a MADE frame.

    Raises:
        ProtocolError: it has none.
    """
    if len(frame) == 3 and isinstance(frame[2], bytes):
        return frame[2]
    raise ProtocolError("not the content of an artifact")
