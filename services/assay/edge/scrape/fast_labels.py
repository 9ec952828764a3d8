"""The metric of some labels, found without the library's search."""

from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram

MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)


def fast(metric: MetricT) -> MetricT:
    """Have a metric remember what `labels` returned: the library takes a lock and makes each value
    a text, which costs more than to count. It keeps the same ones itself; none is ever removed."""
    known: dict[tuple[str, ...], MetricT] = {}
    find = metric.labels

    def labels(*values: str) -> MetricT:
        found = known.get(values)
        if found is None:
            found = known[values] = find(*values)
        return found

    metric.labels = labels  # type: ignore[method-assign,assignment]
    return metric
