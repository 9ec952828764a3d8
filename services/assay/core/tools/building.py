"""Makes objects of frozen dataclasses at a fraction of what their `__init__` takes."""

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def builder(cls: type[T]) -> Callable[..., T]:
    """A constructor of a frozen dataclass with slots: every field, in order, by position.

    The `__init__` of a frozen dataclass sets each field by a call. This one sets the fields of a
    class with the same slots that is not frozen, and then gives the object its own class: the same
    object, seven times as fast for thirteen fields. For those made per trajectory, not for others.

    Raises:
        TypeError: the class has no slots, or a `__post_init__`, which would not be called.
    """
    if "__slots__" not in vars(cls) or hasattr(cls, "__post_init__"):
        message = f"{cls.__name__}: a dataclass with slots and without __post_init__"
        raise TypeError(message)
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    twin = make_dataclass(cls.__name__, names, slots=True, eq=False, repr=False)

    def build(*values: Any) -> T:  # noqa: ANN401 the fields' types
        made: Any = twin(*values)
        made.__class__ = cls
        return made  # type: ignore[no-any-return]

    return build
