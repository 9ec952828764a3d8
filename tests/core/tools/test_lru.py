"""A bounded memory: by weight, by age, the least recently used first."""

from assay.core.tools.lru import LruCache


def test_the_least_recently_used_goes_first() -> None:
    cache: LruCache[str, str] = LruCache(weight_max=2)
    cache.put("a", "A")
    cache.put("b", "B")
    assert cache.get("a") == "A"
    cache.put("c", "C")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_weights_are_summed_and_given_back() -> None:
    cache: LruCache[str, bytes] = LruCache(weight_max=10, weigh=len)
    cache.put("a", b"12345")
    cache.put("a", b"1234567890")
    assert cache.get("a") == b"1234567890"
    cache.put("b", b"x")
    assert cache.get("a") is None
    cache.put("too large", b"12345678901")
    assert cache.get("too large") is None
    assert cache.get("b") is None


def test_an_entry_ages_from_when_it_was_put_whoever_reads_it() -> None:
    now_s = 0.0
    cache: LruCache[str, str] = LruCache(weight_max=9, age_s_max=5.0, now_s=lambda: now_s)
    cache.put("a", "A")
    now_s = 5.0
    assert cache.get("a") == "A"
    now_s = 5.1
    assert cache.get("a") is None
    cache.put("a", "A2")
    assert cache.get("a") == "A2"
