"""Description of the adapter, by which dbt loads it."""

from dbt.adapters.base import AdapterPlugin

from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.impl import ArcticAdapter
from dbt.include import arctic

Plugin = AdapterPlugin(
    adapter=ArcticAdapter,  # type: ignore[arg-type]
    credentials=ArcticCredentials,
    include_path=arctic.PACKAGE_PATH,
    dependencies=["spark"],
)
