"""A bounded memory: by weight, by age, the least recently used first, of several tenants apart."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.tools.lru import LruCache, TenantCache


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


def test_a_tenant_finds_only_its_own_entries() -> None:
    cache: TenantCache[str, str] = TenantCache(weight_max=4)
    cache.put("red", "a", "A")
    assert (cache.get("blue", "a"), cache.get("red", "a")) == (None, "A")


def test_the_entries_of_a_tenant_age() -> None:
    now_s = 0.0
    cache: TenantCache[str, str] = TenantCache(weight_max=9, age_s_max=5.0, now_s=lambda: now_s)
    cache.put("red", "a", "A")
    now_s = 5.1
    assert cache.get("red", "a") is None


def test_a_flood_evicts_its_own_oldest_entries_only() -> None:
    cache: TenantCache[int, int] = TenantCache(weight_max=100)
    for key in range(20):
        cache.put("quiet", key, key)
    for key in range(1_000):
        cache.put("flood", key, key)
        cache.get("flood", 0)
    assert all(cache.get("quiet", key) == key for key in range(20))
    assert cache.get("flood", 0) == 0, "used last"
    assert cache.get("flood", 1) is None
    assert sum(cache.get("flood", key) is not None for key in range(1_000)) == 80


@given(
    st.integers(8, 30),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 8)),
        min_size=8,
        max_size=60,
    ),
)
def test_no_tenant_within_an_even_share_loses_an_entry(
    most: int, puts: list[tuple[str, int, int]]
) -> None:
    """And the sum stays within its bound, and what is kept is what was put last."""
    cache: TenantCache[int, tuple[int, int]] = TenantCache(
        weight_max=most, weigh=lambda value: value[0]
    )
    kept: dict[str, dict[int, tuple[int, int]]] = {}
    for number, (tenant, key, weight) in enumerate(puts):
        cache.put(tenant, key, (weight, number))
        kept.setdefault(tenant, {})[key] = (weight, number)
        for one, entries in kept.items():
            found = {at: cache.get(one, at) for at in entries}
            weighs = sum(value[0] for value in entries.values())
            if weighs * len(kept) <= most:
                assert found == entries
            for at, value in found.items():
                assert value in (None, entries[at])
        kept = {
            one: left
            for one, entries in kept.items()
            if (left := {at: value for at, value in entries.items() if cache.get(one, at)})
        }
        assert sum(value[0] for of in kept.values() for value in of.values()) <= most
