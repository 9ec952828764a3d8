"""From a file as its authors publish it to a report on its references, as a user does it."""

import base64
import gzip
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.commands import assay


def write(path: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def problem(number: int, output: str) -> dict[str, Any]:
    tests = [{"input": "[3, 1, 2]", "output": output, "testtype": "functional"}]
    hidden = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()
    return {
        "question_id": str(number),
        "question_content": "Sort.",
        "starter_code": "class Solution:\n    def order(self, xs: List[int]) -> List[int]:\n",
        "public_test_cases": "[]",
        "private_test_cases": hidden,
        "metadata": '{"func_name": "order"}',
    }


def test_a_data_set_is_converted_checked_and_scored(tmp_path: Path) -> None:
    source = write(
        tmp_path / "lcb.jsonl",
        problem(1, "[1, 2, 3]"),
        "not json",
        problem(2, "[]"),
        {**problem(3, "[1]"), "private_test_cases": "AAAA"},
    )
    rows = tmp_path / "rows.jsonl"
    done = assay("convert", "livecodebench", source, "--out", rows, "--json", data_dir=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["records"], report["rows"]) == (4, 2)
    reasons = {one["reason"]: one["examples"] for one in report["refused"]}
    assert reasons["malformed JSON"][0].startswith("lcb.jsonl line 2")
    assert [row["request_id"] for row in read(rows)] == ["livecodebench/1", "livecodebench/2"]

    strict = assay(
        "convert", "livecodebench", source, "--out", tmp_path / "no", "--strict", data_dir=tmp_path
    )
    assert strict.returncode == 2
    assert "lcb.jsonl line 2" in strict.stderr
    assert not (tmp_path / "no").exists()

    out = tmp_path / "report.json"
    done = assay("check", rows, "--out", out, "--json", data_dir=tmp_path / "data")
    assert done.returncode == 5, done.stderr
    checked = json.loads(done.stdout)
    assert (checked["references"], checked["sound"], checked["refused"]) == (2, 1, 1)
    assert checked["unsound"][0]["lines"] == [2]
    assert checked["unsound"][0]["problems"][0]["control"] == "returns_empty_list"
    # Without a cgroup, a box that ends as soon as it has answered may not have been measured.
    assert checked["cpu_s_per_reference"] > 0 or os.geteuid()
    assert json.loads(out.read_text()) == checked

    program = (
        "class Solution:\n    def order(self, xs: List[int]) -> List[int]:\n"
        "        heapify(xs)\n        return [heappop(xs) for _ in range(len(xs))]\n"
    )
    scored = [{**row, "response": f"```python\n{program}```"} for row in read(rows)]
    file = write(tmp_path / "responses.jsonl", *scored)
    rewards = tmp_path / "rewards.jsonl"
    done = assay("score", file, "--pipeline", "code.python", "--out", rewards, data_dir=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {one["request_id"]: one["reward"] for one in read(rewards)} == {
        "livecodebench/1": 1.0,
        "livecodebench/2": 0.0,
    }


PLUS = {
    "task_id": "HumanEval/901",
    "prompt": "from typing import List\n\ndef top(xs: List[int]):\n    '''Largest two.'''\n",
    "entry_point": "top",
    "canonical_solution": "    print('noise')\n    return tuple(sorted(xs)[-2:])\n",
    "base_input": [[[1, 2, 3]]],
    "plus_input": [[[5]], [[12345678901234567890, -1, 7]]],
    "atol": 0,
}


@pytest.mark.parametrize("compressed", [False, True])
def test_results_of_evalplus_are_computed_in_the_sandbox(tmp_path: Path, compressed: bool) -> None:
    records = [
        PLUS,
        {**PLUS, "task_id": "HumanEval/902", "canonical_solution": "    return object()\n"},
        {**PLUS, "task_id": "HumanEval/903", "canonical_solution": "    return xs[9]\n"},
        {**PLUS, "task_id": "HumanEval/904", "canonical_solution": "    import os; os._exit(0)\n"},
        PLUS,
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in records).encode()
    source = tmp_path / "plus.jsonl"
    source.write_bytes(gzip.compress(lines) if compressed else lines)
    rows = tmp_path / "rows.jsonl"
    done = assay("convert", "evalplus", source, "--out", rows, "--json", data_dir=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = read(rows)
    assert (first["request_id"], second["request_id"]) == (
        "evalplus/HumanEval/901",
        "evalplus/HumanEval/901-2",
    )
    expected = [case["expected"] for case in first["reference"]["calls"]["cases"]]
    assert expected == ["(2, 3)", "(5,)", "(7, 12345678901234567890)"]
    reasons = [one["reason"] for one in json.loads(done.stdout)["refused"]]
    assert "a result that is not data" in reasons
    assert "the solution fails on its own inputs" in reasons


def test_sources_files_and_pipelines_that_are_none_are_named(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", {"question": "q", "answer": "no mark"})
    rows = tmp_path / "rows.jsonl"
    done = assay("convert", "gsm9k", source, "--out", rows, data_dir=tmp_path)
    assert done.returncode == 2
    assert "livecodebench" in done.stderr
    done = assay("convert", "gsm8k", source, "--out", rows, data_dir=tmp_path)
    assert done.returncode == 2  # not one row
    done = assay(
        "convert", "gsm8k", source, "--out", rows, "--pipeline", "code.cpp", data_dir=tmp_path
    )
    assert done.returncode == 2
    assert "math" in done.stderr
