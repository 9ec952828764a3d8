"""What tenants of the store's model have used of the workers, by the hour."""

from collections import Counter, defaultdict

from assay.core.ids import TenantId
from assay.core.store_limits import DAY_HOURS

HOUR_US = 3_600 * 1_000_000


class WorkerTime:
    """Microseconds per tenant and hour."""

    def __init__(self) -> None:
        self._used_us: dict[TenantId, Counter[int]] = defaultdict(Counter)

    def spend(self, tenant: TenantId, cost_us: int, now_ns: int) -> None:
        """The tenant's requests held workers for this long."""
        self._used_us[tenant][now_ns // 1_000 // HOUR_US] += cost_us

    def rest_s(self, tenant: TenantId, most_s: float, now_ns: int) -> float:
        """How long the tenant has to wait until less than `most_s` are of the last day."""
        now_us = now_ns // 1_000
        this = now_us // HOUR_US
        used = self._used_us[tenant]
        for left in range(DAY_HOURS + 1):  # hours from now
            hours = range(this + left - DAY_HOURS + 1, this + 1)
            if sum(used[hour] for hour in hours) < most_s * 1_000_000:
                return max(0.0, ((this + left) * HOUR_US - now_us) / 1e6) if left else 0.0
        return 0.0
