"""Verifies responses by NeMo-Gym's own server classes, and aggregates by its own code.

`in_nemo_gym.py PATH URL TEXTS`: the example at `PATH` is a resources server of NeMo-Gym; `URL` is
that of a platform, whose own `/verify` is asked too. Prints both answers as JSON.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import httpx
from nemo_gym.base_resources_server import BaseResourcesServerConfig, BaseVerifyResponse
from nemo_gym.config_types import AggregateMetrics
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import ServerClient

from assay.integrations.scorer import close


def row(text: str, at: int) -> dict[str, Any]:
    """What NeMo-Gym's agents send, made by its own class for a response."""
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    response = NeMoGymResponse.model_validate(
        {
            "id": "r",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": [message],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "2 + 3?"}]},
        "response": response.model_dump(mode="json"),
        "expected_answer": "5",
        "_ng_task_index": 0,
        "_ng_rollout_index": at,
        "assay": {"pipeline": "math"},
    }


async def asked(client: httpx.AsyncClient, texts: tuple[str, ...]) -> dict[str, Any]:
    """The session, the answers and their statistics, as `ng_collect_rollouts` asks for them."""
    (await client.post("/seed_session", json={})).raise_for_status()
    rows = [row(text, at) for at, text in enumerate(texts)]
    answers = await asyncio.gather(*(client.post("/verify", json=one) for one in rows))
    bodies = [answer.raise_for_status().json() for answer in answers]
    for body in bodies:
        BaseVerifyResponse.model_validate(body)
    aggregated = await client.post("/aggregate_metrics", json={"verify_responses": bodies})
    metrics = AggregateMetrics.model_validate(aggregated.raise_for_status().json())
    return {
        "rewards": [one["reward"] for one in bodies],
        "masked": [bool((one.get("instance_config") or {}).get("mask_sample")) for one in bodies],
        "classes": [one.get("_ng_failure_class") for one in bodies],
        "metrics": metrics.agent_metrics,
    }


async def main(path: str, url: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    example = importlib.import_module("nemo_gym_server")
    config = BaseResourcesServerConfig(host="", port=0, entrypoint="", name="assay")
    server = example.Server(
        config=config,
        server_client=ServerClient.model_construct(head_server_config=None, global_config_dict={}),
    )
    example.Server.assay_scoring = {"pipeline": "math", "step_size": len(texts)}
    transport = httpx.ASGITransport(app=server.setup_webserver())
    async with httpx.AsyncClient(transport=transport, base_url="http://gym", timeout=300) as own:
        by_server = await asked(own, texts)
    async with httpx.AsyncClient(base_url=url, timeout=300) as platform:
        by_endpoint = await asked(platform, texts)
    await asyncio.to_thread(close)
    print(json.dumps({"server": by_server, "endpoint": by_endpoint}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
