"""The fuzzer on a platform with one mend taken out: after how many cases does it find that?

The change lies in a copy that is searched before the tree (`tests.mutation.overlay`); the tree
stays as it is. What is found has to be the mend's: in the tree the same case has no finding.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.verdicts.case import Case
from tests.fuzz.verdicts.findings import Report, draw, judge, judge_here
from tests.fuzz.verdicts.mends import MENDS
from tests.fuzz.verdicts.platform import platform
from tests.mutation.overlay import ROOT, environment, overlaid

from assay.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run without one mend found first."""

    mend: str
    seed: int
    cases: int
    """Up to the finding; all of them if there is none."""
    only: tuple[str, ...]
    """Generators that it drew from."""
    is_found: bool = False
    kind: str = ""
    """The pipeline and the class of the case."""
    said: str = ""
    """What was expected, and outcome and verdict of the case."""


def tried(name: str, seed: int, cases: int, only: Sequence[str] = (), kind: str = "") -> Found:
    """Draw up to `cases` cases without the mend, from the generators of its class or `only`.

    Of these, judge those of some kinds: a regular expression, as in `Mend.shown_by`.
    """
    only = tuple(only or MENDS[name].only)
    drawn = [flag for one in only for flag in ("--only", one)]
    how = "--until-found" if MENDS[name].on_platform else "--here"
    flags = ["--seed", str(seed), "--cases", str(cases), "--kind", kind, how, *drawn]
    with tempfile.TemporaryDirectory(prefix="assay-without-") as empty:
        first = _first(flags, overlaid(MENDS[name].changes, Path(empty)))
    if first is None:
        return Found(mend=name, seed=seed, cases=cases, only=only)
    found = f"{first['pipeline']}/{first['kind']}"
    said = f"expected {first['expected']}: {first['outcome']} {first['verdict']}".strip()
    after = int(first["index"]) + 1
    return Found(mend=name, seed=seed, cases=after, only=only, is_found=True, kind=found, said=said)


def _first(flags: Sequence[str], place: Path) -> dict[str, Any] | None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.verdicts", "--json", *flags],
        env=environment(place), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        found = json.loads(done.stdout.splitlines()[-1])["found"]
    except (IndexError, ValueError):
        raise RuntimeError(done.stderr[-2_000:]) from None
    return found[0] if found else None


def untrue_in_the_tree(found: Sequence[Found]) -> list[str]:
    """The mends whose case is a finding with all mends as well, so that it proves nothing."""
    cases = {
        one.mend: (at, draw(one.seed, one.cases - 1, one.only))
        for at, one in enumerate(found)
        if one.is_found
    }
    on_platform = [case for mend, case in cases.items() if MENDS[mend].on_platform]
    reports = [judge_here([case]) for mend, case in cases.items() if not MENDS[mend].on_platform]
    if on_platform:
        reports.append(asyncio.run(_judged(on_platform)))
    return [found[finding.index].mend for report in reports for finding in report.findings]


async def _judged(cases: Sequence[tuple[int, Case]]) -> Report:
    async with platform() as addresses, Client(addresses.grpc) as client:
        return await judge(client, cases, lambda _: None)


def rows(names: Sequence[str], seed: int, cases: int, only: Sequence[str], *, as_json: bool) -> int:
    """Print one row per mend; 1 if one was not found."""
    found = []
    for name in names:
        found.append(tried(name, seed, cases, only))
        print(json.dumps(asdict(found[-1])) if as_json else _row(found[-1]), flush=True)
    untrue = untrue_in_the_tree(found)
    if untrue:
        print(f"findings in the tree as well: {', '.join(untrue)}", file=sys.stderr)
    return 0 if all(one.is_found for one in found) and not untrue else 1


def _row(found: Found) -> str:
    after = f"after {found.cases}" if found.is_found else f"not in {found.cases}"
    what = MENDS[found.mend].what
    return f"| `{found.mend}` | {what} | {found.seed} | {after} | {found.kind} | {found.said} |"
