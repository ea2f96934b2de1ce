"""The dbt adapter `arctic`, which runs dbt on Spark and an Iceberg catalog."""

from dbt.adapters.base import AdapterPlugin

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
