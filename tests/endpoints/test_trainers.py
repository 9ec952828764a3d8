"""Reward endpoints of trainers: bodies as the trainers send them, and what is never a reward."""

import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, FAILS, LIMIT, RIGHT, Judge

from assay.reward.endpoints.calling import REFUSED_MAX

Post = Any


@pytest.fixture
async def http(api: Any, run_worker: Any) -> Any:
    """A client of a platform whose pipeline `math` is judged by a stand-in."""
    await run_worker(Judge(), stage="math.verify")
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as client:
        yield client


def over_judged(rewards: list[float | None]) -> list[float]:
    """Reward minus mean, over those that are there."""
    judged = [reward for reward in rewards if reward is not None]
    mean = sum(judged) / len(judged)
    return [reward - mean for reward in judged]


async def test_openrlhf_gets_lists_in_which_an_unscored_sample_has_no_score(http: Any) -> None:
    queries = [f"2 + 3? {text}" for text in BASELINE]
    body = {"query": queries, "prompts": ["2 + 3? "] * 4, "labels": ["5"] * 4}
    answer = await http.post("/v1/openrlhf/math/get_reward", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["rewards"] == [1.0, 0.0, 0.0, 0.0]
    assert found["extra_logs"]["infra_failed"] == [0.0, 1.0, 0.0, 0.0]
    scores = [None if math.isnan(score) else score for score in found["scores"]]
    assert over_judged(scores) == pytest.approx(ADVANTAGES)


async def test_a_sample_that_is_refused_stops_no_other(http: Any) -> None:
    body = {"query": [RIGHT, RIGHT], "prompts": ["", ""], "labels": [{"unknown": 1}, "5"]}
    found = (await http.post("/v1/openrlhf/math/get_reward", json=body)).json()
    assert found["extra_logs"]["infra_failed"] == [1.0, 0.0]
    body["labels"] = [{"unknown": 1}] * 2
    refused = await http.post("/v1/openrlhf/math/get_reward", json=body)
    assert refused.status_code == 400, "all of them: an option is wrong, and the run should say so"


async def test_slime_gets_the_reward_as_the_body_and_nan_where_there_is_none(http: Any) -> None:
    async def reward(text: str) -> float:
        body = {"prompt": "2 + 3?", "response": text, "label": "5"}
        answer = await http.post("/v1/slime/math/rm", json=body)
        assert answer.status_code == 200, answer.text
        return float(answer.json())

    rewards = [await reward(text) for text in BASELINE]
    assert [str(one) for one in rewards] == ["1.0", "nan", "0.0", "0.0"]
    kept = [None if math.isnan(one) else one for one in rewards]
    assert over_judged(kept) == pytest.approx(ADVANTAGES)


def verify_body(text: str, task: int, **row: Any) -> dict[str, Any]:
    """A row and its response, as an agent of NeMo-Gym sends them."""
    message = {"content": [{"text": text, "type": "output_text", "annotations": []}]}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "2 + 3?"}]},
        "response": {
            "id": "r",
            "output": [
                {"type": "reasoning", "id": "x", "summary": []},
                {**message, "type": "message", "role": "assistant", "id": "m"},
            ],
        },
        "_ng_task_index": task,
        "expected_answer": "5",
        **row,
    }


@pytest.mark.parametrize("root", ["/v1/nemo_gym/math", ""])
async def test_nemo_gym_masks_what_was_not_judged(http: Any, root: str) -> None:
    row = {} if root else {"assay": {"pipeline": "math"}}
    assert (await http.post(f"{root}/seed_session", json={})).status_code == 200
    answers = []
    for text in BASELINE:
        answer = await http.post(f"{root}/verify", json=verify_body(text, 0, **row))
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    assert answers[0]["responses_create_params"]["input"][0]["content"] == "2 + 3?"
    assert answers[0]["expected_answer"] == "5"
    assert answers[1]["mask_sample"] is True
    assert answers[1]["instance_config"] == {"mask_sample": True}
    assert answers[1]["_ng_failure_class"] == "INFRA_FAILED"
    kept = [None if one.get("mask_sample") else one["reward"] for one in answers]
    assert over_judged(kept) == pytest.approx(ADVANTAGES)
    body = {"verify_responses": answers}
    metrics = (await http.post(f"{root}/aggregate_metrics", json=body)).json()
    assert metrics["agent_metrics"]["mean/reward"] == pytest.approx(1 / 3)
    assert metrics["agent_metrics"]["unscored_share"] == 0.25
    assert metrics["group_level_metrics"][0]["_ng_task_index"] == 0


async def test_a_row_without_a_pipeline_is_refused_by_name(http: Any) -> None:
    refused = await http.post("/verify", json=verify_body(RIGHT, 0))
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "assay.pipeline")
    unknown = await http.post("/v1/nemo_gym/missing/seed_session", json={})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("openrlhf/{}/get_reward", {"query": [RIGHT], "prompts": [""], "labels": ["5"]}),
        ("slime/{}/rm", {"response": RIGHT, "label": "5"}),
        ("nemo_gym/{}/verify", verify_body(RIGHT, 0)),
        ("roll/{}/submit", {"response": RIGHT, "reward_info": {"ground_truth": "5"}}),
    ],
)
async def test_a_task_of_another_pipeline_than_the_paths_is_refused(
    http: Any, path: str, body: dict[str, Any]
) -> None:
    """Otherwise the path would name a pipeline that judges nothing."""
    task = {"task_id": "run-7", "pipeline": "math"}
    assert (await http.post("/v1/tasks", json=task)).status_code == 200
    refused = await http.post(f"/v1/{path.format('exact')}?task=run-7", json=body)
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert (error["field"], error["message"]) == (
        "task_id",
        "task_id: run-7 is a task of math, not exact",
    )
    assert (await http.post(f"/v1/{path.format('math')}?task=run-7", json=body)).is_success


@pytest.mark.parametrize("missing", [None, math.nan, []])
async def test_a_label_that_is_missing_gives_no_reward(http: Any, missing: Any) -> None:
    async def post(path: str, body: dict[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        return await http.post(f"/v1/{path}", content=json.dumps(body), headers=headers)

    body = {"query": [RIGHT] * 2, "prompts": [""] * 2, "labels": ["5", missing]}
    answer = (await post("openrlhf/math/get_reward", body)).json()
    assert answer["extra_logs"]["infra_failed"] == [0.0, 1.0]
    assert math.isnan(answer["scores"][1])
    for path, alone in (
        ("slime/math/rm", {"response": RIGHT, "label": missing}),
        ("nemo_gym/math/verify", verify_body(RIGHT, 0, expected_answer=missing)),
        ("roll/math/submit", {"response": RIGHT, "reward_info": {"ground_truth": missing}}),
    ):
        refused = await post(path, alone)
        assert refused.status_code == 400, refused.text
        assert "without a label" in refused.json()["error"]["message"]


ALONE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "openrlhf/math/get_reward": lambda label: {
        "query": [RIGHT],
        "prompts": [""],
        "labels": [label],
    },
    "slime/math/rm": lambda label: {"response": RIGHT, "label": label},
    "nemo_gym/math/verify": lambda label: verify_body(RIGHT, 0, expected_answer=label),
}


@pytest.mark.parametrize("path", ALONE)
async def test_one_bad_row_ends_no_run_and_many_in_a_row_do(http: Any, path: str) -> None:
    """Each sample comes in a call of its own, and the trainer ends when a call fails for good."""

    async def post(label: Any) -> Any:
        return await http.post(f"/v1/{path}", json=ALONE[path](label))

    assert (await post(None)).status_code == 400, "nothing was scored: an option may be wrong"
    for _ in range(2):
        assert (await post("5")).status_code == 200
        for _ in range(REFUSED_MAX):
            unscored = await post(None)
            assert unscored.status_code == 200, unscored.text
            assert "NaN" in unscored.text or unscored.json()["mask_sample"]
        assert "without a label" in (await post(None)).json()["error"]["message"]


async def test_roll_submits_and_asks_until_there_is_a_reward(http: Any) -> None:
    async def reward(text: str) -> float | None:
        body = {
            "priority": 1,
            "project_id": "p",
            "experiment_id": "e",
            "global_step": 0,
            "data_id": "d1",
            "rollout_id": "r",
            "prompt": "2 + 3?",
            "response": text,
            "reward_info": {"ground_truth": "5"},
            "reward_manager": {},
            "timeout": 300,
        }
        submitted = (await http.post("/v1/roll/math/submit", json=body)).json()
        assert submitted["errcode"] == 0, submitted
        asked = {"reward_request_id": submitted["reward_request_id"]}
        while True:
            found = (await http.request("GET", "/v1/roll/result", json=asked)).json()
            if found["errcode"] != 1:
                assert (found["errcode"] == 0) == (text != FAILS)
                score: float | None = found.get("reward_score")
                return score

    rewards = [await reward(text) for text in (*BASELINE, LIMIT)]
    assert rewards == [1.0, None, 0.0, 0.0, 0.0]
    assert over_judged(rewards[:4]) == pytest.approx(ADVANTAGES)
