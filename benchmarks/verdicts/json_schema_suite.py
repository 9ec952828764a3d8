"""The official JSON-Schema-Test-Suite through the pipeline `json_schema`.

    python -m benchmarks.verdicts.json_schema_suite DIR

`DIR` is a checkout of github.com/json-schema-org/JSON-Schema-Test-Suite. Each required test is one
response (the data as JSON) judged by one reference (the schema, with the documents of `remotes/`
that it refers to), in this process, through the same intake as in the service. Prints a table:
right, wrong, and refused with the reason.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import InvalidRequest
from assay.verifiers.local import LocalPipelines
from assay.verifiers.options import Dialect
from assay.verifiers.text.dialects import dialect_named

REMOTE = "http://localhost:1234/"


def documents(suite: Path, dialect: Dialect) -> Mapping[str, Any]:
    """Documents that the suite serves to schemas of `dialect`, by URI."""
    found = {}
    for path in sorted((suite / "remotes").rglob("*.json")):
        name = path.relative_to(suite / "remotes").as_posix()
        drafts = {"draft3", "v1", *Dialect} - {dialect}
        content = json.loads(path.read_text())
        named = content.get("$schema") if isinstance(content, dict) else None
        if name.split("/")[0] in drafts or (named and dialect_named(named) is not dialect):
            continue
        if isinstance(content, dict) or dialect is not Dialect.DRAFT_4:
            found[REMOTE + name] = content
    return found


def groups(suite: Path, dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    """The required groups of tests of one schema each."""
    for path in sorted((suite / "tests" / dialect).glob("*.json")):
        for group in json.loads(path.read_text()):
            yield path.name, group


def run(suite: Path, dialect: Dialect, pipelines: LocalPipelines) -> tuple[Counter[str], list[str]]:
    """Count verdicts; report those that are not right."""
    served = documents(suite, dialect)
    counts: Counter[str] = Counter()
    told = []
    for file, group in groups(suite, dialect):
        uses_remote = REMOTE in json.dumps(group["schema"])
        reference = {
            "schema": group["schema"],
            "dialect": dialect.value,
            "documents": served if uses_remote else {},
        }
        for test in group["tests"]:
            response = json.dumps(test["data"])
            try:
                ended = pipelines.judge("json_schema", response, reference)
                right = ended.reward == float(test["valid"])
                kind, why = ("right" if right else "wrong"), ended.evidence.error
            except InvalidRequest as refused:
                kind, why = "refused", refused.message
            counts[kind] += 1
            if kind != "right":
                name = f"{group['description']} | {test['description']}"
                told.append(f"{kind}: {dialect} {file}: {name}: {why[:160]}")
    return counts, told


def main(suite: Path) -> int:
    """Print the table; 1 if a verdict is wrong."""
    print("| dialect | tests | right | wrong | refused |\n|---|---|---|---|---|")
    told = []
    total: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as scratch,
        LocalPipelines(scratch=Path(scratch)) as pipelines,
    ):
        for dialect in Dialect:
            counts, lines = run(suite, dialect, pipelines)
            total += counts
            told += lines
            print(_row(dialect.value, counts))
    print(_row("all", total), *told, sep="\n")
    return 1 if total["wrong"] else 0


def _row(name: str, counts: Counter[str]) -> str:
    right = f"{counts['right']} ({counts['right'] / counts.total():.2%})"
    return f"| {name} | {counts.total()} | {right} | {counts['wrong']} | {counts['refused']} |"


def _missing(suite: Path) -> str | None:
    """What a checkout of the suite has and `suite` lacks."""
    return next((name for name in ("tests", "remotes") if not (suite / name).is_dir()), None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path, metavar="DIR", help="a checkout of the suite")
    suite = parser.parse_args().suite
    if (missing := _missing(suite)) is not None:
        parser.error(f"DIR: {suite} holds no directory {missing!r}")
    sys.exit(main(suite))
