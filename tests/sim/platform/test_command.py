"""`python -m assay.sim.platform`: a long run that is interrupted says what it has shown."""

import json

import pytest

from assay.sim.platform import __main__ as command
from assay.sim.platform.run import RunReport, run_seed


def test_an_interrupted_run_prints_its_figures_and_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seed: int, *args: object, **options: bool) -> RunReport:
        if seed == 2:
            raise KeyboardInterrupt
        return run_seed(seed, None, **options)

    monkeypatch.setattr(command, "run_seed", interrupted)
    assert command.main(["--seed", "1", "--runs", "100", "--json"]) == 0
    where, figures = capsys.readouterr().out.splitlines()
    assert where == "interrupted; go on with --seed 2"
    assert json.loads(figures)["seeds"] == 1
