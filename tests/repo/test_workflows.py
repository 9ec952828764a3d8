"""Workflows run what is written here: actions by their commit, few rights, a bounded time."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
RIGHTS = ({"contents": "read"}, {"id-token": "write"})
"""What a job may have: to read the tree, or to be who it is to a package index."""


def _steps(workflow: Path) -> list[tuple[str, dict[str, Any]]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [(name, step) for name, job in jobs.items() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_named_by_its_commit_with_the_version_beside_it(workflow: Path) -> None:
    used = re.findall(r"uses: (.+)", workflow.read_text())
    assert used
    assert [line for line in used if not PINNED.fullmatch(line.strip())] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_no_job_may_write_or_run_for_hours(workflow: Path) -> None:
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {"contents": "read"}
    for name, job in read["jobs"].items():
        assert job.get("permissions", RIGHTS[0]) in RIGHTS, name
        assert 0 < job["timeout-minutes"] <= 60, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_no_later_step_finds_the_credentials_of_the_checkout(workflow: Path) -> None:
    for name, step in _steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_the_scripts_and_files_that_steps_name_are_in_the_tree(workflow: Path) -> None:
    for name, step in _steps(workflow):
        for word in shlex.split(step.get("run", ""), comments=True):
            path = word.removeprefix("$GITHUB_WORKSPACE/")
            if path.startswith(("scripts/", "examples/", ".ci/")):
                assert (ROOT / path).is_file(), f"{name}: {word}"
