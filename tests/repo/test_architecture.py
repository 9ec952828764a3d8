"""docs/architecture.md names every package and no other, and files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = ("services", "runtime", "simulator", "proto")
MODULES_MAX = 14
FILES_MAX = 5


def packages() -> dict[str, Path]:
    """Every package by its dotted name."""
    found = {}
    for source in SOURCES:
        for init in (ROOT / source / "assay").rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(ROOT / source).parts)
            found[name] = init.parent
    return found


def test_the_page_names_every_package() -> None:
    named = re.findall(r"^\| `(assay\.[\w.]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(packages())


def test_the_files_to_touch_are_there() -> None:
    page = PAGE.read_text("utf-8").partition("## To change X")[2]
    files = re.findall(r"`([\w.]+/[\w./]+)`", page)
    assert len(files) > 25
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_a_change_touches_at_most_five_files() -> None:
    section = PAGE.read_text("utf-8").partition("## To change X")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (an? [^|]*|KV[^|]*) \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) >= 12
    for what, touched in rows:
        files = re.findall(r"`([\w.]+/[\w./]+)`(?! or)", touched)
        assert 1 <= len(files) <= FILES_MAX, f"{what}: {files}"


@pytest.mark.parametrize("name", sorted(packages()))
def test_a_package_is_small_enough_to_read(name: str) -> None:
    if name == "assay.v1":
        return  # generated
    modules = [path.name for path in packages()[name].glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX, modules
