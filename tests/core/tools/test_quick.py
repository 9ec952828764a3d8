"""A quick record is what the same dataclass is without it."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core import records, verdict
from assay.core.ids import JobId
from assay.core.tools.quick import quick


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """With each kind of field."""

    one: int
    two: str = "two"
    three: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("one")


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    one: int
    two: str = "two"
    three: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("one")


GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "one": st.integers(-1, 3),
        "two": st.text(max_size=2),
        "three": st.lists(st.integers(), max_size=2),
        "four": st.none(),
    },
)


def made(kind: type[Any], given_: dict[str, Any]) -> object:
    """Its fields, or what it raises."""
    try:
        return dataclasses.astuple(kind(**given_))
    except (TypeError, ValueError) as error:
        return type(error)


@given(GIVEN)
def test_it_takes_and_refuses_the_same_arguments(given_: dict[str, Any]) -> None:
    assert made(Quick, given_) == made(Plain, given_)


def test_it_is_immutable_equal_and_has_its_own_default() -> None:
    one = Quick(one=1)
    with pytest.raises(FrozenInstanceError):
        one.one = 2  # type: ignore[misc]  # what is tried
    assert one == Quick(one=1)
    assert one != dataclasses.replace(one, two="else")
    assert one.three is not Quick(one=1).three
    assert str(one) == str(Plain(one=1)).replace("Plain", "Quick")
    with pytest.raises(TypeError):
        Quick(1)  # type: ignore[call-arg]  # positional


@given(GIVEN)
def test_its_copies_and_pickles_hold_what_it_holds(given_: dict[str, Any]) -> None:
    try:
        one = Quick(**given_)
    except (TypeError, ValueError):
        return
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other is not one
        with pytest.raises(FrozenInstanceError):
            other.two = ""  # type: ignore[misc]  # what is tried


def test_a_record_may_cross_processes() -> None:
    use = verdict.ResourceUse(cpu_s=1.0)
    lease = records.Lease(job_id=JobId("j"), fence=1)
    assert pickle.loads(pickle.dumps((use, lease))) == (use, lease)
    assert hash(lease) == hash(records.Lease(job_id=JobId("j"), fence=1))
