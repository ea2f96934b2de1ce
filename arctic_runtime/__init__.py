"""Runtime of dbt-arctic: Apache Iceberg tables with primary keys, kept up to date by incremental view maintenance.

    import arctic_runtime as arctic

    with arctic.open_warehouse("warehouse") as warehouse:
        flights = warehouse.define_table("dwd.flights", "select … from ods.flights", primary_key="id")
        flights.refresh()
        flights.read().show()

`open_project` opens the tables of a dbt project instead. The public interface is `__all__`. Modules are imported when
their names are first used, and Spark starts with the first work that needs it. docs/notebook.md describes the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import (
    ArcticError,
    CatalogError,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    CorruptState,
    DataError,
    PlanError,
    SourceError,
    SparkEnded,
)

if TYPE_CHECKING:
    from arctic_runtime.api.project import Project, open_project
    from arctic_runtime.api.table import Table
    from arctic_runtime.api.warehouse import Warehouse, open_warehouse
    from arctic_runtime.operations.operation import Answer
    from arctic_runtime.profile import Profile
    from arctic_runtime.refresh_planner import Outcome

__all__ = [
    "Answer",
    "ArcticError",
    "CatalogError",
    "CommitConflict",
    "CommitUnknown",
    "ConfigError",
    "CorruptState",
    "DataError",
    "Outcome",
    "PlanError",
    "Profile",
    "Project",
    "SourceError",
    "SparkEnded",
    "Table",
    "Warehouse",
    "open_project",
    "open_warehouse",
]

_MODULES = {
    "Answer": "arctic_runtime.operations.operation",
    "Outcome": "arctic_runtime.refresh_planner",
    "Profile": "arctic_runtime.profile",
    "Project": "arctic_runtime.api.project",
    "Table": "arctic_runtime.api.table",
    "Warehouse": "arctic_runtime.api.warehouse",
    "open_project": "arctic_runtime.api.project",
    "open_warehouse": "arctic_runtime.api.warehouse",
}
"""Maps names that are imported when they are first used to their modules, to keep `import arctic_runtime` cheap."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
