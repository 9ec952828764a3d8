"""Rows of `assay score`: a bad one is reported and hides no other; a rerun does the rest."""

import base64
import hashlib
import io
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.data.audit import distinct
from assay.cli.data.records import Read
from assay.cli.score import jsonl as jsonl_module
from assay.cli.score.jsonl import Fields, ScoreRow, basis_of, digest_of, parse_row, read_lines
from assay.cli.score.worklist import Worklist, superseded_of
from assay.client.types import StoredArtifact
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome

BASIS = basis_of("math", "1", {})
OTHER = basis_of("math", "1", {"strict": False})
GOOD = {"response": "x", "reference": {"answers": ["1"]}}
OPEN: list[Worklist] = []


def text_of(*rows: object) -> bytes:
    lines = (row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    return b"".join(line + b"\n" for line in lines)


@pytest.fixture(autouse=True)
def worklists() -> Iterator[list[Worklist]]:
    """Those of the test, closed at its end: Python 3.13 warns of databases that are not."""
    OPEN.clear()
    yield OPEN
    for one in OPEN:
        one.close()


def work_on(content: bytes, output: Path, basis: bytes = BASIS) -> Worklist:
    work = Worklist(io.BytesIO(content), Fields(), basis)
    OPEN.append(work)
    work.read()
    work.resume(output)
    work.begin()
    return work


def score_all(work: Worklist, output: Path, reward: float = 1.0, basis: bytes = BASIS) -> None:
    """As `assay score` does it."""
    with output.open("a") as file:
        for row in work.todo():
            result = {"request_id": row.request_id, "outcome": "SCORED", "reward": reward}
            file.write(json.dumps({**result, "digest": digest_of(basis, row)}) + "\n")
            work.finish(row.request_id, Outcome.SCORED, reward)


def test_rows_are_read_with_their_line(tmp_path: Path) -> None:
    content = text_of(
        {"response": "1", "reference": {"answers": ["1"]}},
        b"",
        {"request_id": "x", "group_id": "g", "response": "2", "reference": "2"},
    )
    first, second = work_on(content, tmp_path / "o").todo()
    assert (first.request_id, first.line) == ("line-1", 1)
    assert (second.request_id, second.group_id, second.line) == ("x", "g", 3)
    assert second.reference == {"answers": ["2"]}


def test_a_number_or_a_list_is_taken_as_right_answers() -> None:
    fields = Fields(response="q", reference="gold")
    for gold, answers in ((18, ["18"]), ([1, "2"], ["1", "2"])):
        row = parse_row(1, json.dumps({"q": "r", "gold": gold}).encode(), fields)
        assert row.reference == {"answers": answers}


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (b"{not json", ""),
        (b"[" * 100_000, ""),
        (b'{"response": "\xff", "reference": {}}', ""),
        ([1], ""),
        ({"reference": {}}, "response"),
        ({"response": 7, "reference": {}}, "response"),
        ({"response": "x"}, "reference"),
        ({"request_id": "a", "response": "x", "reference": {}}, "request_id"),
        ({"request_id": ["b"], "response": "x", "reference": {}}, "request_id"),
        ({"request_id": "\ud800", "response": "x", "reference": {}}, "request_id"),
        ({"response_base64": "no base64", "reference": {}}, "response_base64"),
        ({"response": "x", "response_base64": "eA==", "reference": {}}, "response"),
    ],
)
def test_a_bad_row_is_told_and_those_around_it_are_done(
    tmp_path: Path, row: object, field: str
) -> None:
    content = text_of({**GOOD, "request_id": "a"}, row, {**GOOD, "request_id": "b"})
    work = work_on(content, tmp_path / "o")
    assert [(bad.line, bad.field) for bad in work.bad()] == [(2, field)]
    assert [row.request_id for row in work.todo()] == ["a", "b"]
    assert (work.rows, work.left, work.bad_count) == (3, 2, 1)
    written = json.loads(next(work.bad()).output_line())
    assert (written["line"], written["reward"], written["field"]) == (2, None, field)
    assert written["error"]


def test_a_row_that_is_too_long_is_told_and_the_next_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_module, "ROW_BYTES_MAX", 100)
    content = text_of({"response": "x" * 1_000, "reference": "1"}, GOOD, b"[" + b"1," * 500)
    work = work_on(content, tmp_path / "o")
    assert [bad.line for bad in work.bad()] == [1, 3]
    assert [row.line for row in work.todo()] == [2]


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ")), max_size=20))
def test_lines_stand_where_they_are_said_to(lines: list[bytes]) -> None:
    content = b"\n".join(lines)
    for number, position, raw in read_lines(io.BytesIO(content)):
        assert content[position : position + len(raw)] == raw
        assert raw.rstrip(b"\n") == lines[number - 1]


three = st.tuples(*(st.sampled_from(["a", "b"]),) * 3)


@given(three, three)
def test_a_digest_tells_apart_what_a_reward_depends_on(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    def digest(pipeline: str, reference: str, response: str) -> str:
        row = ScoreRow(
            line=1, request_id="r", group_id="", response=response, reference={"x": reference}
        )
        return digest_of(basis_of(pipeline, "1", {}), row)

    assert (digest(*one) == digest(*other)) == (one == other)


def test_settings_and_version_are_part_of_the_digest() -> None:
    assert len({basis_of("p", "1", {}), basis_of("p", "2", {}), basis_of("p", "1", {"a": 1})}) == 3
    assert basis_of("p", "1", {"a": 1, "b": 2}) == basis_of("p", "1", {"b": 2, "a": 1})


def test_settings_of_a_row_are_part_of_its_digest_and_order_the_work(tmp_path: Path) -> None:
    plain = {"response": "r", "reference": "1"}
    rows = [{**plain, "settings": {"cpu_s": at % 2}} for at in range(4)] + [plain]
    parsed = [parse_row(1, json.dumps(row).encode(), Fields()) for row in rows]
    assert len({digest_of(BASIS, row) for row in parsed}) == 3
    work = work_on(text_of(*rows), tmp_path / "out")
    assert [row.line for row in work.todo()] == [5, 1, 3, 2, 4]
    assert work.has_own_settings


def test_settings_that_are_no_object_or_too_many_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.cli.score.worklist.SETTINGS_MAX", 2)
    given_ = [[], {"cpu_s": 1}, {"cpu_s": 2}, {"cpu_s": 3}, {"cpu_s": 1}]
    rows = [{"response": "r", "reference": "1", "settings": one} for one in given_]
    work = work_on(text_of(*rows), tmp_path / "out")
    assert [(bad.line, bad.field) for bad in work.bad()] == [(1, "settings"), (4, "settings")]
    assert [row.line for row in work.todo()] == [2, 5, 3]


def test_a_rerun_keeps_what_is_unchanged_and_does_the_rest(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    rows = [{**GOOD, "request_id": f"r{n}"} for n in range(6)]
    score_all(work_on(text_of(*rows), output), output)
    rows[1] = {**rows[1], "response": "y"}
    rows[2] = {**rows[2], "reference": {"answers": ["2"]}}
    rows[3], rows[4] = rows[4], rows[3]
    again = work_on(text_of(*rows), output)
    assert [row.request_id for row in again.todo()] == ["r1", "r2"]
    assert again.resumed == 4
    score_all(again, output, reward=0.0)
    assert again.outcomes() == {"SCORED": 6}
    number, mean = again.rewards()
    assert (number, mean) == (6, 4 / 6)
    ids = [json.loads(line)["request_id"] for line in output.read_text().splitlines()]
    assert sorted(ids) == [f"r{n}" for n in range(6)]


def test_no_reward_is_lost_by_a_job_with_other_settings(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    rows = [{**GOOD, "request_id": f"r{n}"} for n in range(6)]
    score_all(work_on(text_of(*rows), output), output)
    rewards = output.read_bytes()
    mistaken = Worklist(io.BytesIO(text_of(*rows)), Fields(), OTHER)
    mistaken.read()
    mistaken.resume(output)
    assert mistaken.left == 6
    mistaken.close()  # the service refused the settings
    assert output.read_bytes() == rewards
    assert sorted(tmp_path.iterdir()) == [output]

    other = work_on(text_of(*rows), output, OTHER)
    assert (other.left, other.superseded) == (6, 6)
    assert output.read_bytes() == b""
    assert superseded_of(output).read_bytes() == rewards
    score_all(other, output, reward=0.0, basis=OTHER)
    changed = [{**rows[0], "response": "y"}, *rows[1:]]
    for _ in range(2):
        again = work_on(text_of(*changed), output)
        assert (again.resumed, again.left, again.superseded) == (5, 1, 7)
        kept = [json.loads(line) for line in superseded_of(output).read_text().splitlines()]
        assert {(one["request_id"], one["reward"]) for one in kept} >= {
            *((f"r{n}", 0.0) for n in range(6)),
            ("r0", 1.0),
        }
    assert work_on(text_of(*rows), output).resumed == 6
    assert sorted(output.read_bytes().splitlines()) == sorted(rewards.splitlines())


def test_a_result_without_a_reward_is_tried_again_and_one_of_no_row_stays(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    other = {"request_id": "of another file", "reward": 1.0}
    output.write_bytes(
        text_of({"request_id": "line-1", "reward": None, "outcome": "INFRA_FAILED"}, other, b"torn")
    )
    work = work_on(text_of(GOOD), output)
    assert (work.left, work.foreign) == (1, 1)
    assert output.read_bytes() == text_of(other)


@given(cut=st.integers(0, 1_000))
def test_a_kill_at_any_byte_costs_at_most_the_torn_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    output = tmp_path_factory.mktemp("out") / "o.jsonl"
    rows = text_of(*({**GOOD, "request_id": f"r{n}"} for n in range(5)))
    score_all(work_on(rows, output), output)
    whole = output.read_bytes()
    output.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    for _ in range(2):
        assert work_on(rows, output).resumed == complete
        assert output.read_bytes().count(b"\n") == complete


def test_rows_of_a_group_come_together_wherever_they_stand(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    groups = [f"g{n % 7}" if n % 3 else "" for n in range(60)]
    random.Random(seed).shuffle(groups)
    work = work_on(text_of(*({**GOOD, "group_id": group} for group in groups)), tmp_path / "o")
    found = [row.group_id for row in work.todo() if row.group_id]
    changes = sum(one != other for one, other in itertools.pairwise(found))
    assert changes == len(set(found)) - 1
    assert len(list(work.todo())) == len(groups)


def test_groups_are_summed_up_over_old_and_new_rewards(tmp_path: Path) -> None:
    output = tmp_path / "o"
    rows = [{**GOOD, "group_id": group} for group in ("g", "g", "h", "h", "")]
    score_all(work_on(text_of(*rows[:3]), output), output)
    again = work_on(text_of(*rows), output)
    score_all(again, output, reward=0.0)
    assert again.groups() == (2, 1)  # "h" has 1 of the first run and 0 of the second


def test_a_file_that_changes_while_it_is_scored_is_told(
    tmp_path: Path, worklists: list[Worklist]
) -> None:
    file = io.BytesIO(text_of(GOOD))
    work = Worklist(file, Fields(), BASIS)
    worklists.append(work)
    work.read()
    work.resume(tmp_path / "o")
    work.begin()
    file.seek(0)
    file.write(text_of({**GOOD, "response": "y"}))
    with pytest.raises(InvalidRequest, match="line 1: the file was changed"):
        list(work.todo())


def test_a_response_may_be_any_text_or_bytes_in_base64(tmp_path: Path) -> None:
    content = text_of(
        b'{"response": "\\ud800\\u0000", "reference": {}}',
        {"response_base64": "/wA=", "reference": {}},
    )
    rows = list(work_on(content, tmp_path / "o").todo())
    assert [row.response for row in rows] == ["\ud800\0", b"\xff\0"]
    assert len({digest_of(BASIS, row) for row in rows}) == 2


def test_a_row_may_have_a_transcript_and_artifacts(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": "4"}]
    files = {"a.txt": "text", "b.bin": {"base64": "/wA="}}
    content = text_of(
        {"messages": said, "reference": {}},
        {"messages": said, "artifacts": files, "reference": {}},
        {"response": "4", "messages": said, "reference": {}},
        {"messages": ["4"], "reference": {}},
        {"messages": said, "artifacts": {"b": {"base64": "?"}}, "reference": {}},
    )
    work = work_on(content, tmp_path / "o")
    rows = list(work.todo())
    assert [row.response for row in rows] == ["", "", "4"]
    assert all(row.messages == said for row in rows)
    assert rows[1].artifacts == {"a.txt": b"text", "b.bin": b"\xff\0"}
    assert len({digest_of(BASIS, row) for row in rows}) == 3
    assert [bad.field for bad in work.bad()] == ["messages", "artifacts"]


def test_a_row_may_name_a_file_that_was_sent_ahead_and_is_the_same_row(tmp_path: Path) -> None:
    content = b"\xff" * 100
    sha256 = hashlib.sha256(content).hexdigest()
    named, given_ = {"sha256": sha256}, {"base64": base64.b64encode(content).decode()}
    wrong = [{"sha256": sha256[1:]}, {"sha256": sha256.upper()}, {**named, **given_}, {"sha256": 1}]
    rows = [{"response": "4", "reference": {}, "artifacts": {"a": one}} for one in (named, given_)]
    bad = [{"response": "4", "reference": {}, "artifacts": {"a": one}} for one in wrong]
    work = work_on(text_of(*rows, *bad), tmp_path / "o")
    found = list(work.todo())
    assert [row.artifacts["a"] for row in found] == [StoredArtifact(sha256=sha256), content]
    assert len({digest_of(BASIS, row) for row in found}) == 1
    assert [one.field for one in work.bad()] == ["artifacts"] * len(wrong)


EXACT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
INEXACT = {
    "NaN": "is not JSON",
    "-Infinity": "is not JSON",
    "1e400": "is out of range",
    "1e-400": "is out of range",
    "9007199254740993.0": "has more digits than a float holds",
    '{"k": 1, "k": 2}': "key 'k' occurs twice in one object",
    '{"k": 1, "\\u006b": 1}': "key 'k' occurs twice in one object",
}
PLACES = {
    "%s": "",
    '{"a": %s}': ".a",
    '{"a": [1, {"b": %s}]}': ".a[1].b",
    "[1, %s]": "[1]",
}


@given(EXACT)
def test_a_reference_reaches_the_service_as_the_file_has_it(value: object) -> None:
    raw = json.dumps({"response": "x", "reference": {"a": value}}).encode()
    assert parse_row(1, raw, Fields()).reference == {"a": value}


@pytest.mark.parametrize(
    ("key", "place", "text"),
    [
        (key, place, text)
        for key, place, text in itertools.product(("reference", "settings"), PLACES, INEXACT)
        if key == "reference" or (place % text).startswith("{")
    ],
)
def test_what_is_judged_by_is_read_exactly_or_the_row_is_bad(
    key: str, place: str, text: str
) -> None:
    other = "" if key == "reference" else '"reference": "1", '
    row = f'{{"response": "x", {other}"{key}": {place % text}}}'
    with pytest.raises(InvalidRequest, match=INEXACT[text]) as raised:
        parse_row(1, row.encode(), Fields())
    assert raised.value.field == key + PLACES[place]


@pytest.mark.parametrize("text", INEXACT)
def test_what_is_not_judged_by_may_be_any_json(text: str) -> None:
    row = f'{{"response": "x", "reference": "1", "note": [{text}], "messages": [{{"n": {text}}}]}}'
    assert parse_row(1, row.encode(), Fields()).reference == {"answers": ["1"]}


@pytest.mark.parametrize(
    "row", ['"response": "x", "response": "y"', '"response": "x", "a": 1, "a": 1']
)
def test_a_row_with_a_key_twice_is_bad(row: str) -> None:
    with pytest.raises(InvalidRequest, match="occurs twice"):
        parse_row(1, f'{{"reference": "1", {row}}}'.encode(), Fields())


@pytest.mark.parametrize("value", [None, [None], ["5", None], [{"a": 1}], [["5"]]])
def test_what_is_no_answer_is_no_reference(value: object) -> None:
    with pytest.raises(InvalidRequest, match="must be an object") as raised:
        parse_row(1, json.dumps({"response": "None", "reference": value}).encode(), Fields())
    assert raised.value.field == "reference"
    record: dict[str, object] = {"reference": value, "pipeline": "math"}
    report = distinct([Read(1, record, 1.0)], key="reference", pipeline="", settings={})
    assert report.references == []
    assert "reference: must be an object" in report.bad_rows[0][1]
