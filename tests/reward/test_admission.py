"""What the edge lets in, as properties: exactly the well-formed, unchanged."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.settings import RewardSettings
from assay.core.errors import InvalidRequest, TooLarge
from assay.core.ids import PipelineName
from assay.core.records import Artifact
from assay.core.tools.response import CUT
from assay.reward import admission
from assay.reward.admission import RequestCheck
from assay.reward.drafts import BatchDraft, RequestDraft, TaskDraft
from assay.sandbox.launchers.collect import check_name
from assay.verifiers import intake
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import load_pipelines

PIPELINES: Mapping[PipelineName, PipelineDefinition] = load_pipelines(found=())
EXACT = PIPELINES[PipelineName("exact")]
CHECK = RequestCheck(
    RewardSettings(
        requests_per_message_max=8,
        response_bytes_max=100,
        reference_bytes_max=200,
        messages_bytes_max=9_000,
        request_artifacts_bytes_max=300,
    )
)
REFERENCE = b'{"answers": ["4"]}'

names = st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True)
request_ids = st.from_regex(r"[A-Za-z0-9._:/-]{1,256}", fullmatch=True)
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=25)
good_drafts = st.builds(
    RequestDraft,
    request_id=request_ids,
    group_id=st.just("") | request_ids,
    response=texts.map(str.encode),
    reference=st.just(REFERENCE),
    messages=st.sampled_from([b"", b'[{"role": "user"}]']),
    artifacts=st.just(()),
)
FUNCTION = PIPELINES[PipelineName("python_function")]


def attached(messages: bytes = b"", *artifacts: tuple[str, bytes]) -> RequestDraft:
    return RequestDraft("r", "", b"", b"{}", messages, tuple(Artifact(*one) for one in artifacts))


def test_a_transcript_and_artifacts_pass_unchanged() -> None:
    said = rb'[{"role": "assistant", "content": "\ud800\u0000", "tool_calls": [{}]}]'
    draft = attached(said, ("out/a.bin", b"\xff"), ("b", b""))
    [request] = CHECK.check([draft], FUNCTION)
    assert (request.messages, request.artifacts) == (said, draft.artifacts)


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (attached(b"[]"), "messages"),
        (attached(b"{}"), "messages"),
        (attached(b"[{]"), "messages"),
        (attached(b'["x"]'), "messages[0]"),
        (attached(b'[{"role": "user"}, {"content": "x"}]'), "messages[1]"),
        (attached(b'[{"role": "user", "content": "\xff"}]'), "messages"),
        (attached(b'[{"role": "user", "content": NaN}]'), "messages"),
        (attached(b"[" * 70 + b"]" * 70), "messages"),
        (attached(b'[{"role": "user", "n": ' + b"1" * 5_000 + b"}]"), "messages"),
        (attached(b'[{"role": "user", "content": "' + b"x" * 10_000 + b'"}]'), "messages"),
        (attached(b"", ("", b"")), "artifacts[0].name"),
        (attached(b"", ("a", b""), ("../b", b"")), "artifacts[1].name"),
        (attached(b"", ("/a", b"")), "artifacts[0].name"),
        (attached(b"", ("a", b"1"), ("a", b"2")), "artifacts[1].name"),
        (attached(b"", ("a", b"x" * 301)), "artifacts"),
        (attached(b"", *((str(n), b"") for n in range(65))), "artifacts"),
    ],
)
def test_a_malformed_transcript_or_artifact_is_refused_by_name(
    draft: RequestDraft, field: str
) -> None:
    with pytest.raises((InvalidRequest, TooLarge)) as caught:
        CHECK.check([draft], FUNCTION)
    assert caught.value.field == f"requests[0].{field}"


@pytest.mark.parametrize(
    "name",
    [
        *("my file.txt", "naïve/Größe.py", "结果.json", "-rf", "a'b\"$(c)`d`;e", "\u202ea", "..."),
        *("\U0001f600", "a" * 255, "/".join("abcdefghijklmnop"), "e\u0301", "%2e", "C:\\x", "~"),
    ],
)
def test_a_candidate_may_name_its_files_as_it_likes(name: str) -> None:
    """It chose the name, so refusing the message would punish the requests beside it."""
    [request] = CHECK.check([attached(b"", (name, b"1"))], FUNCTION)
    assert [one.name for one in request.artifacts] == [name]
    assert check_name(name, "files") == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a/..", "./a", "/a", "a/", "a//b", "a\0", "a\nb", "\x7f", "a" * 256),
        *("\ud800", "é" * 128, "/".join(["é" * 110] * 5), "/".join("abcdefghijklmnopq")),
    ],
)
def test_what_is_no_path_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        CHECK.check([attached(b"", (name, b""))], FUNCTION)
    with pytest.raises(InvalidRequest):
        check_name(name, "files")


def test_artifacts_that_no_stage_would_read_are_refused() -> None:
    draft = RequestDraft("r", "", b"x", REFERENCE, b"", (Artifact("a", b""),))
    with pytest.raises(InvalidRequest, match="pipeline exact takes none"):
        CHECK.check([draft], EXACT)


@given(st.lists(good_drafts, min_size=1, max_size=8, unique_by=lambda draft: draft.request_id))
def test_well_formed_requests_pass_unchanged_and_in_order(drafts: list[RequestDraft]) -> None:
    requests = CHECK.check(drafts, EXACT)
    assert [
        RequestDraft(r.request_id, r.group_id, r.response, r.reference, r.messages)
        for r in requests
    ] == drafts


@given(st.binary(max_size=99))
def test_any_bytes_are_a_response(response: bytes) -> None:
    [request] = CHECK.check([RequestDraft("r", "", response, REFERENCE)], EXACT)
    assert request.response == response


@given(st.binary(max_size=64) | st.text(max_size=20).map(str.encode))
def test_any_reference_is_taken_or_refused_by_name(reference: bytes) -> None:
    try:
        CHECK.check([RequestDraft("r", "", b"x", reference)], EXACT)
    except InvalidRequest as error:
        assert error.field.startswith("requests[0].reference")  # noqa: PT017 either is right


@given(st.text(max_size=300), st.text(max_size=300))
def test_ids_pass_exactly_in_their_form(request_id: str, group_id: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-")
    fine = (
        0 < len(request_id) <= 256
        and len(group_id) <= 256
        and set(request_id) <= allowed
        and set(group_id) <= allowed
    )
    drafts = [RequestDraft(request_id, group_id, b"x", REFERENCE)]
    if fine:
        assert CHECK.check(drafts, EXACT)
        return
    with pytest.raises(InvalidRequest) as caught:
        CHECK.check(drafts, EXACT)
    assert caught.value.field in {"requests[0].request_id", "requests[0].group_id"}


def test_ends_of_lines_are_no_part_of_a_name() -> None:
    with pytest.raises(InvalidRequest):
        admission.name("task\n", "task_id")


def test_an_empty_response_is_an_answer() -> None:
    assert CHECK.check([RequestDraft("r", "", b"", REFERENCE)], EXACT)


def test_nul_may_stand_in_a_reference_as_json_writes_it() -> None:
    reference = b'{"answers": ["a\\u0000b"]}'
    assert CHECK.check([RequestDraft("r", "", b"x", reference)], EXACT)


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (RequestDraft("r", "", b"x", b" " * 201), "requests[1].reference"),
    ],
)
def test_payloads_over_their_limit_are_named(draft: RequestDraft, field: str) -> None:
    with pytest.raises(TooLarge) as caught:
        CHECK.check([RequestDraft("q", "", b"x", REFERENCE), draft], EXACT)
    assert caught.value.field == field


def test_a_response_over_its_limit_is_cut_and_marked() -> None:
    """It refuses no message: the requests beside it would have no reward either."""
    for draft, definition in (
        (RequestDraft("r", "", b"x" * 101, REFERENCE), EXACT),
        (RequestDraft("r", "", b"x" * 101, b"{}", b"", (Artifact("a", b"1"),)), FUNCTION),
    ):
        [request] = CHECK.check([draft], definition)
        assert request.response == b"x" * 100
        assert request.artifacts == (*draft.artifacts, Artifact(CUT, b"101"))
    [whole] = CHECK.check([RequestDraft("r", "", b"x" * 100, REFERENCE)], EXACT)
    assert whole.artifacts == ()


def test_no_caller_can_send_that_mark() -> None:
    for definition in (EXACT, FUNCTION):
        with pytest.raises(InvalidRequest):
            CHECK.check([attached(b"", (CUT, b"101"))], definition)


def test_a_program_to_run_over_its_limit_is_refused() -> None:
    """Its caller waits for a report, not for a reward."""
    run = PIPELINES[PipelineName("run.python")]
    with pytest.raises(TooLarge) as caught:
        CHECK.check([RequestDraft("r", "", b"x" * 101, b"{}")], run)
    assert caught.value.field == "requests[0].response"


def test_a_reference_that_comes_again_is_parsed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = []

    def parse(definition: PipelineDefinition, data: bytes) -> object:
        parsed.append(data)
        return intake.parse_reference(definition, data)

    monkeypatch.setattr(admission, "parse_reference", parse)
    other = b'{"answers": ["5"]}'
    drafts = [
        RequestDraft(f"r{index}", "", b"x", reference)
        for index, reference in enumerate([REFERENCE, REFERENCE, other, REFERENCE, other])
    ]
    check = RequestCheck(RewardSettings())
    check.check(drafts, EXACT, "red")
    check.check(drafts, EXACT, "red")
    assert parsed == [REFERENCE, other]
    check.check(drafts, EXACT, "blue")
    assert parsed == 2 * [REFERENCE, other], "no tenant finds out what another has sent"


@given(st.integers(), st.integers(), st.none() | st.integers())
def test_numbers_of_a_batch_are_bounded(
    size: int, group_size: int, deadline_ms: int | None
) -> None:
    draft = BatchDraft(task_id="t", size=size, group_size=group_size, deadline_ms=deadline_ms)
    fine = (
        0 <= size <= admission.BATCH_SIZE_MAX
        and 0 <= group_size <= admission.BATCH_SIZE_MAX
        and (deadline_ms is None or 1 <= deadline_ms <= admission.SPAN_MS_MAX)
    )
    if fine:
        admission.check_batch(draft, now_ns=2 * 10**18)
        return
    with pytest.raises(InvalidRequest):
        admission.check_batch(draft, now_ns=2 * 10**18)


@given(st.floats())
def test_a_cost_rate_is_finite_and_not_negative(rate: float) -> None:
    draft = TaskDraft(task_id="t", pipeline="exact", trainer_cost_rate=rate)
    if 0 <= rate < float("inf"):
        admission.check_task(draft)
        return
    with pytest.raises(InvalidRequest):
        admission.check_task(draft)
