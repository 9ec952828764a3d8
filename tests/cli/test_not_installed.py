"""A program that needs an extra says which, in one line; a bug of ours is not taken for that."""

import subprocess
import sys
from pathlib import Path

import pytest

from assay.config.extras import needed

PROGRAMS = (
    ("assay.reward", "uvloop", "server"),
    ("assay.worker", "uvloop", "server"),
    ("assay.planner", "uvloop", "server"),
    ("assay.rollout", "uvloop", "demo"),
    ("assay.sim", "numpy", "server,sim"),
    ("assay.sim.platform", "structlog", "server"),
    ("assay.sim.rollout", "numpy", "server,sim"),
)


@pytest.mark.parametrize(("module", "package", "extra"), PROGRAMS)
def test_a_program_without_its_extra_names_it_before_it_does_anything(
    module: str, package: str, extra: str, tmp_path: Path
) -> None:
    program = (
        "import runpy, sys\n"
        f"sys.modules[{package!r}] = None\n"
        f"runpy.run_module({module!r}, run_name='__main__')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.strip() == f"this command needs {package}: pip install 'assay[{extra}]'"
    assert list(tmp_path.iterdir()) == []


def test_a_module_of_ours_that_is_missing_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError), needed("server"):
        raise ModuleNotFoundError("no module", name="assay.nowhere")
