"""Precompiled headers make no difference but time, and no source can change one."""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import open_command_launcher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.port import CommandRun, Limits, SandboxError
from assay.verifiers.code.cpp import headers as store
from assay.verifiers.code.cpp.compiler import Compiler, open_compiler
from assay.verifiers.code.cpp.headers import PRECOMPILED, PrecompiledHeaders, at_once
from assay.verifiers.code.cpp.prelude import EVERYTHING
from assay.verifiers.code.settings import CppSettings
from assay.verifiers.local import MemoryArtifacts

O0 = CppSettings(optimize="0")
BODY = """
using namespace std;
struct Less { bool operator()(int a, int b) const { return a > b; } };
int main() {
    map<string, vector<int>, less<>> kept; set<int, Less> seen; string line;
    while (getline(cin, line)) { kept[line].push_back(line.size()); seen.insert(kept.size()); }
    for (auto& [name, sizes] : kept) cout << name << ' ' << sizes.size() << '\\n';
    cout << *seen.begin() << endl;
}
"""
LISTS = (
    "#include <bits/stdc++.h>\n",
    "#include <iostream>\n#include <map>\n#include <string>\n#include <vector>\n#include <set>\n",
    "#include <cstdio>\n#include <set>\n#include <map>\n#include <vector>\n"
    '#include <string>\n#include <iostream>\n#pragma GCC optimize("O3")\n#define endl 10\n'
    "#include <sstream>\n",
)
ENTRY = {PRECOMPILED: b"x" * 100, store.DEPENDENCIES: b"a.o: /usr/include/stdio.h"}


@pytest.fixture(scope="module")
def eager() -> Iterator[None]:
    """An entry is made for the first source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_SIGHTINGS", 1)
        patch.setattr(store, "_SIGHTINGS_OF_EVERYTHING", 1)
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all tests with the compiler share: to make an entry takes seconds."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def compiler(shared: Path, eager: None) -> Iterator[Compiler]:
    made = open_compiler(SandboxSettings(), MemoryArtifacts(), shared, beside=at_once)
    yield made
    made.close()


@pytest.fixture
def without() -> Iterator[Compiler]:
    made = open_compiler(SandboxSettings(), MemoryArtifacts(), None)
    yield made
    made.close()


@pytest.fixture
def entry(compiler: Compiler, shared: Path) -> Path:
    """The entry of the whole library at -O0."""
    assert compiler.compile(LISTS[0] + BODY, O0).program
    headers = compiler._headers
    assert headers is not None
    prelude = headers.prelude((EVERYTHING,), compiler._language_flags(O0), lambda _: {})
    return Path(prelude.options[1], PRECOMPILED)


@pytest.mark.parametrize(("level", "standard"), [("2", "gnu++20"), ("0", "c++17")])
def test_programs_are_the_same_with_and_without(
    compiler: Compiler, without: Compiler, shared: Path, level: str, standard: str
) -> None:
    """Byte for byte. With -O0 and C++20, GCC 12 puts the same functions in another order."""
    settings = CppSettings(optimize=level, standard=standard)
    before = len(list(shared.glob("headers/*")))
    for includes in LISTS:
        made = compiler.compile(includes + BODY, settings)
        assert made.program
        assert made.program == without.compile(includes + BODY, settings).program
    assert len(list(shared.glob("headers/*"))) == before + len(LISTS)


def test_an_error_is_described_as_without(compiler: Compiler, without: Compiler) -> None:
    source = "#include <bits/stdc++.h>\nint main() { std::vector<int> v; v.push(1); sort(v, x); }"
    inside = "#include <map>\nstruct A {}; int main() { std::map<A, A> m; m[A()] = A(); }"
    for one in (source, inside):
        found, wanted = compiler.compile(one, O0), without.compile(one, O0)
        assert found.verdict == wanted.verdict == "compile_error"
        assert found.stderr == wanted.stderr


def test_a_name_that_was_not_included_stays_unknown(compiler: Compiler) -> None:
    source = "#include <cstdio>\nint main() { std::vector<int> v; }"
    assert compiler.compile(source, O0).verdict == "compile_error"


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_damaged_entry_costs_no_source_its_program(
    compiler: Compiler, entry: Path, damage: str
) -> None:
    whole = entry.rename(entry.parent.parent / "aside")
    try:
        if damage == "cut":
            entry.write_bytes(whole.read_bytes()[: 1 << 24])
        elif damage == "other":
            entry.write_bytes(b"gpch" + b"\0" * 4_096)
        assert compiler.compile(f"{LISTS[0]}{BODY}\nint x;", O0).program
    finally:
        whole.rename(entry)


def test_no_program_in_a_box_can_change_an_entry(entry: Path) -> None:
    about = entry.stat()
    others = sorted(entry.parent.parent.iterdir())
    attack = f"""
cd {entry.parent}
touch new; mkdir new; rm -f {PRECOMPILED}; mv {PRECOMPILED} new; ln -s /etc new; chmod 777 . *
echo x > {PRECOMPILED}; echo x >> {PRECOMPILED}; truncate -s 0 {PRECOMPILED}
mount -o remount,rw,bind {entry.parent}; mount -t tmpfs none {entry.parent}
mount -o remount,rw {entry.parent.parent}; touch ../new; mv ../{entry.parent.name} ../other
echo x > {PRECOMPILED}; touch -d 2001-01-01 {PRECOMPILED}
echo done; ls -la
"""
    inside = Inside(readable=(entry.parent.parent,))
    launcher = open_command_launcher(SandboxSettings(), Clock(), inside=inside)
    try:
        found = launcher.run(CommandRun(argv=("/bin/sh", "-c", attack), limits=Limits()))
    finally:
        launcher.close()
    assert found.stdout.startswith(b"done")
    assert PRECOMPILED.encode() in found.stdout
    assert entry.stat() == about
    assert sorted(entry.parent.parent.iterdir()) == others


def test_a_source_that_names_the_entry_changes_nothing(compiler: Compiler, entry: Path) -> None:
    about = entry.stat()
    for line in (
        f'#include "{store.HEADER}"\n',
        f'#pragma GCC pch_preprocess "{entry}"\n',
        f'#include "{entry}"\n',
        f"#undef _GLIBCXX_VECTOR\n#include <vector>\n#include_next <{store.HEADER}>\n",
        f'#pragma GCC dependency "{entry}"\n#pragma GCC pch_preprocess\n',
        f'asm(".incbin \\"{entry}\\"");\n',
    ):
        hostile = compiler.compile(f"#include <bits/stdc++.h>\n{line}int main() {{}}", O0)
        assert hostile.verdict == "pass" or hostile.verdict.startswith("compile_")
    assert compiler.compile(LISTS[0] + BODY + "\nint y;", O0).verdict == "pass"
    assert entry.stat() == about


def test_an_entry_is_made_only_when_it_pays_and_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SIGHTINGS", 4)
    made: list[bytes] = []

    def make(text: bytes) -> Mapping[str, bytes]:
        made.append(text)
        return ENTRY

    folder = tmp_path / "headers"
    folder.mkdir()
    with (tmp_path / "headers.lock").open("w") as other:
        headers = PrecompiledHeaders(folder, b"1")
        sightings = range(store._SIGHTINGS - 1)
        assert not any(headers.prelude(("map",), (), make).options for _ in sightings)
        fcntl.flock(other, fcntl.LOCK_EX)
        assert not headers.prelude(("map",), (), make).options
        assert made == []
    assert headers.prelude(("map",), (), make).options
    assert PrecompiledHeaders(folder, b"1").prelude(("map",), (), make).options
    assert len(made) == 1
    assert not PrecompiledHeaders(folder, b"2").prelude(("map",), (), make).options


def test_no_source_waits_for_an_entry_and_what_cannot_be_made_is_not_tried_again(
    tmp_path: Path, eager: None
) -> None:
    jobs: list[Callable[[], None]] = []
    folder = tmp_path / "headers"
    folder.mkdir()
    headers = PrecompiledHeaders(folder, b"1", beside=jobs.append)

    def fails(_: bytes) -> Mapping[str, bytes]:
        raise SandboxError("no box")

    assert not headers.prelude(("map",), (), lambda _: ENTRY).options
    assert not headers.prelude(("set",), (), fails).options
    assert len(jobs) == 1, "one at a time"
    jobs.pop()()
    assert headers.prelude(("map",), (), fails).options
    for _ in range(2):
        assert not headers.prelude(("set",), (), fails).options
        while jobs:
            jobs.pop()()
    assert not headers.prelude(("set",), (), lambda _: ENTRY).options
    assert jobs == []


def test_a_changed_library_makes_another_entry(tmp_path: Path, eager: None) -> None:
    library = tmp_path / "library.h"
    library.write_text("int x;")
    made: list[bytes] = []

    def make(text: bytes) -> Mapping[str, bytes]:
        made.append(text)
        return {**ENTRY, store.DEPENDENCIES: f"a: {library} \\\n /usr/include/stdio.h\n".encode()}

    folder = tmp_path / "headers"
    folder.mkdir()
    for content, count in (("int x;", 1), ("int y ;", 2), ("int y ;", 2)):
        if library.read_text() != content:
            library.write_text(content)
        assert PrecompiledHeaders(folder, b"1").prelude(("map",), (), make).options
        assert len(made) == count


def test_entries_are_bounded_and_the_oldest_is_dropped(
    tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "headers"
    folder.mkdir()
    headers = PrecompiledHeaders(folder, b"1")
    for number in range(3 * store.ENTRIES_MAX):
        assert headers.prelude((f"a{number}",), (), lambda _: ENTRY).options
        assert headers.prelude(("a0",), (), lambda _: ENTRY).options  # used again and again
    assert len(list(folder.iterdir())) == store.ENTRIES_MAX
    assert PrecompiledHeaders(folder, b"1").prelude(("a0",), (), lambda _: {}).options
    monkeypatch.setattr(store, "BYTES_MAX", 350)
    assert headers.prelude(("b",), (), lambda _: ENTRY).options
    assert len(list(folder.iterdir())) == 3
