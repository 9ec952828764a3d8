"""Files that can be computed again are read only as they were written, and by who wrote them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import computed
from assay.config.computed import KEPT_MAX, computed_dir, read, write


@given(key=st.binary(max_size=9), content=st.binary(max_size=99), other=st.binary(max_size=9))
def test_only_the_same_key_finds_it(
    tmp_path_factory: pytest.TempPathFactory, key: bytes, content: bytes, other: bytes
) -> None:
    path = tmp_path_factory.mktemp("kept") / "file"
    write(path, key, content)
    assert read(path, key) == content
    assert read(path, other) == (content if other == key else None)


@given(at=st.integers(min_value=0), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_is_not_there(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int, cut: bool
) -> None:
    path = tmp_path_factory.mktemp("kept") / "file"
    write(path, b"key", b"what was computed")
    held = bytearray(path.read_bytes())
    at %= len(held)
    if cut:
        del held[at:]
    else:
        held[at] ^= 1 << bit
    path.write_bytes(held)
    assert read(path, b"key") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_another_user_may_have_written_is_not_read(tmp_path: Path, mode: int) -> None:
    write(tmp_path / "file", b"key", b"content")
    (tmp_path / "file").chmod(mode)
    assert read(tmp_path / "file", b"key") is None


def test_a_file_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "file", b"key", b"content")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert read(tmp_path / "file", b"key") is None


def test_nothing_larger_than_the_limit_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed, "FILE_BYTES_MAX", 100)
    write(tmp_path / "file", b"key", b"x" * 101)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"x" * 101)
    assert read(tmp_path / "file", b"key") is None


def test_a_directory_that_is_gone_keeps_nothing(tmp_path: Path) -> None:
    write(tmp_path / "gone" / "file", b"key", b"content")
    assert read(tmp_path / "gone" / "file", b"key") is None


def test_each_installation_has_a_directory_and_few_are_kept(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    made = [computed_dir([f"/installation{i}"], env) for i in range(KEPT_MAX + 2)]
    assert None not in made
    assert len(set(made)) == KEPT_MAX + 2
    latest = computed_dir(["/installation0"], env)
    assert latest == made[0]
    kept = list((tmp_path / "assay" / "computed").iterdir())
    assert len(kept) <= KEPT_MAX + 1
    assert latest in kept


def test_a_user_without_a_home_keeps_it_with_the_data(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"XDG_CACHE_HOME": str(tmp_path / "file"), "ASSAY_DATA_DIR": str(tmp_path / "data")}
    found = computed_dir(["/installation"], env)
    assert found is not None
    assert found.is_relative_to(tmp_path / "data")
    assert computed_dir(["/installation"], {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


def test_a_directory_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    found = computed_dir(["/installation"], env)
    assert found is not None
    found.chmod(0o777)
    assert computed_dir(["/installation"], env) is None
