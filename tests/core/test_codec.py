"""Bodies and hand-overs come back as they were packed; nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.codec import (
    Carried,
    CodecError,
    ResultDetails,
    evidence_fields,
    pack,
    pack_body,
    pack_handover,
    unpack,
    unpack_body,
    unpack_handover,
)
from assay.core.verdict import TEXT_CHARS_MAX, Component, Evidence, ResourceUse

COMPONENTS = (Component(name="format", value=0.5), Component(name="tests", value=1.0, weight=3.0))
COUNTS = st.integers(min_value=0, max_value=2**63)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=50)
USES = st.builds(
    ResourceUse,
    cpu_s=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    memory_bytes_peak=COUNTS,
)
EVIDENCES = st.builds(
    Evidence,
    verdict=TEXTS,
    tests_passed=COUNTS,
    tests_total=COUNTS,
    failed_test=st.none() | COUNTS,
    stderr_tail=TEXTS,
    extracted=TEXTS,
    error=TEXTS,
)


@given(evidence=EVIDENCES, use=USES)
def test_a_body_comes_back_as_it_was_packed(evidence: Evidence, use: ResourceUse) -> None:
    assert unpack_body(pack_body(evidence, use)) == ResultDetails(evidence, use)
    packed = pack_body(evidence, use, components=COMPONENTS, pipeline_version="v", rescorable=True)
    assert unpack_body(packed) == ResultDetails(evidence, use, COMPONENTS, "v", True)


def test_what_an_earlier_release_packed_is_read() -> None:
    fields = (*evidence_fields(Evidence(verdict="pass")), 1.5, 7)
    use = ResourceUse(cpu_s=1.5, memory_bytes_peak=7)
    assert unpack_body(pack((1, *fields))) == ResultDetails(Evidence(verdict="pass"), use)
    assert unpack_handover(pack((1, b"artifact", 1.5, 7))) == Carried(b"artifact", use)


@given(artifact=st.binary(max_size=100), use=USES)
def test_a_handover_comes_back_as_it_was_packed(artifact: bytes, use: ResourceUse) -> None:
    assert unpack_handover(pack_handover(artifact, use)) == Carried(artifact, use)
    packed = pack_handover(artifact, use, pipeline_version="v")
    assert unpack_handover(packed) == Carried(artifact, use, "v")


def test_nothing_means_nothing_found_and_nothing_used() -> None:
    assert unpack_body(b"") == ResultDetails(Evidence(), ResourceUse())
    assert unpack_handover(b"") == Carried(b"", ResourceUse())


def test_long_texts_are_cut_and_of_stderr_the_end_is_kept() -> None:
    evidence = Evidence(verdict="v" * 9_000, stderr_tail="x" * 9_000 + "the end")
    unpacked = unpack_body(pack_body(evidence, ResourceUse())).evidence
    assert unpacked.verdict == "v" * TEXT_CHARS_MAX
    assert len(unpacked.stderr_tail) == TEXT_CHARS_MAX
    assert unpacked.stderr_tail.endswith("the end")


def test_lone_surrogates_become_valid_text() -> None:
    unpacked = unpack_body(pack_body(Evidence(extracted="a\ud800b"), ResourceUse())).evidence
    assert unpacked.extracted == "a?b"


@given(st.binary(max_size=200))
def test_foreign_bytes_raise_and_do_nothing_else(packed: bytes) -> None:
    for reader in (unpack, unpack_body, unpack_handover):
        try:
            reader(packed)
        except CodecError:
            continue


@pytest.mark.parametrize("value", [[2, b"", 0.0, 0], [1, "text", 0.0, 0], [1], {"a": 1}, 7])
def test_another_version_or_form_is_no_handover(value: object) -> None:
    with pytest.raises(CodecError):
        unpack_handover(pack(value))
    with pytest.raises(CodecError):
        unpack_body(pack(value))


def test_what_has_no_packed_form_is_refused() -> None:
    with pytest.raises(CodecError):
        pack(object())
