"""Verdicts under fire: generated candidates in every form and pipeline, on a platform of its own.

    python -m tests.fuzz.verdicts --seed 7 --minutes 5
    python -m tests.fuzz.verdicts --seed 7 --only-index 1234      one case again, in full
    python -m tests.fuzz.verdicts --seed 7 --without times        the same without a mend
    python -m tests.fuzz.verdicts --seed 7 --without all

A wrong candidate never gets the full reward and never gets none; a right one never gets less. The
run ends with exit code 1 when there is a finding; every finding names the seed and the index that
draw it again.

With `--without` a mend is taken out of a copy of the tree (`mends.py`), and the run ends with exit
code 1 when its class is *not* found in `--cases` cases.
"""

import argparse
import asyncio
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tests.fuzz.verdicts.case import Case
from tests.fuzz.verdicts.findings import GENERATORS, Report, draw, judge, judge_here
from tests.fuzz.verdicts.mends import MENDS
from tests.fuzz.verdicts.platform import platform
from tests.fuzz.verdicts.without import rows

from assay.client import Client

_SHOWN_MAX = 40
_UNTIL_FOUND_CASES = 100
"""Cases that are judged together before a run may end at a finding."""
_WITHOUT_CASES = 4_000


def main() -> int:
    """Run; 1 when something was found."""
    options = _options()
    if options.without:
        names = list(MENDS) if options.without == ["all"] else options.without
        cases = options.cases or _WITHOUT_CASES
        return rows(names, options.seed, cases, options.only, as_json=options.json)
    console = Console(stderr=True)
    console.print(f"seed {options.seed}")
    began_s = time.monotonic()
    report = judge_here(_cases(options)) if options.here else asyncio.run(_run(options, console))
    spent_s = time.monotonic() - began_s
    found = [finding.as_json() for finding in report.findings]
    if options.out:
        options.out.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    summary = {
        "seed": options.seed,
        "cases": report.cases,
        "seconds": round(spent_s, 1),
        "findings": len(found),
        "findings_by_kind": dict(
            Counter(f"{f['pipeline']}/{f['kind']}" for f in found).most_common()
        ),
        "verdicts": dict(report.verdicts.most_common()),
    }
    if options.json:
        print(json.dumps({**summary, "found": found}))
    else:
        _show(summary, found, options.seed)
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.verdicts", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0, help="draw cases for this long")
    parser.add_argument("--cases", type=int, help="draw so many cases, however long it takes")
    parser.add_argument("--first", type=int, default=0, help="index of the first case")
    parser.add_argument("--only-index", type=int, help="draw this case alone")
    parser.add_argument("--only", action="append", choices=list(GENERATORS), default=[])
    parser.add_argument("--kind", help="judge only cases whose pipeline/kind has this expression")
    parser.add_argument("--until-found", action="store_true", help="end at the first finding")
    parser.add_argument(
        "--here", action="store_true", help="in this process, up to the first finding"
    )
    parser.add_argument("--without", action="append", choices=[*MENDS, "all"], default=[])
    parser.add_argument(
        "--out", type=Path, help="write findings to this file, one JSON object per line"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _run(options: argparse.Namespace, console: Console) -> Report:
    async with (
        platform() as addresses,
        Client(addresses.grpc) as client,
    ):
        with Progress(console=console) as progress:
            bar = progress.add_task("cases", total=options.cases)
            cases = _cases(options)
            if not options.until_found:
                return await judge(client, cases, lambda n: progress.advance(bar, n))
            report = Report()
            while not report.findings and (
                some := list(itertools.islice(cases, _UNTIL_FOUND_CASES))
            ):
                report.add(await judge(client, some, lambda n: progress.advance(bar, n)))
            return report


def _cases(options: argparse.Namespace) -> Iterator[tuple[int, Case]]:
    if options.only_index is not None:
        yield options.only_index, draw(options.seed, options.only_index, options.only)
        return
    until_s = time.monotonic() + 60 * options.minutes
    for index in itertools.count(options.first):
        drawn = index - options.first
        if drawn >= options.cases if options.cases else time.monotonic() >= until_s:
            return
        case = draw(options.seed, index, options.only)
        if not options.kind or re.search(options.kind, f"{case.pipeline}/{case.kind}"):
            yield index, case


def _show(summary: dict[str, object], found: list[dict[str, object]], seed: int) -> None:
    console = Console()
    table = Table("verdict", "cases")
    verdicts = summary["verdicts"]
    assert isinstance(verdicts, dict)
    for name, count in verdicts.items():
        table.add_row(name, str(count))
    console.print(table)
    for finding in found[:_SHOWN_MAX]:
        console.print_json(json.dumps(finding), ensure_ascii=True)
    console.print(
        f"{summary['cases']} cases of seed {seed}, {len(found)} findings: {summary['findings_by_kind']}"
    )


if __name__ == "__main__":
    sys.exit(main())
