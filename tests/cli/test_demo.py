"""`assay demo` where something is wrong: it is an error, at once where that is possible."""

from __future__ import annotations

import random
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("matplotlib")

from tests.rollout.service.served import rollouts

from assay.cli.demo.loop import Learner, Loop, samples_of
from assay.cli.demo.record import check_plot
from assay.cli.demo.tally import in_words
from assay.client.rollouts import SamplingParams
from assay.core.advantages import advantages
from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.outcome import Outcome
from assay.core.records import EndRequest
from assay.rollout.demo.transformer import Shape, initial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi, RunWorker

    from assay.core.records import Claim, Finish


def test_what_is_trained_on_has_the_log_probs_that_were_recorded() -> None:
    rewards = [1.0, None, 0.0, 0.0]
    sampled: list[Any] = [
        SimpleNamespace(response_ids=[n, n + 1], rollout_logp=[-0.1 * n, -0.2 * n])
        for n in range(len(rewards))
    ]
    varied: Any = SimpleNamespace(
        prompt_ids=[5], trajectories=sampled, advantages=lambda: advantages(rewards)
    )
    equal: Any = SimpleNamespace(
        prompt_ids=[6], trajectories=sampled[:2], advantages=lambda: advantages([1.0, 1.0])
    )
    found = samples_of([equal, varied])
    assert [one.rollout_logp for one in found] == [
        one.rollout_logp for one in sampled if one is not sampled[1]
    ]
    assert [one.response_ids for one in found] == [[0, 1], [2, 3], [3, 4]]
    assert [one.advantage for one in found] == [
        pytest.approx(one) for one in (2 / 2**0.5, -1 / 2**0.5, -1 / 2**0.5)
    ]


@pytest.mark.parametrize("name", ["demo.txt", "no/demo.png", "folder.png"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    check_plot(tmp_path / "demo.svg")
    with pytest.raises(InvalidRequest) as refused:
        check_plot(tmp_path / name)
    assert refused.value.field == "--plot"


async def test_a_platform_that_judges_nothing_is_an_error_and_not_a_result() -> None:
    async with rollouts() as own:
        session = await own.client.open_session("s", sampling=SamplingParams(max_tokens=2))
        learner = Learner(Shape(), initial(Shape(), 1), random.Random(1))
        loop = Loop(own.client, session, learner, prompts=1, now=lambda: 0.0)
        loop._held_out = loop._held_out[:2]
        with pytest.raises(DependencyDown, match="held-out"):
            await loop.held_out("held-out")
        await loop.close()


async def test_what_no_judge_saw_is_told_with_its_cause_and_the_bias_avoided(
    run_api: RunApi, run_worker: RunWorker
) -> None:
    """Of each pair of responses the first is right, and the other's judge is broken."""
    seen: set[str] = set()

    def first_only(claim: Claim) -> Finish:
        if claim.group_id in seen:
            return EndRequest(outcome=Outcome.INFRA_FAILED, reward=None, body=b"")
        seen.add(claim.group_id)
        return EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")

    api = await run_api()
    await run_worker(first_only, stage="match")
    async with rollouts(api.addresses.grpc) as own:
        sampling = SamplingParams(max_tokens=2)
        session = await own.client.open_session("s", pipeline="exact", sampling=sampling)
        learner = Learner(Shape(), initial(Shape(), 1), random.Random(1))
        loop = Loop(own.client, session, learner, prompts=1, now=lambda: 0.0)
        loop._held_out = loop._held_out[:3]
        assert await loop.held_out("held-out") == 1.0
        await loop.close()
    # With a zero for the other, the advantages were 1 and -1; there is nothing to learn from one.
    told = {"responses": 6, "unjudged": {"INFRA_FAILED": 0.5}, "bias_avoided": 1.0}
    assert loop.tallies["held-out"].summary() == told
    assert in_words(loop.tallies) == (
        "no judge saw: training none of 0, bias avoided 0.000; "
        "held-out INFRA_FAILED 50.0% of 6, bias avoided 1.000"
    )


@pytest.mark.parametrize(
    ("command", "missing", "extra"), [("demo", "matplotlib", "demo"), ("up", "hiredis", "server")]
)
def test_the_extra_that_a_command_needs_is_named(command: str, missing: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from assay.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"needs {missing}: pip install 'assay[{extra}]'" in done.stderr
