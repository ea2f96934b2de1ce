"""The dbt adapter `arctic`, which runs dbt on Spark and an Iceberg catalog."""

import gc

from dbt.adapters.base import AdapterPlugin

# dbt and the libraries here create hundreds of thousands of objects that live as long as the process. A search for
# garbage among them takes a sixth of a short command; a program that has set its own thresholds keeps them.
if gc.isenabled() and gc.get_threshold()[0] < 50_000:
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])

from dbt.adapters.arctic.connections.manager import ArcticConnectionManager
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.impl import ArcticAdapter
from dbt.adapters.arctic.relations.column import ArcticColumn
from dbt.adapters.arctic.relations.relation import ArcticRelation
from dbt.include import arctic

__all__ = [
    "ArcticAdapter",
    "ArcticColumn",
    "ArcticConnectionManager",
    "ArcticCredentials",
    "ArcticRelation",
    "Plugin",
]

Plugin = AdapterPlugin(
    adapter=ArcticAdapter,  # type: ignore[arg-type]
    credentials=ArcticCredentials,
    include_path=arctic.PACKAGE_PATH,
    dependencies=["spark"],
)
