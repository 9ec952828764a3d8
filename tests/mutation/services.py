# ruff: noqa: E501 - the old text has to stand as it is in its file
"""Small faults to put into services and client, one at a time: do the tests of that place see them?

Places that the simulation does not run or runs rarely: submissions that are joined, verdicts that
are used again, work ahead of a slot, what a client remembers, deadlines, how a plan learns from its
own batch and prepares for the next, hosts that are doubted, corrections of shares, and what passes
of a connection to gRPC. Each names its
place by a text that occurs exactly once in its file.
"""

from typing import Final

from tests.mutation.verdicts import VerdictMutant

SERVICES: Final = "services/assay"


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    paths = tuple(f"tests/{name}.py" for name in tests)
    return [VerdictMutant(kind, f"{SERVICES}/{file}", old, new, paths) for old, new in changes]


SERVICE_MUTANTS: Final = (
    *_of(
        "joined",
        "client/joining.py",
        ("client/test_joining",),
        ("(self._sending or self._waiting) and", "self._waiting and"),
        ("waiting = [one for one in self._waiting if not one[1].done()]", "waiting = self._waiting"),
        ("if len(messages) > self._room or size > self._bytes_left:", "if len(messages) > self._room:"),
        ("        seen |= ids\n", ""),
        ("        left -= before\n", ""),
        ("        except AssayError:\n            return []", "        except AssayError:\n            raise"),
        ("self._room, self._bytes_left = JOINED_REQUESTS_MAX, JOINED_BYTES_MAX", "self._room = JOINED_REQUESTS_MAX"),
        ("        except DependencyDown:\n            raise\n", ""),
    ),
    *_of(
        "at fault",
        "worker/slots/main.py",
        ("worker/test_host",),
        ("            return [judged(handler, works[0])]", "            return handler.run(works)"),
    ),
    *_of(
        "used again",
        "worker/reuse.py",
        ("worker/test_reuse",),
        ("if claim.members or not", "if not"),
        ("owner_of((task.tenant,))", "owner_of((task.pipeline,))"),
        ("(claim.response, claim.reference, claim.messages, artifacts, claim.handover)", "(claim.response, claim.reference, claim.messages, artifacts)"),
        ("is Outcome.SCORED and not said.unaudited", "is Outcome.SCORED"),
        ("                first.leads = True\n", ""),
        ("                self._followers += len(others)\n", ""),
        ("        if self._followers >= FOLLOWERS_MAX:", "        if False:"),
        ("            finally:\n                self._writes -= 1\n", ""),
        ("        if not held.leads or not _may_be_shared(said):", "        if not _may_be_shared(said):"),
    ),
    *_of(
        "ahead",
        "worker/ahead.py",
        ("worker/test_ahead_order", "worker/test_ahead"),
        ("            del self._without[slot]\n", ""),
        ("        self._without.pop(slot, None)\n        self._with.pop(slot, None)\n", "        self._without.pop(slot, None)\n"),
        ("now_ns - slot.assignment.begun_ns <= _LATE_NS", "now_ns - slot.assignment.begun_ns <= 0"),
        ("        slot.send(messages.TAKE_BACK)\n", ""),
        ("if slot.ahead and works_in_vain(slot.ahead)]", "if slot.ahead]"),
    ),
    *_of(
        "remembered",
        "client/ledger.py",
        ("client/test_store_loss",),
        ("if len(self._kept) == len(self._acknowledged) else None", ""),
        ("            if message.request_id in self._acknowledged:\n                continue\n", ""),
        ("len(self._acknowledged - self._answered)", "len(self._acknowledged)"),
        ("told = (result.outcome, result.reward)", "told = (result.outcome,)"),
    ),
    *_of(
        "deadline",
        "reward/operations/deadline.py",
        ("reward/test_deadline",),
        ("-(-max(spans_ns) // NS_PER_MS)", "-(-min(spans_ns) // NS_PER_MS)"),
        ("DELAY_BUDGET_DEFAULT_MS if delay_budget_ms is None else delay_budget_ms", "delay_budget_ms or DELAY_BUDGET_DEFAULT_MS"),
    ),
    *_of(
        "shares",
        "core/ordering.py",
        ("core/test_ordering", "store/test_shares"),
        ("            self.now_us = min(self.now_us, max(self.waiting.values()))\n", ""),
        ("            virtual_us = max(self.debts.get(tenant, 0), self.now_us) + more_us", "            virtual_us = self.now_us + more_us"),
        ("if ahead > self.now_us}", "if ahead >= 0}"),
        ("advance > 0 and self.since is not None and claim > self.since", "advance > 0 and self.since is not None"),
        ("        if self.waiting and self.since is None:", "        if self.since is None:"),
        ("self.by_tenant_us.get(tenant) or self.all_us or COST_US_MIN", "self.by_tenant_us.get(tenant) or COST_US_MIN"),
    ),
    *_of(
        "learned",
        "planner/core/learn.py",
        ("planner/test_learning",),
        ("    factor = factor ** (weight / (weight + SHRINK))\n", ""),
        ("        service_ns[spaced, stage + 1 :] = 0", "        service_ns[spaced, stage:] = 0"),
        ("    on = float((finished & (batch.reached > stage)).sum())", "    on = float((batch.reached > stage).sum())"),
    ),
    *_of(
        "the next batch",
        "planner/core/coming.py",
        ("planner/test_coming",),
        ("after_ns=max(possible - margin - rested_ns, 0)", "after_ns=max(possible - margin, 0)"),
        ("    if task.rested_ns is not None and not task.gaps_ns:\n        return None\n", ""),
        ("into = slice(first, first + len(part))", "into = slice(0, len(part))"),
        ("    add(present)\n", ""),
        (" or when.overdue_ns > patience_ns", ""),
        ("rested_ns=-max(ends_after_ns, 0))", "rested_ns=0)"),
        (" and new.at_ns - last.at_ns < kept_ns", ""),
        ("for p in at_once.pools)", "for p in pools)"),
    ),
    *_of(
        "doubted hosts",
        "planner/session/trust.py",
        ("planner/test_trust",),
        ("if len(doubted) < len(self._records) else frozenset()", "if doubted else frozenset()"),
        ("if now.ended >= before.ended else now.ended", "if now.ended >= before.ended else 0"),
        ("        elif now_s - record.doubted_s >= DOUBT_S_MAX:", "        elif False:"),
        ("    elif now.ready:\n        before.waited_s", "    else:\n        before.waited_s"),
    ),
    *_of(
        "word of a host",
        "planner/session/conduct.py",
        ("planner/test_conduct",),
        ("pool.desired if self.asked is None else min(pool.desired, self.asked)", "pool.desired"),
        ("pool.ready >= (pool.desired if self.asked is None else self.asked)", "pool.ready >= pool.desired"),
        ("or pool.ready > self.ready_most", "or pool.ready != self.ready_most"),
        ("if self.failures >= FAILURES_MAX:\n            self._offend", "if False:\n            self._offend"),
        ("        self.offences += 1", "        self.offences = 1"),
    ),
    *_of(
        "seen by the planner",
        "planner/session/progress.py",
        ("planner/test_progress",),
        ("longest <= 0 or gap > GAP_SHARE_MAX * longest", "longest <= 0"),
        ("times[stages.index(before.stage)] = longest - gap // 2", "times[stages.index(before.stage)] = longest"),
        ("len(known.ended) < SEEN_SHARE_MIN * work.batch.ended:\n            return None", "not known.ended:\n            return None"),
    ),
    *_of(
        "in front of gRPC",
        "edge/connections/fields.py",
        ("edge/test_front",),
        ("(length * 8 // 5 if coded else length)", "length"),
        ("                    self._sizes.appendleft(field)\n", "                    pass\n"),
        ("                size += self._size(index)\n", ""),
        ("            elif first & 0xE0 == 0x20:  # the table's size changes", "            elif False:"),
    ),
    *_of(
        "in front of gRPC",
        "edge/connections/passage.py",
        ("edge/test_front",),
        ("if count > FIELDS_MAX or size > BLOCK_BYTES_MAX:", "if size > BLOCK_BYTES_MAX:"),
        ("if count > FIELDS_MAX or size > BLOCK_BYTES_MAX:", "if count > FIELDS_MAX:"),
        ("return max(1.0, count / STREAM_FIELDS, size / STREAM_BYTES)", "return 1.0"),
        ("        if unit.streams and now_s >= self._opened_s + FREE_AFTER_S:\n            return wait_s\n", ""),
        ("frames=int(length < SMALL_BYTES)", "frames=0"),
        ("            self._shared.spend(unit, now_s)\n", ""),
        ("            self._pace.spend(unit, now_s)\n", ""),
        ("        if at > len(here):\n            return 0\n", ""),
        ("head[3] == _CONTINUATION and head[5:9] == stream", "head[3] == _CONTINUATION"),
        (" or at - begins > BLOCK_BYTES_MAX:", ":"),
        ("            yield self.bytes, unit.size + unit.rest\n", "            yield self.bytes, unit.size\n"),
    ),
    *_of(
        "in front of gRPC",
        "edge/connections/front.py",
        ("edge/test_front",),
        ("            self._make_room()\n", "            pass\n"),
        ("        self._front.connections.cut_in_front(self, why)\n", ""),
        ("(self.address,) if several else caller", "(self.address,)"),
        ("            self._passage.widen(", "            ("),
    ),
)  # fmt: skip
