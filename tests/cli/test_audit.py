"""Audits without a service: which references there are, and what is said of those that fail."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.cli.data.audit import Auditor, distinct, prepare, row_reader
from assay.cli.data.check import _table
from assay.cli.data.records import read_records
from assay.cli.score.jsonl import Fields, parse_row
from assay.client import Client, Outcome
from assay.client.types import Evidence, Request, ResourceUse, Result
from assay.core.errors import InvalidRequest
from assay.datasets.port import Refused
from assay.verifiers.registry import load_pipelines

PIPELINES = load_pipelines(found=())
CASE = {"calls": {"function": "f", "cases": [{"args": [1], "expected": 2}]}}


def write(path: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def audited(path: Path, pipeline: str = "code.python", **settings: Any) -> Any:
    rows = read_records(path, row_reader("reference"))
    report = distinct(rows, key="reference", pipeline=pipeline, settings=settings)
    prepare(report.references, PIPELINES)
    return report


def test_a_reference_is_audited_once_however_many_rows_bring_it(tmp_path: Path) -> None:
    other = {"calls": {**CASE["calls"], "function": "g"}}
    turned = dict(reversed(CASE["calls"].items()))
    rows = [{"reference": CASE}, {"reference": other}, "", {"reference": {"calls": turned}}]
    report = audited(write(tmp_path / "a.jsonl", *rows))
    assert report.rows == 3
    assert [one.lines for one in report.references] == [[1, 4], [2]]


def test_bad_rows_and_malformed_references_are_named_by_line_and_field(tmp_path: Path) -> None:
    huge = '{"reference": {"calls": {"function": "f", "cases": [{"expected": 1e400}]}}}'
    path = write(
        tmp_path / "a.jsonl",
        "{not json",
        {"references": 1},
        huge,
        {"reference": {"tests": [{"stdin": "x"}]}},
        {"reference": {"tests": [{"stdin": "x", "stdout": 1}, {"stdin": "y"}]}},
        {"reference": CASE},
    )
    report = audited(path)
    assert [line for line, _ in report.bad_rows] == [1, 2, 3]
    assert "reference.calls.cases[0].expected" in report.bad_rows[2][1]
    told = report.as_json()
    assert told["refused"] == 2
    reasons = {reason: examples for reason, _, examples in report.reasons()}
    assert reasons["malformed: reference.tests[].stdout"][0].startswith(
        "line 4: reference.tests[0].stdout"
    )
    assert [one["lines"] for one in told["unsound"]] == [[4], [5]]
    _table(report)


ROWS = [
    '{"response": "\\ud800", "reference": "5"}',
    '{"response": "x", "reference": "5", "logprobs": [NaN, -Infinity, 1e-400]}',
    '{"response": "x", "reference": "5", "note": {"a": 1, "a": 2}}',
    '{"response": "x", "reference": {"answers": ["5"]}, "settings": {"strict": false}}',
    '{"response": "x", "reference": 9007199254740993.0}',
    '{"response": "x", "reference": {"answers": ["5"], "answers": ["6"]}}',
    '{"response": "x", "reference": "5", "settings": {"reward_pass": 1e400}}',
    '{"response": "x", "reference": "5", "reference": "6"}',
    '{"response": "x", "reference": null}',
    '{"response": "x"}',
    '{"response": "x", "reference": [["5"]]}',
    "[1]",
    '{"response": "x", "reference": "\xff"}',
    "{",
]


def test_check_and_score_call_the_same_rows_bad(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes("\n".join(ROWS).encode("latin-1"))
    wrong = {line for line, _ in audited(path, "math").bad_rows}
    scored = set()
    for line, row in enumerate(ROWS, 1):
        try:
            parse_row(line, row.encode("latin-1"), Fields())
        except InvalidRequest:
            scored.add(line)
    assert wrong == scored == set(range(5, len(ROWS) + 1))


def test_pipeline_and_settings_may_stand_in_the_row(tmp_path: Path) -> None:
    row = {"reference": CASE, "pipeline": "code.python", "settings": {"cpu_s": 9}}
    nowhere = {"reference": CASE, "pipeline": "code.cobol"}
    report = audited(write(tmp_path / "a", row, {"reference": CASE}, nowhere), pipeline="")
    assert report.references[0].settings == {"cpu_s": 9}
    assert report.bad_rows == [(2, "no `pipeline`, and none was named")]
    assert [p.reason for p in report.references[1].problems] == ["no such pipeline"]
    wins = audited(write(tmp_path / "b", row), cpu_s=5)
    assert wins.references[0].settings == {"cpu_s": 5}


class FakeBatch:
    """Judges as told: a control passes when it is the gold one, unless its function is weak."""

    def __init__(self, refuse: str) -> None:
        self.requests: list[Request] = []
        self._refuse = refuse

    async def submit(self, requests: list[Request]) -> None:
        self.requests = requests
        for at, request in enumerate(requests):
            assert isinstance(request.reference, dict)
            if request.reference["calls"]["function"] == self._refuse:
                message = "too large"
                raise InvalidRequest(message, field=f"requests[{at}].reference")

    async def cancel(self) -> None: ...

    async def results(self) -> Any:
        for request in self.requests:
            assert isinstance(request.reference, dict)
            name = request.reference["calls"]["function"]
            is_gold = "SECRET" in request.response
            lost = name == "lost" and is_gold
            passes = (name == "weak") or (is_gold and name != "wrong")
            yield Result(
                request_id=request.request_id,
                group_id="",
                outcome=Outcome.INFRA_FAILED if lost else Outcome.SCORED,
                reward=None if lost else float(passes),
                evidence=Evidence(verdict="pass" if passes else "wrong_answer"),
                resource_use=ResourceUse(cpu_s=0.5),
                stages=(),
                attempts=1,
            )


class FakeClient:
    def __init__(self, refuse: str) -> None:
        self._refuse = refuse
        self.settings: list[Any] = []

    async def register_task(self, _name: str, *, pipeline: str, settings: Any) -> str:
        assert pipeline == "code.python"
        self.settings.append(settings)
        return "task"

    async def open_batch(self, _task: str, *, size: int) -> FakeBatch:
        assert size > 0
        return FakeBatch(self._refuse)


@pytest.mark.parametrize("refuse", ["", "large"])
async def test_states_follow_from_what_the_controls_did(tmp_path: Path, refuse: str) -> None:
    names = ["sound", "weak", "wrong", "lost", "large"]
    rows: list[object] = [
        {"reference": {"calls": {**CASE["calls"], "function": name}, "solution": "# SECRET"}}
        for name in names
    ]
    report = audited(write(tmp_path / "a.jsonl", *rows))
    client = FakeClient(refuse)
    done: list[int] = []
    await Auditor(client, done.append).run(report.references)  # type: ignore[arg-type]
    states = dict(zip(names, (one.state for one in report.references), strict=True))
    large = "refused" if refuse else "sound"
    assert states == {
        "sound": "sound", "weak": "refused", "wrong": "refused", "lost": "not_judged",
        "large": large,
    }  # fmt: skip
    assert all(one["reference_audit"] == "off" for one in client.settings)
    assert sum(done) == sum(len(one.controls) for one in report.references)
    wrong = report.references[2].problems
    assert [(p.reason, p.control) for p in wrong] == [("gold does not pass", "gold")]
    assert len(report.references[1].problems) == len(report.references[1].controls) - 1
    assert report.as_json()["cpu_s_per_reference"] > 0


# --- files -------------------------------------------------------------------------------------


def test_files_are_read_in_each_form_in_which_they_are_published(tmp_path: Path) -> None:
    records = [{"a": 1, "b": ["x"]}, {"a": 2, "b": []}]
    lines = "".join(f"{json.dumps(one)}\n" for one in records)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "c.json").write_text(json.dumps(records, indent=1))
    (tmp_path / "d.json").write_text(lines)
    (tmp_path / "e.json").write_text(json.dumps({"data": records}))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "f.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert [one.record for one in read_records(path)] == records, path.name


@pytest.mark.parametrize("name", ["a.jsonl", "b.jsonl.gz"])
def test_a_bad_line_is_a_reason_and_the_next_is_read(tmp_path: Path, name: str) -> None:
    data = b'{"a": 1}\n\xff\n[]\n{"a": NaN}\n\n{"a": 2}'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    read = list(read_records(tmp_path / name))
    assert [one.line for one in read] == [1, 2, 3, 4, 6]
    assert [isinstance(one.record, Refused) for one in read] == [False, True, True, True, False]


def test_a_file_that_is_cut_off_or_of_no_known_form_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"a": 1}\n' * 5_000)
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.json").write_text('"text"')
    (tmp_path / "c.parquet").write_text("no")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InvalidRequest):
            list(read_records(path))


def test_the_client_has_what_the_auditor_uses() -> None:
    assert all(hasattr(Client, name) for name in ("register_task", "open_batch"))
