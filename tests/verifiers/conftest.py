"""Pipelines are run as the workers do."""

from tests.verifiers.benches import bench, judge, new_bench, shared_data

__all__ = ["bench", "judge", "new_bench", "shared_data"]
