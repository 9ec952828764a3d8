# ruff: noqa: E501 - the old text has to stand as it is in its file
"""What the rollout service promises, taken out one mechanism at a time: do its tests see?

Versions of tokens and of cached keys, early cuts, members that are made again, back-pressure,
streams that are resumed, masks, baselines, staleness, pushes that are cut or damaged, slots and
activations, servers that die, joins and forks of the gateway, idle sessions, credits, tenants. Each
names its place by a text that occurs exactly once in its file, and the tests that have to fail.
"""

from typing import Final

from tests.mutation.verdicts import VerdictMutant

ROLLOUT: Final = "runtime/assay/rollout"
CORE: Final = "services/assay/core"


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    paths = tuple(f"tests/{name}.py" for name in tests)
    return [VerdictMutant(kind, file, old, new, paths) for old, new in changes]


SERVICE: Final = f"{ROLLOUT}/service"
GROUPS: Final = ("rollout/service/test_groups", "rollout/service/test_service")
TRAIN: Final = ("rollout/service/test_service", "rollout/service/test_learning")
PUSHES: Final = ("rollout/service/test_pushes",)
GATEWAY: Final = ("rollout/gateway/test_record", "rollout/gateway/test_gateway")
TENANTS: Final = ("rollout/service/test_hostile_tenants",)

ROLLOUT_MUTANTS: Final = (
    *_of(
        "version per token",
        f"{SERVICE}/flights.py",
        TRAIN,
        ("versions=completed.policy_versions,", "versions=[0] * len(completed.tokens),"),
    ),
    *_of(
        "cache by version",
        f"{ROLLOUT}/local/runtime.py",
        ("rollout/test_weight_slots",),
        ("self._call(self._lib.assay_host_set_policy_version, active)", "pass"),
    ),
    *_of(
        "early cut",
        f"{SERVICE}/flights.py",
        ("rollout/service/test_service",),
        (
            "return scored and needed > 0 and not running.cut and not running.can_vary(needed)",
            "return False",
        ),
    ),
    *_of(
        "early cut",
        f"{SERVICE}/sessions.py",
        ("rollout/service/test_service",),
        ("return 0 < self.enough_groups <= self.counted", "return False"),
        ("return whole and not (self.only_varied and group.summary.degenerate)", "return whole"),
    ),
    *_of(
        "member again",
        f"{SERVICE}/flights.py",
        ("rollout/service/test_failed_members",),
        (
            "if failed and flight.member.attempts < ATTEMPTS_MAX and self._again(flight):",
            "if False:",
        ),
        ("        member.attempts += 1\n", ""),
    ),
    *_of(
        "back-pressure",
        f"{SERVICE}/flights.py",
        TENANTS,
        ("if not held or held + waiting[0].k <= self._share:", "if True:"),
    ),
    *_of(
        "back-pressure",
        f"{SERVICE}/groups.py",
        GROUPS,
        ("if self.counts().open + len(fresh) > self.spec.groups_open_max:", "if False:"),
    ),
    *_of(
        "back-pressure",
        f"{SERVICE}/rewards/lane.py",
        ("rollout/service/test_service",),
        ("if awaited is not None and awaited.until_ns <= now_ns:", "if False:"),
    ),
    *_of(
        "resumed stream",
        f"{SERVICE}/groups.py",
        GROUPS,
        ("if cursor >= self._position or not self.read:", "if True:"),
        ("while self.read and next(iter(self.read)) <= cursor:", "while False:"),
    ),
    *_of(
        "mask",
        f"{CORE}/trajectory.py",
        ("core/test_trajectory", "rollout/service/test_service"),
        (r'b"\0" * n, b"\1" * added', r'b"\1" * n, b"\1" * added'),
        ('"f", before.rollout_logp, bytes(4 * n),', r'"f", before.rollout_logp, b"\1" * (4 * n),'),
    ),
    *_of(
        "baseline",
        f"{CORE}/advantages.py",
        ("core/test_advantages",),
        (
            "found = iter(_estimated([reward for reward in rewards if reward is not None], estimator))",
            "found = iter(_estimated([reward or 0.0 for reward in rewards], estimator))",
        ),
    ),
    *_of(
        "staleness",
        f"{SERVICE}/groups.py",
        GROUPS,
        (
            "if self.spec.staleness_max is not None and staleness > self.spec.staleness_max:",
            "if False:",
        ),
        ("retries < STALE_RETRIES_MAX", "retries >= 0"),
    ),
    *_of(
        "push cut",
        f"{SERVICE}/weights/parts.py",
        PUSHES,
        (
            '        if self._assembly is not None:\n            raise FailedPrecondition("the push ended',
            '        if False:\n            raise FailedPrecondition("the push ended',
        ),
    ),
    *_of(
        "push cut",
        f"{ROLLOUT}/models/tensor_checks.py",
        (*PUSHES, "rollout/test_weight_slots"),
        ("        if self._missing:\n", "        if False:\n"),
    ),
    *_of(
        "checksum",
        f"{ROLLOUT}/models/tensor_checks.py",
        ("rollout/test_weight_slots",),
        ('if found != (self._one.sha256 or "").lower():', "if False:"),
    ),
    *_of(
        "checksum",
        f"{SERVICE}/weights/parts.py",
        PUSHES,
        (
            "if self.crc32 is not None and crc32(self.data, self.number or 0) != self.crc32:",
            "if False:",
        ),
        ("crc32(self.data, self.number or 0) != self.crc32", "crc32(self.data) != self.crc32"),
    ),
    *_of(
        "messages in order",
        f"{SERVICE}/weights/push.py",
        PUSHES,
        ("if part.number is not None and part.number != expected:", "if False:"),
    ),
    *_of(
        "checksum",
        f"{SERVICE}/weights/hand.py",
        PUSHES,
        ("            piece.check(tensor.head.where)\n", ""),
        ("                one.part.check(where)\n", ""),
    ),
    *_of(
        "shape",
        f"{SERVICE}/weights/parts.py",
        ("rollout/service/test_push_messages",),
        ("if differs or min(head.shape, default=0) <= 0:", "if False:"),
        ("        if self._passed > self.size:\n", "        if False:\n"),
    ),
    *_of(
        "pieces",
        f"{ROLLOUT}/models/tensor_checks.py",
        ("rollout/service/test_push_messages",),
        ("        self._begun = found[end:].copy()", "        self._begun = found[:0].copy()"),
    ),
    *_of(
        "pieces",
        f"{ROLLOUT}/models/staging.py",
        ("rollout/test_weight_slots",),
        (
            "        start, self._at = self._at, self._at + len(rows)",
            "        start, self._at = 0, len(rows)",
        ),
    ),
    *_of(
        "slot busy",
        f"{ROLLOUT}/models/engine.py",
        ("rollout/test_weight_slots",),
        (
            '        if not self._staging.acquire(blocking=False):\n            raise WeightsNotReady("another',
            '        if self._staging.acquire(blocking=False) is None:\n            raise WeightsNotReady("another',
        ),
    ),
    *_of(
        "activation",
        f"{ROLLOUT}/local/runtime.py",
        ("rollout/test_weight_slots", "rollout/service/test_learning"),
        (
            "        with self.pause(timeout_s, mode=mode):\n            held",
            "        with self.pause(timeout_s):\n            held",
        ),
    ),
    *_of(
        "activation",
        f"{SERVICE}/service.py",
        ("rollout/service/test_updates", "rollout/service/test_learning"),
        (
            "return min(asked, key=STRICTEST_FIRST.index, default=PauseMode.IN_PLACE)",
            "return PauseMode.IN_PLACE",
        ),
    ),
    *_of(
        "server gone",
        f"{ROLLOUT}/remote/decoder.py",
        ("rollout/test_remote", "rollout/service/test_remote_engine"),
        ("return isinstance(error, ServerLost) or error.status == NOT_FOUND", "return False"),
    ),
    *_of(
        "joins and forks",
        f"{ROLLOUT}/gateway/record.py",
        GATEWAY,
        ("how = Placed.FORKED if at.continued else Placed.JOINED", "how = Placed.JOINED"),
        ("        at.continued = True\n", ""),
        ("kept = (*self.context(at), *added)", "kept = tuple(prompt)"),
        ("            place.at.continued = False\n", "            pass\n"),
    ),
    *_of(
        "idle session",
        f"{ROLLOUT}/gateway/sessions.py",
        ("rollout/gateway/test_gateway",),
        ("if session.used_ns < before_ns and not session.running", "if False"),
        (
            "if session.used_ns < before_ns and not session.running",
            "if session.used_ns < before_ns",
        ),
    ),
    *_of(
        "credits",
        f"{SERVICE}/flights.py",
        TENANTS,
        ("            self._held[flight.session.key.tenant_id] -= 1\n", ""),
    ),
    *_of(
        "credits",
        f"{SERVICE}/sessions.py",
        TENANTS,
        (
            "        self._sessions.give_back(session.key.tenant_id)\n        self._bytes",
            "        self._bytes",
        ),
        (
            "            self._bytes.give_back(tenant_id, session.held_bytes - now)\n",
            "",
        ),
    ),
    *_of(
        "credits",
        f"{ROLLOUT}/native/core.c",
        ("rollout/test_weight_slots", "rollout/test_runtime"),
        (
            "    if (holds & ASSAY_HOLD_REWARD) assay_credit_give(assay_credit_of(g, ASSAY_CREDIT_REWARD), 1);\n",
            "",
        ),
    ),
    *_of(
        "tenants",
        f"{SERVICE}/servicer.py",
        TENANTS,
        (
            "return SessionKey(current_call().tenant.tenant_id, session_id)",
            'return SessionKey("one", session_id)',
        ),
    ),
    *_of(
        "tenants",
        "services/assay/edge/access/rules.py",
        ("rollout/service/test_operation", "rollout/service/test_apart"),
        (
            "return frozenset(map(Role, roles)) or None",
            "return frozenset(map(Role, roles)) | SUBMIT",
        ),
    ),
    *_of(
        "pauses",
        f"{SERVICE}/pauses.py",
        ("rollout/service/test_pauses",),
        ("        if held.keepers == 0:\n", "        if True:\n"),
        ("            held.keepers -= 1\n", ""),
        ("        held.ended.set()\n        held.stack", "        held.stack"),
        (
            "            if self._held.get(pause_id) is held:\n                self._count_down(pause_id, held)\n",
            "            pass\n",
        ),
        ("            held.hold_s = hold_s\n            self._count_down(pause_id, held)\n", ""),
    ),
    *_of(
        "tenants",
        f"{ROLLOUT}/gateway/sessions.py",
        ("rollout/gateway/test_gateway",),
        (
            "        session = self._sessions.get(SessionKey(tenant_id, session_id))",
            "        session = next((one for key, one in self._sessions.items() if key.session_id == session_id), None)",
        ),
    ),
)
