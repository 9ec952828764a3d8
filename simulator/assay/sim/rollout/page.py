"""A report as one self-contained HTML page: it loads nothing."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def page(report: Mapping[str, Any]) -> str:
    """Insert the report into the template, as JSON that cannot end the script element."""
    template = files("assay.sim.rollout").joinpath("page.html").read_text(encoding="utf-8")
    data = json.dumps(report, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return template.replace("__DATA__", data)
