"""What is committed: the files at the root by name, data and binaries only where they belong.

A command that writes into the directory it is started in leaves its output at the root, where
`git add --all` takes it along.
"""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = {
    ".ci",
    ".containerignore",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "deploy",
    "docs",
    "examples",
    "hatch_build.py",
    "proto",
    "pyproject.toml",
    "run",
    "runtime",
    "scripts",
    "services",
    "simulator",
    "tests",
}
TEXT = {
    *{".c", ".cpp", ".cu", ".css", ".h", ".html", ".js", ".lua", ".md", ".proto", ".py", ".pyi"},
    *{".dockerignore", ".sh", ".toml", ".tpl", ".txt", ".yaml", ".yml"},
}
"""Suffixes of what is written and read by hand: these may be anywhere below the root."""
WITHOUT_SUFFIX = {
    *{".containerignore", ".gitignore", "Containerfile", "LICENSE", "Makefile"},
    *{"METADATA", "py.typed", "run"},
}
DATA = {
    "deploy/helm/assay/": {".json"},
    "docs/figures/": {".png", ".svg"},
    "examples/": {".jsonl"},
    "services/assay/console/static/": {".svg"},
    "tests/kubernetes/recorded/": {".json"},
    "tests/skew/": {".binpb"},
}
"""Where data, pictures and recordings are kept, and of which kind."""
BYTES_MAX = 200_000


@cache
def tracked() -> tuple[str, ...]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: nothing says which files are committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return tuple(listed.stdout.decode().rstrip("\0").split("\0"))


def out_of_place(paths: Iterable[str]) -> list[str]:
    """Data, archives and binaries outside the folders that hold them."""
    return [path for path in paths if not _in_place(PurePosixPath(path))]


def _in_place(path: PurePosixPath) -> bool:
    if path.name in WITHOUT_SUFFIX or path.suffix in TEXT or str(path) == ".ci/run":
        return True
    return any(
        str(path).startswith(folder) and path.suffix in kinds for folder, kinds in DATA.items()
    )


def test_nothing_else_is_at_the_root() -> None:
    assert {path.partition("/")[0] for path in tracked()} == AT_THE_ROOT


def test_data_is_committed_in_the_folders_that_hold_data_and_nowhere_else() -> None:
    assert out_of_place(tracked()) == []


@pytest.mark.parametrize(
    "stray",
    [
        "rows.jsonl",
        "docs/rows.jsonl.gz",
        "examples/model.safetensors",
        "services/assay/rewards.parquet",
        "tests/store/dump.rdb",
        "runtime/assay/rollout/native/libassay_rollout.so",
        "docs/figures/points.csv",
    ],
)
def test_data_elsewhere_is_found(stray: str) -> None:
    assert out_of_place([stray, "README.md"]) == [stray]


def test_every_folder_of_data_holds_some() -> None:
    empty = [
        folder
        for folder, kinds in DATA.items()
        if not any(p.startswith(folder) and PurePosixPath(p).suffix in kinds for p in tracked())
    ]
    assert empty == []


def test_no_committed_file_is_large() -> None:
    sizes = {path: (ROOT / path).stat().st_size for path in tracked() if (ROOT / path).is_file()}
    assert {path: size for path, size in sizes.items() if size > BYTES_MAX} == {}
