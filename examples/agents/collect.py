"""K attempts of an agent at one task, as trajectories with rewards: the trainer's side.

    assay up --model MODEL &
    python examples/agents/collect.py --question "What is 2 + 3?" --answer 5 --k 8 \\
        -- python examples/agents/calculator.py

Each attempt is a session of the gateway and a process of the agent, which gets the question as its
last argument and knows the gateway as OPENAI_BASE_URL and OPENAI_API_KEY. What it prints is judged.
"""

import argparse
import os
import secrets
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from assay.core.trajectory import unpack

AGENT_S_MAX = 600.0
WAIT_S = 120.0


def attempt(http: httpx.Client, chosen: argparse.Namespace, group: str) -> dict[str, Any]:
    """One session: open, run the agent, end, read."""
    body = {
        "pipeline": "math",
        "settings": {"strategies": ["last_number"]},
        "reference": {"answers": [chosen.answer]},
        "group_id": group,
        "group_size": chosen.k,
        "sampling": {"temperature": chosen.temperature},
    }
    session = http.post("/sessions", json=body).raise_for_status().json()
    known = {"OPENAI_BASE_URL": session["base_url"], "OPENAI_API_KEY": session["api_key"]}
    ran = subprocess.run(
        [*chosen.agent, chosen.question],
        env={**os.environ, **known},
        stdout=subprocess.PIPE,
        text=True,
        timeout=AGENT_S_MAX,
        check=False,
    )
    place = f"/sessions/{session['session_id']}"
    http.post(f"{place}/end", json={"response": ran.stdout}).raise_for_status()
    read = http.get(f"{place}/trajectories", params={"wait_s": WAIT_S, "columns": False})
    found: dict[str, Any] = read.raise_for_status().json()
    packed = http.get(f"{place}/trajectories", params={"layout": "packed"}).raise_for_status()
    found["tokens"] = unpack(packed.content)  # columns that numpy and torch view without a copy
    http.delete(place)
    return found


def show(found: dict[str, Any]) -> None:
    """One line per trajectory."""
    for shown, tokens in zip(found["trajectories"], found["tokens"], strict=True):
        trained = sum(tokens.response_mask)
        logp = sum(tokens.rollout_logp)
        print(
            f"{found['outcome']} reward {found['reward']}: {len(shown['turns'])} turns, "
            f"{trained} of {tokens.tokens} tokens are the policy's, log-prob {logp:.2f}"
        )


def main(chosen: argparse.Namespace) -> None:
    """Run all attempts at the same time."""
    group = f"example-{secrets.token_hex(4)}"
    key = {"Authorization": f"Bearer {chosen.token}"} if chosen.token else {}
    with (
        httpx.Client(base_url=chosen.url, headers=key, timeout=2 * WAIT_S) as http,
        ThreadPoolExecutor(chosen.k) as pool,
    ):
        for found in pool.map(lambda _: attempt(http, chosen, group), range(chosen.k)):
            show(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8482")
    parser.add_argument("--token", default=os.environ.get("ASSAY_TOKEN", ""))
    parser.add_argument("--question", default="What is 2 + 3?")
    parser.add_argument("--answer", default="5")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("agent", nargs="+", help="the agent's command")
    main(parser.parse_args())
