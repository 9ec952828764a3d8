"""A reader finds the way: links of pages arrive, and a long page begins with its contents."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "deploy", ".github")
PAGES = sorted(
    {*ROOT.glob("*.md"), *(page for one in FOLDERS for page in (ROOT / one).rglob("*.md"))}
)
LONG_LINES = 150
"""A page with more lines has its contents before its first heading of the second level."""


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(text: str, level: str = "#+") -> list[str]:
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(rf"^{level} (.+)$", without_blocks, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    return {anchor(one) for one in headings(page.read_text("utf-8"))}


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def dead(page: Path) -> Iterator[str]:
    """The links of a page, within the repository, that do not arrive."""
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, part = link.partition("#")
        target = (page.parent / path) if path else page
        arrives = target.exists() and (not part or part in anchors(target))
        if not arrives:
            yield link


def contents(text: str) -> str:
    """The line of contents that a page should have."""
    links = (f"[{one}](#{anchor(one)})" for one in headings(text, "##"))
    return f"On this page: {', '.join(links)}."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_arrives(page: Path) -> None:
    assert list(dead(page)) == []


@pytest.mark.parametrize(
    "page",
    [
        one
        for one in PAGES
        if one.parent != ROOT and one.read_text("utf-8").count("\n") > LONG_LINES
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_long_page_begins_with_its_contents(page: Path) -> None:
    text = page.read_text("utf-8")
    start = " ".join(text.partition("\n## ")[0].split())
    assert contents(text) in start


def test_links_that_do_not_arrive_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# A title, `quoted`\n```\n# none\n```\n")
    page = tmp_path / "a.md"
    page.write_text("[1](b.md#a-title-quoted) [2](b.md#none) [3](c.md) `[4](d.md)` [5](#x)\n## X\n")
    assert list(dead(page)) == ["b.md#none", "c.md"]
