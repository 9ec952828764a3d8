"""Ids of converted rows: of the form that the service takes, and each given once. Pure."""

import re
from collections import Counter
from typing import Final

_OTHER: Final = re.compile(r"[^A-Za-z0-9._:/-]")
"""What no id of a request may hold (`assay.core.ids.REQUEST_FORM`)."""
CHARS_MAX: Final = 200
"""Leaves room for what tells apart the responses to one prompt."""


class RowNames:
    """Gives each record of a data set an id; the same records in the same order get the same."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._times: Counter[str] = Counter()

    def of(self, name: str) -> str:
        """Return the id for the next record whose data set calls it `name`."""
        legal = _OTHER.sub("_", name)[:CHARS_MAX]
        found = legal
        while found in self._given:
            self._times[legal] += 1
            found = f"{legal}-{self._times[legal] + 1}"
        self._given.add(found)
        return found
