"""`assay demo` from a shell: the real platform, a short run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS_MAX = 300
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)


def test_a_short_run_trains_scores_everything_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra `rollout`")
    task = pytest.importorskip("assay.rollout.demo.task")
    plot = tmp_path / "demo.png"
    short = ["--steps", "3", "--prompts", "6", "--plot", str(plot), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli", "demo", *short],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        cwd=tmp_path,
    )
    # Three steps learn too little, and it says so.
    assert done.returncode == 1, done.stderr
    assert "rose by" in done.stderr
    found = json.loads(done.stdout)
    assert [step["number"] for step in found["steps"]] == [0, 1, 2]
    assert found["unscored"] == 0
    for kind, responses in (
        ("training", 3 * 6 * 8),
        ("held-out", 2 * 2 * len(task.problems(held_out=True))),
    ):
        judged = {"responses": responses, "unjudged": {}, "bias_avoided": 0}
        assert found["no_judge_saw"][kind] == judged
    assert 0 < found["held_out_before"] < 1
    assert all(step["staleness"] <= 1 for step in found["steps"])
    assert all(0 <= step["clipped"] <= 1 for step in found["steps"])
    assert plot.read_bytes().startswith(b"\x89PNG")
