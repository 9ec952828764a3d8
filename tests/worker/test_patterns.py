"""A kept regular expression is the one that `re.compile` makes."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import computed
from assay.worker.forking.patterns import kept_patterns

PIECES = st.sampled_from(
    [
        *(
            "a",
            "B",
            "ß",
            "\\d",
            "\\w",
            "\\b",
            "[a-z]",
            "[^,;]",
            "(?:ab|cd)",
            "(?P<n>x)",
            "(y)",
            "|",
        ),
        *(
            "|",
            "*?",
            "+",
            "{2,5}",
            "?",
            ".",
            "^",
            "$",
            "(?=z)",
            "(?<!q)",
            "(?>a+)",
            "é{1,3}+",
            "(?i:k)",
        ),
        *("\\1", "(?(1)u|v)", "[\\u4e00-\\u9fff]", "(", ")", "[", "\\"),
    ]
)
FLAGS = st.sampled_from([0, re.IGNORECASE, re.MULTILINE, re.DOTALL | re.VERBOSE, re.ASCII])


def compiled(pattern: str | bytes, flags: int) -> re.Pattern[str] | re.Pattern[bytes] | str:
    """The pattern, or why there is none."""
    re.purge()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, flags)
    except re.error as error:
        return str(error)


@given(
    drawn=st.lists(
        st.tuples(st.lists(PIECES, max_size=6).map("".join), FLAGS, st.booleans()), max_size=8
    )
)
def test_it_is_the_same_first_and_later(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, bool]]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "file"
    asked = [
        (text.encode() if as_bytes and text.isascii() else text, int(flags))
        for text, flags, as_bytes in drawn
    ]
    wanted = [compiled(*one) for one in asked]
    for _ in range(2):  # compiled, and from the file
        with kept_patterns(path):
            found = [compiled(*one) for one in asked]
        assert found == wanted
        for ours, theirs in zip(found, wanted, strict=True):
            if isinstance(ours, re.Pattern) and isinstance(theirs, re.Pattern):
                assert (ours.groups, dict(ours.groupindex)) == (
                    theirs.groups,
                    dict(theirs.groupindex),
                )
    assert re._compiler.compile.__module__ == "re._compiler"  # type: ignore[attr-defined]


def test_what_was_kept_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_patterns(tmp_path / "file"):
        compiled("(a+)b", 0)

    def parse(*_: object) -> None:
        raise AssertionError("compiled again")

    with kept_patterns(tmp_path / "file"), monkeypatch.context() as patch:
        patch.setattr("re._parser.parse", parse)
        found = compiled("(a+)b", 0)
    assert found == compiled("(a+)b", 0)


def test_nothing_is_written_when_nothing_was_new(tmp_path: Path) -> None:
    for _ in range(2):
        with kept_patterns(tmp_path / "file"):
            compiled("a|b", 0)
        written = (tmp_path / "file").stat().st_mtime_ns
    with kept_patterns(tmp_path / "file"):
        compiled("a|b", 0)
    assert (tmp_path / "file").stat().st_mtime_ns == written


@pytest.mark.parametrize("name", ["file", None])
def test_it_ends_with_the_block(tmp_path: Path, name: str | None) -> None:
    before = re._compiler.compile  # type: ignore[attr-defined]

    def fail() -> None:
        with kept_patterns(None if name is None else tmp_path / name):
            compiled("a", 0)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert re._compiler.compile is before  # type: ignore[attr-defined]
    assert not (tmp_path / "file").exists()


def test_a_damaged_file_costs_time_only(tmp_path: Path) -> None:
    with kept_patterns(tmp_path / "file"):
        compiled("(a+)b", 0)
    (tmp_path / "file").write_bytes(b"\x00" * 40)
    with kept_patterns(tmp_path / "file"):
        assert compiled("(a+)b", 0) == compiled("(a+)b", 0)
    assert computed.read(tmp_path / "file", b"") is None


ALL_OF_A_STAGE = """
import re, sys
from pathlib import Path
from assay.worker.forking.patterns import kept_patterns
compile_it = re._compiler.compile
made = []
with kept_patterns(Path(sys.argv[1])):
    keeping = re._compiler.compile
    def told(pattern, flags=0):
        made.append((pattern, flags, keeping(pattern, flags)))
        return made[-1][2]
    re._compiler.compile = told
    import assay.verifiers.math.verify, assay.verifiers.text.match
assert len(made) > 500, len(made)
assert all(compile_it(pattern, flags) == found for pattern, flags, found in made)
"""


def test_every_expression_of_the_readers_is_the_same(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", ALL_OF_A_STAGE, str(tmp_path / "file")], check=True)
