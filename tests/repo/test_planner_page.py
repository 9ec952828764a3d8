"""docs/planner.md has each setting of plans once, with the default that it has in the code."""

import re
from pathlib import Path

from pydantic import BaseModel

from assay.config.planning import PlanSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "planner.md").read_text("utf-8")
WORDS = {"delay_budget_s": "min(5 s, 2 % of T)", "no_barrier": "none"}
"""Defaults that are no values: what is done without one."""


def shown(name: str, value: object) -> str:
    """A default as the page has it, apart from units."""
    if name in WORDS:
        return WORDS[name]
    if isinstance(value, BaseModel):
        return ", ".join(f"{one:g}" for one in value.model_dump().values())
    if isinstance(value, tuple):
        return ", ".join(f"{one:g}" for one in value)
    return f"{value:g}"


def test_each_setting_of_plans_is_in_the_table_once_with_its_default() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", PAGE, re.MULTILINE)
    found = {
        tuple(re.findall(r"\w+", names)): re.sub(r"(?<=\d)\.0\b", "", cell) for names, cell in rows
    }
    settings = PlanSettings()
    table = {names: cell for names, cell in found.items() if names[0] in PlanSettings.model_fields}
    assert sorted(name for names in table for name in names) == sorted(PlanSettings.model_fields)
    for names, cell in table.items():
        defaults = ", ".join(shown(name, getattr(settings, name)) for name in names)
        without_units = re.sub(r"(?<=\d) s\b", "", cell)
        assert without_units == re.sub(r"(?<=\d) s\b", "", defaults), names
