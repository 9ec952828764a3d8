"""Bodies of every endpoint as its clients send them, and ways to damage them."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.integrations.stand_in import RIGHT

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


HUGE: list[Any] = [10**400, -(10**400), 10**5_000]
"""Numbers that no float and, for the last one, no text of Python's holds."""


SHALLOW: list[Any] = [*(one for one in VALUES if one is not DEEP), *HUGE[:2]]


def damaged(body: Any, chance: random.Random) -> Any:
    """A copy with up to four faults: other values, parts that moved, doubled, left or came."""
    made = copy.deepcopy(body)
    for _ in range(chance.randint(1, 4)):
        spots = list(places(made))
        at = chance.choice(spots)
        match chance.randrange(4):
            case 0:
                made = changed(made, at, chance.choice(SHALLOW))
            case 1:
                made = changed(made, at, copy.deepcopy(inside(made, chance.choice(spots))))
            case 2 if at:
                made = _without(made, at)
            case _:
                made = _with_more(made, at, chance)
    return made


def inside(body: Any, at: tuple[Any, ...]) -> Any:
    """What is at a place."""
    for key in at:
        body = body[key]
    return body


def _without(body: Any, at: tuple[Any, ...]) -> Any:
    made = copy.deepcopy(body)
    del inside(made, at[:-1])[at[-1]]
    return made


def _with_more(body: Any, at: tuple[Any, ...], chance: random.Random) -> Any:
    made = copy.deepcopy(body)
    found = inside(made, at)
    if isinstance(found, list):
        found.extend([*copy.deepcopy(found), chance.choice(SHALLOW)])
    elif isinstance(found, dict):
        found[chance.choice(NAMES)] = chance.choice(SHALLOW)
    return made


NAMES = ("labels", "language", "test", "entry_point", "reward", "assay", "task", "extra", "output")
"""Fields that some reader looks for."""
