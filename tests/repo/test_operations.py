"""docs/operations.md says of each metric and each alert what to do."""

import re
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry

from assay.edge.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
ALERTS = ROOT / "deploy" / "helm" / "assay" / "rules" / "alerts.yaml"


def section(title: str) -> str:
    """The text below a heading of the second level."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def names(registry: CollectorRegistry) -> set[str]:
    """Of all metrics, as they are scraped."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }


def test_each_metric_has_a_line_and_each_line_a_metric() -> None:
    rows = re.findall(r"^\| `(assay_\w+)` \| (.+) \|$", section("Metrics"), re.MULTILINE)
    assert [name for name, _ in rows if not _.strip()] == []
    assert len(rows) == len({name for name, _ in rows}), "each once"
    assert {name for name, _ in rows} == names(Metrics().registry)


def test_each_alert_has_words_and_a_metric_line_that_is_there() -> None:
    rules = [
        rule
        for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert len(rules) > 10
    known = names(Metrics().registry)
    for rule in rules:
        words = PAGE.partition(f"\n### {rule['alert']}\n")[2].partition("\n#")[0].strip()
        assert len(words) > 20, rule["alert"]
        used = re.findall(r"assay_\w+", rule["expr"])
        stems = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
        assert stems <= known, rule["alert"]
