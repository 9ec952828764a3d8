"""What the run on real nodes says of results, and where it places the caller."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import kubernetes_validate
import pytest
from tests.kubernetes.nodes import (
    Tools,
    another,
    answers,
    caller,
    judged,
    node_to_drain,
    refuse,
)

from assay.core.outcome import Outcome


def result(number: int, reward: float | None, attempts: int = 1) -> str:
    outcome = Outcome.INFRA_FAILED if reward is None else Outcome.SCORED
    stage = {"stage": "match", "attempts": attempts}
    return json.dumps({"request_id": f"{number}", "outcome": outcome.name, "reward": reward,
                       "stages": [stage]})  # fmt: skip


def test_every_other_answer_is_right() -> None:
    rows = [json.loads(line) for line in answers(4).splitlines()]
    assert [one["request_id"] for one in rows] == ["0", "1", "2", "3"]
    said = [one["response"] == f"\\boxed{{{one['reference']['answers'][0]}}}" for one in rows]
    assert said == [True, False, True, False]


def test_a_run_is_good_where_each_answer_has_its_reward_once() -> None:
    verdict = judged([result(0, 1.0), result(2, 1.0, attempts=2), result(1, 0.0), "\n"], 3)
    assert (verdict.rows, verdict.right, verdict.wrong) == (3, 3, [])
    assert verdict.redelivered == 1


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([result(0, 1.0)], "one is lost"),
        ([result(0, 1.0), result(1, 0.0), result(1, 0.0)], "one has two results"),
        ([result(0, 1.0), result(1, 1.0)], "one has another reward"),
        ([result(0, 1.0), result(1, None)], "one failed"),
    ],
)
def test_a_run_is_bad(lines: list[str], why: str) -> None:
    assert judged(lines, 2).wrong == ["1"], why


def test_a_run_is_bad_with_a_result_that_nobody_asked_for() -> None:
    assert judged([result(0, 1.0), result(7, 1.0)], 1).wrong == ["7"]


def pod(node: str | None, component: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component}
    return {"metadata": {"labels": labels}, "spec": {"nodeName": node} if node else {}}


def test_the_stores_node_is_drained_or_the_one_with_most_pods() -> None:
    pods = [pod(None, "worker"), pod("a", "api"), pod("b", "store"), pod("a", "worker")]
    assert node_to_drain(pods) == "b"
    assert node_to_drain([one for one in pods if one != pods[2]]) == "a"


class Stand(Tools):
    """A release of which each `get` shows what comes next, and what Helm says."""

    def __init__(self, templates: Sequence[str], told: str) -> None:
        super().__init__(kubeconfig="", namespace="n")
        object.__setattr__(self, "left", list(templates))
        object.__setattr__(self, "told", told)
        object.__setattr__(self, "ran", [])

    left: list[str]
    told: str
    ran: list[str]

    def get(self, kind: str, *given: str) -> Sequence[Mapping[str, Any]]:
        del given
        if kind == "pods":
            return [{"metadata": {"uid": "1"}}]
        template = self.left.pop(0) if kind == "deployments" else "store"
        return [{"metadata": {"name": kind}, "spec": {"template": template}}]

    def refused(self, *given: str) -> str:
        self.ran.append(given[0])
        return self.told

    def helm(self, *given: str) -> str:
        self.ran.append(given[0])
        return ""


REFUSAL = "worker: failed_precondition: store.new (ASSAY_STORE__NEW): no such setting"


def test_an_upgrade_that_is_refused_names_the_setting_changes_nothing_and_is_rolled_back() -> None:
    stand = Stand(["a", "a", "a"], REFUSAL)
    refuse(stand, ["--set", "image.tag=old"])
    assert stand.ran == ["upgrade", "rollback"]


@pytest.mark.parametrize(
    ("templates", "told", "why"),
    [
        ("aaa", "Error: UPGRADE FAILED: pod assay-check failed", "which setting"),
        ("aba", REFUSAL, "the refused upgrade changed"),
        ("aab", REFUSAL, "the rollback changed"),
    ],
)
def test_a_refused_upgrade_that_leaves_a_trace_is_a_failure(
    templates: str, told: str, why: str
) -> None:
    with pytest.raises(SystemExit, match=why):
        refuse(Stand(list(templates), told), [])


def test_the_caller_is_on_a_node_that_is_not_drained() -> None:
    nodes: list[dict[str, Any]] = [{"metadata": {"name": name}, "spec": {}} for name in "abc"]
    nodes[1]["spec"]["unschedulable"] = True
    assert another(nodes, "a") == "c"
    with pytest.raises(SystemExit, match="second node"):
        another(nodes[:2], "a")


def test_the_caller_is_a_pod_that_restricted_namespaces_admit() -> None:
    made = caller("assay/api:1", "b")
    kubernetes_validate.validate(made, "1.37", strict=True)
    assert made["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "b"}
    own = made["spec"]["containers"][0]["securityContext"]
    assert made["spec"]["securityContext"]["runAsNonRoot"]
    assert (own["allowPrivilegeEscalation"], own["capabilities"]) == (False, {"drop": ["ALL"]})


def test_the_namespace_is_given_to_kubectl_and_not_to_the_command_in_the_pod() -> None:
    tools = Tools(kubeconfig="", namespace="rewards")
    command = tools.command("kubectl", "exec", "caller", "--", "cat", "/tmp/rows.jsonl")
    assert command[:3] == ["kubectl", "--namespace", "rewards"]
    assert command[command.index("--") :] == ["--", "cat", "/tmp/rows.jsonl"]
