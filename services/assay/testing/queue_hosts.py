"""The model of the worker hosts' records."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from assay.core.hosts.record import (
    HOSTS_MAX,
    HOSTS_PER_OWNER_MAX,
    HostRecord,
    check_host,
    too_many_hosts,
)
from assay.core.ids import StageName, WorkerId


class _Kept(NamedTuple):
    expires_ns: int
    owner: str
    host: HostRecord


class HostBook:
    """Records that run out."""

    def __init__(self, hosts_max: int = HOSTS_MAX) -> None:
        self._hosts_max = hosts_max
        self._kept: dict[WorkerId, _Kept] = {}
        self.ended: defaultdict[WorkerId, Counter[StageName]] = defaultdict(Counter)
        """Requests that each judged."""

    def put(self, host: HostRecord, lease_ns: int, now_ns: int, owner: str = "") -> bool:
        check_host(host)
        self._kept = {w: kept for w, kept in self._kept.items() if kept.expires_ns > now_ns}
        known = self._kept.get(host.worker)
        if known is None:
            if len(self._kept) >= self._hosts_max:
                raise too_many_hosts(of_one=False, hosts_max=self._hosts_max)
            of_one = sum(kept.owner == owner for kept in self._kept.values())
            if owner and of_one >= HOSTS_PER_OWNER_MAX:
                raise too_many_hosts(of_one=True)
        whose = owner if known is None else known.owner
        self._kept[host.worker] = _Kept(now_ns + lease_ns, whose, host)
        return known is None

    def drop(self, worker: WorkerId) -> bool:
        """Forget a host; returns whether it was there."""
        return self._kept.pop(worker, None) is not None

    def all(self, now_ns: int) -> Sequence[HostRecord]:
        kept = sorted(self._kept.values(), key=lambda one: (one.expires_ns, one.host.worker))
        return [one.host for one in kept if one.expires_ns > now_ns]
