"""The opaque bytes that the store carries: bodies of results and of hand-overs.

Workers pack, the API unpacks. Invariants: unpacking returns what was packed, except texts, which
are bounded (`TEXT_CHARS_MAX`) and made valid Unicode; each form starts with its version, so that
old and new releases may share a store; an empty body means that no stage judged the request.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgpack

from assay.core.verdict import TEXT_CHARS_MAX, Component, Evidence, ResourceUse

BODY_VERSION: Final = 2
"""1 had neither components nor the pipeline's version; it is still read."""
HANDOVER_VERSION: Final = 2
"""1 had no version of the pipeline; it is still read."""


class CodecError(ValueError):
    """The bytes were not packed by this release or a compatible one."""


def pack(value: object) -> bytes:
    """Pack plain values: None, bool, int, float, str, bytes, list, tuple, dict.

    Raises:
        CodecError: `value` holds something else.
    """
    try:
        packed: bytes = msgpack.packb(value, unicode_errors="replace")
    except (TypeError, ValueError, OverflowError) as error:
        raise CodecError(str(error)) from error
    return packed


def unpack(packed: bytes | memoryview) -> object:
    """Undo `pack`; tuples come back as lists.

    Raises:
        CodecError: the bytes are not one packed value.
    """
    try:
        return msgpack.unpackb(packed, strict_map_key=False)
    except (msgpack.UnpackException, ValueError, TypeError) as error:
        message = f"not a packed value: {error!r}"
        raise CodecError(message) from error


class ResultDetails(NamedTuple):
    """What a worker says about a request that ended, beside outcome and reward."""

    evidence: Evidence = Evidence()
    use: ResourceUse = ResourceUse()
    components: tuple[Component, ...] = ()
    pipeline_version: str = ""
    """Of what judged; empty: nothing did, or a release that did not say so."""
    rescorable: bool = False


class Carried(NamedTuple):
    """What one stage leaves to the next."""

    artifact: bytes = b""
    use: ResourceUse = ResourceUse()
    """Sum over all stages so far."""
    pipeline_version: str = ""
    """Of what judged so far."""


def pack_body(
    evidence: Evidence,
    use: ResourceUse,
    *,
    components: Sequence[Component] = (),
    pipeline_version: str = "",
    rescorable: bool = False,
) -> bytes:
    """Pack what `EndRequest.body` carries."""
    parts = [(one.name, one.value, one.weight) for one in components]
    return pack(
        (
            BODY_VERSION,
            evidence_fields(evidence),
            (use.cpu_s, use.memory_bytes_peak),
            parts,
            pipeline_version,
            rescorable,
        )
    )


def unpack_body(body: bytes) -> ResultDetails:
    """Undo `pack_body`; an empty body gives an empty evidence.

    Raises:
        CodecError: the bytes are no body of a known version.
    """
    if not body:
        return ResultDetails()
    match unpack(body):
        case [2, fields, use, list() as components, str() as version, bool() as rescorable]:
            parts = tuple(map(_component, components))
            return ResultDetails(evidence_from(fields), _use(use), parts, version, rescorable)
        case [1, *fields, int() | float() as cpu_s, int() as memory_bytes]:
            return ResultDetails(evidence_from(fields), _use([cpu_s, memory_bytes]))
    raise CodecError("not a result body of a known version")


def pack_handover(artifact: bytes, use: ResourceUse, *, pipeline_version: str = "") -> bytes:
    """Pack what `HandOver.handover` carries; `use` is the sum over all stages so far."""
    return pack((HANDOVER_VERSION, artifact, use.cpu_s, use.memory_bytes_peak, pipeline_version))


def unpack_handover(handover: bytes) -> Carried:
    """Undo `pack_handover`; the empty hand-over of a first stage has no artifact.

    Raises:
        CodecError: the bytes are no hand-over of a known version.
    """
    if not handover:
        return Carried()
    match unpack(handover):
        case [2, bytes() as artifact, cpu_s, memory_bytes, str() as version]:
            return Carried(artifact, _use([cpu_s, memory_bytes]), version)
        case [1, bytes() as artifact, cpu_s, memory_bytes]:
            return Carried(artifact, _use([cpu_s, memory_bytes]))
    raise CodecError("not a hand-over of a known version")


def _use(fields: object) -> ResourceUse:
    match fields:
        case [int() | float() as cpu_s, int() as memory_bytes]:
            return ResourceUse(cpu_s=float(cpu_s), memory_bytes_peak=memory_bytes)
    raise CodecError("not a use of resources")


def _component(fields: object) -> Component:
    match fields:
        case [str() as name, int() | float() as value, int() | float() as weight]:
            return Component(name=name, value=float(value), weight=float(weight))
    raise CodecError("not a component")


def evidence_fields(evidence: Evidence) -> tuple[object, ...]:
    """Return the plain values of `evidence`, texts bounded, in the order of `evidence_from`."""
    return (
        evidence.verdict[:TEXT_CHARS_MAX],
        evidence.tests_passed,
        evidence.tests_total,
        evidence.failed_test,
        evidence.stderr_tail[-TEXT_CHARS_MAX:],
        evidence.extracted[:TEXT_CHARS_MAX],
        evidence.error[-TEXT_CHARS_MAX:],
    )


def evidence_from(fields: object) -> Evidence:
    """Undo `evidence_fields`.

    Raises:
        CodecError: the values have other types.
    """
    match fields:
        case [
            str() as verdict,
            int() as passed,
            int() as total,
            int() | None as failed_test,
            str() as stderr_tail,
            str() as extracted,
            str() as error,
        ]:
            return Evidence(
                verdict=verdict,
                tests_passed=passed,
                tests_total=total,
                failed_test=failed_test,
                stderr_tail=stderr_tail,
                extracted=extracted,
                error=error,
            )
    raise CodecError("not the fields of an evidence")
