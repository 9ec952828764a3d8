"""Defines metrics in one registry, each with the fast form of `labels`."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from assay.edge.scrape.fast import fast


@dataclass(frozen=True, slots=True)
class Definer:
    """Where metrics are defined; `words` is the help, which names the unit and the labels."""

    registry: CollectorRegistry

    def gauge(self, name: str, words: str, labels: tuple[str, ...], mode: str) -> Gauge:
        return fast(Gauge(name, words, labels, registry=self.registry, multiprocess_mode=mode))  # type: ignore[arg-type]  # one of the literals

    def counter(self, name: str, words: str, labels: tuple[str, ...]) -> Counter:
        return fast(Counter(name, words, labels, registry=self.registry))

    def histogram(
        self, name: str, words: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> Histogram:
        return fast(Histogram(name, words, labels, registry=self.registry, buckets=buckets))
