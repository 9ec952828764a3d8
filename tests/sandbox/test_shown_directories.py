"""A directory that boxes show, such as precompiled headers, is the same for the next box.

Its owner is the user of the boxes themselves, so that only the read-only mount protects it: so it
is for a launcher without privileges, whose boxes have its own uid outside.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.sandbox.test_hostile_programs import PRELUDE
from tests.sandbox.ways import INTERPRETER, ROOMY

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, PythonRun, RunResult

if TYPE_CHECKING:
    from tests.sandbox.elsewhere import Unprivileged

ATTACK = (
    PRELUDE
    + """
folder = {folder!r}
entry = folder + "/entry"
kept = entry + "/header.gch"
found(open(kept).read(), os.stat(kept).st_uid == os.getuid())
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC):
    attempt("open", lambda: os.open(kept, flags))
attempt("truncate", lambda: os.truncate(kept, 0))
for path in (kept, entry, folder):
    attempt("mode", lambda: os.chmod(path, 0o777))
    attempt("times", lambda: os.utime(path, (0, 0)))
    attempt("owner", lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt("rename", lambda: os.rename(path, path + "-other"))
    attempt("move", lambda: os.rename(path, "/tmp/other"))
    attempt("link", lambda: os.link(path, path + "-linked"))
    attempt("attribute", lambda: os.setxattr(path, "user.a", b"x"))
attempt("unlink", lambda: os.unlink(kept))
attempt("remove", lambda: os.rmdir(entry))
for path in (entry, folder):
    attempt("file", lambda: open(path + "/new", "w"))
    attempt("folder", lambda: os.mkdir(path + "/newer"))
    attempt("symbolic link", lambda: os.symlink("/etc", path + "/newest"))
    attempt("pipe", lambda: os.mkfifo(path + "/pipe"))
    attempt("by its descriptor", lambda: os.open(
        "/proc/self/fd/%d/x" % os.open(path, os.O_RDONLY), os.O_CREAT | os.O_WRONLY))
    for flags in (32, 32 | 4096, 4096):
        syscall("mount", 165, path.encode(), path.encode(), None, flags, 0)
"""
)


def filled(folder: Path, owner: int) -> Path:
    """`folder` with one entry, all of it the property of `owner`."""
    (folder / "entry").mkdir()
    (folder / "entry" / "header.gch").write_text("kept")
    for path in (folder, folder / "entry", folder / "entry" / "header.gch"):
        os.chown(path, owner, owner)
    return folder


def state_of(folder: Path) -> list[object]:
    paths = sorted((folder, *folder.rglob("*")))
    texts = [path.is_file() and path.read_text() for path in paths]  # sets the time of access
    return [(path, os.lstat(path)[:9], text) for path, text in zip(paths, texts, strict=True)]


@pytest.fixture(params=["zygote", "bubblewrap", "unprivileged zygote", "unprivileged bubblewrap"])
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Callable[[str], RunResult]]]:
    """A folder of the boxes' own user, and what runs a program in a box that shows it."""
    owner, _, name = request.param.rpartition(" ")
    if owner:
        other: Unprivileged = request.getfixturevalue("unprivileged")
        yield Path(other.shown), lambda source: other.run(name, source, limits=ROOMY)
        return
    folder = tmp_path_factory.mktemp("shown")
    opener = ZygoteLauncher if name == "zygote" else BubblewrapLauncher
    with opener(SandboxSettings(), Clock(), inside=Inside(readable=(folder,))) as launcher:

        def run(source: str) -> RunResult:
            if isinstance(launcher, ZygoteLauncher):
                return launcher.run_python(PythonRun(source=source.encode(), limits=ROOMY))
            command = (INTERPRETER, "-S", "program.py")
            files = {"program.py": source.encode()}
            return launcher.run(CommandRun(argv=command, files=files, limits=ROOMY))

        yield filled(folder, launcher.uid), run


@pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="gives a folder to another user; calls are named by their numbers of x86_64",
)
def test_no_box_changes_what_the_next_one_reads(
    shown: tuple[Path, Callable[[str], RunResult]],
) -> None:
    folder, run = shown
    before = state_of(folder)
    result = run(ATTACK.replace("{folder!r}", repr(str(folder))))
    assert result.exit_code == 0, result.stderr.decode()
    first, *others = result.stdout.decode().splitlines()
    assert first == "kept True"
    assert len(others) > 40
    assert not [line for line in others if "DONE" in line]
    assert state_of(folder) == before
    assert run(f"print(open({str(folder)!r} + '/entry/header.gch').read())").stdout == b"kept\n"
