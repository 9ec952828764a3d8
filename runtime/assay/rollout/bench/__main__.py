"""`python -m assay.rollout.bench pipeline | trace | cow | tax | soak | all`."""

from assay.rollout.bench import bench_app

if __name__ == "__main__":
    bench_app()
