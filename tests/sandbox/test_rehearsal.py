"""What is done once in the zygote is there in each box, and leaves nothing in a program's hands."""

import json
import mmap
from pathlib import Path

import pytest

from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun

REGIONS_MAX = 70
"""An interpreter with its modules has some 150; without huge pages large read-only parts of
libraries stay as they are."""
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

STATE = b"""
import atexit, gc, io, json, linecache, os, random, sys, threading, warnings
names = {name for one in gc.get_objects() if type(one) is dict for name in one if type(name) is str}
print(json.dumps({
    "thread": [threading.main_thread().native_id, threading.get_native_id()],
    "process": os.getpid(),
    "threads": threading.active_count(),
    "hooks": atexit._ncallbacks(),
    "input": sys.stdin.read(),
    "streams": [type(one).__name__ for one in (sys.stdin, sys.stdout, sys.stderr)],
    "main": sorted(vars(sys.modules["__main__"])),
    "arguments": [sys.argv, sys.path.count("/box"), sys.path[0]],
    "lines": len(linecache.cache),
    "rehearsed": sorted(name for name in names if "rehears" in name and not name.startswith("_")),
    "registers": type(os.register_at_fork).__name__,
    "is_collecting": gc.isenabled(),
}))
"""

FORKS = b"""
import os, random, sys, threading
state, ends = random.getstate(), os.pipe()
held = threading.Lock()
child = os.fork()
if child == 0:
    done = []
    one = threading.Thread(target=lambda: done.append(threading.current_thread() is one))
    one.start()
    one.join()
    said = [done == [True], threading.active_count() == 1, random.getstate() != state]
    said.append(threading.main_thread() is threading.current_thread())
    os.write(ends[1], repr(said).encode())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(ends[0], 1000).decode())
print(random.getstate() == state)
"""

LIBRARIES = b"""
import ctypes, decimal, hashlib, json, math, re, zlib
print(decimal.Decimal(1) / 7, hashlib.sha256(b"a").hexdigest()[:8], math.erf(0.5), zlib.crc32(b"a"))
print(re.sub("(a+)b", r"\\1", "aab"), json.loads("[1.5]"), ctypes.CDLL(None).abs(-3))
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda number: number + 1)
print(callback(4), [1.0 / 3, 2**200, "\\u00e9".upper()])
try:
    raise ValueError("seen")
except ValueError as error:
    print(repr(error))
"""
LIBRARIES_SAID = """\
0.1428571428571428571428571429 ca978112 0.5204998778130465 3904355907
aa [1.5] 3
5 [0.3333333333333333, 1606938044258990275541962092341162602522202993782792835301376, 'É']
ValueError('seen')
"""


def test_a_program_begins_as_in_an_interpreter_of_its_own(zygote: ZygoteLauncher) -> None:
    result = zygote.run_python(PythonRun(source=STATE, stdin=b"its own\n2\n", argv=("a",)))
    said = json.loads(result.stdout)
    assert said["thread"] == [said["process"]] * 2
    assert said["input"] == "its own\n2\n"
    assert said["arguments"] == [["program.py", "a"], 1, "/box"]
    assert (said["threads"], said["hooks"], said["lines"], said["rehearsed"]) == (1, 0, 0, [])
    assert said["streams"] == ["TextIOWrapper"] * 3
    assert said["registers"] == "builtin_function_or_method"
    assert said["is_collecting"]
    assert "main" not in said["main"], "a name of the program that was rehearsed"


def test_a_programs_own_children_know_that_they_are_children(zygote: ZygoteLauncher) -> None:
    result = zygote.run_python(PythonRun(source=FORKS))
    assert result.stdout.decode().splitlines() == [repr([True] * 4), "True"], result.stderr


def test_libraries_work_where_their_memory_was_gathered(zygote: ZygoteLauncher) -> None:
    result = zygote.run_python(PythonRun(source=LIBRARIES))
    assert result.stdout.decode() == LIBRARIES_SAID, result.stderr


def _regions(zygote: ZygoteLauncher) -> list[str]:
    if not zygote.is_native:
        pytest.skip("boxes are set up in Python here")
    everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=everything).close()
    except PermissionError:
        pytest.skip("this host forbids memory that is written and executed")
    return Path(f"/proc/{zygote.zygote_pid}/maps").read_text().splitlines()


def test_a_zygote_has_few_regions_of_memory(zygote: ZygoteLauncher) -> None:
    """Each is copied twice per run."""
    assert len(_regions(zygote)) <= REGIONS_MAX


def test_where_there_are_huge_pages_all_code_is_in_gathered_memory(zygote: ZygoteLauncher) -> None:
    """A box has a fault for each part of a file that it runs, and none for a huge page."""
    if not HUGE_PAGES.is_file() or "[never]" in HUGE_PAGES.read_text():
        pytest.skip("this host has no huge pages")
    assert not [one for one in _regions(zygote) if " r-xp " in one and ".so" in one]
