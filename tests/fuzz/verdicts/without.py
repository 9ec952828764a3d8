"""The fuzzer on a platform with one mend taken out: after how many cases does it find that?

The change lies in a copy that is searched before the tree (`tests.mutation.overlay`); the tree
stays as it is. What is found has to be the mend's: in the tree the same case has no finding.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.verdicts.mends import MENDS
from tests.mutation.overlay import ROOT, environment, overlaid


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run without one mend found first."""

    mend: str
    seed: int
    cases: int
    """Up to the finding; all of them if there is none."""
    index: int | None = None
    kind: str = ""
    """The pipeline and the class of the case; empty if nothing was found."""
    said: str = ""
    """Outcome and verdict of the case."""


def tried(name: str, seed: int, cases: int, only: Sequence[str] = ()) -> Found:
    """Draw up to `cases` cases without the mend, from the generators of its class or `only`."""
    mend = MENDS[name]
    drawn = [flag for one in only or mend.only for flag in ("--only", one)]
    flags = ["--seed", str(seed), *drawn]
    with tempfile.TemporaryDirectory(prefix="assay-without-") as empty:
        place = overlaid(mend.changes, Path(empty))
        first = _first(["--cases", str(cases), "--until-found", *flags], place)
    if first is None:
        return Found(mend=name, seed=seed, cases=cases)
    index = int(first["index"])
    if _first(["--only-index", str(index), *flags], None) is not None:
        message = f"{name}: case {index} of seed {seed} is a finding in the tree as well"
        raise ValueError(message)
    kind = f"{first['pipeline']}/{first['kind']}"
    said = f"expected {first['expected']}: {first['outcome']} {first['verdict']}".strip()
    return Found(mend=name, seed=seed, cases=index + 1, index=index, kind=kind, said=said)


def _first(flags: Sequence[str], place: Path | None) -> dict[str, Any] | None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.verdicts", "--json", *flags],
        env=environment(place), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        found = json.loads(done.stdout.splitlines()[-1])["found"]
    except (IndexError, ValueError):
        raise RuntimeError(done.stderr[-2_000:]) from None
    return found[0] if found else None


def rows(names: Sequence[str], seed: int, cases: int, only: Sequence[str], *, as_json: bool) -> int:
    """Print one row per mend; 1 if one was not found."""
    missed = 0
    for name in names:
        found = tried(name, seed, cases, only)
        missed += found.index is None
        if as_json:
            print(json.dumps(asdict(found)), flush=True)
        else:
            after = f"after {found.cases}" if found.kind else f"not in {found.cases}"
            what = MENDS[name].what
            print(
                f"| {name} | {what} | {seed} | {after} | {found.kind} | {found.said} |", flush=True
            )
    return 1 if missed else 0
