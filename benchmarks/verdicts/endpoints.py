"""Agreement with labels through the endpoints in other systems' forms, one row per endpoint.

    assay up
    python -m benchmarks.verdicts.endpoints http://127.0.0.1:8471 [ENDPOINT ...] [--json]

Sends gsm8k's 5,276 labelled answers of four models to a running platform as each system's client
would, the four answers to a question together where the form has groups. Ends with exit code 1 if
a reward is not the label.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from benchmarks.harness.report import Report
from benchmarks.verdicts.accuracy import DATA, GRADERS, lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

AT_ONCE: Final = 16
"""Questions in flight."""
CALL_S: Final = 300.0
BUSY_TRIES_MAX: Final = 5
"""Times that a call is made again after a 429 or 503."""
ROLL_PENDING: Final = 1
ROLL_ASKED_MAX: Final = 1_000
"""Times that ROLL's client asks for one result."""


class Question(NamedTuple):
    """A question's gold, and what four models said."""

    gold: str
    responses: tuple[str, ...]
    right: tuple[bool, ...]


def questions() -> list[Question]:
    """Those of gsm8k's labelled answers, in the file's order."""
    return [
        Question(
            gold=row["ground_truth"].rsplit("A:", 1)[1].strip(),
            responses=tuple(row[grader]["solution"] for grader in GRADERS),
            right=tuple(bool(row[grader]["is_correct"]) for grader in GRADERS),
        )
        for row in lines(DATA / "gsm8k" / "example_model_solutions.jsonl")
    ]


class Caller:
    """Calls of a platform, made again while it is busy."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def text(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """The answer's body.

        Raises:
            httpx.HTTPStatusError: the call was refused, or the platform stayed busy.
        """
        for tried in range(BUSY_TRIES_MAX + 1):
            answer = await self._http.request(method, path, json=body, headers=headers)
            if answer.status_code not in {429, 503} or tried == BUSY_TRIES_MAX:
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
        return answer.raise_for_status().text

    async def value(self, path: str, body: Mapping[str, Any], *, method: str = "POST") -> Any:  # noqa: ANN401 as JSON has it
        """The answer's body as JSON."""
        return json.loads(await self.text(path, body, method=method))


async def openrlhf(call: Caller, asked: Question) -> list[float]:
    """One `/get_reward` of four queries."""
    body = {
        "query": list(asked.responses),
        "prompts": ["q"] * len(asked.responses),
        "labels": [asked.gold] * len(asked.responses),
    }
    answer = await call.value("/v1/openrlhf/math/get_reward", body)
    return [float(one) for one in answer["rewards"]]


async def slime(call: Caller, asked: Question) -> list[float]:
    """A call of `remote_rm` per response."""
    bodies = [{"prompt": "q", "response": said, "label": asked.gold} for said in asked.responses]
    found = await asyncio.gather(*(call.text("/v1/slime/math/rm", body) for body in bodies))
    return [float(one) for one in found]


async def nemo_gym(call: Caller, asked: Question) -> list[float]:
    """A `/verify` per response."""

    async def verify(said: str) -> float:
        text = [{"type": "output_text", "text": said}]
        body = {
            "responses_create_params": {"input": [{"role": "user", "content": "q"}]},
            "response": {"output": [{"type": "message", "role": "assistant", "content": text}]},
            "expected_answer": asked.gold,
        }
        return float((await call.value("/v1/nemo_gym/math/verify", body))["reward"])

    return list(await asyncio.gather(*map(verify, asked.responses)))


async def roll(call: Caller, asked: Question) -> list[float]:
    """A `submit` per response, then `result` until it is there."""

    async def submit(said: str) -> float:
        body = {
            "prompt": "q",
            "response": said,
            "reward_info": {"ground_truth": asked.gold},
            "timeout": CALL_S,
        }
        submitted = await call.value("/v1/roll/math/submit", body)
        body = {"reward_request_id": submitted["reward_request_id"]}
        for _ in range(ROLL_ASKED_MAX):
            found = await call.value("/v1/roll/result", body, method="GET")
            if found["errcode"] != ROLL_PENDING:
                break
        return float(found["reward_score"])

    return list(await asyncio.gather(*map(submit, asked.responses)))


async def ors(call: Caller, asked: Question) -> list[float]:
    """A session of the Open Reward Standard per question; `score_group` of its four responses."""
    _, _, rest = (await call.text("/create_session", {})).partition("data: ")
    headers = {"X-Session-ID": rest.split("\n", 1)[0].strip(), "X-Deployment": "env"}
    task = {"prompt": "q", "reference": asked.gold}
    await call.text("/create", {"env_name": "math", "task_spec": task}, headers=headers)
    candidates = [
        {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": said}]}]}
        for said in asked.responses
    ]
    body = {"candidates": candidates}
    stream = await call.text("/math/score_group", body, headers=headers)
    answer = json.loads(_data_of(stream))
    return [float(one["reward"]) for one in answer["scores"]]


def _data_of(stream: str) -> str:
    """The data of a call's events but the first, which names the call."""
    found = [line.removeprefix("data: ") for line in stream.split("\n") if line[:6] == "data: "]
    return "".join(found[1:])


ENDPOINTS: Final[dict[str, Callable[[Caller, Question], Awaitable[list[float]]]]] = {
    "openrlhf": openrlhf,
    "slime": slime,
    "nemo_gym": nemo_gym,
    "roll": roll,
    "ors": ors,
}


async def rewards_of(name: str, url: str, asked: Sequence[Question]) -> list[list[float]]:
    """The rewards of each question's responses through an endpoint."""
    free = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=url, timeout=CALL_S) as http:
        call = Caller(http)

        async def one(question: Question) -> list[float]:
            async with free:
                return await ENDPOINTS[name](call, question)

        return list(await asyncio.gather(*map(one, asked)))


def main() -> int:
    """Print the table; 1 if a reward is not the label."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("url", help="of the platform's HTTP port")
    parser.add_argument("endpoints", nargs="*", choices=[*ENDPOINTS, []], help="default: all")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    table = Report(
        title="gsm8k's labels through endpoints",
        columns=("endpoint", "responses", "agree", "disagree", "seconds"),
    )
    asked = questions()
    differs = 0
    for name in args.endpoints or ENDPOINTS:
        began_s = time.perf_counter()
        rewards = asyncio.run(rewards_of(name, args.url, asked))
        wrong = [
            f"{index}:{grader}"
            for index, (question, given) in enumerate(zip(asked, rewards, strict=True))
            for grader, right, reward in zip(GRADERS, question.right, given, strict=True)
            if reward != float(right)
        ]
        differs += len(wrong)
        responses = sum(map(len, rewards))
        table.add(
            endpoint=name,
            responses=responses,
            agree=responses - len(wrong),
            disagree=", ".join(wrong)[:200] or "none",
            seconds=round(time.perf_counter() - began_s, 1),
        )
    table.show(as_json=args.json)
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
