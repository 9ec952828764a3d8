"""Serves the example's environment with OpenEnv's server and plays it with OpenEnv's client.

Run as a program with the path of the example and the responses. Prints, as JSON, the rewards.
"""

import asyncio
import importlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from openenv import GenericEnvClient

from assay.integrations.scorer import close


def serve(app: Any) -> tuple[uvicorn.Server, str]:
    """A server on a free port, in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return server, f"http://127.0.0.1:{port}"


async def episode(url: str, text: str) -> Any:
    async with GenericEnvClient(base_url=url) as client:
        began = await client.reset(seed=2)
        assert began.observation["question"] == "What is 2 + 3?", began
        assert began.reward is None
        ended = await client.step({"text": text})
        assert ended.done
        return ended


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    server, url = serve(importlib.import_module("openenv_environment").app)
    ended = await asyncio.gather(*(episode(url, text) for text in texts))
    server.should_exit = True
    await asyncio.to_thread(close)
    print(json.dumps({"rewards": [one.reward for one in ended]}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
