"""Every mutant has its place: the text that it changes occurs exactly once."""

from collections import Counter
from pathlib import Path

import pytest
from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.plans import PLAN_MUTANTS
from tests.mutation.verdicts import VERDICT_MUTANTS, VerdictMutant

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"ordering", "leases", "fences", "caps", "retries", "counters", "lead time", "groups"}


@pytest.mark.parametrize("mutant", [*MUTANTS, *VERDICT_MUTANTS, *PLAN_MUTANTS], ids=str)
def test_a_mutant_changes_one_place(mutant: Mutant | VerdictMutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_there_are_enough_of_each_kind() -> None:
    assert len(MUTANTS) >= 60
    assert {kind for kind, count in Counter(m.kind for m in MUTANTS).items() if count >= 3} == KINDS


def test_mutants_of_verdicts_and_plans_name_tests_that_exist() -> None:
    assert len(VERDICT_MUTANTS) >= 30
    named = (*VERDICT_MUTANTS, *PLAN_MUTANTS)
    assert all((ROOT / test).is_file() for mutant in named for test in mutant.tests)
