"""The model of the worker hosts' records."""

from collections.abc import Sequence

from assay.core.errors import Saturated
from assay.core.hosts.record import HOSTS_MAX, HostRecord, check_host
from assay.core.ids import WorkerId
from assay.core.store_limits import RETRY_AFTER_S


class HostBook:
    """Records that run out."""

    def __init__(self) -> None:
        self._kept: dict[WorkerId, tuple[int, HostRecord]] = {}

    def put(self, host: HostRecord, lease_ns: int, now_ns: int) -> bool:
        """See `Store.put_host`."""
        check_host(host)
        self._kept = {w: kept for w, kept in self._kept.items() if kept[0] > now_ns}
        is_new = host.worker not in self._kept
        if is_new and len(self._kept) >= HOSTS_MAX:
            message = f"{HOSTS_MAX} worker hosts are registered"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S)
        self._kept[host.worker] = (now_ns + lease_ns, host)
        return is_new

    def drop(self, worker: WorkerId) -> bool:
        """See `Store.drop_host`; returns whether it was there."""
        return self._kept.pop(worker, None) is not None

    def all(self, now_ns: int) -> Sequence[HostRecord]:
        """See `Store.hosts`."""
        kept = sorted(self._kept.values(), key=lambda one: (one[0], one[1].worker))
        return [host for expires_ns, host in kept if expires_ns > now_ns]
