"""SandboxFusion's labelled `/submit` requests on a running platform: a table of what was answered.

    python -m tests.endpoints.labelled LABELS SAMPLES URL

LABELS is a file of lines `{"test", "request", "accepted"}`, as SandboxFusion's own tests make them;
SAMPLES is the folder `sandbox/tests/datasets/samples` of its repository, with the rows; URL is
`http://HOST:PORT/v1/sandboxfusion`. EvoEval's tests import numpy: start the platform with
`ASSAY_VERIFIERS__PROGRAM_PACKAGES='["numpy"]'`. Ends with 1 where an answer is not its label and is
not explained here.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES: Final = {
    "aider_benchmark_v1": "code_eval_aider_benchmark_v1",
    "bigcodebench": "code_eval_bigcodebench",
    "code_contests": "code_eval_code_contests",
    "evoeval": "code_eval_EvoEval",
    "mhpp": "code_eval_mhpp",
    "palmath": "code_eval_palmath",
}
"""Files of the rows of each data set."""
OTHER_ROWS: Final = {
    "humaneval_python": ("Multi-PLE/open_humaneval_python", 0),
    "humaneval_cpp_ooc_test": ("Multi-PLE/humaneval-cpp", 4),
    "": ("code_eval_verilogeval_human", 0),
}
"""Where a test itself says which row: the file, and the place in it."""
MBPP_1: Final = {
    "id": 1,
    "labels": {"test_setup_code": ""},
    "test_list": [
        "assert min_cost([[1, 2, 3], [4, 8, 2], [1, 5, 3]], 2, 2) == 8",
        "assert min_cost([[2, 3, 4], [5, 9, 3], [2, 6, 4]], 2, 2) == 12",
        "assert min_cost([[3, 4, 5], [6, 10, 4], [3, 7, 5]], 2, 2) == 16",
    ],
}
"""MBPP's first task as published: SandboxFusion's samples begin with the eleventh."""
EXPLAINED: Final = {
    "test_mhpp_submit_passed": "the program calls `exit()` before any assertion: not accepted",
    "test_humaneval_cpp_ooc_test_submit_passed": "asserts in C++ would run inside of the program",
    "test_humaneval_cpp_ooc_test_submit_failed": "asserts in C++ would run inside of the program",
}
NOT_RUN: Final = "Verilog is not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A request of SandboxFusion's tests, and what they assert."""

    name: str
    request: dict[str, Any]
    accepted: bool

    @property
    def why_not(self) -> str:
        """Why another answer is right; empty: it is not."""
        return NOT_RUN if "verilog" in self.name else EXPLAINED.get(self.name, "")


def labelled(labels: Path, samples: Path) -> list[Labelled]:
    """Those whose rows are there, each with its row."""
    found = []
    for line in labels.read_text("utf-8").splitlines():
        given = json.loads(line)
        request = {"dataset": "verilogeval_human", "id": 0, **given["request"]}
        config = {key: value for key, value in request["config"].items() if value != "<expr>"}
        row = _row(given["request"].get("dataset", ""), request["id"], samples)
        if row is None:
            continue
        request["config"] = {**config, "provided_data": row}
        found.append(Labelled(name=given["test"], request=request, accepted=given["accepted"]))
    return [*found, *_right_in_humaneval(samples)]


def _right_in_humaneval(samples: Path) -> Iterator[Labelled]:
    """What `test_humaneval_python_submit_passed` makes of its first rows, and asserts."""
    for row in _rows(samples, OTHER_ROWS["humaneval_python"][0])[:10]:
        body = row["canonical_solution"]
        block = f"Here is your answer:\n```python\n{row['prompt']}\n{body}\n```"
        cases: list[tuple[str, dict[str, Any]]] = [
            (f"{body}\n\ndef random", {}),
            (block, {"is_freeform": True}),
        ]
        for text, extra in cases:
            config: dict[str, Any] = {"dataset_type": "HumanEvalDataset", "language": "python"}
            config |= {"provided_data": row, "extra": extra}
            request = {"dataset": "humaneval_python", "id": 0, "completion": text, "config": config}
            name = "test_humaneval_python_submit_passed"
            yield Labelled(name=name, request=request, accepted=True)


def _row(dataset: str, wanted: int | str, samples: Path) -> dict[str, Any] | None:
    if dataset == "mbpp" and wanted == MBPP_1["id"]:
        return MBPP_1
    if dataset in OTHER_ROWS:
        file, place = OTHER_ROWS[dataset]
        return next(iter(_rows(samples, file)[place:]), None)
    rows = _rows(samples, TABLES[dataset])
    return next((one for one in rows if str(one["id"]) == str(wanted)), None)


def _rows(samples: Path, file: str) -> list[dict[str, Any]]:
    path = samples / f"{file}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def answer(http: httpx.Client, one: Labelled) -> str:
    """`True` or `False` as judged, or the status of a refusal."""
    found = http.post("/submit", json=one.request)
    return str(found.json()["accepted"]) if found.status_code == 200 else f"{found.status_code}"


def main() -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("labels", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("url")
    chosen = parser.parse_args()
    print("| test of SandboxFusion | label | answer | |\n|---|---|---|---|")
    agree = unexplained = 0
    with httpx.Client(base_url=chosen.url, timeout=400) as http:
        for one in labelled(chosen.labels, chosen.samples):
            found = answer(http, one)
            same = found == str(one.accepted)
            agree += same
            unexplained += not same and not one.why_not
            note = "" if same else one.why_not or "**differs**"
            print(f"| `{one.name}` | {one.accepted} | {found} | {note} |", flush=True)
    print(f"\n{agree} agree, {unexplained} differ without an explanation")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
