"""The Lua scripts against the model once more: a simulated run's log, carried out on a real Valkey.

The machine in `tests/store/test_machine.py` draws calls; here they are those that the real services
made, thousands in the order in which a platform makes them.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from assay.config.settings import StoreSettings
from assay.core.records import Reaped
from assay.sim.platform.on_store import Difference, carry_out_again, is_fit
from assay.sim.platform.run import run_seed
from assay.sim.platform.store import LIMITS, Command
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore

SEEDS_MAX = 40
RUNS = 2
COMMANDS_MIN = 150
REAP = {"attempts_max": 3, "jobs_max": 10}


def settings(shard: str) -> StoreSettings:
    return StoreSettings(
        shard=shard,
        batch_overdue_s=LIMITS.batch_overdue_ns / 1e9,
        results_kept_s=LIMITS.results_kept_ns / 1e9,
        history_batches=LIMITS.history_batches,
        dead_letters_max=LIMITS.dead_letters_max,
        dead_letters_per_tenant_max=LIMITS.dead_letters_per_tenant_max,
    )


async def difference(log: Sequence[Command], url: str, shard: str) -> Difference | None:
    store = ValkeyStore(settings(shard), url=url)
    try:
        return await carry_out_again(log, store, time.time_ns)
    finally:
        await store.close()


def fit_logs() -> Iterator[Sequence[Command]]:
    for seed in range(SEEDS_MAX):
        log = run_seed(seed, faults=(), keep_log=True).log
        if is_fit(log):
            yield log


def test_a_simulated_run_gives_the_same_answers_on_valkey(valkey: EmbeddedValkey) -> None:
    logs = list(islice(fit_logs(), RUNS))
    assert len(logs) == RUNS
    for number, log in enumerate(logs):
        assert len(log) > COMMANDS_MIN
        found = asyncio.run(difference(log, valkey.url, f"sim{number}"))
        assert found is None


def test_another_answer_is_noticed(valkey: EmbeddedValkey) -> None:
    log = next(fit_logs())
    at = max(number for number, command in enumerate(log) if command.name == "claim")
    wrong = [*log[:at], log[at]._replace(name="reap", options=REAP, args=log[at].args)]
    wrong[-1] = wrong[-1]._replace(answer=Reaped(redelivered=1, dead=0, expired=0, completed=()))
    found = asyncio.run(difference(wrong, valkey.url, "wrong"))
    assert found is not None
    assert found.at == at
