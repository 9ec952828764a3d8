"""The rollout service on this machine's GPU (`pytest -m gpu`): its own tests hold there, too."""

from __future__ import annotations

from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.cuda.building import NEEDS_A_GPU, gpu_engine
from tests.rollout.service import test_on_cuda, test_pauses, test_service, test_updates
from tests.rollout.service.served import ADAPTER_RANK, SHORT, SLOTS, TOKENS_MAX, rollouts

from assay.config.rollouts import RolloutSettings
from assay.rollout.cuda.gpu import describe
from assay.rollout.cuda.sizes import Tuning
from assay.rollout.service.backend import open_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.rollout.service.served import Rollouts, RunRollouts

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import Model

pytestmark = [pytest.mark.gpu, NEEDS_A_GPU]


@contextmanager
def on_gpu(model: Model, slots: int) -> Iterator[tuple[CudaEngine, CudaEngine]]:
    """The CUDA kernel, on the GPU."""
    tuning = Tuning(adapter_rank=ADAPTER_RANK)
    with gpu_engine(model, slots=slots, seq_len_max=TOKENS_MAX, tuning=tuning) as engine:
        yield engine, engine


@pytest.fixture
async def run_rollouts() -> AsyncIterator[RunRollouts]:
    """As elsewhere, on the GPU."""
    async with AsyncExitStack() as stack:

        async def run(reward_url: str = "127.0.0.1:1", slots: int = SLOTS, **how: Any) -> Rollouts:
            running = rollouts(reward_url, slots, desk_backoff=SHORT, on=on_gpu, **how)
            return await stack.enter_async_context(running)

        yield run


test_rewards = test_service.test_rewards_come_with_the_group_and_the_unscored_leave_the_baseline
test_cancels = test_service.test_cancelled_groups_come_back_as_that
test_lost_reader = test_service.test_a_lost_reader_gets_what_it_had_not_acknowledged
test_turns = test_service.test_a_trajectory_of_two_turns_is_one_with_the_environment_masked
test_wrong_pushes = test_service.test_a_wrong_push_leaves_nothing_to_activate
test_cut_pushes = test_service.test_a_push_that_is_cut_leaves_nothing_and_the_next_is_taken
test_dead_rewards = test_service.test_a_dead_reward_service_is_no_reward_and_no_stuck_slot
test_held = (
    test_pauses.test_what_cannot_come_while_rollouts_are_held_in_place_is_refused_by_its_field
)
test_activating_pushes = test_updates.test_a_push_that_activates_is_in_use_when_it_returns
test_wrong_activating = test_updates.test_a_push_that_is_wrong_activates_nothing
test_adapters = test_on_cuda.test_an_adapter_that_is_pushed_changes_tokens_and_rolls_back
test_trace = test_on_cuda.test_a_trace_has_every_instant_of_a_rollout
test_status = test_on_cuda.test_the_status_has_credits_queues_and_keys_and_values
test_deaths = test_on_cuda.test_a_kernel_that_dies_ends_what_it_had_without_a_reward


def test_a_gpu_that_is_there_is_chosen_and_said(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "model.bin")
    backend = open_backend(RolloutSettings(model=model, tokens_max=64, slots=4))
    try:
        assert backend.device == describe().name
        assert backend.device_reason in {"", backend.engine.fallback}  # type: ignore[attr-defined]
    finally:
        backend.close()
