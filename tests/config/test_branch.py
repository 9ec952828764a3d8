"""Descriptions of settings, read from their classes."""

import ast
from typing import Any

import pytest

from assay.config import branch
from assay.config.branch import Described


class Named(Described):
    """Something with a name."""

    name: str = ""
    """How it is called."""


@pytest.mark.parametrize("failures", [0, 1, branch.PARSE_TRIES_MAX - 1, branch.PARSE_TRIES_MAX])
def test_a_race_of_the_interpreter_costs_no_description(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    parse, left = ast.parse, [SystemError("depth mismatch")] * failures

    def racing(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return parse(*args, **options)

    monkeypatch.setattr(ast, "parse", racing)
    if failures == branch.PARSE_TRIES_MAX:
        with pytest.raises(SystemError):
            Named.model_json_schema()
    else:
        described = Named.model_json_schema()["properties"]["name"]["description"]
        assert described == "How it is called."
