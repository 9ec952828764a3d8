"""What a program may do with objects of the tests that it was given."""

import unittest
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock, NonCallableMock

import pytest

from assay.verifiers.code.referee.lent import Lent
from assay.verifiers.code.referee.values import Malformed


class Case(unittest.TestCase):
    """As the tests define one."""

    __test__ = False

    def visit(self, value: int) -> int:
        """A method of the tests' own."""
        return value + 1


Case.__module__ = "tests"
KINDS = (Mock, MagicMock, AsyncMock, NonCallableMock, Case)


def methods(kind: type) -> list[str]:
    """Public methods that the library gives this kind of object."""
    return [
        name
        for name in dir(kind)
        if not name.startswith("_") and name != "visit" and callable(getattr(kind, name))
    ]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in methods(kind)]
)
@pytest.mark.parametrize("operation", ["get", "set"])
def test_no_method_that_judges_is_reached_or_replaced(
    kind: type[Any], name: str, operation: str
) -> None:
    lent = Lent()
    number = lent.number(kind())
    with pytest.raises(Malformed):
        lent.touch(number, operation, [name, 1] if operation == "set" else [name])


def test_what_tests_offer_is_reached() -> None:
    lent = Lent()
    mock = Mock()
    mock.get.return_value = 4
    got = lent.touch(lent.number(mock), "get", ["get"])
    assert lent.touch(lent.number(got), "call", [(3,), {}]) == 4
    mock.get.assert_called_once_with(3)
    visit = lent.touch(lent.number(Case()), "get", ["visit"])
    assert visit(1) == 2
