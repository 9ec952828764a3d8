"""Runs the example's hooks over rollouts in Agent Lightning's own server.

Run as a program with the path of the example and the responses: enqueues rollouts, records a model
call each as its gateway does, lets each succeed, runs the hook that `load_hooks` found, posts what
it added, and reads the events back as its trainer does. Prints the reward events as JSON.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from agentlightning.client import AgentLightningAsyncClient
from agentlightning.hooks import load_hooks
from agentlightning.schemas import Event, Rollout
from agentlightning.server.app import create_app

from assay.integrations.scorer import close

KEY = "a key"
CONFIG = {"key": KEY, "default_proxy": {"model_name": "m"}}


class Writer:
    """What the trainer hands to a hook: keeps events until the hook returned."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, dict[str, Any]]] = []

    def add_event(self, rollout_id: str, attempt_id: str, kind: str, data: dict[str, Any]) -> None:
        self.events.append((rollout_id, attempt_id, kind, data))


async def one(client: httpx.AsyncClient, hooks: Any, name: str, text: str) -> dict[str, Any]:
    """The reward event of a rollout, as the trainer reads it."""
    events = f"/api/rollouts/{name}/attempt/0/events"
    message = {"role": "assistant", "content": text}
    call = {"status": "ok", "response": {"choices": [{"message": message, "token_ids": [1]}]}}
    (
        await client.post(events, json={"event_type": "model_request", "data": call})
    ).raise_for_status()
    for state in ("running", "succeeded"):
        status = {"state": state, "last_attempt_id": "0"}
        patched = await client.patch(f"/api/rollouts/{name}", json={"status": status})
        rollout = Rollout.model_validate(patched.raise_for_status().json())
    read = await client.get(f"/api/rollouts/{name}/events")
    known = [Event.model_validate(event) for event in read.raise_for_status().json()]
    writer = Writer()
    await asyncio.to_thread(hooks.on_succeeded, rollout, {"0": known}, writer)
    for _, _, kind, data in writer.events:
        (await client.post(events, json={"event_type": kind, "data": data})).raise_for_status()
    query = {"event_type": "reward", "format": "triplet"}
    found = await client.get(f"/api/rollouts/{name}/events", params=query)
    [event] = found.raise_for_status().json()
    return dict(event["data"])


async def main(path: str, *texts: str) -> None:
    hooks = load_hooks(path)
    type(hooks).assay_scoring = {"pipeline": "math", "step_size": len(texts)}
    transport = httpx.ASGITransport(app=create_app(CONFIG))
    async with AgentLightningAsyncClient(
        key=KEY, transport=transport, base_url="http://server"
    ) as client:
        names = [f"r{at}" for at in range(len(texts))]
        row = {"question": "2 + 3?", "answer": "5", "data_id": "q1"}
        body = [{"input": row, "rollout_id": name} for name in names]
        (await client.post("/api/rollouts", json=body)).raise_for_status()
        pairs = zip(names, texts, strict=True)
        found = await asyncio.gather(*(one(client, hooks, name, text) for name, text in pairs))
    await asyncio.to_thread(close)
    print(json.dumps({"events": found}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
