"""README.md says what there is: its table has every built-in pipeline."""

import re
from pathlib import Path

from assay.verifiers.registry import load_pipelines

README = Path(__file__).resolve().parents[2] / "README.md"
FOR_MEASUREMENTS = {"noop"}


def test_every_pipeline_stands_in_the_table() -> None:
    table = README.read_text(encoding="utf-8").partition("## Pipelines")[2].partition("\n\n`")[0]
    named = set(re.findall(r"`([a-z_.]+)`", table))
    built_in = set(load_pipelines(found=()))
    assert built_in - FOR_MEASUREMENTS - named == set()
