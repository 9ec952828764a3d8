"""Plain technical English: idioms on which a reader in a hurry, or new to English, trips.

An area is added to `AREAS` once it is clean; then it stays clean. Python files are read for their
docstrings, comments and messages, C files for their comments, pages as they are without code.

No sentence of a page has more than `WORDS_MAX` words; a piece of code counts as one.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

LIST = Path(__file__).resolve()
"""This file, which has all of the idioms."""
ROOT = LIST.parents[2]
BANNED = {
    r"\banew\b": "again",
    r"\blest\b": "so that ... not",
    r"\bwhoever\b": "name who",
    r"\bnobody\b": "no one",
    r"\b(?:is|are|was|were) told\b": "gets, is notified, is reported",
    r"\bis had\b|\bthey were had\b|\bcannot be had\b|\bto be had\b": "obtained",
    r"\bfor want of\b": "because there is no",
    r"\bas good as it goes\b": "best effort",
    r"\bsomebody\b": "someone, or name who",
    r"\b(?:hither|thither|whence|whither|thereof|hereof|whilst)\b": "a modern word",
    r"\bas of now\b": "current, at present",
    r"\bfor so long\b": "for this long",
    r"\beverybody\b": "everyone",
    r"\bunder way\b": "in progress",
    r"\b(?:let|lets|letting) go of\b": "release",
    r"\b(?:holds?|held) up\b(?! to\b)": "block, delay",
    r"\bgo(?:es)? on from\b": "resume from",
    r"\b(?:planner|pipeline|caller|operator)'s word\b": "what it sets or sends",
    r"\bat hand\b": "current, available",
    r"\bas ever\b": "as usual",
    r"\bin vain\b": "without success",
    r"\bhow ?manyth\b": "the number of",
    r"\b(?:by|to) whom\b": "name who",
    r"\b(?:stands?|stood) (?:below|beside|next to|in front of)\b": "is",
    r"\b(?:requests|tokens|bytes|seconds|samples|calls|steps|messages|positions|golds|ns|us) an? "
    r"(?:second|minute|request|token|step|rollout|call|message|position|prompt|set|batch|branch)\b"
    r"(?! (?:may|can|must|has|holds|takes|needs)\b)": "per",
    r"\b(?:one|cost|target|sample|repeat) an? (?:layer|thread|call|stage|machine|slot|pool"
    r"|repeat|CPU)\b": "per",
    r"\b(?:line|row|file|queue|worker|slot|result|process|panel|record|module|request|case|entry)"
    r"s? a (?:line|row|stage|file|batch|request|result|process|word|worker|slot|source|kind|prompt"
    r"|task|step|package|record|second|token|group|day|minute)\b": "per",
    r"\b(?:is|are|was|were) no (?:text|list|number|string|schema|data|words?|integer"
    r"|tuple|set|plain|dict)\b": "is not",
    r"\b[Oo]nce an? (?:process|run|worker|stage|host|batch|second)\b": "once per",
    r"\bone an? (?:process|run|worker|stage|host|key|slot|batch|pipeline)\b": "one per",
    r"\bin sight\b": "visible",
    r"\bfor ever\b": "forever, never returns",
    r"\b(?:by|of) (?:its|their) own (?:doing|making)\b": "caused by itself, its own",
    r"\bnot wanted any more\b": "no longer needed",
    r"\bhowever it ends\b": "for any reason",
    r"\blets? go of\b": "closes, releases",
    r"\bonce more\b": "again",
    r"\bstands (?:in|at) (?:the|its|their|each|an?)\b(?! (?:place|way|queue|line)\b)": "is in",
    r"\bdearer\b|\b(?:a|the) dear(?:est)?\b|\bdear (?:stages?|tenants?|parts?)\b": "expensive",
    r"\bseldom\b": "rarely",
    r"\bby turns\b": "alternating, one after the other",
    r"\b(?<!there )(?:is|are|was) (?-i:none)\b(?! of the above)": "is not one, or say what it is",
    r"(?<!<= )\bsince then\b|\bmended since\b": "state what holds now",
}
"""Pattern -> what to write instead."""
AREAS = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "CHANGELOG.md",
    "run",
    ".ci/run",
    "Makefile",
    "hatch_build.py",
    "pyproject.toml",
    ".pre-commit-config.yaml",
    ".github",
    "docs/architecture.md",
    "docs/datasets.md",
    "docs/glossary.md",
    "docs/pipelines.md",
    "docs/sandbox.md",
    "docs/console.md",
    "docs/cuda.md",
    "docs/demo.md",
    "docs/endpoints.md",
    "docs/gateway.md",
    "docs/grpo.md",
    "docs/kubernetes.md",
    "docs/rollout-architectures.md",
    "docs/verdicts.md",
    "examples",
    "scripts",
    "services/assay/cli",
    "services/assay/client",
    "services/assay/config",
    "services/assay/console",
    "services/assay/core",
    "services/assay/edge",
    "services/assay/integrations",
    "docs/integrations",
    "services/assay/model",
    "services/assay/planner",
    "services/assay/reward",
    "services/assay/store",
    "runtime/assay/rollout",
    "simulator/assay/sim",
    "benchmarks",
    "docs/benchmarks.md",
    "docs/decisions",
    "docs/rollout-service.md",
    "docs/runtime-engine.md",
    "docs/runtime.md",
    "docs/simulation.md",
    "docs/operations.md",
    "docs/planner.md",
    "proto",
    "deploy",
    "services/assay/datasets",
    "services/assay/sandbox",
    "services/assay/testing",
    "services/assay/verifiers",
    "services/assay/worker",
    "tests",
)
WORDS_MAX = 48
PAGES = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")}
)
KINDS = {
    *("", ".py", ".md", ".sh", ".lua", ".proto", ".c", ".h", ".cu"),
    *(".toml", ".yaml", ".yml", ".tpl", ".js", ".html", ".css"),
}


def files(area: str) -> Iterator[Path]:
    path = ROOT / area
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    yield from (one for one in found if one.is_file() and one.suffix in KINDS and one != LIST)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield what a person reads, with the line that it begins on."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        kinds = {tokenize.COMMENT, tokenize.STRING}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in kinds:
                yield token.start[0], re.sub(r"\s+", " ", token.string)
        return
    if path.suffix in {".c", ".h", ".cu"}:
        for comment in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
            yield 1 + text.count("\n", 0, comment.start()), re.sub(r"\s+(?:\* )?", " ", comment[0])
        return
    without_code = re.sub(r"^```.*?^```|`[^`\n]*`", _blank, text, flags=re.DOTALL | re.MULTILINE)
    line = 1
    for paragraph in re.split(r"(\n\n)", without_code):
        yield line, re.sub(r"\s+", " ", paragraph)
        line += paragraph.count("\n")


def _blank(code: re.Match[str]) -> str:
    return "\n" * code[0].count("\n")


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_none_of_the_banned_idioms(area: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}; write: {instead}"
        for path in files(area)
        for line, text in prose(path)
        for pattern, instead in BANNED.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    assert found == []


def test_the_idioms_are_found_where_they_are(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("One queue a\nstage, made anew.\n\n```\na queue a stage\n```\n")
    text = " ".join(text for _, text in prose(page))
    hits = [match[0] for pattern in BANNED for match in re.finditer(pattern, text)]
    assert hits == ["anew", "queue a stage"]


def sentences(page: str) -> Iterator[tuple[int, str]]:
    """Each sentence of a page, with the line of the paragraph, item or row that it is in."""
    for line, paragraph in paragraphs(page):
        plain = re.sub(r"`[^`]*`", "CODE", paragraph)
        plain = re.sub(r"\]\([^)]*\)", "]", plain)
        for cell in plain.split(" | "):
            for sentence in re.split(r"(?<=[.!?])[\"')\]*]*\s+(?=[^a-z])", cell):
                yield line, sentence


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, item and row in one line, with the number of the first; no code."""
    text = re.sub(r"^```.*?^```", _blank, page, flags=re.DOTALL | re.MULTILINE)
    begun, held = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        item = re.match(r"\s*(?:[*-] |\d+\. |\||#|>)", line)
        is_code = line.startswith("    ") and not held and not item
        if held and (item or not line.strip()):
            yield begun, " ".join(held)
            held.clear()
        if line.strip() and not is_code:
            begun = begun if held else number
            held.append(line.strip())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_sentence_is_short_enough_to_read_once(page: Path) -> None:
    long = [
        f"line {line}, {count} words: {text[:80]}"
        for line, text in sentences(page.read_text("utf-8"))
        if (count := len(text.split())) > WORDS_MAX
    ]
    assert long == []


def test_sentences_are_found_over_lines_and_in_items_and_rows() -> None:
    lines = ["One", "two `a b. C` three. Four", "", "* five [six](x y)", "  seven.", "| 8 | 9 |"]
    page = "\n".join([*lines, "", "    code"])
    assert [text for _, text in sentences(page)] == [
        *("One two CODE three.", "Four", "* five [six] seven."),
        *("| 8", "9 |"),
    ]
