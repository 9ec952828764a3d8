# ruff: noqa: E501 - the old text has to stand as it is in its file
"""Small faults to put into the planner of pods and into the port of workers without the store.

Which pods go first, what counts as a slot or as quota, what a broken watch leaves, who may do what
with which lease. Each names its place by a text that occurs exactly once in its file, and the tests
that have to fail.
"""

from typing import Final

from tests.mutation.verdicts import VerdictMutant

PODS: Final = "services/assay/planner/kubernetes"
RELAY: Final = "services/assay/reward/workers/gateway.py"


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    return [VerdictMutant(kind, file, old, new, tests) for old, new in changes]


def _pods(kind: str, name: str, test: str, *changes: tuple[str, str]) -> list[VerdictMutant]:
    return _of(kind, f"{PODS}/{name}.py", (f"tests/kubernetes/test_{test}.py",), *changes)


CLUSTER_MUTANTS: Final = (
    *_pods(
        "which pod goes",
        "costs",
        "costs",
        ("min(len(ready) - stay, MARKS_MAX)", "len(ready) - stay"),
        ("min(len(ready) - stay, MARKS_MAX)", "min(len(there) - stay, MARKS_MAX)"),
        ("if hostname_of(pod.name) in idle | doubted]", "]"),
        ("pod.deletion_cost != cost_of[pod.name], -pod.ready_s", "pod.deletion_cost == cost_of[pod.name], -pod.ready_s"),
        ("cost_of[pod.name] if pod.name in first else 0", "cost_of[pod.name] if pod.name in first else pod.deletion_cost"),
        ("and known[name] in OURS", ""),
    ),
    *_pods(
        "which pod goes",
        "scaler",
        "costs",
        ("await self._mark(pool, replicas, self._hosts)", "pass"),
        ("        if len(pods) <= stay or self._clock", "        if self._clock"),
        ("error.status not in {401, 403}", "error.status not in {401, 403, 404}"),
    ),
    *_pods(
        "watch",
        "mirror",
        "scaler",
        ("self.objects = found\n", "self.objects |= found\n"),
        ("self.objects.pop(name, None)", "pass"),
        ("                self._lost(error.message)\n                was_cut", "                was_cut"),
    ),
    *_pods(
        "watch",
        "mirror",
        "attacks",
        ("if not version:", "if False:"),
        ("            self._set_back()\n", ""),
        ("if older(version, self._newest):", "if False:"),
    ),
    *_pods("slots", "scaler", "scaler", ("if now_s < pool.held_until_s:", "if False:")),
    *_pods("storms", "api", "scaler", ("if error.status < 500:", "if error.status:")),
    *_pods("clock", "pool", "attacks", ("there_s = now_s + ahead_s", "there_s = now_s")),
    *_pods(
        "slots",
        "pool",
        "scaler",
        ("self.wanted = -(-slots // self.slots_per_pod)", "self.wanted = slots // self.slots_per_pod"),
        ("if out or (target.refused and short):", "if out:"),
        ("self.cap_until_s = now_s + patience.quota_hold_s", "self.cap_until_s = now_s + 1e9"),
        ("elif len(recent) >= CONTENDED_CHANGES:", "elif False:"),
        ("pod.name in self._timed:", "False:"),
    ),
    *_pods(
        "slots",
        "pods",
        "pods",
        ('if metadata.get("deletionTimestamp"):', "if False:"),
        ("begun_s = self.scheduled_s if self.gated and self.scheduled_s else self.created_s", "begun_s = self.created_s"),
    ),
    *_pods("slots", "pods", "scaler", ('if disrupted.get("status") == "True":', "if False:")),
    *_pods(
        "storms",
        "api",
        "scaler",
        ("error.status == 409 and attempt < CONFLICTS_MAX", "False"),
        ("if left_s > 0:", "if False:"),
        ('"fieldManager": FIELD_MANAGER, "timeout"', '"fieldManager": "x", "timeout"'),
    ),
    *_pods(
        "hosts",
        "hosts",
        "hosts",
        ("not in living]", "in living]"),
        ("if not pod.over}", "}"),
        ("            if pod_of(record.worker) in living:\n", "            if True:\n"),
    ),
    *_pods(
        "keda",
        "keda",
        "keda",
        ("if not self._leader.is_here():", "if False:"),
        ("None if passed_on else self._leader.there()", "self._leader.there()"),
        ("                if active != before:", "                if before is None:"),
    ),
    *_pods(
        "doubts",
        "doubts",
        "doubts",
        ("now_s - self._looked_s < LOOK_EVERY_S:", "False:"),
        ("since_s = 0.0 if self._looked_s is None else now_s - self._looked_s", "since_s = LOOK_EVERY_S"),
        ("if hosts[stage] > 1}", "}"),
        ("depth.queued > 0 and depth.oldest_age_s > since_s", "depth.queued > 0"),
        ("depth.queued > 0 and depth.oldest_age_s > since_s", "depth.oldest_age_s > since_s"),
        ("one.waited &= one.waits", "one.waited = one.waits"),
        ("        one.waited &= one.waits\n", ""),
        ("if (one.waits or one.doubts)", "if one.waits"),
        ("if (one.waits or one.doubts)", "if True"),
        ("LOOK_EVERY_S * hosts[stage] / HOSTS_AT_ONCE", "LOOK_EVERY_S"),
        ("wanted.sort(key=lambda stage: self._stages[stage].compared_s)", "pass"),
        ("if stage == wanted[0] or count <= HOSTS_AT_ONCE", ""),
        ("if stage == wanted[0] or count <= HOSTS_AT_ONCE", "if count <= HOSTS_AT_ONCE"),
        ("now_s - one.compared_s if one.waited else 0.0", "now_s - one.compared_s"),
        ("if fresh := one.doubts - before:", "if fresh := one.doubts:"),
        ("if stage in stages and pod_of(record.worker) in ready.get(stage, ()):", "if stage in stages:"),
        ("timeout_s=self._timeout_of(stage)", "timeout_s=0.0"),
        ("        self._looked_s = now_s\n", ""),
    ),
    *_pods(
        "doubts",
        "pool",
        "doubts",
        ("spares = min(len(self.doubted), SPARES_MAX)", "spares = len(self.doubted)"),
        ("self.good = len(there) - len(self.doubted)", "self.good = len(there)"),
        ("        admitted -= len(self.doubted)\n", ""),
    ),
    *_of(
        "leases",
        RELAY,
        ("tests/reward/test_work_port.py",),
        ("        if not self._keys().is_sealed([caller.worker, stage, fence, *said], seal):\n            return None\n", ""),
        ("is_sealed([caller.worker, stage, fence, *said], seal)", "is_sealed([caller.worker, stage, *said], seal)"),
        ("if name not in caller.stages:", "if False:"),
        (
            'if not caller.worker:\n            raise PermissionDenied(ONLY_ENROLLS)\n        if name',
            'if False:\n            raise PermissionDenied(ONLY_ENROLLS)\n        if name',
        ),
        ("undoing = asyncio.create_task(_undone(task, undo))", "undoing = task"),
        ("before.worker != caller.worker", "True"),
        ("refuse_own_address(host.address, peer)", "pass"),
        ("            self._stage(caller, stage)\n        in_range(\"lease_s\", lease_s, 0.001, HOST", "            pass\n        in_range(\"lease_s\", lease_s, 0.001, HOST"),
        ("while more and size < ANSWER_BYTES_MAX:", "while more:"),
    ),
)  # fmt: skip
