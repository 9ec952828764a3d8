"""Rows are judged as in the tests of the pipelines."""

from tests.verifiers.benches import bench, judge, new_bench, shared_data

__all__ = ["bench", "judge", "new_bench", "shared_data"]
