"""The cache of artifacts on a host's disk."""

from pathlib import Path

from assay.core.ids import kept_for, owner_of
from assay.worker.artifacts.cache import ArtifactCache


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=3 * 132)
    for key in ("a", "b", "c"):
        cache.put(key, key.encode() * 100)
    assert cache.get("a") == b"a" * 100
    cache.put("d", b"d" * 100)
    assert cache.get("b") is None
    assert cache.get("a") == b"a" * 100
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3 * 132


def test_the_cache_survives_its_host(tmp_path: Path) -> None:
    ArtifactCache(tmp_path, bytes_max=1_000).put("../../etc/passwd", b"content")
    assert ArtifactCache(tmp_path, bytes_max=1_000).get("../../etc/passwd") == b"content"
    assert ArtifactCache(tmp_path, bytes_max=10).get("../../etc/passwd") is None
    assert list(tmp_path.iterdir()) == []


def test_a_tenant_that_fills_the_cache_loses_its_own(tmp_path: Path) -> None:
    """Also after the host was started again, which knows owners by the names of files."""
    quiet, flood = (kept_for(owner_of([name]), "k") for name in ("quiet", "flood"))
    for first in (0, 50):
        cache = ArtifactCache(tmp_path, bytes_max=10 * 132)
        for at in range(0 if first else 4):
            cache.put(f"{quiet}{at}", bytes(100))
        for at in range(first, first + 50):
            cache.put(f"{flood}{at}", bytes(100))
        assert all(cache.get(f"{quiet}{at}") is not None for at in range(4))
        assert cache.get(f"{flood}{first + 49}") is not None
        assert len(list(tmp_path.iterdir())) == 10


def test_what_was_half_written_is_removed_at_the_start(tmp_path: Path) -> None:
    ArtifactCache(tmp_path, bytes_max=1_000).put("key", b"content")
    (whole,) = tmp_path.iterdir()
    for name in (f"{whole.name}.123", "0" * 64):
        (tmp_path / name).write_bytes(b"half")
    assert ArtifactCache(tmp_path, bytes_max=1_000).get("key") == b"content"
    assert list(tmp_path.iterdir()) == [whole]


def test_a_damaged_artifact_is_dropped(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=1_000)
    cache.put("key", b"content")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    assert cache.get("key") is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=100)
    cache.put("key", bytes(200))
    assert cache.get("key") is None
