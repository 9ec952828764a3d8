"""The test files that hold a changed package to its promises, the cheapest first."""

from collections.abc import Sequence
from typing import Final

STORE: Final = (
    "tests/store/test_submitting.py",
    "tests/store/test_serving.py",
    "tests/store/test_ending.py",
    "tests/store/test_keeping.py",
    "tests/store/test_waking.py",
    "tests/store/test_groups.py",
    "tests/store/test_planning.py",
    "tests/store/test_hosts.py",
    "tests/store/test_shares.py",
    "tests/store/test_machine.py",
)
TESTS: Final = {
    "services/assay/core/": ("tests/core/test_ordering.py", *STORE),
    "services/assay/store/": STORE,
    "services/assay/testing/": STORE,
    "services/assay/worker/": (
        "tests/worker/test_supervisor.py", "tests/worker/test_pool.py",
        "tests/worker/test_assignments.py", "tests/worker/test_ahead_order.py",
        "tests/worker/test_reports.py", "tests/worker/test_groups.py",
        "tests/worker/test_sweeps.py", "tests/worker/test_membership.py",
        "tests/worker/test_slot_frames.py", "tests/worker/test_slot_verdicts.py",
        "tests/worker/test_culprits.py", "tests/sim/platform/test_refused_claims.py",
        "tests/worker/test_host.py", "tests/worker/test_host_process.py",
    ),
    "services/assay/reward/": (
        "tests/reward/test_batches.py", "tests/reward/test_deadline.py",
        "tests/reward/test_admission.py", "tests/reward/test_outages.py",
    ),
    "services/assay/planner/": (
        "tests/planner/test_plan.py", "tests/planner/test_leader.py",
        "tests/planner/test_controller.py", "tests/planner/test_history_feed.py",
        "tests/planner/test_stage_limits.py", "tests/planner/test_plan_log.py",
        "tests/planner/test_loop.py", "tests/planner/test_live.py",
    ),
}  # fmt: skip
CLOSEST: Final = {
    "services/assay/store/operations/hosts.py": "tests/store/test_hosts.py",
    "services/assay/testing/queue_groups.py": "tests/store/test_groups.py",
    "services/assay/testing/queue_records.py": "tests/store/test_submitting.py",
    "services/assay/testing/queue_tasks.py": "tests/store/test_planning.py",
    "services/assay/worker/auditing/culprits.py": "tests/worker/test_culprits.py",
    "services/assay/worker/reports.py": "tests/worker/test_reports.py",
    "services/assay/worker/slots/pool.py": "tests/worker/test_pool.py",
    "services/assay/worker/sweeps.py": "tests/worker/test_sweeps.py",
}
"""Changed file -> the tests that run before the others of its package."""
SIMULATION: Final = "tests/sim/platform/test_platform.py"
"""Part of the suite too: the fixed sample of seeds."""


def tests_of(file: str | None) -> Sequence[str]:
    """Test files of a changed source file; `None` = all of them.

    Raises:
        KeyError: no test files are known for it.
    """
    if file is None:
        return sorted({one for files in TESTS.values() for one in files} | {SIMULATION})
    found = next((files for package, files in TESTS.items() if file.startswith(package)), None)
    if found is None:
        raise KeyError(file)
    first = CLOSEST.get(file, found[0])
    return (first, *(one for one in found if one != first), SIMULATION)
