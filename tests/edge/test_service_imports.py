"""What a service imports at its start: the memory and the time of each process of a platform."""

import subprocess
import sys

import pytest

NOT_NEEDED = ("redis", "rich", "pygments", "numpy", "numba", "sympy", "opentelemetry.sdk", "httpx")


@pytest.mark.parametrize("part", ["reward", "worker", "planner"])
def test_a_service_starts_without_what_it_does_not_use(part: str) -> None:
    code = f"import sys, assay.{part}.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    assert "structlog" in imported
    assert not imported & set(NOT_NEEDED)
