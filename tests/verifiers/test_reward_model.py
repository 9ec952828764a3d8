"""`reward_model`: scores of a served model, or a typed failure."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.verifiers.judge_server import Exchange, JudgeServer, hang, raw, status

from assay.config.settings import JudgeProvider, VerifierSettings
from assay.core.outcome import Outcome
from assay.verifiers.judge import provider
from assay.verifiers.reward_model.calls import UnreadableScores, body_of, scores_of
from assay.verifiers.reward_model.definition import RewardModelSettings, Route

TASK = {"provider": "rm"}


def lengths(_server: JudgeServer, exchange: Exchange) -> None:
    """A reward model that likes long texts; vLLM's and SGLang's forms of replies."""
    body, route = exchange.body, exchange.path.rpartition("/")[2]
    texts = body.get("input") or body.get("text_2") or body["documents"]
    scores = [len(text) / 10 for text in texts]
    if route == "classify":
        rows = [{"index": at, "probs": [0.0, one]} for at, one in enumerate(scores)]
        exchange.send_json({"data": rows[::-1]})
    elif route == "score":
        exchange.send_json({"data": [{"index": at, "score": one} for at, one in enumerate(scores)]})
    else:
        ranked = sorted(enumerate(scores), key=lambda one: -one[1])
        rows = [{"index": at, "relevance_score": one} for at, one in ranked]
        exchange.send_json({"results": rows})


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    made = JudgeServer(lengths)
    yield made
    made.close()


@pytest.fixture
def bench(server: JudgeServer, new_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(provider, "_PAUSE_S_FIRST", 0.001)
    own = JudgeProvider(
        base_url=server.url, model="rm-1", timeout_s=0.5, total_s=3.0, attempts_max=2
    )
    with new_bench(VerifierSettings(judges={"rm": own})) as made:
        yield made


@pytest.mark.parametrize(
    ("settings", "reward"),
    [
        ({"route": "classify", "label": 1, "template": "{response}"}, 0.4),
        ({"route": "classify", "label": 1}, 0.8),
        ({"route": "score"}, 0.4),
        ({"route": "rerank", "scale": 2.0, "offset": -1.0}, -0.2),
    ],
)
def test_the_reward_is_the_score(bench: Any, settings: dict[str, Any], reward: float) -> None:
    ended = bench.judge("reward_model", "abcd", {"question": "xy"}, **TASK, **settings)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, pytest.approx(reward))
    assert not ended.rescorable


@pytest.mark.parametrize("route", [route.value for route in Route])
def test_responses_to_one_question_share_a_call_and_keep_their_scores(
    bench: Any, server: JudgeServer, route: str
) -> None:
    settings = {**TASK, "route": route, "label": 1, "template": "{response}"}
    [stage] = bench.pipelines["reward_model"].stages
    works = [
        bench.work("reward_model", "x" * n, {"question": question}, **settings)
        for n, question in [(1, "a"), (9, "a"), (5, "b"), (3, "a")]
    ]
    verdicts = bench.handler(stage).run(works)
    assert [one.reward for one in verdicts] == pytest.approx([0.1, 0.9, 0.5, 0.3])
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (status(500), provider.ProviderDown),
        (status(400), provider.ProviderRefuses),
        (hang, provider.ProviderDown),
        (raw(b"["), provider.ReplyBroken),
        (raw(b'{"data": []}'), provider.ReplyBroken),
        (raw(b'{"data": [{"index": 0, "probs": [NaN]}]}'), provider.ReplyBroken),
        (raw(b'{"data": [{"index": 7, "probs": [1]}]}'), provider.ReplyBroken),
        (raw(b'{"data": [{"index": 0, "probs": []}]}'), provider.ReplyBroken),
        (raw(b'{"data": [{"index": 0, "probs": [1%s]}]}' % (b"0" * 400)), provider.ReplyBroken),
    ],
)
def test_a_fault_of_the_server_is_a_typed_failure_and_never_a_reward(
    bench: Any, server: JudgeServer, fault: Any, error: type[Exception]
) -> None:
    server.plan = [fault] * 5
    with pytest.raises(error):
        bench.judge("reward_model", "x", {}, **TASK)
    server.plan = [fault, lengths]
    if error is not provider.ProviderRefuses:
        assert bench.judge("reward_model", "x", {}, **TASK, label=1).reward is not None


def test_a_response_that_the_server_refuses_is_wrong_and_costs_no_other(
    bench: Any, server: JudgeServer
) -> None:
    """Longer than the model's context, for one."""

    def short_only(own: JudgeServer, exchange: Exchange) -> None:
        is_long = any(len(text) > 50 for text in exchange.body["input"])
        (status(400) if is_long else lengths)(own, exchange)

    server.rule = short_only
    settings = {**TASK, "label": 1, "template": "{response}", "reward_fail": -3.0}
    ended = bench.judge("reward_model", "x" * 51, {}, **settings)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, -3.0)
    assert (ended.evidence.verdict, ended.rescorable) == ("broke_the_run", False)
    assert bench.judge("reward_model", "x" * 50, {}, **settings).reward == pytest.approx(5.0)


NUMBERS = st.integers() | st.sampled_from([10**400, -(10**400)])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "index", "score", "probs"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(list(Route)), st.integers(1, 3))
def test_any_reply_is_scores_or_unreadable(reply: object, route: Route, count: int) -> None:
    settings = RewardModelSettings(provider="rm", route=route)
    try:
        scores = scores_of(settings, reply, count)
    except UnreadableScores:
        return
    assert len(scores) == count


@given(st.text(max_size=40), st.text(max_size=40))
def test_braces_in_a_text_are_text(question: str, response: str) -> None:
    settings = RewardModelSettings(provider="rm", template="{question}|{response}")
    [filled] = body_of(settings, "m", question, [response])["input"]
    assert filled == f"{question}|{response}"


def test_a_list_by_relevance_without_indexes_is_no_list_of_scores() -> None:
    """The first of its scores is the best one's, not the first response's."""
    settings = RewardModelSettings(provider="rm", route=Route.RERANK)
    rows = [{"relevance_score": 0.9}, {"relevance_score": 0.1}]
    with pytest.raises(UnreadableScores, match="index"):
        scores_of(settings, {"results": rows}, 2)
    assert scores_of(settings, {"results": rows[:1]}, 1) == [0.9]
