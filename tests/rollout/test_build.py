"""The build hook: what it says without a compiler, and that it rebuilds what changed."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hatch_build"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    native = tmp_path / "native"
    native.mkdir()
    (native / "one.h").write_text("int one(void);\n")
    (native / "one.c").write_text('#include "one.h"\nint one(void) { return 1; }\n')
    (native / "guard_preload.c").write_text("int guard(void);\nint guard(void) { return 2; }\n")
    return native


def test_without_a_compiler_the_error_says_what_to_install(
    hook: ModuleType, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(hook.NativeImpossible, match=r"no-such-compiler.*install gcc or clang"):
        hook.build(sources, tmp_path / "objects")


def test_a_warning_fails_the_build_with_the_compilers_words(
    hook: ModuleType, sources: Path, tmp_path: Path
) -> None:
    (sources / "one.c").write_text("int one(void) { int unused; return 1; }\n")
    with pytest.raises(RuntimeError, match="unused"):
        hook.build(sources, tmp_path / "objects")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_changed_header_rebuilds_and_an_unchanged_tree_does_not(
    hook: ModuleType, sources: Path, tmp_path: Path
) -> None:
    objects = tmp_path / "objects"
    made = hook.build(sources, objects)
    assert [p.name for p in made] == ["libassay_rollout.so", "libassay_guard.so"]
    first = (objects / "plain" / "one.o").stat().st_mtime_ns
    hook.build(sources, objects)
    assert (objects / "plain" / "one.o").stat().st_mtime_ns == first
    header = sources / "one.h"
    header.write_text("int one(void);\nint two(void);\n")
    hook.build(sources, objects)
    assert (objects / "plain" / "one.o").stat().st_mtime_ns > first


def test_the_planners_loops_are_compiled_with_what_this_process_finds(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip installs for a build is on the path of its process, and nowhere else."""
    package = tmp_path / "tree" / "services" / "assay" / "planner" / "process"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "shipped_code.py").write_text(
        "import pathlib, sys, of_the_build\npathlib.Path(sys.argv[1], 'made').touch()\n"
    )
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "of_the_build.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(installed))
    made = hook.compile_plans(tmp_path / "tree", tmp_path / "compiled")
    assert [one.name for one in made.iterdir()] == ["made"]
