"""A host's lives: the next one gives back at once what a killed one held."""

import os
import subprocess
import sys
from pathlib import Path

from assay.core.ids import WorkerId
from assay.worker.membership import Life

DIES = """
import os, sys
from pathlib import Path
from assay.worker.membership import Life
life = Life(Path(sys.argv[1]), "first")
print("alive", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_the_next_life_knows_the_killed_one_and_not_before_it_is_dead(tmp_path: Path) -> None:
    file = tmp_path / "run" / "worker.life"
    with subprocess.Popen(
        [sys.executable, "-c", DIES, str(file)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "alive\n"
        assert Life(file, WorkerId("second")).predecessor is None, "the first one lives"
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait()
    life = Life(file, WorkerId("third"))
    assert life.predecessor == "first"
    life.end()
    after = Life(file, WorkerId("fourth"))
    assert after.predecessor is None, "the third one ended in order"
    after.end()


def test_the_file_is_not_inherited_by_what_the_host_starts(tmp_path: Path) -> None:
    life = Life(tmp_path / "worker.life", WorkerId("one"))
    listed = subprocess.run(
        [sys.executable, "-c", "import os; print(*map(os.readlink, ["
         "f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd') if n != '3']))"],
        check=False, capture_output=True, text=True, close_fds=False,
    )  # fmt: skip
    assert "worker.life" not in listed.stdout
    life.end()
    assert os.path.getsize(tmp_path / "worker.life") == 0
