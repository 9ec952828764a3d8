"""Bodies and headers that no client sends: each gets a typed answer, and no one else's work."""

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integrations.stand_in import RIGHT, Judge

OUTPUT = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": RIGHT}]}
]
TASK = {"prompt": "2 + 3?", "reference": "5"}
BODIES: dict[str, Any] = {
    "/v1/sandboxfusion/run_code": {
        "code": "print(1)",
        "language": "python",
        "stdin": "x",
        "compile_timeout": 1,
        "run_timeout": 1,
        "memory_limit_MB": 64,
        "files": {"a.txt": "YQ=="},
        "fetch_files": ["a.txt"],
    },
    "/v1/sandboxfusion/submit": {
        "dataset": "mine",
        "id": 1,
        "completion": "print(1)",
        "config": {
            "dataset_type": "CommonOJDataset",
            "language": "python",
            "compile_timeout": 1,
            "run_timeout": 0.1,
            "provided_data": {"test": [{"input": {"stdin": "1"}, "output": {"stdout": "1"}}]},
            "extra": {"run_all_cases": True},
        },
    },
    "/v1/openrlhf/math/get_reward": {"query": [RIGHT], "prompts": ["q"], "labels": ["5"]},
    "/v1/slime/math/rm": {"prompt": "q", "response": RIGHT, "label": "5"},
    "/v1/nemo_gym/math/verify": {
        "responses_create_params": {"input": [{"role": "user", "content": "q"}]},
        "response": {"output": OUTPUT},
        "expected_answer": "5",
        "instance_config": {"seed": 1},
    },
    "/v1/nemo_gym/math/aggregate_metrics": {
        "verify_responses": [{"reward": 1.0, "mask_sample": False, "_ng_task_index": 0}]
    },
    "/v1/roll/math/submit": {
        "prompt": "q",
        "response": RIGHT,
        "reward_info": {"ground_truth": "5"},
        "data_id": 1,
        "timeout": 10,
    },
    "/v1/ors/create": {"env_name": "math", "task_spec": TASK},
    "/v1/ors/math/call": {"name": "submit", "input": {"response": RIGHT}, "task_id": None},
    "/v1/ors/math/score_group": {
        "candidates": [
            {
                "messages": [{"role": "assistant", "blocks": [{"type": "text", "text": RIGHT}]}],
                "metadata": {"a": 1},
            }
        ]
    },
    "/v1/ors/sums/tasks": {"split": "train"},
    "/v1/ors/sums/task": {"split": "train", "index": 0},
    "/v1/ors/sums/task_range": {"split": "train", "start": 0, "stop": 1},
}
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
LONG = "x" * 70_000
VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf")),
    *("", "\x00", "\ud800", "\u202e" * 9, LONG),
    *([], {}, [None], {"": None}, {"\ud800": "\udfff"}, DEEP),
]
"""Wrong types, empty, huge, not Unicode, not finite, deep."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all fields of a body, itself included."""
    yield at
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        yield from places(one, (*at, key))


def changed(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A copy with one field replaced."""
    if not at:
        return value
    made = copy.deepcopy(body)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return made


@pytest.fixture
async def http(run_api: Any, run_worker: Any, tmp_path: Any) -> Any:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps(TASK))
    api = await run_api(environments={"sums": {"pipeline": "math", "tasks": str(tasks)}})
    judge = Judge()
    for stage in ("extract", "python.run"):
        await run_worker(judge, stage=stage)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=120) as client:
        yield client


@pytest.mark.parametrize("path", BODIES)
async def test_no_field_of_any_value_breaks_an_endpoint(http: httpx.AsyncClient, path: str) -> None:
    seen: list[tuple[Any, ...]] = []
    limit = asyncio.Semaphore(8)

    async def ask(number: int, at: tuple[Any, ...], value: Any) -> None:
        sid = f"s{number}"
        headers = {"Content-Type": "application/json", "X-Session-ID": sid}
        async with limit:
            if path.startswith("/v1/ors/math/"):
                body = {"env_name": "math", "task_spec": TASK}
                begun = await http.post("/v1/ors/create", json=body, headers=headers)
                assert begun.status_code == 200, begun.text
            content = json.dumps(changed(BODIES[path], at, value))
            answer = await http.post(path, content=content, headers=headers)
        if answer.status_code >= 500 and answer.status_code != 504:
            seen.append((at, repr(value)[:40], answer.status_code, answer.text[:200]))
        elif answer.status_code >= 400:
            error = answer.json()["error"]
            if not error["reason"] or not error["message"]:
                seen.append((at, repr(value)[:40], answer.text[:200]))

    waits = path.endswith("/submit") and "fusion" in path  # large ones are read one by one
    values = [one for one in VALUES if not waits or one != LONG]
    cases = [(at, value) for at in places(BODIES[path]) for value in values]
    await asyncio.gather(*(ask(number, *case) for number, case in enumerate(cases)))
    assert seen == []
