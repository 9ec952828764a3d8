"""What `math.measure` hands over to the stage that compares the group."""

from dataclasses import dataclass

from assay.core.codec import CodecError, evidence_fields, evidence_from, pack, unpack
from assay.core.verdict import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A response, judged by itself."""

    passed: bool
    length: int
    """In code points."""
    evidence: Evidence


def pack_measured(measured: Measured) -> bytes:
    """Pack for the next stage."""
    return pack((measured.passed, measured.length, evidence_fields(measured.evidence)))


def unpack_measured(artifact: bytes) -> Measured:
    """Undo `pack_measured`.

    Raises:
        CodecError: the bytes are something else.
    """
    match unpack(artifact):
        case [bool() as passed, int() as length, list() as fields]:
            return Measured(passed=passed, length=length, evidence=evidence_from(fields))
    raise CodecError("not a measured response")
