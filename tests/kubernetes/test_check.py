"""Before an upgrade changes anything, each image is asked whether it takes the chart's settings.

The pod is a hook of Helm: its containers have the variables of the services, without what comes
from secrets, and the entry points of the images end at once with the reason if they do not know
one.
"""

import os
import subprocess
import sys
from typing import Any

import pytest
from tests.kubernetes.chart import VALUES, Object, component, of_kind, pods, rendered, workers

from assay.config.settings import load_settings

STEPS = [value.rpartition("/")[2] or "defaults" for value in VALUES]
EVERYTHING = (
    'rollout={"enabled": true, "modelClaim": "", "engineUrl": "http://e",'
    '"engineTokenSecret": "q"},'
    'scaler="keda",keda={"tlsSecret": "k"},settings={"store.attempts_max": 7},'
    'operator={"tlsSecret": "o", "tlsServerName": "n"},tls={"existingSecret": "t"},'
    'workerApi={"keySecret": "k", "tokenSecret": "t"}'
)
CASES = [*((values, "") for values in VALUES), ("", EVERYTHING)]
SERVICES = {"api": "reward", "planner": "planner", "worker": "worker", "rollout": "rollout"}


def check_of(objects: tuple[Object, ...]) -> Any:
    [pod] = [one for one in of_kind(objects, "Pod") if component(one) == "check"]
    return pod


def variables(container: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "given") for one in container["env"]}


def in_the_open(container: Object) -> list[Any]:
    """Variables of a service that come from no secret."""
    return [one for one in container["env"] if "secretKeyRef" not in one.get("valueFrom", {})]


@pytest.mark.parametrize(("values", "more"), CASES, ids=[*STEPS, "everything"])
def test_every_image_is_asked_with_the_settings_of_its_service(values: str, more: str) -> None:
    objects = rendered(values, more)
    asked = {one["name"]: one for one in check_of(objects)["spec"]["containers"]}
    there: dict[str, Object] = {}
    for _, template in pods(objects):
        if component(template) in SERVICES:
            there.setdefault(component(template), template["spec"]["containers"][0])
    assert set(asked) == set(there)
    for role, container in asked.items():
        assert container["image"] == there[role]["image"]
        assert container["env"] == in_the_open(there[role])
        assert load_settings(variables(container)).store.url != "given"


def test_nothing_differs_between_the_stages_but_values_of_known_settings() -> None:
    """One worker is asked, for all stages."""
    names = {
        tuple(one["name"] for one in worker["spec"]["template"]["spec"]["containers"][0]["env"])
        for worker in workers(rendered(more='pipelines=["math", "code.python", "code.cpp"]'))
    }
    assert len(names) == 1


def test_the_pod_runs_before_anything_is_changed_and_is_gone_afterwards() -> None:
    pod = check_of(rendered())
    notes = pod["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    assert notes["helm.sh/hook-output-log-policy"] == "hook-failed"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert 0 < pod["spec"]["activeDeadlineSeconds"] <= 600
    assert [one for one in pod["spec"]["volumes"] if "emptyDir" not in one] == []
    off = rendered(more="settingsCheck=false")
    assert [one for one in of_kind(off, "Pod") if component(one) == "check"] == []


@pytest.mark.parametrize("role", SERVICES)
@pytest.mark.parametrize("more", ["", "ASSAY_STORE__INVENTED_BY_A_NEWER_CHART"])
def test_an_image_says_which_setting_it_does_not_take_and_ends(role: str, more: str) -> None:
    pod = check_of(rendered(more='rollout={"enabled": true, "modelClaim": "m"}'))
    [container] = [one for one in pod["spec"]["containers"] if one["name"] == role]
    given = {**variables(container), **({more: "1"} if more else {})}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    done = subprocess.run(
        [sys.executable, "-m", f"assay.{SERVICES[role]}", *container["args"]],
        env={**inherited, **given}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (78 if more else 0), done.stderr
    assert more in done.stderr
    assert done.stderr.count("\n") == bool(more)


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_the_last_words_of_a_container_are_its_message(values: str) -> None:
    """`kubectl describe pod` then says why it ended, and so does the planner."""
    for name, template in pods(rendered(values)):
        for container in template["spec"]["containers"]:
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError", name
