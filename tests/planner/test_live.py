"""The planner on a real platform: Valkey, worker slots, a planning process of its own.

Requests hold their slots until the test lets them go, so nothing here depends on how fast.
"""

from tests.planner.conftest import RunHost, RunPlanner, Trainer, until


async def test_pools_grow_for_a_batch_and_shrink_after_it(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    planner = await run_planner()
    task = await trainer.task()
    assert host.slots() == 0
    batch = await trainer.waiting(task, 6)
    await until(lambda: host.slots() == 4, f"all of the cap; {planner.why}")
    trainer.go()
    await trainer.over(batch)
    await until(lambda: host.slots() == 0, "none are needed any more")
    assert planner.why == ""
