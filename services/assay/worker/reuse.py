"""Verdicts that are used again: the same request is judged once.

For deterministic pipelines, for tasks with `reuse_results`, and per tenant, so that the time of an
answer shows no tenant what another has sent. Of equal requests of a stage on this host, one is
judged (the leader) and the others wait for its verdict under their own leases. Verdicts are kept
here and in the store, so that other hosts find them too.

Invariants: only `SCORED` and hand-overs are shared; if the leader ends by a failure of the
platform, at a limit or with a lost lease, the others lose nothing and one of them leads next; a
claim is in one place.
"""

import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from assay.core.codec import CodecError, pack, unpack
from assay.core.errors import AssayError
from assay.core.ids import PipelineName, StageName, kept_for, owner_of
from assay.core.outcome import Outcome
from assay.core.records import Claim
from assay.core.tools.lru import LruCache, TenantCache
from assay.edge.metrics import Metrics
from assay.store.port import WorkerStore
from assay.verifiers.port import PipelineDefinition
from assay.worker.assignment import HeldClaim
from assay.worker.slots.messages import HOSTS_KEYS, Said, SaidEnded, SaidHandedOver

KEPT_BYTES_MAX: Final = 16 * 1024**2
KEPT_ENTRY_BYTES: Final = 200
"""Added to the size of each verdict."""
KEPT_S: Final = 600.0
FOLLOWERS_MAX: Final = 1_024
"""Claims of one stage that wait for the verdicts of others; beyond that each is judged."""
WRITES_MAX: Final = 256
"""Verdicts on their way to the store; beyond that they are kept here only."""
SETTINGS_KNOWN_MAX: Final = 1_024

StartTask = Callable[..., object]


class ReusePolicy:
    """Which tasks want equal requests to be judged once."""

    def __init__(self, pipelines: Mapping[PipelineName, PipelineDefinition]) -> None:
        self._deterministic = {
            name for name, definition in pipelines.items() if definition.deterministic
        }
        self._known: LruCache[bytes, bool] = LruCache(weight_max=SETTINGS_KNOWN_MAX)

    def applies(self, pipeline: PipelineName, settings_json: bytes) -> bool:
        """Whether verdicts under these settings may be used again."""
        if pipeline not in self._deterministic:
            return False
        known = self._known.get(settings_json)
        if known is None:
            known = bool(json.loads(settings_json or b"{}").get("reuse_results", False))
            self._known.put(settings_json, known)
        return known


class Reuse:
    """The verdicts of one stage on this host."""

    def __init__(
        self,
        *,
        stage: StageName,
        store: WorkerStore,
        policy: ReusePolicy,
        version_of: Callable[[PipelineName, bytes], str],
        metrics: Metrics,
        now_s: Callable[[], float],
        spawn: StartTask,
    ) -> None:
        self._stage = stage
        self._store = store
        self._policy = policy
        self._version_of = version_of
        self._metrics = metrics
        self._spawn = spawn
        self._kept: TenantCache[str, Said] = TenantCache(
            weight_max=KEPT_BYTES_MAX, weigh=_weight, age_s_max=KEPT_S, now_s=now_s
        )
        self._leading: dict[str, list[HeldClaim]] = {}
        """Followers of the request that leads, by its key."""
        self._followers = 0
        self._writes = 0

    def key_of(self, claim: Claim) -> str:
        """What determines the verdict; empty: it is not to be used again."""
        task = claim.task
        if claim.members or not self._policy.applies(task.pipeline, task.settings_json):
            return ""
        version = self._version_of(task.pipeline, task.settings_json)
        artifacts = [list(artifact) for artifact in claim.artifacts]
        parts = pack(
            [
                *(version, task.pipeline, task.settings_json, self._stage),
                *(claim.response, claim.reference, claim.messages, artifacts, claim.handover),
            ]
        )
        digest = hashlib.blake2b(parts, digest_size=32).hexdigest()
        name = kept_for(owner_of((task.tenant,)), f"verdict:{digest}")
        return HOSTS_KEYS + name if version else ""

    async def look_up(self, claims: Sequence[Claim]) -> Sequence[str]:
        """Their keys; fetches the verdicts that other hosts have kept of them, best effort."""
        keys = [self.key_of(one) for one in claims]
        tenants = {key: one.task.tenant for one, key in zip(claims, keys, strict=True) if key}
        for key, tenant in tenants.items():
            if self._kept.get(tenant, key) is not None or key in self._leading:
                continue
            try:
                packed = await self._store.artifact_get(key)
                if packed is not None:
                    self._kept.put(tenant, key, _unpacked(packed))
            except (AssayError, CodecError):
                break  # they are judged
        return keys

    def admit(self, held: HeldClaim) -> Said | bool:
        """The verdict on a claim, if there is one; otherwise whether it is to be judged now."""
        key = held.reuse_key
        if not key:
            return True
        known = self._kept.get(held.claim.task.tenant, key)
        if known is not None:
            self._metrics.verdict_reused(stage=self._stage, result="kept")
            return known
        followers = self._leading.get(key)
        if followers is None:
            self._leading[key] = []
            held.leads = True
            return True
        if self._followers >= FOLLOWERS_MAX:
            held.reuse_key = ""
            return True
        self._followers += 1
        followers.append(held)
        return False

    def judged(self, held: HeldClaim, said: Said) -> Sequence[HeldClaim]:
        """The claims that get the same verdict."""
        if not held.leads or not _may_be_shared(said):
            return ()
        key = held.reuse_key
        self._metrics.verdict_reused(stage=self._stage, result="made")
        followers = self._end_lead(held)
        for _ in followers:
            self._metrics.verdict_reused(stage=self._stage, result="shared")
        self._kept.put(held.claim.task.tenant, key, said)
        if self._writes < WRITES_MAX:
            self._writes += 1
            self._spawn(self._write(key, said), name=f"verdict {self._stage}")
        return followers

    def leave(self, held: HeldClaim) -> Sequence[HeldClaim]:
        """Remove a claim that ended without a verdict to share; returns those to be judged in its
        place, the new leader first."""
        if held.leads:
            followers = self._end_lead(held)
            if followers:
                first, *others = followers
                first.leads = True
                self._leading[first.reuse_key] = others
                self._followers += len(others)
                return (first,)
            return ()
        waiting = self._leading.get(held.reuse_key, [])
        if held in waiting:
            waiting.remove(held)
            self._followers -= 1
        return ()

    def take_followers(self) -> list[HeldClaim]:
        """Remove all claims that wait for another's verdict."""
        taken = [held for followers in self._leading.values() for held in followers]
        for followers in self._leading.values():
            followers.clear()
        self._followers = 0
        return taken

    def _end_lead(self, held: HeldClaim) -> list[HeldClaim]:
        held.leads = False
        followers = self._leading.pop(held.reuse_key)
        self._followers -= len(followers)
        return followers

    def _write(self, key: str, said: Said) -> Coroutine[Any, Any, None]:
        async def write() -> None:
            try:
                await self._store.artifact_put(key, _packed(said))
            except AssayError:
                return  # this host has it
            finally:
                self._writes -= 1

        return write()


def _may_be_shared(said: Said) -> bool:
    if isinstance(said, SaidEnded):
        return said.outcome is Outcome.SCORED and not said.unaudited
    return isinstance(said, SaidHandedOver)


def _packed(said: Said) -> bytes:
    if isinstance(said, SaidHandedOver):
        return pack([said.handover])
    if isinstance(said, SaidEnded):
        return pack([said.reward, said.body])
    message = f"{type(said).__name__} is not shared"
    raise CodecError(message)


def _unpacked(packed: bytes) -> Said:
    match unpack(packed):
        case [bytes() as handover]:
            return SaidHandedOver(handover=handover)
        case [float() | int() as reward, bytes() as body]:
            return SaidEnded(outcome=Outcome.SCORED, reward=float(reward), body=body)
    raise CodecError("not a verdict that was kept")


def _weight(said: Said) -> int:
    content = said.body if isinstance(said, SaidEnded) else b""
    content += said.handover if isinstance(said, SaidHandedOver) else b""
    return len(content) + KEPT_ENTRY_BYTES
