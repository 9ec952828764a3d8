"""Single packages of the platform's environment, shown to boxes; nothing else of it is."""

import base64
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.config.environment import SettingError
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.packages import find_packages
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun

SETTING = "verifiers.program_packages"


def installed(
    folder: Path, name: str, files: dict[str, str], requires: tuple[str, ...] = ()
) -> None:
    """A distribution as installers leave it."""
    information = f"{name.replace('-', '_')}-1.0.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    files = {
        **files,
        f"{information}/METADATA": head + "".join(f"Requires-Dist: {one}\n" for one in requires),
    }
    record = ""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    (folder / information / "RECORD").write_text(record, encoding="utf-8")


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """An environment with packages, beside them a secret and packages that no one offers."""
    here = Path(__file__).resolve().parent  # boxes have a /tmp of their own
    writable = os.access(here, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="packages-", dir=here if writable else None))
    installed(
        folder,
        "audit-offered",
        {"audit_offered/__init__.py": "from audit_offered.part import VALUE\nimport audit_single\n"
         "import audit_needed\n", "audit_offered/part.py": "VALUE = 5\n",
         "audit_offered.libs/libx.so": "library"},
        ("audit-needed>=1", "audit-single", "audit-extra; extra == 'more'", "audit-absent>=3"),
    )  # fmt: skip
    installed(folder, "audit-needed", {"audit_needed/__init__.py": ""}, ("audit-offered",))
    installed(folder, "audit-single", {"audit_single.py": "VALUE = 7\n"})
    installed(folder, "audit-extra", {"audit_extra/__init__.py": "", "secret.txt": "x"})
    installed(folder, "audit-space", {"audit_space/part.py": ""})
    libraries = {"audit_wide/cu/lib/liby.so.13": "library", "audit_wide/cu/include/y.h": ""}
    installed(folder, "audit-libraries", libraries)
    installed(folder, "audit-linked", {"audit_linked/__init__.py": ""}, ("audit-libraries",))
    (folder / "audit_secret.txt").write_text("a token")
    (folder / "audit_other.py").write_text("VALUE = 9\n")
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))
    shutil.rmtree(folder)


def test_a_package_is_found_with_what_it_requires_and_nothing_else(environment: Path) -> None:
    found = find_packages(["audit-offered"], setting=SETTING)
    assert dict(found.places) == dict.fromkeys(("audit_offered", "audit_needed"), environment)
    assert {folder.name for folder in found.folders} == {
        "audit_offered", "audit_offered.libs", "audit_needed",
    }  # fmt: skip
    assert dict(found.modules) == {"audit_single": environment / "audit_single.py"}
    assert found.distributions == ("audit-needed", "audit-offered", "audit-single")
    assert find_packages(["audit_offered"], setting=SETTING) == found, "the import name does too"


def test_libraries_in_a_namespace_are_shown_to_what_links_them(environment: Path) -> None:
    """As those of CUDA's wheels, which torch loads from beside itself."""
    found = find_packages(["audit-linked"], setting=SETTING)
    wide = environment / "audit_wide/cu/lib"
    assert set(found.folders) == {environment / "audit_linked", wide}
    assert set(found.places) == {"audit_linked"}, "nothing imports from them"


@pytest.mark.parametrize(
    "name",
    [
        "no-such-package",
        "audit-space",
        "audit-libraries",
        "assay",
        "../../etc",
        "",
        ".",
        "sys",
        "os.path",
        "\0",
    ],
)
def test_what_cannot_be_shown_alone_is_refused_with_its_field(environment: Path, name: str) -> None:
    assert environment
    with pytest.raises(SettingError, match=r"verifiers\.program_packages\[1\]"):
        find_packages(["audit-single", name], setting=SETTING)


TRY = """
import importlib, json, os, sys
folder = {folder!r}
said = {{}}
for name in {names!r}:
    try:
        said[name] = importlib.import_module(name) is not None
    except ImportError as error:
        said[name] = str(error)
said["beside"] = sorted(os.listdir(folder))
said["path"] = [path for path in sys.path if folder in path]
information = "audit_offered-1.0.dist-info"
for path in ("audit_secret.txt", "audit_other.py", "audit_single.py", information):
    said[path] = os.path.lexists(os.path.join(folder, path))
for path in ("audit_offered/new.py", "audit_offered/part.py"):
    try:
        open(os.path.join(folder, path), "a")
        said["written"] = path
    except OSError:
        pass
print(json.dumps(said))
"""


def test_a_box_imports_offered_packages_and_sees_nothing_beside_them(environment: Path) -> None:
    names = ["audit_offered", "audit_offered.part", "audit_single", "audit_needed"]
    hidden = ["audit_other", "audit_extra", "audit_space", "pydantic", "assay.core.ids"]
    packages = find_packages(["audit-offered"], setting=SETTING)
    source = TRY.format(folder=str(environment), names=[*names, *hidden]).encode()
    settings = SandboxSettings()
    with ZygoteLauncher(settings, Clock(), inside=Inside(packages=packages)) as launcher:
        if not launcher.isolated:
            pytest.skip("this host has no isolation")
        said = json.loads(launcher.run_python(PythonRun(source=source)).stdout)
    assert [said[name] for name in names] == [True] * 4
    assert all(str(said[name]).startswith("No module named") for name in hidden), said
    assert said["beside"] == ["audit_needed", "audit_offered", "audit_offered.libs"]
    assert said["path"] == []
    assert "written" not in said
    assert not any(said[path] for path in said if path.startswith("audit_") and "." in path
                   and path not in names)  # fmt: skip


def test_a_module_of_the_program_comes_before_an_offered_one(environment: Path) -> None:
    assert environment
    packages = find_packages(["audit-single"], setting=SETTING)
    run = PythonRun(
        source=b"import audit_single; print(audit_single.VALUE)",
        files={"audit_single.py": b"VALUE = 1"},
    )
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=Inside(packages=packages)) as launcher:
        assert launcher.run_python(run).stdout == b"1\n"
