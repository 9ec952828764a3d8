"""The recipe of the images, against the chart that runs them; built where there is a builder."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kubernetes.chart import ROOT, component, pods, rendered

RECIPE = ROOT / "deploy" / "images" / "Containerfile"
BASE = "ASSAY_IMAGE_BASE"
"""Variable with a base image that the builder here can reach."""

ROLES = ["api", "planner", "worker", "rollout"]
NO_ROLES = {"store", "test", "check"}
"""Pods without an image of their own."""
EVERYTHING = (
    'workerApi={"keySecret": "k", "tokenSecret": "t"},rollout={"enabled": true, "modelClaim": "m"}'
)


def steps() -> dict[str, list[str]]:
    """The instructions of each stage, with those of the stage that it continues."""
    text = re.sub(r"\\\n", " ", RECIPE.read_text("utf-8"))
    found: dict[str, list[str]] = {}
    now: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        begun = re.fullmatch(r"FROM (\S+) AS (\S+)", line.strip())
        if begun is None:
            now.append(line.strip())
        else:
            now = found[begun[2]] = list(found.get(begun[1], ()))
    return found


def last(of: list[str], word: str) -> str:
    """The argument of an instruction that counts."""
    return next(one.removeprefix(word).strip() for one in reversed(of) if one.startswith(word))


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_an_image_that_runs_it_as_the_charts_user(role: str) -> None:
    own = steps()[role]
    [user] = {
        template["spec"]["securityContext"]["runAsUser"]
        for _, template in pods(rendered(more=EVERYTHING))
        if component(template) == role and "securityContext" in template["spec"]
    }
    assert last(own, "USER") == f"{user}:{user}"
    entry = json.loads(last(own, "ENTRYPOINT"))
    assert entry[:4] == ["tini", "--", "python", "-m"], "signals reach a service that starts"
    assert importlib.util.find_spec(f"{entry[4]}.__main__") is not None
    ports = {
        port["containerPort"]
        for _, template in pods(rendered(more=EVERYTHING))
        if component(template) == role
        for container in template["spec"]["containers"]
        for port in container["ports"]
    }
    assert ports <= set(map(int, last(own, "EXPOSE").split()))


def test_the_chart_names_no_image_that_cannot_be_built() -> None:
    roles = {component(t) for _, t in pods(rendered(more=EVERYTHING))} - NO_ROLES
    assert roles == set(ROLES)
    assert roles <= set(steps())


@pytest.mark.parametrize("role", [*ROLES, "build"])
def test_what_an_image_is_made_from_is_not_ignored_and_is_there(role: str) -> None:
    admitted = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines()
                if line.startswith("!")}  # fmt: skip
    for one in steps()[role]:
        if one.startswith("COPY") and "--from=" not in one:
            for source in one.split()[1:-1]:
                assert source in admitted, source
                assert (ROOT / source).exists(), source
    assert (
        RECIPE.with_name("Containerfile.dockerignore").read_text()
        == (ROOT / ".containerignore").read_text()
    ), "BuildKit reads the one, buildah the other"


def test_the_packages_of_the_recipe_are_debians() -> None:
    text = re.sub(r"\\\n", " ", RECIPE.read_text("utf-8"))
    [own] = re.findall(r'ARG WORKER_PACKAGES="([^"]+)"', text)
    named = re.findall(r"--no-install-recommends (.+?) &&", text)
    assert len(named) == text.count("apt-get install")
    wanted = {package for one in [*named, own] for package in one.split()}
    wanted = {one for one in wanted if not one.startswith("$")}
    known = listed("dpkg", *wanted)
    if "dpkg" not in known:
        pytest.skip("needs the package lists of a Debian: apt-get update")
    assert wanted <= known


def listed(*packages: str) -> set[str]:
    """Those that Debian's lists on this machine have."""
    asks = ["apt-cache", "policy", *packages]
    if shutil.which(asks[0]) is None:
        return set()
    told = subprocess.run(asks, capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^(\S+):$\n(?:  .*\n)*?  Candidate: (?!\(none\))", told, flags=re.M))


@pytest.mark.parametrize("role", ROLES)
def test_an_images_entry_point_starts_without_the_repository_and_says_what_it_lacks(
    role: str, tmp_path: Path
) -> None:
    *_, option, name = json.loads(last(steps()[role], "ENTRYPOINT"))
    module = option, name
    done = subprocess.run(
        [sys.executable, *module, "an argument"], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={"ASSAY_DATA_DIR": str(tmp_path), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 78, done.stderr
    assert "argument" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_an_image_has_its_distributions_once_each(tmp_path: Path) -> None:
    script = RECIPE.parent / "sbom.py"
    shadow = tmp_path / "grpcio-0.1.dist-info"
    shadow.mkdir()
    (shadow / "METADATA").write_text("Metadata-Version: 2.1\nName: grpcio\nVersion: 0.1\n")
    told = subprocess.run(
        [sys.executable, str(script), "api"], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ).stdout  # fmt: skip
    found = json.loads(told)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    names = [one["name"] for one in found["components"] if one["purl"].startswith("pkg:pypi/")]
    assert len(names) == len(set(names))
    assert {"assay", "grpcio", "hiredis"} <= {one["name"] for one in found["components"]}


def test_the_target_of_lists_has_one_of_each_image_made_in_the_image_itself() -> None:
    """Of every role that the chart runs: a new one needs a list, too."""
    found = steps()
    copied = {}
    for one in found["sbom"]:
        match = re.fullmatch(r"COPY --from=(\S+) /list/(\w+)\.cdx\.json /", one)
        assert match is not None, one
        copied[match[2]] = match[1]
    assert set(copied) == {component(t) for _, t in pods(rendered(more=EVERYTHING))} - NO_ROLES
    for role, stage in copied.items():
        assert found[stage][: len(found[role])] == found[role], "it continues the image"
        assert last(found[stage], "RUN") == f"python /list/sbom.py {role} > /list/{role}.cdx.json"
        volumes = json.loads(last(found[stage], "VOLUME"))
        assert not [v for v in volumes if "/list".startswith(v)], "a step's files there are lost"


def test_the_lists_are_built(tmp_path: Path) -> None:
    builder, base = shutil.which("buildah"), os.environ.get(BASE, "")
    if builder is None or not base:
        pytest.skip(f"needs buildah, and {BASE}: a base image that it can reach")
    command = [
        builder, "build", "--isolation=chroot", "--layers", "--build-arg", f"BASE={base}",
        "--target", "sbom", "-f", str(RECIPE), "--output", f"type=local,dest={tmp_path}", str(ROOT),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    for role in ROLES:
        found = json.loads((tmp_path / f"{role}.cdx.json").read_text())
        assert "assay" in {one["name"] for one in found["components"]}


@pytest.mark.parametrize("role", ROLES)
def test_an_image_is_built_and_its_service_says_what_it_lacks(role: str, tmp_path: Path) -> None:
    builder, base = shutil.which("buildah"), os.environ.get(BASE, "")
    if builder is None or not base:
        pytest.skip(f"needs buildah, and {BASE}: a base image that it can reach")
    layout = f"oci:{tmp_path / 'image'}:{role}"
    command = [
        builder, "build", "--isolation=chroot", "--layers", "--build-arg", f"BASE={base}",
        "--target", role, "-f", str(RECIPE), "-t", f"assay-test/{role}", str(ROOT),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([builder, "push", f"assay-test/{role}", layout], check=True, capture_output=True)
    made = subprocess.run(
        [builder, "from", f"assay-test/{role}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        service = {"api": "reward"}.get(role, role)
        done = subprocess.run(
            [builder, "run", "--isolation=chroot", made, "--", "python", "-m", f"assay.{service}",
             "an argument"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 78, done.stderr
        assert "argument" in done.stderr
    finally:
        subprocess.run([builder, "rm", made], check=True, capture_output=True)
