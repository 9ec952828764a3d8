"""A slot names its artifacts, and the host decides whose they are."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.claims import claim

from assay.core.ids import PipelineName, TenantId, kept_for, owner_of
from assay.core.records import Claim
from assay.verifiers.code.cpp.keys import program_prefix
from assay.verifiers.languages.keys import program_prefix as prefix_of_language
from assay.verifiers.registry import load_pipelines
from assay.worker.artifacts.keys import OWN, ArtifactKeys, own_key
from assay.worker.assignment import Assignment, HeldClaim

PIPELINES = load_pipelines()
HONEST = "int main() { return 0; }\n"
HOSTILE = "int main() { return 1; } // hostile\n"


def claim_of(pipeline: str, response: str, **reference: object) -> Claim:
    definition = PIPELINES[PipelineName(pipeline)]
    told = {**definition.example_reference, **reference}
    one = claim(settings=definition.settings().model_dump_json().encode())
    return replace(
        one,
        task=replace(one.task, pipeline=definition.spec.name),
        response=response.encode(),
        reference=json.dumps(told).encode(),
    )


OWNER = owner_of(["t"])


def kept_as(
    pipeline: str, stage: int, key: str, *claims: Claim, individually: bool = False
) -> str | None:
    definition = PIPELINES[PipelineName(pipeline)]
    keys = ArtifactKeys(definition.stages[stage], PIPELINES)
    held = [HeldClaim(claim=one, claimed_ns=0, payload_bytes=0) for one in claims]
    return asyncio.run(keys.kept_as(Assignment(held=held, individually=individually), key))


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize(
    ("pipeline", "word", "prefix"),
    [
        ("code.cpp", "cpp", program_prefix(HONEST)),
        ("code.rust", "rust", prefix_of_language("rust", HONEST.encode())),
        ("code.java", "java", prefix_of_language("java", HONEST.encode())),
    ],
)
def test_a_program_is_shared_by_its_own_requests_and_made_by_no_other(
    pipeline: str, word: str, prefix: str, stage: int
) -> None:
    honest = claim_of(pipeline, f"Here it is:\n```{word}\n{HONEST}```\n")
    hostile = claim_of(pipeline, f"```{word}\n{HOSTILE}```\n{HONEST}")
    key = f"{prefix}{'0' * 64}"
    assert kept_as(pipeline, stage, key, honest) == kept_for(OWNER, key)
    assert kept_as(pipeline, stage, key, hostile) == kept_for(OWNER, own_key(hostile, key))
    assert kept_as(pipeline, stage, key, hostile, honest) == kept_for(OWNER, key), "it has both"


@given(
    st.text(min_size=1, max_size=80)
    | st.builds(lambda end: program_prefix(HONEST) + end, st.text(max_size=80))
    | st.builds(lambda end: f"cpp-{end}", st.text("0123456789abcdef-", max_size=130))
)
def test_no_name_that_a_slot_may_choose_reaches_what_others_read(key: str) -> None:
    hostile = claim_of("code.cpp", f"```cpp\n{HOSTILE}```")
    found = kept_as("code.cpp", 0, key, hostile)
    assert found is not None
    assert found.startswith(kept_for(OWNER, OWN))


def test_an_unnamed_artifact_is_that_of_one_payload() -> None:
    one, other = claim_of("math", "a"), claim_of("math", "b")
    assert kept_as("math", 0, "key", one) == kept_for(OWNER, own_key(one, "key"))
    assert own_key(one, "key") != own_key(other, "key")
    assert kept_as("math", 0, "key") is None, "a slot without a request"


def test_the_checker_of_a_reference_is_shared_by_its_responses() -> None:
    checker = {"language": "cpp", "source": HONEST}
    one = claim_of("code.checked", "print(1)", checker=checker)
    key = f"{prefix_of_language('cpp', HONEST.encode())}{'0' * 64}"
    assert kept_as("code.checked", 0, key, one) == kept_for(OWNER, key)


@given(st.text(min_size=1, max_size=80) | st.just(f"{program_prefix(HONEST)}end"))
def test_no_two_tenants_have_a_key_in_common(key: str) -> None:
    """Not for the same program, nor for the same payload, nor where a slot has works of both."""
    one = claim_of("code.cpp", f"```cpp\n{HONEST}```")
    other = replace(one, task=replace(one.task, tenant=TenantId("u")))
    found = [kept_as("code.cpp", 0, key, *claims) for claims in ((one,), (other,), (one, other))]
    assert len(set(found)) == 3
    assert kept_as("code.cpp", 0, key, other, one) == found[2]


@given(st.text(min_size=1, max_size=80) | st.just(f"{program_prefix(HONEST)}end"))
def test_a_slot_that_works_in_order_makes_what_its_present_work_asks_for(key: str) -> None:
    """The report of a run is read under the name of its tenant alone, whatever comes next."""
    one = claim_of("code.cpp", f"```cpp\n{HONEST}```")
    other = replace(one, task=replace(one.task, tenant=TenantId("u")))
    for first, next_one in ((one, other), (other, one)):
        beside = kept_as("code.cpp", 0, key, first, next_one, individually=True)
        assert beside == kept_as("code.cpp", 0, key, first)
