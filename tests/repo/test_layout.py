"""House rules of the layout that no linter knows."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("services", "runtime", "simulator", "proto")


def test_no_portion_of_the_namespace_has_an_init_module() -> None:
    hiding = [root for root in SOURCE_ROOTS if (ROOT / root / "assay" / "__init__.py").exists()]
    assert hiding == [], "an __init__.py here hides the other portions of the namespace"


def test_a_source_root_holds_nothing_but_the_namespace() -> None:
    for root in SOURCE_ROOTS:
        strays = [p.name for p in (ROOT / root).iterdir() if p.name not in {"assay", "__pycache__"}]
        assert strays == [], f"{root}/ is on sys.path of an editable install"


def test_every_package_is_typed() -> None:
    packages = [
        init.parent
        for root in SOURCE_ROOTS
        for init in (ROOT / root / "assay").glob("*/__init__.py")
    ]
    assert packages
    assert [p.name for p in packages if not (p / "py.typed").exists()] == []
