"""The dbt adapter `arctic`, which runs dbt on Spark and an Iceberg catalog.

Its classes are imported when they are first used, since commands such as `arctic --help` need none of them.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbt.adapters.arctic.connections.manager import ArcticConnectionManager
    from dbt.adapters.arctic.credentials import ArcticCredentials
    from dbt.adapters.arctic.impl import ArcticAdapter
    from dbt.adapters.arctic.plugin import Plugin
    from dbt.adapters.arctic.relations.column import ArcticColumn
    from dbt.adapters.arctic.relations.relation import ArcticRelation

__all__ = [
    "ArcticAdapter",
    "ArcticColumn",
    "ArcticConnectionManager",
    "ArcticCredentials",
    "ArcticRelation",
    "Plugin",
]

_MODULES = {
    "ArcticAdapter": "impl",
    "ArcticColumn": "relations.column",
    "ArcticConnectionManager": "connections.manager",
    "ArcticCredentials": "credentials",
    "ArcticRelation": "relations.relation",
    "Plugin": "plugin",
}

# dbt and the libraries here create hundreds of thousands of objects that live as long as the process. A search for
# garbage among them takes a sixth of a short command; a program that has set its own thresholds keeps them.
if gc.isenabled() and gc.get_threshold()[0] < 50_000:
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])


def __getattr__(name: str) -> Any:
    """Imports a class of the adapter, or dbt's description of it; raises AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
