"""Every mutant has its place: the text that it changes occurs exactly once."""

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.mutation import __main__ as command
from tests.mutation.adapters import ADAPTER_MUTANTS
from tests.mutation.cluster import CLUSTER_MUTANTS
from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.plans import PLAN_MUTANTS
from tests.mutation.rollouts import ROLLOUT_MUTANTS
from tests.mutation.services import SERVICE_MUTANTS
from tests.mutation.verdicts import VERDICT_MUTANTS, VerdictMutant

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"ordering", "leases", "fences", "caps", "retries", "counters", "lead time", "groups",
         "transcripts"}  # fmt: skip
NAMED = (
    *VERDICT_MUTANTS,
    *PLAN_MUTANTS,
    *CLUSTER_MUTANTS,
    *SERVICE_MUTANTS,
    *ROLLOUT_MUTANTS,
    *ADAPTER_MUTANTS,
)
"""Mutants of the lists that name the tests which have to fail."""


@pytest.mark.parametrize("mutant", [*MUTANTS, *NAMED], ids=str)
def test_a_mutant_changes_one_place(mutant: Mutant | VerdictMutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    if mutant.file.endswith(".py"):
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_there_are_enough_of_each_kind() -> None:
    assert len(MUTANTS) >= 60
    assert {kind for kind, count in Counter(m.kind for m in MUTANTS).items() if count >= 3} == KINDS


def test_the_page_tells_how_many_there_are() -> None:
    page = (ROOT / "docs/simulation.md").read_text("utf-8")
    told = dict(re.findall(r"The list `(\w+)` \(`tests/mutation/\w+\.py`\) has (\d+) faults", page))
    counted = {name: str(len(mutants)) for name, mutants in command.LISTS.items()}
    assert told == {name: count for name, count in counted.items() if name != "verdicts"}
    assert re.findall(r"All (\d+) mutants", page) == [str(len(MUTANTS))]
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \| \d+ \|$", page, re.MULTILINE)
    assert {kind: int(count) for kind, count in rows} == Counter(m.kind for m in MUTANTS)


def test_mutants_of_the_other_lists_name_tests_that_exist() -> None:
    assert len(VERDICT_MUTANTS) >= 30
    assert all((ROOT / test).is_file() for mutant in NAMED for test in mutant.tests)


@pytest.mark.parametrize("name", command.LISTS)
def test_mutants_of_a_list_are_tried_with_the_tests_that_they_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Sequence[str]] = []

    def tested(files: Sequence[str], place: Path | None) -> tuple[bool, int | None, str]:
        assert place is not None
        ran.append(files)
        return True, None, "failed"

    monkeypatch.setattr(command, "tested", tested)
    mutant = command.LISTS[name][0]
    options = Namespace(list=name, by="simulation", seeds=range(1))
    assert command.tried(mutant, options, []).caught
    assert list(map(set, ran)) == [set(mutant.tests)]


@pytest.mark.parametrize("name", ["test_a", "test_a[two words-1]"])
@pytest.mark.parametrize("fails_without", [False, True])
def test_a_test_that_fails_without_the_mutant_too_catches_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, fails_without: bool
) -> None:
    test, ran = f"tests/test_it.py::{name}", list[str]()

    def run(args: Sequence[str], place: Path | None) -> CompletedProcess[str]:
        ran.append(args[-1])
        fails = place is not None or fails_without
        return CompletedProcess(args, int(fails), f"FAILED {test} - assert 1 == 2\n" * fails, "")

    monkeypatch.setattr(command, "run", run)
    if fails_without:
        with pytest.raises(command.UnsteadyTest, match="test_a"):
            command.tested(["tests/test_it.py"], Path("mutant"))
    else:
        caught, _, finding = command.tested(["tests/test_it.py"], Path("mutant"))
        assert caught
        assert test in finding
    assert ran == ["tests/test_it.py", test]
