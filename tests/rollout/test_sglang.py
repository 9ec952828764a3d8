"""SGLang's dialect against a server that reports other log-probs, or that was replaced.

What every engine does is tested in `conformance/`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from tests.rollout import sglang_server
from tests.rollout.serving import serving
from tests.rollout.test_weight_slots import MODELS, SETTINGS, alone, stage

from assay.rollout import InvalidRollout, Runtime, RuntimeOptions, Sampling, Stop, WeightsNotReady
from assay.rollout.errors import ServerLost, ServerRefused
from assay.rollout.models import Engine
from assay.rollout.remote import RemoteEngine, RemoteOptions, SGLang

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.rollout import Completed

SLOTS, VOCAB, SEQ_MAX = 8, 331, 64
# A server that is slow on a busy machine is not away.
PATIENT = RemoteOptions(connect_s=60.0, health_s=60.0)
OPTIONS = replace(PATIENT, seq_len_max=SEQ_MAX, decode_credits=4, backoff_s_max=0.2)


@contextmanager
def server(
    log_probs: sglang_server.LogProbs = "filtered",
) -> Iterator[tuple[str, sglang_server.State]]:
    with (
        Engine.create(MODELS[0], SETTINGS) as native,
        Runtime(native, 4 * SLOTS, RuntimeOptions(seq_len_max=SEQ_MAX)) as runtime,
    ):
        app = sglang_server.build(
            runtime, lambda version: stage(native, version), log_probs=log_probs
        )
        with serving(app) as url:
            yield url, app.state.sglang


def connect(url: str) -> RemoteEngine:
    return RemoteEngine(url, SGLang(), SLOTS, VOCAB, OPTIONS)


def one(engine: RemoteEngine) -> Completed:
    for _ in range(1000):
        for done in engine.poll():
            return done
        engine.wait(0.05)
    raise AssertionError("nothing came back")


def test_log_probs_before_temperature_are_refused_at_connect() -> None:
    with server("original") as (url, _), pytest.raises(ServerRefused, match="before temperature"):
        connect(url)


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(top_k=5), "top_k"),
        (Sampling(top_p=0.9), "top_p"),
        (Sampling(min_p=0.1), "min_p"),
    ],
)
def test_filters_are_refused_by_name_where_log_probs_are_those_before_them(
    sampling: Sampling, field: str
) -> None:
    with server("unfiltered") as (url, _), connect(url) as engine:
        with pytest.raises(InvalidRollout, match="before filters") as refused:
            engine.submit([1, 2], max_tokens=2, seeds=[1], sampling=sampling)
        assert refused.value.field == field
        engine.submit([1, 2], max_tokens=3, seeds=[1], want_reward=False)
        done = one(engine)
    assert (len(done.tokens), done.stop) == (3, Stop.LENGTH)


def test_a_replaced_server_is_given_the_weights_again_and_changes_no_token() -> None:
    how = Sampling(temperature=0.8, top_k=40)
    with server() as (url, state), connect(url) as engine:
        engine.stage(1, "1")
        engine.activate(1, timeout_s=60.0)
        assert state.weight_version == "assay-policy-1"
        state.engine.activate(0)  # a new process has the weights that it was started with
        state.weight_version = "default"
        engine.submit([3, 4, 5], max_tokens=12, seeds=[7], sampling=how, want_reward=False)
        done = one(engine)
        assert engine.stats().requests > 1
        assert "default" in engine.stats().last_error
    with Engine.create(MODELS[1], SETTINGS) as fresh:
        assert list(done.tokens) == alone(fresh, [3, 4, 5], 12, 7)[0]
    assert set(done.policy_versions) == {1}


def test_weights_that_the_server_cannot_read_change_nothing() -> None:
    with server() as (url, state), connect(url) as engine:
        engine.stage(9, "9")
        with pytest.raises(ServerRefused, match="status 400"):
            engine.activate(9)
        with pytest.raises(WeightsNotReady):
            engine.activate(5)
        assert (engine.stats().policy_version, state.weight_version) == (0, "default")


def event(n: int, completed: int, **meta: object) -> dict[str, object]:
    pairs = [[-0.5, 10 + i, None] for i in range(n)]
    head = {"weight_version": "w", "finish_reason": None, "completion_tokens": completed}
    return {"meta_info": {**head, "output_token_logprobs": pairs, **meta}}


def dialect() -> SGLang:
    made = SGLang()
    made._base = "w"
    return made


@pytest.mark.parametrize(
    ("n", "completed", "known", "tokens"),
    [(3, 3, 0, [10, 11, 12]), (3, 3, 2, [12]), (1, 3, 2, [10]), (0, 3, 3, []), (3, 3, 3, [])],
)
def test_an_event_holds_all_tokens_so_far_or_those_since_the_last(
    n: int, completed: int, known: int, tokens: list[int]
) -> None:
    assert list(dialect().part(event(n, completed), 0, known).progress.tokens) == tokens


@pytest.mark.parametrize(
    ("bad", "known"),
    [
        ({}, 0),
        ({"meta_info": None}, 0),
        (event(1, 3), 0),  # two of three tokens are missing
        (event(3, 3), 4),  # fewer than came before
        (event(1, 1, weight_version="other"), 0),
        (event(1, 1, output_token_logprobs=[[0.0]]), 0),
        (event(1, 1, output_token_logprobs=[[0.0, 1 << 40, None]]), 0),
        (event(1, 1, completion_tokens="many"), 0),
        (event(1, 1, finish_reason={}), 0),
    ],
)
def test_an_event_that_cannot_be_read_is_a_lost_request(bad: dict[str, object], known: int) -> None:
    with pytest.raises(ServerLost):
        dialect().part(bad, 0, known)


def test_a_server_without_log_probs_is_refused() -> None:
    with pytest.raises(ServerRefused, match="return_logprob"):
        dialect().part(event(1, 1, output_token_logprobs=None), 0, 0)


@pytest.mark.parametrize(
    ("reason", "stop", "cut"),
    [
        ({"type": "length", "length": 3}, Stop.LENGTH, False),
        ({"type": "stop", "matched": 7}, Stop.ID, False),
        ({"type": "stop", "matched": "END"}, Stop.STRING, False),
        ({"type": "abort", "message": "x"}, Stop.NONE, True),
        (None, Stop.NONE, False),
    ],
)
def test_finish_reasons(reason: dict[str, object] | None, stop: Stop, cut: bool) -> None:
    part = dialect().part(event(0, 0, finish_reason=reason), 0, 0)
    assert (part.stop, part.cut) == (stop, cut)
