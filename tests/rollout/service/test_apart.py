"""Every RPC of the rollout service by another tenant; a new one is tried without a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

pytest.importorskip("numpy")

from tests.edge import every_call
from tests.rollout.service.test_operation import tenant
from tests.rollout.service.test_service import SAMPLED, prompts, take

from assay.client.rollouts import RolloutClient

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor
    from tests.rollout.service.served import RunRollouts

METHODS = [m for m in every_call.methods() if m.containing_service.name == "RolloutService"]
OPERATING = {"PushWeights", "Activate", "Pause", "KeepPaused", "Continue", "StreamTrace"}
"""They concern all tenants, and need `operate`."""
OPEN = "OpenSession"


def message(method: MethodDescriptor, session_id: str) -> bytes:
    given: dict[str, Any] = {"session_id": session_id, "group_id": "p0", "model": "random"}
    return every_call.body(method, {**given, "group_ids": "p0", "pipeline": ""})


async def test_another_tenant_reads_changes_and_ends_nothing(run_rollouts: RunRollouts) -> None:
    tenants = {"red": tenant("r", operate=True), "blue": tenant("b", operate=False)}
    own = await run_rollouts(tenants=tenants)
    async with (
        RolloutClient(own.address, token="r") as red,
        RolloutClient(own.address, token="b") as blue,
        grpc.aio.insecure_channel(own.address) as channel,
    ):
        held = await red.pause()
        session = await red.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(2))
        for method in METHODS:
            if method.name == OPEN:
                continue
            ends = [
                await every_call.ended(channel, method, message(method, name), "b")
                for name in ("s", "none")
            ]
            codes = {None if one is None else one.code() for one in ends}
            if "session_id" in method.input_type.fields_by_name:
                assert codes == {grpc.StatusCode.NOT_FOUND}, method.name
                assert [str(one and one.details()).replace("'none'", "'s'") for one in ends] == [
                    str(ends[0] and ends[0].details())
                ] * 2
            elif method.name in OPERATING:
                assert codes == {grpc.StatusCode.PERMISSION_DENIED}, method.name
            else:
                assert codes == {None}, method.name
        mine = await blue.open_session("s", sampling=SAMPLED)  # the same name, and its own
        await mine.submit(prompts(1))
        assert await mine.cancel(["p0", "p1"]) == 3
        await mine.close()
        assert len((await red.status(rollouts=True)).rollouts) == 6
        await red.resume(held)
        groups = await take(session, 2)
        assert {group.group_id for group in groups} == {"p0", "p1"}
        assert all(len(one.response_ids) == 12 for group in groups for one in group.trajectories)
