"""The example of `docs/pipelines.md` works as it stands."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from assay.core.errors import InvalidRequest
from assay.verifiers.local import LocalPipelines
from assay.verifiers.port import ENTRY_POINT_GROUP
from assay.verifiers.registry import load_pipelines

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipelines"


def test_its_entry_point_gives_a_pipeline_that_judges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    found = [
        EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)
        for name, value in project["entry-points"][ENTRY_POINT_GROUP].items()
    ]
    with LocalPipelines(scratch=tmp_path, pipelines=load_pipelines(found=found)) as local:
        assert local.judge("word_budget", "one two three", {"words": 3}).reward == 1.0
        assert local.judge("word_budget", "one two three", {"words": 4}).reward == 0.5
        with pytest.raises(InvalidRequest) as caught:
            local.judge("word_budget", "x", {"words": 0})
        assert caught.value.field == "reference.words"


def test_it_runs_from_the_command_line() -> None:
    command = [
        sys.executable,
        str(EXAMPLE / "word_budget.py"),
        "a response of six short words",
        "6",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "reward=1.0" in done.stdout
