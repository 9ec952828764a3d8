"""Write the dashboards: `python -m scripts.generate_dashboards [OUT]`.

The boards are `scripts/boards.py`; the JSON is in `deploy/helm/assay/dashboards`, from where the
chart ships it. `tests/monitoring` proves that it is fresh.
"""

import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.builders.dashboard import DatasourceVariable
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos
from scripts.boards import BOARDS, Board, Panel

OUT = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "assay" / "dashboards"
WIDTH, HEIGHT, COLUMNS = 12, 8, 2
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


def drawn(panel: Panel, index: int) -> timeseries.Panel:
    """One panel, two in a row."""
    row, column = divmod(index, COLUMNS)
    built = (
        timeseries.Panel()
        .id(index + 1)
        .title(panel.title)
        .description(panel.help)
        .unit(panel.unit)
        .datasource(SOURCE)
        .grid_pos(GridPos(x=column * WIDTH, y=row * HEIGHT, w=WIDTH, h=HEIGHT))
    )
    for number, (name, expression) in enumerate(panel.series.items()):
        query = prometheus.Dataquery().expr(expression).legend_format(name)
        if "_bucket" in expression:
            query = query.exemplar(True)  # noqa: FBT003 the builder's own form
        built = built.with_target(query.ref_id(chr(ord("A") + number)))
    return built


def encoded(board: Board) -> str:
    """The board as Grafana imports it."""
    source = DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .tags(["assay"])
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(source)
    )
    for index, panel in enumerate(board.panels):
        built = built.with_panel(drawn(panel, index))
    return str(JSONEncoder(sort_keys=True, indent=1).encode(built.build())) + "\n"


def generate(out: Path) -> None:
    """Write one file per board."""
    out.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (out / f"{board.uid}.json").write_text(encoded(board), encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
