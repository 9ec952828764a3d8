"""Requests of the benchmarks: small, deterministic, each with a known reward."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and the reward it must get."""

    pipeline: str
    response: str
    reference: dict[str, Any]
    reward: float


def trivial_python(index: int) -> Case:
    """A one-line program with one stdin/stdout test."""
    return Case(
        pipeline="code.python",
        response=f"```python\nprint(int(input()) + {index})\n```",
        reference={"tests": [{"stdin": "1\n", "stdout": f"{index + 1}\n"}]},
        reward=1.0,
    )


SUM_CPP = """
#include <bits/stdc++.h>
using namespace std;
int main() {{
    long long n, total = {salt} - {salt};
    vector<long long> values;
    while (cin >> n) values.push_back(n);
    sort(values.begin(), values.end());
    for (auto value : values) total += value;
    cout << total << endl;
}}
"""


def ten_test_cpp(salt: int) -> Case:
    """A `<bits/stdc++.h>` submission with ten tests; `salt` makes its source unique."""
    tests = [
        {"stdin": f"{i} {i * i} {i + 7}\n", "stdout": f"{i * i + 2 * i + 7}\n"} for i in range(10)
    ]
    return Case(
        pipeline="code.cpp",
        response=f"```cpp\n{SUM_CPP.format(salt=salt)}\n```",
        reference={"tests": tests},
        reward=1.0,
    )


def exact(index: int) -> Case:
    """A right answer or a wrong one, alternating."""
    right = index % 3 != 0
    return Case(
        pipeline="exact",
        response=f"answer {index}" if right else f"answer {index + 1}",
        reference={"answers": [f"answer {index}"]},
        reward=1.0 if right else 0.0,
    )


def gsm8k() -> Iterator[Case]:
    """5,276 real model answers with the upstream label as reward."""
    path = SHARED / "gsm8k" / "example_model_solutions.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gold = row["ground_truth"].rsplit("A:", 1)[1].strip()
        for answer in row.values():
            if isinstance(answer, dict):
                yield Case(
                    pipeline="math",
                    response=answer["solution"],
                    reference={"answers": [gold]},
                    reward=float(answer["is_correct"]),
                )
