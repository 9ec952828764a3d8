"""Where memory has room for one set of weights, pushes wait in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_pushes import CASES, of, tensors
from tests.rollout.service.test_service import SAMPLED, prompts, take, weights_of

from assay.core.errors import FailedPrecondition, InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rollout.service.served import Rollouts, RunRollouts


async def pushed_and_back(own: Rollouts, *, holds: bool) -> list[object]:
    """What is decoded before and after pushes, and whether the answers say what they cost."""
    session = await own.client.open_session("s", sampling=SAMPLED)
    found: list[object] = []

    async def decoded() -> None:
        await session.submit(prompts(2))
        groups = sorted(await take(session, 2), key=lambda group: group.group_id)
        found.extend(map(of, groups))

    await decoded()
    await session.submit(prompts(3)[2:])  # decodes while the push is staged
    assert (await own.client.push_weights(1, weights_of(1))).holds is holds
    assert (await own.client.activate(1)).previous_version == 0
    assert len(await take(session, 1)) == 1
    await decoded()
    config, arrays = CASES["lora"]
    assert not (await own.client.push_adapter(2, config, tensors(arrays))).holds
    await own.client.activate(2)
    await decoded()
    await own.client.push_weights(3, weights_of(2))
    wrong = weights_of(2)
    wrong.popitem()
    with pytest.raises(InvalidRequest, match="missing"):
        await own.client.push_weights(4, wrong)
    with pytest.raises(FailedPrecondition):
        await own.client.activate(3)
    await decoded()
    await own.client.push_weights(5, weights_of(0))
    for version in (5, 2, 5):
        await own.client.activate(version)
        await decoded()
    return found


async def test_pushes_through_a_file_decode_as_those_in_memory_and_say_that_they_hold(
    run_rollouts: RunRollouts, tmp_path: Path
) -> None:
    in_file = await pushed_and_back(await run_rollouts(second_slot_dir=tmp_path), holds=True)
    assert in_file == await pushed_and_back(await run_rollouts(), holds=False)
    assert in_file[0] != in_file[2] != in_file[4]
    assert list(tmp_path.iterdir()) == []
