"""Lines by package at two revisions, as a Markdown table.

    python scripts/count_lines.py c71bd28 HEAD

Counted are all lines of the files written by hand: Python, C, CUDA, Lua and protobuf in the source
roots, and Python, C and C++ elsewhere. What `git` tracks counts, so a revision needs no checkout.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

SOURCE_ROOTS = ("services/assay", "runtime/assay", "simulator/assay", "proto/assay")
OTHERS = ("tests", "benchmarks", "examples", "scripts", "docs")
ENDINGS = (".py", ".c", ".cpp", ".cu", ".h", ".lua", ".proto")
GENERATED = ("_pb2.py", "_pb2_grpc.py")


def package_of(path: str) -> str | None:
    """The row in which a file is counted; `None`: it is not."""
    if path.startswith("docs/") and path.endswith(".md"):
        return "docs"
    if not path.endswith(ENDINGS) or path.endswith(GENERATED):
        return None
    for root in SOURCE_ROOTS:
        if path.startswith(f"{root}/"):
            return f"assay.{path.removeprefix(f'{root}/').partition('/')[0]}"
    return path.partition("/")[0] if path.startswith(OTHERS) else None


def lines(revision: str) -> Counter[str]:
    """Lines per package at a revision."""
    names = _git("ls-tree", "-r", "-z", "--name-only", revision).decode().split("\0")
    counted = [(name, package) for name in names if (package := package_of(name)) is not None]
    wanted = "".join(f"{revision}:{name}\n" for name, _ in counted)
    answer = _git("cat-file", "--batch", given=wanted.encode())
    found: Counter[str] = Counter()
    at = 0
    for _, package in counted:
        head_end = answer.index(b"\n", at)
        size = int(answer[at:head_end].rsplit(b" ", 1)[1])
        found[package] += answer.count(b"\n", head_end + 1, head_end + 1 + size)
        at = head_end + 1 + size + 1
    return found


def _git(*command: str, given: bytes = b"") -> bytes:
    return subprocess.run(["git", *command], input=given, capture_output=True, check=True).stdout  # noqa: S603, S607 our own arguments


def table(before: Counter[str], after: Counter[str], names: Sequence[str]) -> str:
    """The rows, packages first, with the change and a sum of the packages."""
    rows = [f"| | {names[0]} | {names[1]} | change |", "|---|---:|---:|---:|"]
    packages = sorted(p for p in before | after if p.startswith("assay."))
    for name in (*packages, *(other for other in OTHERS if before[other] or after[other])):
        if name == OTHERS[0]:
            sums = [sum(count[p] for p in packages) for count in (before, after)]
            rows.append(_row("all packages", *sums))
        rows.append(_row(name, before[name], after[name]))
    return "\n".join(rows)


def _row(name: str, before: int, after: int) -> str:
    return f"| {name} | {before:,} | {after:,} | {after - before:+,} |"


def main() -> None:
    """Print the table."""
    first, second = sys.argv[1:]
    print(table(lines(first), lines(second), (first, second)))  # noqa: T201 its purpose


if __name__ == "__main__":
    main()
