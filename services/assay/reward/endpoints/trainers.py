"""Endpoints of OpenRLHF, slime, NeMo-Gym and ROLL: `/v1/SYSTEM/PIPELINE/...`.

The pipeline is in the path; `?task=NAME` takes a registered task with its settings instead of the
pipeline's defaults. Each system hears "not judged" as it can: no answer ever carries a number that
its trainer would take for a reward.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.reward.admission import pipeline_of
from assay.reward.drafts import ResultsPage, ScoreDraft
from assay.reward.endpoints.calling import (
    JSON,
    Adjust,
    Answer,
    Calling,
    read_pieces,
    tenant,
)
from assay.reward.reading import Form
from assay.reward.service import RewardService

PAYLOADS: Final = r"(openrlhf|slime|nemo_gym|roll)/[^/]+/(get_reward|rm|verify|submit)"
ROW: Final = "row"
"""In place of a pipeline: the row's own field `assay.pipeline` names it."""
TASK_INDEX: Final = "_ng_task_index"
REWARD_MAX: Final = 1e150
"""Of a reward in statistics."""
UNSCORED: Final = 0.0
"""A number for systems that need one beside their word for "not judged"."""


def routes(calling: Calling, service: RewardService) -> APIRouter:
    """The routes of OpenRLHF, slime, NeMo-Gym and ROLL."""
    router = APIRouter(prefix="/v1")

    @router.post("/openrlhf/{pipeline}/get_reward", name="OpenRlhfGetReward")
    async def get_reward(pipeline: str, request: Request, task: str = "") -> Response:
        """What `--reward.remote_url` asks: a score of NaN is no score, and drops its group."""
        answer = await calling.answer(request, Form.OPENRLHF, _by(pipeline, task))
        return _json(_openrlhf_body(answer))

    @router.post("/slime/{pipeline}/rm", name="SlimeRemoteRm")
    async def remote_rm(pipeline: str, request: Request, task: str = "") -> Response:
        """What `--rm-url` asks: the body is the reward; NaN where there is none."""
        answer = await calling.answer(request, Form.SLIME, _by(pipeline, task))
        reward, _ = answer.reward("r0")
        return _json(math.nan if reward is None else reward)

    @router.post("/nemo_gym/{pipeline}/seed_session", name="NemoGymSeedSession")
    async def seed_session(pipeline: str) -> Response:
        """Nothing is kept between calls."""
        if pipeline != ROW:
            _check_pipeline(service, pipeline)
        return _json({})

    @router.post("/nemo_gym/{pipeline}/verify", name="NemoGymVerify")
    async def verify(pipeline: str, request: Request, task: str = "") -> Response:
        """Judge a created response; `mask_sample` where it was not judged."""
        answer = await calling.answer(request, Form.NEMO_GYM, _by(pipeline, task))
        return _json(nemo_gym_body(answer))

    @router.post("/nemo_gym/{pipeline}/aggregate_metrics", name="NemoGymAggregateMetrics")
    async def aggregate_metrics(pipeline: str, body: AggregateBody) -> Response:
        """Statistics of rewards, per task and over all, without what was not judged."""
        return _json(aggregated(body.verify_responses))

    @router.post("/roll/{pipeline}/submit", name="RollSubmit")
    async def submit(pipeline: str, request: Request, task: str = "") -> Response:
        """What ROLL's `submit_url` asks: accept a response and name it."""
        name = await calling.submit_one(request, Form.ROLL, pipeline=pipeline, task=task)
        return _json({"errcode": 0, "reward_request_id": name})

    @router.get("/roll/result", name="RollResult")
    async def result(request: Request) -> Response:
        """What ROLL's `get_result_url` asks, with a JSON body: the reward, if there is one."""
        body = RollResultBody.model_validate_json(b"".join(await read_pieces(request)))
        page = await service.page(tenant(), body.reward_request_id, cursor=0)
        return _json(_roll_body(page))

    return router


class AggregateBody(BaseModel):
    """`AggregateMetricsRequest`: results of `/verify`, stripped."""

    verify_responses: list[dict[str, Any]]


class RollResultBody(BaseModel):
    """Names the request whose result ROLL asks for."""

    reward_request_id: str


def _by(pipeline: str, task: str) -> Adjust:
    def adjust(draft: ScoreDraft, context: Mapping[str, Any]) -> ScoreDraft:
        if pipeline == ROW:
            asked = context.get("assay")
            named = asked if isinstance(asked, Mapping) else {}
            if not isinstance(named.get("pipeline"), str):
                raise InvalidRequest(
                    "assay.pipeline: the row names no pipeline", field="assay.pipeline"
                )
            return replace(draft, pipeline=named["pipeline"])
        if task:
            return replace(draft, task_id=task, of_pipeline=pipeline)
        return replace(draft, pipeline=pipeline)

    return adjust


def _check_pipeline(service: RewardService, name: str) -> None:
    pipeline_of({one.spec.name: one for one in service.pipelines}, name, "pipeline")


def _json(value: object) -> Response:
    """JSON in which NaN is allowed: these clients are Python's, and NaN is never mistaken for 0."""
    return Response(json.dumps(value), media_type=JSON)


def _openrlhf_body(answer: Answer) -> dict[str, Any]:
    count = int(answer.context["count"])
    rewards = [answer.reward(f"r{at}")[0] for at in range(count)]
    return {
        "rewards": [UNSCORED if one is None else one for one in rewards],
        "scores": [math.nan if one is None else one for one in rewards],
        "extra_logs": {"infra_failed": [float(one is None) for one in rewards]},
    }


def nemo_gym_body(answer: Answer) -> dict[str, Any]:
    reward, cause = answer.reward("r0")
    body = dict(answer.context)
    if reward is not None:
        components = answer.components("r0") or {"reward": reward}
        return {**body, "reward": reward, "reward_components": dict(components)}
    failure = cause.partition(":")[0]
    terminal = failure == Outcome.REJECTED_INVALID.value
    instance = body.get("instance_config")
    masked = {**(instance if isinstance(instance, Mapping) else {}), "mask_sample": True}
    return {
        **body,
        "reward": UNSCORED,
        "mask_sample": True,
        "instance_config": masked,
        "_ng_failure_class": failure,
        "_ng_failure_terminal": terminal,
        "_ng_failure_message": cause,
    }


def aggregated(responses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`AggregateMetrics` over judged responses; with the share that was not judged."""
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for one in responses:
        groups.setdefault(_index(one), []).append(one)
    overall = _statistics(responses)
    return {
        "group_level_metrics": [
            {TASK_INDEX: index, **_statistics(groups[index])} for index in sorted(groups)
        ],
        "agent_metrics": overall,
        "key_metrics": {
            name: overall[name] for name in ("mean/reward", "unscored_share") if name in overall
        },
    }


def _index(response: Mapping[str, Any]) -> int:
    index = response.get(TASK_INDEX, 0)
    if not isinstance(index, int):
        raise InvalidRequest(f"{TASK_INDEX}: not a whole number", field=TASK_INDEX)
    return index


def _statistics(responses: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    rewards = [
        _judged_reward(one["reward"])
        for one in responses
        if not one.get("mask_sample") and isinstance(one.get("reward"), int | float)
    ]
    if not responses:
        return {}
    found = {"unscored_share": 1 - len(rewards) / len(responses)}
    if rewards:
        found |= {
            "mean/reward": statistics.fmean(rewards),
            "max/reward": max(rewards),
            "min/reward": min(rewards),
            "median/reward": statistics.median(rewards),
            "std/reward": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
        }
    return found


def _judged_reward(reward: float) -> float:
    """A reward whose square is a number, as the statistics need."""
    if not abs(reward) <= REWARD_MAX:  # NaN is not either
        message = f"verify_responses: a reward is not a number up to {REWARD_MAX:g}"
        raise InvalidRequest(message, field="verify_responses")
    return float(reward)


def _roll_body(page: ResultsPage) -> dict[str, Any]:
    """`errcode` 0: the reward; 1: wait; 2: not judged, which ROLL submits again.

    Raises:
        InvalidRequest: it is not the page of one response.
    """
    if len(page.results) > 1:
        raise InvalidRequest("reward_request_id: names a batch", field="reward_request_id")
    if not page.results:
        return {"errcode": 1 if not page.last else 2, "errmsg": "not judged yet"}
    [result] = page.results
    reward, cause = Answer(context={}, results={result.request_id: result}).reward(
        result.request_id
    )
    if reward is None:
        return {"errcode": 2, "errmsg": f"not judged: {cause}"}
    return {"errcode": 0, "reward_score": reward, "dimention_reward_score": {}}
