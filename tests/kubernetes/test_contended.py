"""Two owners of one pool: each is named, and sizes change rarely."""

from functools import partial

import pytest
from tests.kubernetes.cluster import Cluster, until
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.core.ids import StageName
from assay.planner.kubernetes.pool import (
    CONTENDED_GIVEN_UP_S,
    CONTENDED_OVER_S,
    CONTENDED_PATCH_S,
    CONTENDED_PATCH_S_MAX,
    FIELD_MANAGER,
    Pool,
    Target,
)

RUN = "python.run"


class Contest:
    """A pool with another owner, in time of its own."""

    def __init__(self) -> None:
        self.pool = Pool(stage=StageName(RUN), path="/deployments", name="assay-python-run",
                         slots_per_pod=1)  # fmt: skip
        self.now_s = 1_000.0
        self.versions = iter(range(1, 100_000))
        self.sets = 0

    def set(self, replicas: int = 4) -> None:
        """As the scaler does, where it may."""
        if self.pool.asked != replicas and not self.pool.leaves(self.now_s):
            self.sets += 1
            self.pool.resized(replicas, str(next(self.versions)), self.now_s)

    def other(self, replicas: int = 1, manager: str = FIELD_MANAGER) -> None:
        found = Target(
            name="assay-python-run", replicas=replicas, version=str(next(self.versions)),
            manager=manager,
        )  # fmt: skip
        self.pool.target_seen(found, self.now_s)

    def fight(self, seconds: int, answer_s: int = 1) -> int:
        """We look every second, the other answers each size of ours; returns our sizes."""
        before = self.sets
        for _ in range(seconds):
            self.now_s += 1
            self.set()
            if self.pool.asked is not None and self.now_s - self.pool.asked_s >= answer_s:
                self.other()
        return self.sets - before


@pytest.fixture
def contest() -> Contest:
    return Contest()


def test_the_longer_it_lasts_the_less_often_the_size_is_set(contest: Contest) -> None:
    first, second = contest.fight(600), contest.fight(3_600)
    assert first <= 3 + 4 + 600 / CONTENDED_PATCH_S_MAX
    assert second <= 3_600 / CONTENDED_PATCH_S_MAX
    assert contest.pool.contended(contest.now_s), "and the condition says so all the while"


def test_the_first_answers_come_as_soon_as_before(contest: Contest) -> None:
    contest.fight(8)
    assert contest.sets == 3, "three changes within a minute are a contest"
    assert contest.fight(int(CONTENDED_PATCH_S)) == 1


def test_it_is_over_when_our_size_stands(contest: Contest) -> None:
    contest.fight(300)
    while contest.pool.leaves(contest.now_s):
        contest.now_s += 1
    contest.set()
    contest.now_s += CONTENDED_OVER_S - 1
    assert contest.pool.contended(contest.now_s)
    contest.now_s += 1
    assert not contest.pool.contended(contest.now_s)
    contest.other()
    assert not contest.pool.contended(contest.now_s), "one change is no contest"
    assert not contest.pool.leaves(contest.now_s)


def test_it_is_over_when_the_other_is_left_alone_for_long(contest: Contest) -> None:
    contest.fight(300)
    contest.other()
    contest.now_s += CONTENDED_GIVEN_UP_S
    assert not contest.pool.contended(contest.now_s)


async def test_two_planners_with_two_stores_name_each_other_and_do_not_fight(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    """As two releases that name one Deployment: each leads by its own store."""
    name = await cluster.deploy(RUN)
    mine, theirs = run_scaler(RUN), run_scaler(RUN)
    await mine.resize(RUN, 4)
    await theirs.pool(RUN)

    async def sees(scaling: Scaling, slots: int) -> bool:
        return (await scaling.pool(RUN)).desired == slots

    for _ in range(5):
        for scaling, slots in ((theirs, 1), (mine, 4)):
            await scaling.resize(RUN, slots)
            now = await cluster.replicas(name)
            for one in (mine, theirs):
                await until(partial(sees, one, now), "both see it")
    sizes = [
        call.body["spec"]["replicas"]
        for call in server.calls
        if call.method == "PATCH" and call.query.get("fieldManager") == FIELD_MANAGER
    ]
    assert len(sizes) <= 7, "without it each would have set its size every time"
    conditions = [(await one.pool(RUN)).condition for one in (mine, theirs)]
    naming = [
        one for one in conditions if one.startswith(f"Contended: {FIELD_MANAGER}, another pl")
    ]
    assert naming, conditions
    before = len(server.calls)
    for _ in range(20):
        for scaling, slots in ((theirs, 1), (mine, 4)):
            await scaling.resize(RUN, slots)
    patched = [call for call in list(server.calls)[before:] if call.method == "PATCH"]
    assert len(patched) <= 1
