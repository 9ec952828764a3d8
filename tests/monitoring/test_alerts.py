"""The alerts, judged by Prometheus' own tool."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.monitoring.alert_cases import CASES, FIRST_OF_THEIR_KIND
from tests.monitoring.prometheus import program

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "helm" / "assay" / "rules" / "alerts.yaml"
AT = "20m"


def promtool() -> str:
    """Debian's `prometheus` has it."""
    return program("promtool")


def alerts() -> dict[str, Any]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def fired(name: str, series: dict[str, str], tmp_path: Path) -> bool:
    """Whether the alert fires at minute 20; every other result is a failure."""
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "alert_rule_test": [{"eval_time": AT, "alertname": name, "exp_alerts": []}],
            }
        ],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump(test))
    done = subprocess.run(
        [promtool(), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return False
    told = done.stdout + done.stderr
    assert f"alertname: {name}" in told, told
    assert "got:[" in re.sub(r"\s", "", told), told
    return True


def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(
        [promtool(), "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    assert set(alerts()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    assert fired(name, CASES[name].fires, tmp_path)
    assert not fired(name, CASES[name].quiet, tmp_path)
    assert not fired(name, {}, tmp_path), "without data"


@pytest.mark.parametrize("name", FIRST_OF_THEIR_KIND)
def test_the_first_event_of_its_kind_is_noticed_and_forgotten(name: str, tmp_path: Path) -> None:
    assert fired(name, FIRST_OF_THEIR_KIND[name], tmp_path)
    old = {series: values.split()[1] for series, values in FIRST_OF_THEIR_KIND[name].items()}
    assert not fired(name, old, tmp_path), "it was there before"


def test_every_alert_says_what_to_do_in_the_page_of_operations() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    anchors = {line.lstrip("# ").lower() for line in page.splitlines() if line.startswith("#")}
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{name.lower()}"
        assert name.lower() in anchors, name
