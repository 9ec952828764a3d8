"""Values on the wire between candidate and referee: exact, with identities, and safe to read."""

import contextlib
import json
import math
import re
from array import array
from collections import (
    ChainMap,
    Counter,
    OrderedDict,
    UserDict,
    UserList,
    UserString,
    defaultdict,
    deque,
)
from datetime import date, timedelta, timezone
from enum import IntEnum
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from statistics import NormalDist
from types import MappingProxyType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.referee import library
from assay.verifiers.code.referee.values import (
    NESTING_MAX,
    Decoder,
    Encoder,
    Malformed,
    Record,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(SCALARS, inner, max_size=4)
        | st.sets(SCALARS, max_size=4)
        | st.frozensets(SCALARS, max_size=4)
    ),
    max_leaves=15,
)


PATH_TEXT = st.text(st.sampled_from("ab./:\\C \udc80"), max_size=8)
ARRAYS = st.one_of(
    st.lists(st.integers(0, 100)).flatmap(
        lambda items: st.sampled_from("bBhHiIlLqQ").map(lambda code: array(code, items))
    ),
    st.lists(st.floats(width=32, allow_nan=False)).flatmap(
        lambda items: st.sampled_from("fd").map(lambda code: array(code, items))
    ),
)
NAMES = st.text(st.sampled_from("abc_"), min_size=1, max_size=3).filter(str.isidentifier)
LIBRARY = st.one_of(
    PATH_TEXT.map(PurePosixPath),
    # Python 3.11 does not read the text of each back as the same: `./C:` is printed as `C:`.
    PATH_TEXT.map(PureWindowsPath).filter(lambda path: PureWindowsPath(str(path)) == path),
    st.uuids(),
    st.sampled_from(["a+", "(?i)[a-c]{2}|x", ""]).map(re.compile),
    st.sampled_from([b"a", b"\\d"]).map(lambda said: re.compile(said, re.MULTILINE)),
    st.sampled_from(["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires"]).map(ZoneInfo),
    st.tuples(st.floats(-9, 9), st.floats(0, 9)).map(lambda both: NormalDist(*both)),
    st.ip_addresses(),
    st.tuples(st.ip_addresses(v=4), st.integers(0, 32)).map(IPv4Interface),
    st.tuples(st.ip_addresses(v=6), st.integers(0, 128)).map(IPv6Interface),
    st.tuples(st.ip_addresses(v=4), st.integers(0, 32)).map(lambda it: IPv4Interface(it).network),
    st.tuples(st.ip_addresses(v=6), st.integers(0, 128)).map(lambda it: IPv6Interface(it).network),
    ARRAYS,
    ARRAYS.map(lambda items: memoryview(items)),
    st.dictionaries(SCALARS, VALUES, max_size=3).map(MappingProxyType),
    st.dictionaries(SCALARS, VALUES, max_size=3).map(UserDict),
    st.lists(st.dictionaries(SCALARS, VALUES, max_size=2), max_size=3).map(
        lambda maps: ChainMap(*maps)
    ),
    st.lists(VALUES, max_size=3).map(UserList),
    st.text().map(UserString),
    st.dictionaries(NAMES, VALUES, max_size=3).map(lambda named: SimpleNamespace(**named)),
    st.datetimes().map(lambda at: at.timetuple()),
    st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s))),
    st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s), "here")),
    st.dates(date(2, 1, 1)).map(date.isocalendar),
    st.just(NotImplemented),
)


def foreign(value: object) -> Any:
    return ["?", type(value).__name__]


class Foreign:
    """Stands for what is not data."""

    def __init__(self, _form: object) -> None:
        pass


def decode_result(form: Any) -> Any:
    return Decoder(Foreign).decode(form)


def through(value: object) -> Any:
    form = Encoder(foreign, is_program=True).encode(value)
    return decode_result(json.loads(json.dumps(form)))


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@given(VALUES)
def test_values_arrive_as_they_left(value: Any) -> None:
    assert same(through(value), value)


@given(LIBRARY, st.booleans())
def test_values_of_the_librarys_own_types_arrive_as_they_left(value: Any, inside: bool) -> None:
    found = through([value, value] if inside else value)
    found = found[1] if inside else found
    assert same(found, value)
    if isinstance(value, (PurePath, UserString, timezone)):
        assert str(found) == str(value)
    with contextlib.suppress(TypeError, ValueError):
        assert hash(found) == hash(value)


class Named(SimpleNamespace):
    """Has methods that the tests may call."""


def test_an_instance_of_a_programs_own_subclass_stays_an_object() -> None:
    for value in (Named(a=1), Path("a"), memoryview(b"abcd").cast("c")):
        assert type(through(value)) is Foreign
    assert type(decode_result(Encoder(foreign).encode(SimpleNamespace()))) is Foreign, "of a test"


def test_a_namespace_has_no_attribute_that_python_looks_up_itself() -> None:
    made = SimpleNamespace(__eq__=1, __class__=int)
    assert type(through(made)) is Foreign
    for name in ("__class__", "__eq__", "a b", 5, ["t", []]):
        with pytest.raises(Malformed):
            decode_result(["N=", 0, [[name, 1]]])
    ring = SimpleNamespace()
    ring.next = ring
    assert through(ring).next.next.next is not None


def test_what_is_no_number_and_negative_zero_survive() -> None:
    assert math.isnan(through(math.nan))
    assert math.copysign(1, through(-0.0)) == -1
    assert through(math.inf) == math.inf
    assert through("\ud800") == "\ud800"


def test_identity_and_cycles_survive() -> None:
    row: list[Any] = [0]
    grid = through([row, row, {"row": row}])
    assert grid[0] is grid[1] is grid[2]["row"]
    row.append(row)
    again = through(row)
    assert again[1] is again


class Number(IntEnum):
    ONE = 1


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__

    def __add__(self, other: object) -> int:
        return 42

    def __int__(self) -> int:
        return 42


class LyingList(list):  # type: ignore[type-arg]  # of anything
    def __iter__(self) -> Any:
        return iter([42])

    def __len__(self) -> int:
        return 42


class LyingStr(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "42"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Number.ONE, 1),
        (Liar(5), 5),
        (LyingList([5]), [5]),
        (LyingStr("five"), "five"),
        (OrderedDict(a=1), OrderedDict(a=1)),
        (defaultdict(int, a=1), defaultdict(int, a=1)),
        (Counter("aab"), Counter("aab")),
        (deque([1, [2]], maxlen=3), deque([1, [2]])),
    ],
)
def test_a_subclass_of_a_builtin_is_read_by_the_builtins_own_methods(
    value: object, plain: object
) -> None:
    assert same(through(value), plain)


def test_other_objects_are_opaque_and_equal_to_nothing() -> None:
    found = through(object())
    assert type(found) is Foreign
    assert found != through(object())


def test_nesting_is_bounded() -> None:
    deep: list[Any] = []
    for _ in range(NESTING_MAX + 5):
        deep = [deep]
    with pytest.raises(Malformed, match="deeper"):
        Encoder(foreign).encode(deep)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from([*"ldsatznbcrqDi@?T/.gPuA!", *library.READERS, "N="]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=12,
)


@given(JUNK)
def test_any_json_is_a_value_or_malformed(form: Any) -> None:
    try:
        decode_result(form)
    except Malformed:
        return


def test_an_object_of_json_is_no_value() -> None:
    for form in ({}, {"a": 1}, ["l", [{"a": 1}]]):
        with pytest.raises(Malformed):
            decode_result(form)


@given(JUNK, JUNK)
def test_any_change_is_carried_out_or_malformed(number: Any, contents: Any) -> None:
    decoder = Decoder(lambda _form: None, [[1], {"a": 1}, {2}, bytearray(b"x"), array("b")])
    try:
        decoder.refill(number, contents)
    except Malformed:
        return
    assert [type(value) for value in decoder.numbered[:5]] == [*(list, dict, set, bytearray, array)]


FIELD = st.sampled_from(
    [
        "x",
        "y",
        "__eq__",
        "__class__",
        "count",
        "index",
        "_named",
        "_fields",
        "a b",
        "class",
        "",
        "x",
    ]
) | st.text(max_size=5)


@given(st.lists(FIELD, max_size=4), st.text(max_size=8))
def test_names_of_fields_are_data_and_shadow_nothing(fields: list[str], name: str) -> None:
    items = list(range(len(fields)))
    found = decode_result(["n", name, fields, items])
    assert found == tuple(items)
    assert hash(found) == hash(tuple(items))
    assert type(found) in (tuple, Record)
    if type(found) is Record:
        assert [getattr(found, field) for field in fields] == items
        assert vars(tuple).keys().isdisjoint(fields)
    assert found.count(0) == items.count(0)
