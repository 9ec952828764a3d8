"""Objects made by a builder are those that the class itself would make."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from assay.core.tools.building import builder


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    y: int = 2
    name: str = field(default="p", compare=False)


@dataclass(frozen=True)
class Open:
    x: int


@dataclass(frozen=True, slots=True)
class Checked:
    x: int

    def __post_init__(self) -> None:
        raise ValueError


def test_what_is_built_is_an_object_of_the_class() -> None:
    made = builder(Point)(1, 5, "q")
    assert type(made) is Point
    assert made == Point(x=1, y=5)
    assert repr(made) == repr(Point(x=1, y=5, name="q"))
    assert hash(made) == hash(Point(x=1, y=5))
    assert replace(made, x=9) == Point(x=9, y=5)
    with pytest.raises(FrozenInstanceError):
        made.x = 2  # type: ignore[misc]


def test_every_field_is_needed() -> None:
    with pytest.raises(TypeError):
        builder(Point)(1, 5)


@pytest.mark.parametrize("cls", [Open, Checked])
def test_a_class_that_it_would_make_wrongly_is_refused(cls: type) -> None:
    with pytest.raises(TypeError, match=cls.__name__):
        builder(cls)
