"""Benches of the rollout runtime: `python -m assay.rollout.bench`, and `assay bench` of the CLI."""

from assay.rollout.bench.app import bench_app

__all__ = ["bench_app"]
