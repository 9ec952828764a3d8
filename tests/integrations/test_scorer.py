"""The adapters' door to the platform: one batch per step, a bounded and audible wait, no zeros."""

import asyncio
import gc
import hashlib
import json
import logging
import pickle
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.stand_in import FAILS, LIMIT, RIGHT, WRONG, Judge
from tests.running import working

from assay.client import Client, Request
from assay.client.batch import Batch
from assay.client.http import AsyncHttpBatch
from assay.config.settings import StoreSettings
from assay.core.errors import InvalidRequest, NotFound, Unauthenticated
from assay.integrations import Sample, Scorer, Scoring
from assay.integrations.scorer import REFUSED_MAX, shared_scorer
from assay.integrations.step import Step

REFERENCE = {"answers": ["5"]}


def samples(*texts: str) -> list[Sample]:
    return [Sample(response=text, reference=REFERENCE, group_id="p") for text in texts]


async def test_a_step_is_one_batch_with_its_deadline(judge: Judge) -> None:
    scorer = Scorer.of("math", deadline_s=500.0)
    refused = Sample(response=RIGHT, reference={"answer": "5"})
    judged = await scorer.judge_async([*samples(RIGHT, FAILS, WRONG), refused, *samples(LIMIT)])
    await asyncio.to_thread(scorer.close)
    assert [one.reward for one in judged] == [1.0, None, 0.0, None, 0.0]
    assert judged[1].cause == "INFRA_FAILED: the slot died"
    assert judged[3].outcome == "REJECTED_INVALID"
    assert "answers" in judged[3].cause
    assert len(judge.batches) == 1
    assert {claim.group_id for claim in judge.claims} == {"p"}
    (deadline_ns,) = {claim.deadline_ns for claim in judge.claims}
    assert 400e9 < deadline_ns - judge.claims[0].enqueued_ns < 510e9


async def test_calls_with_one_sample_share_the_batch_of_their_step(judge: Judge) -> None:
    scorer: Scorer = pickle.loads(pickle.dumps(Scorer.of("math", step_size=6)))
    texts = [RIGHT, FAILS, WRONG, RIGHT, WRONG, RIGHT]

    def of_another_loop(sample: Sample) -> float | None:
        return asyncio.run(scorer.judge_one_async(sample)).reward

    async def one(sample: Sample, index: int) -> float | None:
        if index % 3 == 0:
            return (await scorer.judge_one_async(sample)).reward
        if index % 3 == 1:
            return (await asyncio.to_thread(scorer.judge_one, sample)).reward
        return await asyncio.to_thread(of_another_loop, sample)

    for steps in (1, 2):
        found = [one(sample, index) for index, sample in enumerate(samples(*texts))]
        assert await asyncio.gather(*found) == [1.0, None, 0.0, 1.0, 0.0, 1.0]
        assert len(judge.batches) == steps
    await asyncio.to_thread(scorer.close)


@pytest.mark.parametrize("url", ["127.0.0.1:1", "http://127.0.0.1:1"])
async def test_a_dead_platform_stalls_for_a_bounded_time_and_says_so(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    scorer = Scorer.of("math", url=url, patience_s=0.2, say_every_s=0.01, retry_s=0.01)
    with caplog.at_level(logging.WARNING, "assay.integrations"):
        judged = await scorer.judge_async(samples(RIGHT, WRONG))
        alone = await scorer.judge_one_async(samples(RIGHT)[0])
    await asyncio.to_thread(scorer.close)
    assert [one.reward for one in [*judged, alone]] == [None] * 3
    assert {one.outcome for one in [*judged, alone]} == {"UNREACHABLE"}
    assert "waiting for 2 rewards" in caplog.text
    assert "2 samples stay unscored" in caplog.text


@pytest.mark.parametrize("port", ["grpc", "http"])
async def test_a_platform_without_workers_is_waited_for_and_its_batch_cancelled(
    api: Any, store_settings: StoreSettings, port: str
) -> None:
    scorer = Scorer.of("math", url=getattr(api.addresses, port), patience_s=0.3)
    judged = await scorer.judge_async(samples(RIGHT))
    assert judged[0].outcome == "UNREACHABLE"
    # What no one waits for is not scored later: a worker that starts now finds only the next step.
    late = Judge()
    async with working(store_settings, late, stage="math.verify"):
        patient = Scorer.of("math", url=api.addresses.grpc)
        assert (await patient.judge_async(samples(WRONG)))[0].reward == 0.0
    assert [claim.response.decode() for claim in late.claims] == [WRONG]
    for one in (scorer, patient):
        await asyncio.to_thread(one.close)


@pytest.mark.parametrize("port", ["grpc", "http"])
async def test_what_a_batch_says_once_it_is_cancelled_is_no_judgement(
    api: Any, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = Step._cancel

    async def cancel_slowly(step: Step) -> None:
        await cancel(step)
        await asyncio.sleep(0.3)  # the results of the cancelled requests come meanwhile

    monkeypatch.setattr(Step, "_cancel", cancel_slowly)
    scorer = Scorer.of("math", url=getattr(api.addresses, port), patience_s=0.3)
    judged = await scorer.judge_async(samples(RIGHT))
    await asyncio.to_thread(scorer.close)
    assert judged[0].outcome == "UNREACHABLE"


async def test_a_platform_that_starts_late_delays_the_step_only(
    run_api: Any, store_settings: StoreSettings
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scorer = Scorer.of("math", url=f"127.0.0.1:{port}", retry_s=0.05)
    waiting = asyncio.ensure_future(scorer.judge_async(samples(RIGHT, FAILS)))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    async with working(store_settings, Judge(), stage="math.verify"):
        await run_api(grpc_port=port)
        assert [one.reward for one in await waiting] == [1.0, None]
    await asyncio.to_thread(scorer.close)


async def test_a_wrong_option_is_an_error_while_nothing_was_scored(judge: Judge) -> None:
    unknown = Scorer.of("no_such_pipeline")
    with pytest.raises((NotFound, InvalidRequest)):
        await unknown.judge_async(samples(RIGHT))
    column = Scorer.of("math")
    with pytest.raises(InvalidRequest, match="answers"):
        await column.judge_async([Sample(response=RIGHT, reference={})])
    assert (await column.judge_async(samples(RIGHT)))[0].reward == 1.0
    # From then on a bad row is unscored: it must not end the run.
    (judged,) = await column.judge_async([Sample(response=RIGHT, reference={})])
    assert judged.outcome == "REJECTED_INVALID"
    for scorer in (unknown, column):
        await asyncio.to_thread(scorer.close)


async def test_samples_that_come_one_by_one_and_are_all_refused_say_why(
    judge: Judge, caplog: pytest.LogCaptureFixture
) -> None:
    """A reference of another pipeline's form: the run would train on nothing, without a word."""
    scorer = Scorer.of("math", quiet_s=0.1)
    wrong = Sample(response=RIGHT, reference={"tests": []})
    for _ in range(REFUSED_MAX - 1):
        assert (await scorer.judge_one_async(wrong)).outcome == "REJECTED_INVALID"
    with pytest.raises(InvalidRequest, match=r"all of 16 samples were refused: .*answers"):
        await scorer.judge_one_async(wrong)
    assert (await scorer.judge_one_async(samples(RIGHT)[0])).reward == 1.0
    # From then on a bad row is unscored: it must not end the run.
    for _ in range(REFUSED_MAX):
        assert (await scorer.judge_one_async(wrong)).outcome == "REJECTED_INVALID"
    await asyncio.to_thread(scorer.close)
    assert re.search(r"samples unscored.*: \d+ REJECTED_INVALID: .*answers", caplog.text)


async def test_a_token_that_is_refused_later_delays_the_step_and_ends_no_run(
    run_api: Any, run_worker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As while tokens are rotated; refused from the first step on, it is a wrong option."""
    digest, others = hashlib.sha256(b"ours").hexdigest(), hashlib.sha256(b"others").hexdigest()
    file = tmp_path / "tenants.json"
    file.write_text(json.dumps({"team": {"token_sha256": digest}}))
    api = await run_api(tenants_file=file)
    await run_worker(Judge(), stage="math.verify")
    scorer = Scorer.of("math", url=api.addresses.grpc, token="ours", say_every_s=0.1)
    assert (await scorer.judge_async(samples(RIGHT)))[0].reward == 1.0
    file.write_text(json.dumps({"team": {"token_sha256": others}}))
    async with asyncio.timeout(60), Client(api.addresses.grpc, token="ours") as asking:
        with pytest.raises(Unauthenticated):
            await until_refused(asking)
    with caplog.at_level(logging.WARNING, "assay.integrations"):
        waiting = asyncio.ensure_future(scorer.judge_async(samples(RIGHT, WRONG)))
        async with asyncio.timeout(60):
            while "Unauthenticated" not in caplog.text:
                await asyncio.sleep(0.1)
    assert not waiting.done()
    file.write_text(json.dumps({"team": {"token_sha256": digest}}))
    assert [one.reward for one in await waiting] == [1.0, 0.0]
    await asyncio.to_thread(scorer.close)


async def until_refused(client: Client) -> None:
    """Call until an error; the service looks at the file of tenants once per second."""
    while True:
        await client.register_task("t", pipeline="math")
        await asyncio.sleep(0.1)


async def test_a_full_quota_is_named_where_a_step_is_unscored_for_it(run_api: Any) -> None:
    digest = hashlib.sha256(b"ours").hexdigest()
    api = await run_api(tenants={"team": {"token_sha256": digest, "requests_open_max": 2}})
    async with Client(api.addresses.grpc, token="ours") as other:
        task = await other.register_task("t", pipeline="math")
        batch = await other.open_batch(task, size=1)
        await batch.submit([Request(request_id="r", response=RIGHT, reference=REFERENCE)])
    scorer = Scorer.of("math", url=api.addresses.grpc, token="ours", patience_s=3.0, retry_s=0.1)
    judged = await scorer.judge_async(samples(RIGHT, WRONG))
    await asyncio.to_thread(scorer.close)
    assert [(one.reward, one.outcome) for one in judged] == [(None, "REJECTED_SATURATED")] * 2


async def test_a_step_whose_batch_is_cancelled_by_another_goes_on_in_a_new_one(
    api: Any, judge: Judge
) -> None:
    scorer = Scorer.of("math", step_size=3, patience_s=60.0)
    right, wrong = samples(RIGHT, WRONG)
    assert (await scorer.judge_one_async(right)).reward == 1.0
    [batch_id] = judge.batches
    async with Client(api.addresses.grpc) as other:
        await other.batch(batch_id).cancel()
    both = await asyncio.gather(*map(scorer.judge_one_async, (wrong, right)))
    assert [one.reward for one in both] == [0.0, 1.0]
    assert len(judge.batches) == 2
    await asyncio.to_thread(scorer.close)


async def test_a_step_that_is_full_is_closed_and_the_next_sample_begins_another(
    judge: Judge,
) -> None:
    scorer = Scorer.of("math", step_size=2, patience_s=60.0)
    at_once = await asyncio.gather(
        *map(scorer.judge_one_async, samples(RIGHT, WRONG, RIGHT, RIGHT))
    )
    assert [one.reward for one in at_once] == [1.0, 0.0, 1.0, 1.0]
    assert len(judge.batches) == 2
    await asyncio.to_thread(scorer.close)


FORKING = """
import os, signal, sys
from assay.integrations import Sample, Scorer
scorer = Scorer.of("math", url=sys.argv[1])
sample = Sample(response=sys.argv[2], reference={"answers": ["5"]}, group_id="p")
print(scorer.judge_one(sample).reward, flush=True)
child = os.fork()
if not child:
    signal.alarm(20)
    print(scorer.judge_one(sample).reward, flush=True)
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""
"""A trainer that forks within a step; the thread of its connection stays behind, and the step."""


async def test_a_forked_process_has_a_connection_of_its_own(api: Any, judge: Judge) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING, api.addresses.http, RIGHT]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert (process.returncode, told.split()) == (0, [b"1.0", b"1.0"])
    assert len(judge.batches) == 2


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_scorer_that_is_dropped_leaves_no_thread_and_no_message(
    api: Any, judge: Judge, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a notebook, whose cell makes another one each time that it runs."""
    before = set(threading.enumerate())
    for _ in range(3):
        scorer = Scorer.of("math", url=getattr(api.addresses, protocol))
        assert [one.reward for one in await scorer.judge_async(samples(RIGHT))] == [1.0]
        del scorer
    async with asyncio.timeout(60):
        while names := {one.name for one in set(threading.enumerate()) - before}:
            if "assay-client" not in names:
                break
            gc.collect()
            await asyncio.sleep(0.05)
    gc.collect()
    assert "destroyed" not in caplog.text


async def test_what_was_begun_by_a_scorer_that_is_dropped_is_still_judged(judge: Judge) -> None:
    scorer = Scorer.of("math", quiet_s=0.1)
    begun = scorer.start_one(samples(RIGHT)[0])
    del scorer
    gc.collect()
    assert (await asyncio.wrap_future(begun)).reward == 1.0


async def test_a_fault_of_the_adapter_is_an_error_while_nothing_was_scored(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be so in every step, and a run without any reward would go on for nothing."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("not as expected")

    scorer = Scorer.of("math")
    with monkeypatch.context() as patched:
        patched.setattr(Client, "register_task", broken)
        with pytest.raises(RuntimeError, match="not as expected"):
            await scorer.judge_async(samples(RIGHT))
    assert (await scorer.judge_async(samples(RIGHT)))[0].reward == 1.0
    monkeypatch.setattr(Client, "register_task", broken)
    (judged,) = await scorer.judge_async(samples(RIGHT))
    assert (judged.reward, judged.outcome) == (None, "UNREACHABLE")
    await asyncio.to_thread(scorer.close)


LEAVES = """
import logging, sys
from assay.integrations import Sample, Scorer
logging.basicConfig()
scorer = Scorer.of("math", url=sys.argv[1])
reference = {"answers": ["5"]}
print(scorer.judge([Sample(response="so \\\\boxed{5}", reference=reference)])[0].reward)
"""


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_process_that_ends_with_an_open_scorer_says_nothing(
    api: Any, judge: Judge, protocol: str
) -> None:
    url = getattr(api.addresses, protocol)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", LEAVES, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1.0", "")


def test_a_slip_in_the_name_of_an_option_is_an_error_and_a_trainers_own_option_is_none() -> None:
    with pytest.raises(InvalidRequest, match="deadline: no option; meant is perhaps 'deadline_s'"):
        shared_scorer({"pipeline": "math", "deadline": 60})
    theirs = {"reward_router_address": "", "reward_model_tokenizer": None, "max_turns": 3}
    assert shared_scorer({"pipeline": "math", **theirs}).scoring == Scoring(pipeline="math")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_missing_token_says_where_it_is_given(run_api: Any, protocol: str) -> None:
    api = await run_api(tenants={"team": {"token_sha256": hashlib.sha256(b"ours").hexdigest()}})
    scorer = Scorer.of("math", url=getattr(api.addresses, protocol))
    with pytest.raises(Unauthenticated, match=r"expected `Bearer TOKEN`.*`token` or ASSAY_TOKEN"):
        await scorer.judge_async(samples(RIGHT))
    await asyncio.to_thread(scorer.close)


def test_options_from_the_environment_name_the_variable_that_is_wrong() -> None:
    found = Scoring.from_environment(
        {"ASSAY_PIPELINE": "exact", "ASSAY_PIPELINE_SETTINGS": '{"a": 1}', "ASSAY_DEADLINE_S": "9"}
    )
    assert (found.pipeline, found.settings, found.deadline_s) == ("exact", {"a": 1}, 9.0)
    for name, value in [
        ("ASSAY_PATIENCE_S", "soon"),
        ("ASSAY_PIPELINE_SETTINGS", "[]"),
    ]:
        with pytest.raises(InvalidRequest) as wrong:
            Scoring.from_environment({name: value})
        assert wrong.value.field == name
    with pytest.raises(InvalidRequest) as wrong:
        Scoring(pipeline="math", patience_s=float("inf"))
    assert wrong.value.field == "patience_s"


@pytest.mark.parametrize(("port", "kind"), [("grpc", Batch), ("http", AsyncHttpBatch)])
async def test_a_cancelled_caller_withdraws_its_request_and_no_other(
    api: Any,
    store_settings: StoreSettings,
    monkeypatch: pytest.MonkeyPatch,
    port: str,
    kind: Any,
) -> None:
    reached = {name: threading.Event() for name in ("submit", "cancel_requests")}
    for name, event in reached.items():
        monkeypatch.setattr(kind, name, saying(getattr(kind, name), event))
    scorer = Scorer.of("math", url=getattr(api.addresses, port), step_size=2)
    abandoned = asyncio.ensure_future(scorer.judge_one_async(samples(RIGHT)[0]))
    assert await asyncio.to_thread(reached["submit"].wait, 60)
    abandoned.cancel()
    assert await asyncio.to_thread(reached["cancel_requests"].wait, 60)
    # The step continues, and no worker sees what no one waits for.
    kept = asyncio.ensure_future(scorer.judge_one_async(samples(WRONG)[0]))
    late = Judge()
    async with working(store_settings, late, stage="math.verify"):
        assert (await kept).reward == 0.0
    assert [claim.response.decode() for claim in late.claims] == [WRONG]
    assert abandoned.cancelled()
    await asyncio.to_thread(scorer.close)


def saying(method: Any, event: threading.Event) -> Any:
    """The method, which sets the event when it has returned."""

    async def called(*arguments: Any, **options: Any) -> Any:
        try:
            return await method(*arguments, **options)
        finally:
            event.set()

    return called
