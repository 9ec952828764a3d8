"""The trainers themselves, with Assay's adapters and a platform that fails now and then.

`TRAINERS_PYTHON` names the interpreters of environments with the trainers, what they need (builds
for the CPU suffice) and `assay`; tests of trainers that none of them has are skipped.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

from tests.integrations.interpreters import interpreter_with, run_program
from tests.integrations.stand_in import ADVANTAGES, BASELINE, FAILS, RIGHT, WRONG, Judge
from tests.rollout.service.served import leftovers, rollouts

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
SESSIONS = "OPENREWARD_SESSION_URL"
"""Without it `openreward` puts `sessions.` before the host."""


async def run(
    package: str, url: str, *arguments: str | Path, program: str = "", left_out: str = ""
) -> Any:
    """Run a program of the folders here in an environment with the trainer; its last line as JSON.

    `left_out` are packages, separated by commas, that need a GPU.
    """
    (path,) = HERE.glob(f"*/in_{program or package}.py")
    if left_out:
        path, arguments = HERE / "without_gpu.py", (left_out, path, *arguments)
    return await run_program(path, package, *arguments, environment={"ASSAY_URL": url})


@dataclass
class FewJudged:
    """Three of four are judged, and alternate between right and wrong."""

    turns: Iterator[int] = field(default_factory=count)

    def __call__(self, _claim: Claim) -> Finish:
        turn = next(self.turns)
        outcome = Outcome.INFRA_FAILED if turn % 4 == 1 else Outcome.SCORED
        reward = None if turn % 4 == 1 else float(turn % 4 == 0)
        return EndRequest(outcome=outcome, reward=reward, body=pack_body(Evidence(), ResourceUse()))


def check_steps(found: Any) -> None:
    """Five steps; in each, one of four has no vote in the mean, and advantage 0."""
    assert len(found["rewards"]) == len(found["advantages"]) == 5
    for rewards, advantages in zip(found["rewards"], found["advantages"], strict=True):
        assert sorted(rewards, key=str) == [0.0, 0.0, 1.0, None]
        for reward, advantage in zip(rewards, advantages, strict=True):
            fair = {None: 0.0, 1.0: 2 / 3, 0.0: -1 / 3}[reward]
            assert advantage == pytest.approx(fair, abs=1e-6)


def needs(package: str, version: tuple[int, int], why: str) -> None:
    """Skip a test of what an older release of a trainer does not have."""
    installed = interpreter_with(package)
    if installed is not None and tuple(map(int, installed[1].split(".")[:2])) < version:
        pytest.skip(why)


@pytest.mark.parametrize("mode", ["sync", "async", "method"])
async def test_five_steps_of_trl_with_failures_of_the_platform(
    api: Any, run_worker: Any, mode: str
) -> None:
    """`method` is for releases of TRL that do not await an object."""
    if mode == "async":
        needs("trl", (1, 14), "TRL awaits objects since 1.14")
    await run_worker(FewJudged(), stage="math.verify")
    found = await run("trl", api.addresses.grpc, mode)
    check_steps(found)
    assert [one for one in found["shares"] if one is not None] == [pytest.approx(0.25)] * 5


async def test_five_steps_of_trl_whose_environment_owns_the_reward(
    api: Any, run_worker: Any
) -> None:
    await run_worker(FewJudged(), stage="math.verify")
    check_steps(await run("trl", api.addresses.grpc, "environment", program="trl_tools"))


async def test_five_steps_of_trls_asynchronous_trainer_with_failures_of_the_platform(
    api: Any, run_worker: Any
) -> None:
    """Its child process asks group by group; it divides by the deviation of what was judged."""
    judge = FewJudged()
    await run_worker(judge, stage="math.verify")
    found = await run("trl", api.addresses.grpc, program="trl_async")
    assert found["steps"] == 5
    deviation = 2**0.5 / 3
    found["advantages"] = [[one * deviation for one in group] for group in found["advantages"]]
    check_steps(found)


async def test_five_steps_of_trl_that_generate_on_the_rollout_service(
    api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's weights are pushed first: the log-probs are those of the trainer's own model."""
    await run_worker(FewJudged(), stage="math.verify")
    async with rollouts() as own:
        monkeypatch.setenv("ASSAY_ROLLOUT_URL", own.address)
        found = await run("trl", api.addresses.grpc, program="trl_rollouts")
        assert not leftovers(own)
    check_steps(found)
    assert found["versions"] == [[step] * 4 for step in range(1, 6)]
    assert all(length > 0 for length in found["lengths"])
    assert max(found["differences"]) < 1e-3


async def test_five_steps_of_trl_through_the_open_reward_standard(
    run_api: Any, run_worker: Any, tmp_path: Path
) -> None:
    needs("trl", (1, 16), "an episode begins with the reward 0.0 before TRL 1.16")
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"prompt": "2 + 3?", "reference": "5"}))
    api = await run_api(environments={"sums": {"pipeline": "math", "tasks": str(tasks)}})
    await run_worker(FewJudged(), stage="math.verify")
    url = api.addresses.http
    found = await run_program(
        HERE / "trainers" / "in_trl_tools.py", "openreward", "ors", url, environment={SESSIONS: url}
    )
    check_steps(found)


@pytest.mark.parametrize("path", [EXAMPLES / "verl_reward.py", "manager", "loop"])
async def test_verl_is_scored_by_function_manager_or_loop_and_its_baseline_is_unbiased(
    api: Any, run_worker: Any, path: Path | str
) -> None:
    judge = Judge()
    await run_worker(judge, stage="math.verify")
    found = await run("verl", api.addresses.grpc, path, *BASELINE)
    assert len(judge.batches) == 1
    assert found["scores"] == [1.0, 0.0, 0.0, 0.0]
    assert found["failed"] == [0.0, 1.0, 0.0, 0.0]
    assert found["advantages"] == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]], abs=1e-6)


@pytest.mark.parametrize("where", [(), ("--colocated",)], ids=["loops", "colocated"])
async def test_the_trainer_that_verl_runs_by_default_has_an_unbiased_baseline(
    api: Any, run_worker: Any, where: tuple[str, ...]
) -> None:
    """It takes no marks of the reward out of its queue by itself."""
    needs("verl", (0, 9), "verl has this trainer since 0.9")
    await run_worker(Judge(), stage="math.verify")
    found = await run("verl", api.addresses.grpc, *where, *BASELINE, program="verl_v1")
    assert found["scores"] == [1.0, 0.0, 0.0, 0.0]
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    assert found["advantages"] == pytest.approx(centred, abs=1e-6)


@pytest.mark.parametrize("by", ["function", "endpoint"])
@pytest.mark.parametrize("texts", [BASELINE, (RIGHT, WRONG, WRONG)])
async def test_openrlhf_replaces_a_group_with_an_unscored_sample(
    api: Any, run_worker: Any, texts: tuple[str, ...], by: str
) -> None:
    await run_worker(Judge(), stage="math.verify")
    urls: dict[str, Path | str] = {
        "function": EXAMPLES / "openrlhf_reward.py",
        "endpoint": f"{api.addresses.http}/v1/openrlhf/math/get_reward",
    }
    found = await run("openrlhf", api.addresses.grpc, urls[by], *texts)
    assert found["rewards"] == [float(text == RIGHT) for text in texts]
    assert found["failed"] == [float(text == FAILS) for text in texts]
    assert found["kept"] == (FAILS not in texts)


@pytest.mark.parametrize("by", ["function", "endpoint"])
async def test_openrlhfs_command_and_rollout_actors_replace_a_group_with_an_unscored_sample(
    api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The command as it is typed, to its sampling; the policy needs a GPU."""
    await run_worker(Judge(), stage="math.verify")
    for name, value in (("PIPELINE", "math"), ("STEP_SIZE", "4")):
        monkeypatch.setenv(f"ASSAY_{name}", value)
    urls: dict[str, Path | str] = {
        "function": EXAMPLES / "openrlhf_reward.py",
        "endpoint": f"{api.addresses.http}/v1/openrlhf/math/get_reward",
    }
    said = json.dumps([["2 + 3?", BASELINE], ["1 + 4?", [RIGHT, WRONG, WRONG, WRONG]]])
    missing = "deepspeed,flash_attn,peft,torchdata"
    found = await run(
        "openrlhf", api.addresses.grpc, urls[by], said, program="openrlhf_command", left_out=missing
    )
    assert found["prompts"] == ["1 + 4?"]
    assert sorted(found["rewards"]) == [0.0, 0.0, 0.0, 1.0]
    assert found["failed"] == [0.0] * 4
    assert found["consumed"] == 2


async def test_skyrl_gym_makes_the_environment_and_its_baseline_is_unbiased(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "skyrl_environment.py"
    found = await run("skyrl_gym", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, None, 0.0, 0.0]
    assert found["done"] == [True] * 4
    assert found["metrics"] == {"infra_failed": 0.25}
    assert found["advantages"] == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]])


async def test_tinkers_group_has_no_member_that_was_not_judged(api: Any, run_worker: Any) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "tinker_environment.py"
    found = await run("tinker_cookbook", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, 0.0, 0.0]
    assert found["errors"] == ["UnscoredError"]
    assert found["advantages"] == pytest.approx(ADVANTAGES, abs=1e-6)


async def test_areal_rejects_an_episode_that_was_not_judged(api: Any, run_worker: Any) -> None:
    await run_worker(Judge(), stage="math.verify")
    found = await run("areal", api.addresses.grpc, EXAMPLES / "areal_workflow.py", *BASELINE)
    assert (found["rewards"], found["rejected"]) == ([1.0, 0.0, 0.0], 1)
    assert found["advantages"] == pytest.approx(ADVANTAGES)


async def test_a_trace_of_verifiers_that_was_not_judged_has_an_error_and_no_reward(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "verifiers_taskset.py"
    found = await run("verifiers", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, 0.0, 0.0]
    assert found["advantages"] == pytest.approx(ADVANTAGES)
    [error] = found["errors"]
    assert "INFRA_FAILED" in error
    assert found["seeded"] == [None]


async def test_the_command_of_verifiers_rolls_the_documented_taskset_out(
    api: Any, run_worker: Any
) -> None:
    """A model that does not stream ends each rollout with a `ProviderError` of verifiers'."""
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "verifiers_taskset.py"
    found = await run("verifiers", api.addresses.grpc, path, *BASELINE, program="verifiers_eval")
    assert found["rewards"] == {str(at): float(at == 0) for at in range(10) if at != 1}
    assert list(found["errors"]) == ["1"]
    assert "INFRA_FAILED" in found["errors"]["1"]


async def test_prime_rls_sink_trains_on_no_trace_that_was_not_judged(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "verifiers_taskset.py"
    found = await run("prime-rl", api.addresses.grpc, path, *BASELINE, program="prime_rl")
    assert (found["early"], found["seen"]) == (0, 4)
    assert found["texts"] == [text for text in BASELINE if text != FAILS]
    assert found["advantages"] == pytest.approx(ADVANTAGES)


async def test_openenvs_client_gets_null_where_nothing_was_judged(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "openenv_environment.py"
    found = await run("openenv", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, None, 0.0, 0.0]


async def test_nemo_gyms_server_and_our_endpoint_answer_alike(api: Any, run_worker: Any) -> None:
    await run_worker(Judge(), stage="math.verify")
    path, url = EXAMPLES / "nemo_gym_server.py", api.addresses.http
    found = await run("nemo-gym", api.addresses.grpc, path, url, *BASELINE, program="nemo_gym")
    for one in found.values():
        assert one["rewards"] == [1.0, 0.0, 0.0, 0.0]
        assert one["masked"] == [False, True, False, False]
        assert one["classes"] == [None, "INFRA_FAILED", None, None]
    # NeMo-Gym's own statistics leave a masked sample out since 0.7; before, they counted its 0.0.
    by_server = found["server"]["metrics"]["mean/reward"]
    assert by_server in (pytest.approx(1 / 3), pytest.approx(1 / 4))
    assert found["endpoint"]["metrics"]["mean/reward"] == pytest.approx(1 / 3)


async def test_agent_lightnings_server_keeps_an_event_that_says_what_was_not_judged(
    api: Any, run_worker: Any
) -> None:
    judge = Judge()
    await run_worker(judge, stage="math.verify")
    path = EXAMPLES / "agent_lightning_hooks.py"
    found = (await run("agentlightning", api.addresses.grpc, path, *BASELINE))["events"]
    assert [one["value"] for one in found] == [1.0, None, 0.0, 0.0]
    assert [one["source"] for one in found] == ["assay", "fallback", "assay", "assay"]
    assert "INFRA_FAILED" in found[1]["reason"]
    assert len(judge.batches) == 1


@pytest.mark.parametrize("form", ["sample", "group", "remote"])
async def test_slimes_training_data_is_unbiased_by_function_group_and_endpoint(
    api: Any, run_worker: Any, form: str
) -> None:
    """By `Sample`, reward hub and conversion of slime; every estimator that it centres itself."""
    await run_worker(Judge(), stage="math.verify")
    urls = (api.addresses.grpc, form, api.addresses.http)
    found = await run("slime", *urls, *BASELINE, left_out="sglang,sglang_router")
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    assert sorted(found["advantages"]) == ["cispo", "grpo", "gspo", "reinforce_plus_plus_baseline"]
    for name, advantages in found["advantages"].items():
        assert advantages == pytest.approx(centred, abs=1e-6), name
    if form != "remote":  # an endpoint answers with a number, and cannot mark a sample
        assert found["status"] == ["completed", "failed", "completed", "completed"]
        assert found["masks"] == [[1, 1], [0, 0], [1, 1], [1, 1]]


async def test_rllms_engine_tries_an_unjudged_episode_again_and_leaves_it_out_of_its_group(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "rllm_evaluator.py"
    found = await run("rllm", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [[1.0, 0.0, 0.0]]
    assert found["advantages"] == [pytest.approx(ADVANTAGES)]
    assert found["attempts"] == [1, 2, 1, 1]
    assert found["ended"] == ["env_done", "error", "env_done", "env_done"]


async def test_nemo_rl_judges_a_step_by_its_ray_actor_and_its_baseline_is_unbiased(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="math.verify")
    path = EXAMPLES / "nemo_rl_environment.py"
    found = await run("nemo_rl", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == pytest.approx([1.0, 1 / 3, 0.0, 0.0])
    assert found["ended"] == [True] * 4
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    assert found["advantages"] == pytest.approx(centred, abs=1e-6)
    assert found["masked"] == pytest.approx(centred, abs=1e-6)
    assert found["alone"] == [[1.0], "infra"]


async def test_nemo_rls_data_plane_has_an_unbiased_baseline_with_our_environment_and_nemo_gym(
    api: Any, run_worker: Any
) -> None:
    """Its rollout actor hands over rewards only: a masked sample has to have its group's mean."""
    await run_worker(Judge(), stage="math.verify")
    path, url = EXAMPLES / "nemo_rl_environment.py", api.addresses.http
    found = await run("nemo_rl", api.addresses.grpc, path, url, *BASELINE, program="nemo_rl_plane")
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    for one in found.values():
        assert one["rewards"] == pytest.approx([1.0, 1 / 3, 0.0, 0.0])
        assert one["advantages"] == pytest.approx(centred, abs=1e-6)
        assert one["groups"] == 1
        assert one["queued"] == list(BASELINE)


async def test_nemo_rls_samples_that_come_one_by_one_end_no_run_and_have_an_unbiased_baseline(
    api: Any, run_worker: Any
) -> None:
    """With an asynchronous engine an exception of the environment would end the run."""
    await run_worker(Judge(), stage="math.verify")
    arguments = (EXAMPLES / "nemo_rl_environment.py", "rollouts", *BASELINE)
    found = await run("nemo_rl", api.addresses.grpc, *arguments, program="nemo_rl_alone")
    for name in ("whole", "group"):
        check_nemo_rl(found[name])
        assert found[name]["mean"] == pytest.approx(1 / 3)
        assert found[name]["rows"] == [["ground_truth"]] * 4
    assert found["collector"]
    assert found["goes_by_value"]


async def test_nemo_rls_data_plane_fills_in_samples_that_come_one_by_one(
    api: Any, run_worker: Any
) -> None:
    """In the process of its rollout actor."""
    await run_worker(Judge(), stage="math.verify")
    arguments = (EXAMPLES / "nemo_rl_environment.py", "plane", *BASELINE)
    found = await run("nemo_rl", api.addresses.grpc, *arguments, program="nemo_rl_alone")
    check_nemo_rl(found)
    assert found["fills_in"]


def check_nemo_rl(found: Any) -> None:
    """The second of four was not judged, and has the mean of the others."""
    assert found["rewards"] == pytest.approx([1.0, 1 / 3, 0.0, 0.0])
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    assert found["advantages"] == pytest.approx(centred, abs=1e-6)


async def test_rolls_normalisation_takes_an_unjudged_response_out_of_mean_and_loss(
    api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    judge = Judge()
    await run_worker(judge, stage="math.verify")
    monkeypatch.setenv("ROLL_LOG_DIR", str(tmp_path))  # otherwise the current folder
    found = await run("roll", api.addresses.grpc, *BASELINE, left_out="vllm,sglang,modelscope")
    assert found["rewards"] == [1.0, None, 0.0, 0.0]
    assert found["scores"] == [1.0, 0.0, 0.0, 0.0]
    centred = [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    assert found["advantages"] == pytest.approx(centred, abs=1e-3)  # ROLL's rewards are half floats
    assert found["kept"] == [True, False, True, True]
    assert len(judge.batches) == 1
