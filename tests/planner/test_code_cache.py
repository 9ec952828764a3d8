"""Machine code belongs to one state of the sources."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay.config.computed import KEPT_MAX, cache_dir
from assay.planner.process.code_cache import (
    ANY_PROCESSOR,
    VARIABLE,
    environment,
    sources_digest,
)
from assay.planner.process.shipped_code import PLACE


def tree(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / "model" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_every_change_of_a_source_is_another_state(tmp_path: Path) -> None:
    before = sources_digest([tree(tmp_path / "a", one="x = 1", two="y = 2")])
    assert sources_digest([tree(tmp_path / "b", one="x = 1", two="y = 2")]) == before
    others = [
        tree(tmp_path / "c", one="x = 1", two="y = 3"),
        tree(tmp_path / "d", one="x = 1", other="y = 2"),
        tree(tmp_path / "e", one="x = 1\ny = 2", two=""),
        tree(tmp_path / "f", one="x = 1"),
    ]
    assert len({before, *(sources_digest([other]) for other in others)}) == 5


def test_the_sources_of_this_installation_are_found() -> None:
    assert sources_digest(assay.__path__) != sources_digest([])


def test_only_the_latest_states_are_kept(tmp_path: Path) -> None:
    for i in range(KEPT_MAX + 3):
        made = cache_dir(tmp_path, f"state{i}")
        assert made is not None
        os.utime(made, (i, i))
    assert cache_dir(tmp_path, "now") == tmp_path / "now"
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"now", *(f"state{i}" for i in range(4, KEPT_MAX + 3))}


def test_what_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cache_dir(tmp_path / "file", "state") is None


def test_a_process_is_given_the_directory_of_these_sources(tmp_path: Path) -> None:
    found = environment({"XDG_CACHE_HOME": str(tmp_path), "PATH": "/bin"})
    assert found["PATH"] == "/bin"
    assert Path(found[VARIABLE]).is_dir()
    assert Path(found[VARIABLE]).is_relative_to(tmp_path)
    own = {VARIABLE: "/mine"}
    assert environment(own) == {**own, **ANY_PROCESSOR}
    assert environment({"NUMBA_CPU_NAME": "mine"})["NUMBA_CPU_NAME"] == "mine"


NOWHERE = """
from numba.core import caching
caching.CacheImpl._locator_classes = []  # as numba finds where it can write to no directory
from assay.model.jit import jit
@jit
def twice(number):
    return 2 * number
assert twice(21) == 42 and twice.signatures, "compiled all the same"
"""


def test_where_no_directory_can_be_written_each_process_compiles_for_itself() -> None:
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", NOWHERE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


UNPACK = """
import os, sys
import assay
from assay.planner.process.shipped_code import unpack
print(unpack([*assay.__path__, sys.argv[1]], os.environ))
"""
FIRST_PLAN = """
from assay.config.planning import PlanSettings
from assay.planner.process.warm_up import warm_up
from assay.planner.session.session import Session
warm_up(Session(PlanSettings()), 15.0)
from assay.model import queueing
from assay.planner.core import futures
stats = [one.stats for one in (queueing.serve_from, queueing.serve, futures.fill)]
misses = sum(sum(one.cache_misses.values()) for one in stats)
print(misses, sum(sum(one.cache_hits.values()) for one in stats))
"""


def said(program: str, shipped: Path, home: Path) -> list[str]:
    """What a program prints whose shipped code is there."""
    given = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(shipped)],
        env=environment({**given, "XDG_CACHE_HOME": str(home)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_first_plan_of_an_installation_compiles_nothing_that_was_shipped(
    tmp_path: Path,
) -> None:
    pytest.importorskip("numba")
    shipped = tmp_path / "assay"
    command = [sys.executable, "-m", "assay.planner.process.shipped_code", str(shipped / PLACE)]
    subprocess.run(command, check=True)
    there, compiled, loaded = said(UNPACK + FIRST_PLAN, shipped, tmp_path / "home")
    assert (there, compiled) == ("True", "0")
    assert int(loaded) > 0
    (digest,) = (shipped / PLACE).iterdir()
    digest.rename(digest.with_name("0" * 16))
    assert said(UNPACK, shipped, tmp_path / "other home") == ["False"], "of other sources"


def test_a_process_without_a_home_keeps_machine_code_with_its_data(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    data = tmp_path / "data"
    found = environment({"XDG_CACHE_HOME": str(tmp_path / "file"), "ASSAY_DATA_DIR": str(data)})
    assert Path(found[VARIABLE]).is_relative_to(data)


ALLOCATES = """
import numpy as np
from numba.core.errors import TypingError
from assay.model.jit import in_place
@in_place
def allocating(numbers):
    return np.zeros(3)[0] + numbers[0]
try:
    allocating(np.ones(3))
except TypingError:
    print("refused")
"""


def test_a_loop_that_counts_no_references_cannot_allocate() -> None:
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATES], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
