# ruff: noqa: E501 - the old text has to stand as it is in its file
"""Small faults to put into the planner, one at a time: do its tests see them?

The order of batches, the trigger of a new plan, the lead of a start-up, peaks, the lease, plans of
every k-th request, slots that take several, and tasks without a barrier. Each names its place by a text that occurs exactly once in its file.
"""

from typing import Final

from tests.mutation.verdicts import VerdictMutant

CORE: Final = "services/assay/planner/core"
LEADER: Final = "services/assay/planner/service/leader.py"


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    paths = tuple(f"tests/planner/test_{name}.py" for name in tests)
    return [VerdictMutant(kind, file, old, new, paths) for old, new in changes]


PLAN_MUTANTS: Final = (
    *_of(
        "order",
        f"{CORE}/plan.py",
        ("plan",),
        ("found.lost < best.lost * (1 - ORDER_GAIN_MIN)", "found.lost > best.lost"),
        ("order=tuple(indices[b] for b in order), reason", "order=(), reason"),
    ),
    *_of(
        "order",
        f"{CORE}/demand.py",
        ("policy",),
        ("(batches[b].deadline_ns, b))", "(-batches[b].deadline_ns, b))"),
        ("(batches[b].deadline_ns, b))", "(batches[b].deadline_ns, -b))"),
    ),
    *_of(
        "lead",
        f"{CORE}/shape.py",
        ("policy",),
        ("ordered_s = startup_s + settings.tick_s", "ordered_s = settings.tick_s"),
        ("(ordered_ns + to_ns(kept_s))", "ordered_ns"),
        ("first, soon = offset_ns // tick_ns, ", "first, soon = 0, "),
    ),
    *_of(
        "last requests",
        f"{CORE}/policy.py",
        ("policy",),
        ("slots[j] = min(pool.running + 1, pool.cap)", "slots[j] = max(slots[j], min(1, pool.cap))"),
        ("last = 0 < batch.size <= batch.arrived + LAST_REQUESTS", "last = False"),
        ("            first = -1\n", "            first = 0\n"),
        ("            if first < j and not pool.waiting and j", "            if first < j and j"),
    ),
    *_of(
        "last requests",
        f"{CORE}/shape.py",
        ("policy",),
        ("int(highest / pool.cost) if pool.cost else 1, 1)", "1)"),
    ),
    *_of(
        "released",
        "services/assay/planner/service/floor.py",
        ("floor", "controller"),
        ("if even_ns.get(one.stage, 0) <= idle_ns]", "if True]"),
        (", raised.get(pool.stage, 0))", ", 0)"),
    ),
    *_of(
        "released",
        "services/assay/planner/service/controller.py",
        ("controller",),
        ("        self._idle_since_ns = None\n        if self._process", "        if self._process"),
        ("        self._raised |= sizes(slots)\n", ""),
    ),
    *_of(
        "deviation",
        f"{CORE}/policy.py",
        ("policy",),
        ("        if present > high * (1 + DEVIATION_SHARE) + DEVIATION_SLOTS:", "        if False:"),
        ("        if pool.running < low * (1 - DEVIATION_SHARE)", "        if -1 > low"),
    ),
    *_of(
        "peaks",
        f"{CORE}/policy.py",
        ("policy",),
        ("min(peaks[-1], sorted(peaks)[-2])", "peaks[-1]"),
        ("min(peaks[-1], sorted(peaks)[-2])", "min(peaks)"),
        ("if again and self.plan is not None and any_late(observation):", "if False:"),
        ("min(new, old + LATE_SLOTS)", "0"),
        ("min(pool.waiting, spare), peak + spare)", "min(pool.waiting, spare), 10**9)"),
        ("(*(self.searches if again else ()), found)", "(*self.searches, found)"),
    ),
    *_of(
        "peaks",
        f"{CORE}/prices.py",
        ("plan", "prices"),
        ("/ SECOND_NS + settings.peak_price_s)", "/ SECOND_NS)"),
        ("        + starts * settings.start_price_s\n", ""),
        ("limit - cost, settings)", "limit, settings)"),
        ("if sum(found) > max(self.most, most_together(plan, offset_ns)):", "if False:"),
        ("early += (then - most) * ticks", "early += then - most"),
    ),
    *_of(
        "peaks",
        f"{CORE}/trial.py",
        ("plan",),
        ("more = min(least + round(HEADROOM_SHARE * least), most)", "more = least"),
        ("return last if least <= last <= more else more", "return more"),
        ("max(trial.settings.rise_share, trial.risk)", "trial.risk"),
        ("trial.pools[stage].waiting or not trial.keeps(present)", "not trial.keeps(present)"),
        ("if trial.pools[stage].waiting or", "if False or"),
        ("trust_in_later_plans(self.pools, settings) if known else STRICT", "1.0"),
    ),
    *_of(
        "nodes",
        f"{CORE}/prices.py",
        ("prices",),
        ("(nodes.startup_ns + pool.startup_ns) / SECOND_NS", "pool.startup_ns / SECOND_NS"),
        ("max(nodes.startup_ns / SECOND_NS, settings.hold_s)", "settings.hold_s"),
        ("-(-min(slots, pool.cap) // nodes.slots)", "min(slots, pool.cap) // nodes.slots"),
        ("min(again, nodes.ready + nodes.starting)", "again"),
    ),
    *_of(
        "nodes",
        f"{CORE}/trial.py",
        ("prices",),
        ("(startup_ns, min(peak, max(nodes.room, up + pool.starting)))", "(startup_ns, peak)"),
    ),
    *_of(
        "certificates",
        "services/assay/planner/session/present.py",
        ("certificates",),
        ("max(min(bound, most) - pool.held, 0) * start_s", "0.0"),
        ("batch.elapsed_ns > longest[batch.stage]", "batch.elapsed_ns > 0"),
    ),
    *_of(
        "lease",
        LEADER,
        ("leader", "controller"),
        ("self._until_ns = asked_ns + good_ns", "self._until_ns = asked_ns + 2 * good_ns"),
        ("            else:\n                self._until_ns = 0\n", ""),
        ('        """Let a standby take over at once."""\n        self._until_ns = 0\n', '        """Let a standby take over at once."""\n'),
    ),
    *_of(
        "every k-th",
        f"{CORE}/thin.py",
        ("thin",),
        ("by_state[k // 2 :: k]", "by_state[: -(-len(by_state) // k)]"),
        ("peak=min(stage.peak * k, cap)", "peak=stage.peak * k"),
        ("min(n * k, cap) for n in stage.slots_by_bin", "n for n in stage.slots_by_bin"),
        ("sequence = batch.sequence[rows] // k", "sequence = batch.sequence[rows]"),
        ("cap=max(pool.cap // k, min(pool.cap, 1))", "cap=pool.cap // k"),
        ("np.union1d(np.arange(step // 2, len(past.arrived_ns), step), [last])", "np.arange(step // 2, len(past.arrived_ns), step)"),
    ),
    *_of(
        "several at once",
        f"{CORE}/batched.py",
        ("batched",),
        ("usual = float((sizes**2).sum() / sizes.sum())", "usual = float(sizes.mean())"),
        ("fixed = max(float(times.mean() - each * sizes.mean()), 0.0)", "fixed = 0.0"),
        ("if len(sizes) >= CALLS_MIN and", "if"),
        ("level = tuple(min(slots(n), pool.cap) for n in stage.slots_by_bin)", "level = stage.slots_by_bin"),
        ("        demand_s=stage.demand_s / places,", "        demand_s=stage.demand_s,"),
        ("cap=int(pool.cap * places),", "cap=pool.cap,"),
        ("there = np.flatnonzero(past.columns == stage)", "there = [stage]"),
    ),
    *_of(
        "several at once",
        "services/assay/planner/service/stage_limits.py",
        ("batched",),
        ("batch_max=1 if spec.gathers else spec.batch_max,", "batch_max=spec.batch_max,"),
    ),
    *_of(
        "no barrier",
        f"{CORE}/futures.py",
        ("no_barrier",),
        ("natural[there] = batch.opened_ns + batch.natural_ns + left_ns[there]", "pass"),
        ("alone=np.repeat([not source.task.barrier for source in sources], sizes),", "alone=np.repeat([True for _ in sources], sizes),"),
        ("if any(not source.task.barrier for source in sources):", "if False:"),
    ),
    *_of(
        "no barrier",
        f"{CORE}/policy.py",
        ("no_barrier",),
        ("return task.barrier and now_ns", "return now_ns"),
        ("        if alone:\n", "        if False:\n"),
        ("        if task.barrier and not last", "        if not last"),
    ),
    *_of(
        "no barrier",
        f"{CORE}/shape.py",
        ("no_barrier",),
        ("any(task.timeout_ns[j] for task in alone)", "False"),
    ),
    *_of(
        "no barrier",
        "services/assay/planner/session/observe.py",
        ("no_barrier",),
        ('name = f"{task.tenant}/{task.task_id}"', "name = task.task_id"),
    ),
    *_of(
        "starts",
        "services/assay/model/starts.py",
        ("starts",),
        ("(sigmas / SIGMAS_90 - 1)", "(sigmas / SIGMAS_90)"),
        ("min(longer, SLOWER_MAX)", "longer"),
    ),
    *_of(
        "starts",
        "services/assay/planner/service/stage_limits.py",
        ("stage_limits",),
        ("if pool.ready == 0 and pool.startup_cold_ns is not None:", "if pool.startup_cold_ns is not None:"),
        ("startup_ns = max(startup_ns, pool.startup_cold_ns)", "startup_ns = pool.startup_cold_ns"),
        ("startup_ns = startup_at(p50_ns, p90_ns, sigmas)", "startup_ns = p90_ns"),
    ),
    *_of(
        "memory",
        "services/assay/planner/service/stage_limits.py",
        ("stage_limits",),
        ("<= MEMORY_RISK:", "<= 0.01:"),
        ("if share >= 1 or peaks == 0:", "if True:"),
        ("for k in range(min(peaks, slots) + 1)", "for k in range(min(peaks, slots))"),
    ),
    *_of(
        "limits",
        f"{CORE}/thin.py",
        ("groups",),
        (", -(-cells // CELLS_MAX))", ")"),
    ),
    *_of(
        "groups",
        f"{CORE}/groups.py",
        ("groups",),
        ("past = rows_of(past, -(-len(past.arrived_ns) // rows_max))", "pass"),
        ("parts.append(set(stages).union(*touched))", "parts.append(set(stages))"),
        ("reached=place[batch.reached]", "reached=batch.reached"),
        ("service[:, j], by_service[j] =", "service[:, k], by_service[k] ="),
    ),
    *_of(
        "kept",
        "services/assay/model/keep_alive.py",
        ("keep_alive", "floor"),
        ("    if len(gaps_ns) < GAPS_MIN:\n", "    if not gaps_ns:\n"),
        ("gap if gap <= kept else kept + prices.again_ns", "gap if gap <= kept else kept"),
        ("tried = [0, *(min(", "tried = [*(min("),
        ("round(LONGER * gap), prices.again_ns)", "round(LONGER * gap), 10 * prices.again_ns)"),
        ("deque(maxlen=GAPS_MAX)", "deque()"),
        ("elif self.was_needed and self.since_ns is None:", "elif self.was_needed:"),
        ("slot.need(now_ns, is_needed=wanted >= k)", "slot.need(now_ns, is_needed=wanted > 0)"),
    ),
    *_of(
        "kept",
        f"{CORE}/prices.py",
        ("keep_alive",),
        ("min(kept.slots, pool.target, pool.cap)", "min(kept.slots, pool.cap)"),
        ("until_ns = now_ns + kept.left_ns", "until_ns = now_ns"),
    ),
    *_of(
        "kept",
        f"{CORE}/policy.py",
        ("keep_alive",),
        ("bool(self.awaited) or self.keepers.next_ns is not None", "bool(self.awaited)"),
        ("(sizing.wake_ns, self.keepers.next_ns)", "(sizing.wake_ns,)"),
    ),
    *_of(
        "last requests",
        f"{CORE}/policy.py",
        ("policy",),
        ("and j not in brief:", "and True:"),
        ("if j >= 0 and 0 < took <= most_ns", "if j >= 0"),
        ("else newest.columns", "else range(len(longest))"),
    ),
    *_of(
        "kept",
        "services/assay/planner/service/floor.py",
        ("floor", "controller"),
        ("max(one.queued + one.running, to_come[one.stage])", "one.queued + one.running"),
        ("max(d.slots, held.get(d.stage, 0))", "d.slots"),
    ),
    *_of(
        "arrivals",
        f"{CORE}/futures.py",
        ("futures",),
        ("        position = not_yet(position, past_arrived, factor, open_ns)", "        pass"),
        ("        late_ns = max(open_ns - past_arrived[0], 0)", "        pass"),
    ),
    *_of(
        "the next batch",
        f"{CORE}/coming.py",
        ("coming",),
        ("        if one.mostly_free:", "        if False:"),
    ),
    *_of(
        "floor",
        "services/assay/planner/service/controller.py",
        ("controller",),
        ("        if self._wake.is_set():\n            return\n", ""),
    ),
)  # fmt: skip
