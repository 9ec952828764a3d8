"""Print what is installed here as a CycloneDX 1.5 list: `python sbom.py NAME`.

Python distributions of this environment, and Debian packages where there is dpkg. Needs nothing but
Python itself; runs inside an image while it is built.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from urllib.parse import quote

Component = dict[str, object]
DPKG = "${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n"


def python_components() -> Iterator[Component]:
    """Distributions, each once."""
    seen = set()
    for found in metadata.distributions():
        name = str(found.metadata["Name"]).lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        yield component(name, found.version, f"pkg:pypi/{quote(name)}@{quote(found.version)}")


def debian_components() -> Iterator[Component]:
    """Installed packages; none without dpkg."""
    if shutil.which("dpkg-query") is None:
        return
    asked = ["dpkg-query", "--show", f"--showformat={DPKG}"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        name, version, architecture, state = line.split("\t")
        if state == "installed":
            where = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"
            yield component(name, version, where)


def component(name: str, version: str, where: str) -> Component:
    """One entry."""
    return {"type": "library", "name": name, "version": version, "purl": where, "bom-ref": where}


def bill(name: str) -> dict[str, object]:
    """The whole list, in a stable order."""
    parts = sorted((*python_components(), *debian_components()), key=lambda one: str(one["purl"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name}},
        "components": parts,
    }


if __name__ == "__main__":
    json.dump(bill(sys.argv[1]), sys.stdout, indent=1)
