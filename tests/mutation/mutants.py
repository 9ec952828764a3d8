"""Small faults to put into the platform, one at a time: would the simulation see them?

Each names its place by a text that occurs exactly once in its file. None is equivalent: each breaks
a promise of the store's port, the worker, the planner or the API.
"""

from typing import Final, NamedTuple

CORE: Final = "services/assay/core"
MODEL: Final = "services/assay/testing"
WORKER: Final = "services/assay/worker"
REWARD: Final = "services/assay/reward"
PLANNER: Final = "services/assay/planner"


class Mutant(NamedTuple):
    """One change of one file."""

    kind: str
    file: str
    old: str
    new: str


def _of(kind: str, file: str, *changes: tuple[str, str]) -> list[Mutant]:
    return [Mutant(kind, file, old, new) for old, new in changes]


ORDERING: Final = [
    *_of(
        "ordering",
        f"{CORE}/ordering.py",
        ("deadline_ms=-(-deadline_ns // 1_000_000), s", "deadline_ms=0, s"),
        ("sequence=sequence)", "sequence=-sequence)"),
        ("return min(others, key", "return max(others, key"),
        ("        self.waiting[tenant] += advance\n", ""),
        ("return math.ceil(cost_us / weight)", "return math.ceil(cost_us * weight * weight)"),
    ),
    *_of(
        "ordering",
        f"{CORE}/fair_queue.py",
        (
            "        tenant = self.shares.first(left_out)",
            "        tenant = max(self.shares.waiting)",
        ),
        ("            self.shares.leave(tenant)\n", "            pass\n"),
        (
            "        _, entry = heappop(heap)\n        while",
            "        _, entry = heap.pop()\n        while",
        ),
    ),
    *_of(
        "ordering",
        f"{MODEL}/queue_records.py",
        ("return self.prioritized_ns or self.deadline_ns", "return self.deadline_ns"),
        (
            "deadline_ns=self.batch.order_deadline_ns, sequence=int(self.job_id[1:])",
            "deadline_ns=self.enqueued_ns, sequence=int(self.job_id[1:])",
        ),
    ),
]
LEASES: Final = [
    *_of(
        "leases",
        f"{MODEL}/queue_stages.py",
        (
            "                job.expires_ns = min(now_ns + lease_ns, job.claimed_ns + held_ns_max)\n",
            "                pass\n",
        ),
        (
            "(job for job in leases if job.expires_ns <= now_ns)",
            "(job for job in leases if job.expires_ns < 0)",
        ),
        (
            "(job for job in leases if job.expires_ns <= now_ns)",
            "(job for job in leases if job.claimed_ns <= now_ns)",
        ),
        (
            "job.claimed_ns + held_ns_max:\n                lost.append(lease)",
            "job.claimed_ns + held_ns_max:\n                pass",
        ),
        (
            "job.claimed_ns, job.expires_ns = now_ns, expires_ns",
            "job.claimed_ns, job.expires_ns = now_ns, now_ns",
        ),
    ),
    *_of(
        "leases",
        f"{WORKER}/supervisor.py",
        ("min(self._spec.lease_s / 3, BEAT_S_MAX)", "self._spec.lease_s * 1.5"),
        (
            "            held.is_lost = True\n            self._waiting.remove(held)",
            "            held.is_lost = True",
        ),
        (
            "        leases, lease_s = list(self._held), self._spec.lease_s\n",
            "        leases, lease_s = list(self._held)[1:], self._spec.lease_s\n",
        ),
        ("        self._lose(lost)\n", ""),
        ("        self._held.pop(held.claim.lease, None)\n", "        pass\n"),
    ),
    *_of(
        "leases",
        f"{WORKER}/sweeps.py",
        ("beaten_ns < regained_ns)", "beaten_ns == 0)"),
    ),
    *_of(
        "leases",
        f"{PLANNER}/service/leader.py",
        (
            "int(self._lease_s * (1 - MARGIN_SHARE) * 1e9)",
            "int(self._lease_s * (3 - MARGIN_SHARE) * 1e9)",
        ),
        ("            else:\n                self._until_ns = 0\n", ""),
    ),
    *_of(
        "leases",
        f"{MODEL}/queue_tasks.py",
        ("free = not now.leads or now.expires_ns <= now_ns", "free = True"),
        ("free = not now.leads or now.expires_ns <= now_ns", "free = not now.leads"),
    ),
    *_of(
        "leases",
        f"{MODEL}/queue_model.py",
        (
            "(job for job in leases if job.worker == worker),",
            "(job for job in leases),",
        ),
        (
            "dead = self._lose(lost, HOST_GONE, attempts_max, now_ns)",
            "dead = self._lose(lost[:1], HOST_GONE, attempts_max, now_ns)",
        ),
    ),
    *_of(
        "leases",
        f"{WORKER}/membership.py",
        ("self._owed = list(stages) if", "self._owed = list(stages)[:1] if"),
        ("                await self._succeed()\n", ""),
    ),
    *_of(
        "leases",
        "services/assay/store/operations/hosts.py",
        ("    for stage in host.stages:\n", "    for stage in host.stages[:1]:\n"),
    ),
]
FENCES: Final = [
    *_of(
        "fences",
        f"{MODEL}/queue_stages.py",
        ("max(self._fence, now_ns // 1_000) + 1", "max(1, now_ns // 1_000_000_000)"),
        ("return job if job is not None and job.fence == lease.fence else None", "return job"),
    ),
    *_of(
        "fences",
        f"{MODEL}/queue_model.py",
        (
            "self.stages.held_by(stage, report.lease)",
            "self.stages.leases[stage].get(report.lease.job_id)",
        ),
    ),
    *_of(
        "fences",
        f"{MODEL}/queue_tasks.py",
        ("fence=now.fence + free, expires_ns", "fence=now.fence, expires_ns"),
    ),
    *_of(
        "fences",
        f"{WORKER}/supervisor.py",
        (
            "        for one in held:\n            self._held[one.claim.lease] = one\n",
            "        for one in held[:1]:\n            self._held[one.claim.lease] = one\n",
        ),
    ),
]
CAPS: Final = [
    *_of(
        "caps",
        f"{MODEL}/queue_stages.py",
        ("left_out) and len(claims) < claims_max:", "left_out) and len(claims) <= claims_max:"),
    ),
    *_of(
        "caps",
        f"{MODEL}/queue_batches.py",
        ("if held.batches >= quota.batches_open_max:", "if held.batches > quota.batches_open_max:"),
        ("            held.batches -= 1\n", ""),
        ("        held.requests -= 1\n        held.payload_bytes", "        held.payload_bytes"),
        ("        held.payload_bytes -= job.payload_bytes\n", ""),
    ),
    *_of(
        "caps",
        f"{MODEL}/queue_records.py",
        (
            "if requests and held.requests + requests > quota.requests_open_max:",
            "if requests and held.requests > quota.requests_open_max:",
        ),
        (
            "if payload_bytes and held.payload_bytes + payload_bytes > quota.bytes_open_max:",
            "if payload_bytes and held.payload_bytes > quota.bytes_open_max:",
        ),
        ("    if not batch.open:\n", "    if batch.over:\n"),
    ),
    *_of(
        "caps",
        f"{WORKER}/supervisor.py",
        (
            "self._pool.idle * self._spec.batch_max - len",
            "(self._pool.idle + 4) * self._spec.batch_max - len",
        ),
    ),
    *_of(
        "caps",
        f"{WORKER}/assignment.py",
        ("return min(self._batch_max, -(", "return max(self._batch_max, -("),
        (
            "        taken = list(self._claims)[slots * self._each_max :]\n",
            "        taken = list(self._claims)[:0]\n",
        ),
    ),
    *_of(
        "caps",
        f"{WORKER}/slots/pool.py",
        ("while len(self._slots) < self._desired:", "while len(self._slots) <= self._desired:"),
        (
            "        if len(self._slots) > self._desired:  # the",
            "        if len(self._slots) > 99:  # the",
        ),
        (
            "        self._desired = desired\n        starting",
            "        self._desired = desired + 7\n        starting",
        ),
    ),
]
RETRIES: Final = [
    *_of(
        "retries",
        f"{MODEL}/queue_stages.py",
        ("        job.attempts += 1\n", ""),
    ),
    *_of(
        "retries",
        f"{MODEL}/queue_model.py",
        (
            "case FailAttempt() if job.attempts < attempts_max:",
            "case FailAttempt() if job.attempts <= attempts_max:",
        ),
        (
            "            if job.attempts < attempts_max:\n",
            "            if job.attempts <= attempts_max:\n",
        ),
        ("        job.attempts -= 1\n", ""),
        (
            'finish.handover\n        job.attempts, job.enqueued_ns, job.error = 0, now_ns, ""\n',
            'finish.handover\n        job.enqueued_ns, job.error = now_ns, ""\n',
        ),
    ),
    *_of(
        "retries",
        f"{WORKER}/supervisor.py",
        ("            self._waiting.add_again(held)\n", ""),
        (
            "                    self._may_be_work = True\n                    self._lost_answers",
            "                    self._lost_answers",
        ),
        ("        if self._wakes_served < mine:\n", "        if self._wakes_served < 0:\n"),
        ("                self._give_past_fresh()\n", ""),
    ),
    *_of(
        "retries",
        f"{WORKER}/assignment.py",
        ("            held.alone = True\n", ""),
        ("        held.fresh = held is current or held.alone\n", ""),
        (
            "    blamed = assignment.current\n    others",
            "    blamed = next(iter(assignment.open.values()), None)\n    others",
        ),
    ),
    *_of(
        "retries",
        f"{WORKER}/reports.py",
        (
            "                    await self._health.pause(failures)\n                    continue\n",
            "                    return\n",
        ),
        (
            "                some = self._next()\n",
            "                some = self._next()\n                self._waiting.clear()\n                self._waiting.extend(some)\n",
        ),
        ("                self._settle(some, finished)\n", ""),
    ),
    *_of(
        "retries",
        f"{WORKER}/finish.py",
        ("index(claim.stage) + 1\n", "index(claim.stage)\n"),
    ),
    *_of(
        "retries",
        f"{WORKER}/slots/pool.py",
        ("            self._idle.append(slot)\n\n", "            pass\n\n"),
        ("        self._user.on_ended(slot, said)\n", ""),
        (
            '        self._spawn(self._clean(slot.scratch), name="clean")\n        self._restock()\n',
            '        self._spawn(self._clean(slot.scratch), name="clean")\n',
        ),
    ),
    *_of(
        "retries",
        f"{REWARD}/operations/scoring.py",
        ("                self._batches.cancel_soon(tenant, batch_id)\n", "                pass\n"),
    ),
]
COUNTERS: Final = [
    *_of(
        "counters",
        f"{MODEL}/queue_stages.py",
        ("        job.batch.running += job.requests\n", ""),
        ("            job.batch.running -= job.requests\n", "            pass\n"),
        ("            self._changes.work.add(job.stage)\n", ""),
        (
            "        if queue.others(left_out):\n            self._changes.work.add(stage)\n",
            "        if not queue:\n            self._changes.work.discard(stage)\n",
        ),
    ),
    *_of(
        "counters",
        f"{MODEL}/queue_model.py",
        (
            "            outcome = batch.closing or Outcome.EXPIRED\n",
            "            outcome = Outcome.CANCELLED\n",
        ),
        (
            "if fresh and len(batch.requests) == batch.spec.size:",
            "if fresh and len(batch.requests) > batch.spec.size > 0:",
        ),
    ),
    *_of(
        "counters",
        f"{MODEL}/queue_batches.py",
        ("        batch.outcomes[end.outcome] += 1\n", "        batch.outcomes[end.outcome] = 1\n"),
        (
            "    del batch.live[job.job_id]\n        result",
            "    batch.live.pop(job.job_id, None)\n        batch.log = batch.log[1:]\n        result",
        ),
    ),
    *_of(
        "counters",
        f"{MODEL}/queue_records.py",
        (
            "            queued=submitted - ended - self.running,\n",
            "            queued=submitted - ended,\n",
        ),
        (
            "            fresh[index] = seen[request.request_id] = request\n",
            "            fresh[index] = request\n",
        ),
    ),
    *_of(
        "counters",
        f"{REWARD}/operations/results.py",
        ("cursor=cursor + len(entries)", "cursor=cursor + len(entries) + 1"),
        ("last=batch.over and len(entries) < results_max", "last=batch.over"),
        ("last=batch.over and len(entries) < results_max", "last=len(entries) < results_max"),
        (
            "                if batch.ended == ended_seen and not batch.over:",
            "                if batch.ended >= ended_seen and batch.ended and not batch.over:",
        ),
    ),
    *_of(
        "counters",
        f"{WORKER}/reports.py",
        (
            "                for _ in some:\n                    self._waiting.popleft()\n",
            "                self._waiting.clear()\n",
        ),
    ),
]
PLAN: Final = [
    *_of(
        "lead time",
        f"{PLANNER}/core/shape.py",
        (
            "ordered_s = startup_s + settings.tick_s",
            "ordered_s = 0.0",
        ),
        (
            "first, soon = offset_ns // tick_ns, ",
            "first, soon = offset_ns // tick_ns + 3, ",
        ),
        (
            "return min(max(needed, min(again, pool.target)), pool.cap)",
            "return max(needed, min(again, pool.target)) // 2",
        ),
    ),
]

WHOLE_GROUPS: Final = [
    *_of(
        "groups",
        f"{MODEL}/queue_groups.py",
        ("whole and 0 < len(group.members) == group.live", "whole and 0 < len(group.members)"),
        (
            "not batch.open or group.submitted == batch.spec.group_size",
            "not batch.open",
        ),
        (
            "for _, job in sorted(group.members.items())",
            "for _, job in sorted(group.members.items())[:2]",
        ),
    ),
    *_of(
        "groups",
        f"{MODEL}/queue_batches.py",
        ('        if own.state == "leased":\n            job.batch.running -= 1\n', ""),
        ("            touched.gathered.add(request.group_id)\n", ""),
        ("        self.open_groups(batch, batch.groups, now_ns)\n", ""),
    ),
    *_of(
        "groups",
        f"{WORKER}/finish.py",
        ("gathers = next_stage == claim.task.group_stage", "gathers = False"),
        (
            "tuple(zip(jobs, finishes, strict=True))",
            "tuple(zip(jobs, finishes[::-1], strict=True))",
        ),
    ),
    *_of(
        "groups",
        f"{WORKER}/auditing/culprits.py",
        (
            "self.blamed[candidates[0]] = failed\n                return\n",
            "self.blamed[candidates[0]] = failed\n",
        ),
        (
            "            if failure is None or failure.limit:\n                break\n",
            "            break\n",
        ),
        ("sorted({*self.passing, *candidates})", "sorted({*candidates})"),
        ("return [members[at] for at in search.following or search.order[:1]]", "return members"),
    ),
]
TRANSCRIPTS: Final = [
    *_of(
        "transcripts",
        f"{MODEL}/queue_stages.py",
        ("messages=job.request.messages", 'messages=b""'),
    ),
    *_of(
        "transcripts",
        f"{MODEL}/queue_groups.py",
        ("messages=job.request.messages", 'messages=b""'),
    ),
    *_of(
        "transcripts",
        f"{WORKER}/assignment.py",
        ("one.handover, one.messages, files", 'one.handover, b"", files'),
    ),
]
MUTANTS: Final = (
    *ORDERING, *LEASES, *FENCES, *CAPS, *RETRIES, *COUNTERS, *PLAN, *WHOLE_GROUPS, *TRANSCRIPTS,
)  # fmt: skip
