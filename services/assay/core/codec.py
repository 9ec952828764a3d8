"""The opaque bytes that the store carries: bodies of results and of hand-overs.

Workers pack, the API unpacks. Invariants: unpacking returns what was packed, except texts, which
are bounded (`TEXT_CHARS_MAX`) and made valid Unicode; each form starts with its version, so that
old and new releases may share a store; an empty body means that no stage judged the request.
"""

from typing import Final

import msgpack

from assay.core.verdict import TEXT_CHARS_MAX, Evidence, ResourceUse

BODY_VERSION: Final = 1
HANDOVER_VERSION: Final = 1


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


def pack_body(evidence: Evidence, use: ResourceUse) -> bytes:
    """Pack what `EndRequest.body` carries."""
    return pack((BODY_VERSION, *evidence_fields(evidence), use.cpu_s, use.memory_bytes_peak))


def unpack_body(body: bytes) -> tuple[Evidence, ResourceUse]:
    """Undo `pack_body`; an empty body gives an empty evidence.

    Raises:
        CodecError: the bytes are no body of this version.
    """
    if not body:
        return Evidence(), ResourceUse()
    match unpack(body):
        case [1, *fields, int() | float() as cpu_s, int() as memory_bytes]:
            evidence = evidence_from(fields)
            return evidence, ResourceUse(cpu_s=float(cpu_s), memory_bytes_peak=memory_bytes)
    raise CodecError("not a result body of a known version")


def pack_handover(artifact: bytes, use: ResourceUse) -> bytes:
    """Pack what `HandOver.handover` carries; `use` is the sum over all stages so far."""
    return pack((HANDOVER_VERSION, artifact, use.cpu_s, use.memory_bytes_peak))


def unpack_handover(handover: bytes) -> tuple[bytes, ResourceUse]:
    """Undo `pack_handover`; the empty hand-over of a first stage has no artifact.

    Raises:
        CodecError: the bytes are no hand-over of this version.
    """
    if not handover:
        return b"", ResourceUse()
    match unpack(handover):
        case [1, bytes() as artifact, int() | float() as cpu_s, int() as memory_bytes]:
            return artifact, ResourceUse(cpu_s=float(cpu_s), memory_bytes_peak=memory_bytes)
    raise CodecError("not a hand-over of a known version")


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
