"""Agent Lightning's hook and reward events; called as its rollout manager calls them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integrations.stand_in import BASELINE, DEADLINE_S, FAILS, RIGHT, Judge

from assay.integrations.scorer import close
from assay.integrations.trainers.agent_lightning import FILL, Scored, last_response


class Hooks(Scored):
    assay_scoring = {"pipeline": "math", "step_size": 4, "deadline_s": DEADLINE_S}  # noqa: RUF012 - as a user writes it


def event(kind: str, **data: Any) -> Any:
    return SimpleNamespace(event_type=kind, data=data)


def called(text: str, **data: Any) -> Any:
    """What the gateway of Agent Lightning records of a chat completion."""
    choices = [{"message": {"role": "assistant", "content": text}}]
    return event("model_request", response={"choices": choices}, **data)


def rollout(name: str, row: Any) -> Any:
    return SimpleNamespace(rollout_id=name, input=row, status=SimpleNamespace(last_attempt_id="a1"))


class Store:
    """Keeps events, as the manager's helper does until the hook returns."""

    def __init__(self) -> None:
        self.events: dict[str, tuple[str, dict[str, Any]]] = {}

    def add_event(self, rollout_id: str, attempt_id: str, kind: str, data: dict[str, Any]) -> None:
        assert attempt_id == "a1"
        self.events[rollout_id] = (kind, data)


async def test_a_rollout_gets_a_reward_event_or_one_without_a_value_that_says_why(
    judge: Judge,
) -> None:
    store, hooks = Store(), Hooks()
    row = {"answer": "5", "data_id": "q1"}
    await asyncio.gather(
        *(
            asyncio.to_thread(
                hooks.on_succeeded,
                rollout(str(at), row),
                {"a0": [called(RIGHT)], "a1": [called("draft"), called(text)]},
                store,
            )
            for at, text in enumerate(BASELINE)
        )
    )
    assert {kind for kind, _ in store.events.values()} == {"reward"}
    found = [store.events[str(at)][1] for at in range(4)]
    assert [one["value"] for one in found] == [1.0, None, 0.0, 0.0]
    assert [one["source"] for one in found] == ["assay", "fallback", "assay", "assay"]
    assert found[1]["reason"].startswith("INFRA_FAILED")
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert len(judge.groups) == 1
    await asyncio.to_thread(close)


def test_an_agents_own_reward_stays_and_a_row_without_a_label_is_no_zero() -> None:
    store, hooks = Store(), Hooks()
    own = {"a1": [called(RIGHT), event("reward", value=0.25)]}
    hooks.on_succeeded(rollout("own", {"answer": "5"}), own, store)
    hooks.on_succeeded(rollout("none", {"question": "2 + 3?"}), {"a1": [called(RIGHT)]}, store)
    assert store.events == {
        "none": (
            "reward",
            {"value": None, "source": "fallback", "reason": "answer: the rollout's input has none"},
        )
    }


def test_the_last_call_that_succeeded_is_judged() -> None:
    text = event("model_request", response={"choices": [{"text": "a completion"}]})
    assert last_response([called("a"), called("b"), called(FAILS, status="error")]) == "b"
    assert last_response([text, event("model_request", response=[]), event("note")]) == (
        "a completion"
    )
    assert last_response([]) == ""


def test_the_number_for_a_missing_reward_is_exact_where_rewards_are_kept() -> None:
    """bfloat16 keeps 8 bits of a number; the baseline finds it by equality."""
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float32):
        assert torch.tensor([FILL], dtype=dtype).float().sum().item() == FILL
