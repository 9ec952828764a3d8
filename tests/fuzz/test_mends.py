"""Mends that are taken out of a copy of the tree: the fuzzer finds their classes again.

After how many cases of all kinds: `python -m tests.fuzz.verdicts --seed N --without all`.
"""

from pathlib import Path

import pytest
from tests.fuzz.verdicts.findings import GENERATORS
from tests.fuzz.verdicts.mends import MENDS
from tests.fuzz.verdicts.without import tried, untrue_in_the_tree
from tests.mutation.overlay import ROOT, overlaid

SEED = 1
DRAWN = 4_000
"""Cases, of which those of the kinds that show a mend are judged up to the first finding."""


SLOW = ("control", "cold_modules", "wall_time")
"""They start platforms or programs that compute for seconds: only the command above takes them."""


@pytest.mark.parametrize("name", MENDS)
def test_a_mend_has_its_places_and_what_is_left_compiles(name: str) -> None:
    texts: dict[str, str] = {}
    for change in MENDS[name].changes:
        text = texts.get(change.file) or (ROOT / change.file).read_text(encoding="utf-8")
        assert text.count(change.old) == 1, change.old
        texts[change.file] = text.replace(change.old, change.new)
    for file, text in texts.items():
        compile(text, file, "exec")


@pytest.mark.parametrize("name", MENDS)
def test_the_generators_of_a_mend_are_generators_of_the_fuzzer(name: str) -> None:
    assert set(MENDS[name].only) <= set(GENERATORS)


def test_a_copy_has_all_changes_and_the_tree_has_none(tmp_path: Path) -> None:
    changes = MENDS["printed_errors"].changes
    before = {one.file: (ROOT / one.file).read_bytes() for one in changes}
    place = overlaid(changes, tmp_path)
    for change in changes:
        changed = (place / Path(change.file).relative_to("services")).read_text(encoding="utf-8")
        assert change.new in changed
        assert (ROOT / change.file).read_bytes() == before[change.file]


@pytest.mark.parametrize("name", [name for name in MENDS if name not in SLOW])
def test_the_fuzzer_finds_the_class_of_a_mend_that_is_taken_out(name: str) -> None:
    found = tried(name, SEED, DRAWN, kind=MENDS[name].shown_by)
    assert found.is_found
    assert untrue_in_the_tree([found]) == []
