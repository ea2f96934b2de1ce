"""The objects by which a service accesses its warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.spark.engine.session_pool import SessionPool


@dataclass(frozen=True)
class ServiceWarehouse:
    """The catalog reader, a pool of Spark sessions, and the table in which services store their own state."""

    reader: CatalogReader
    sessions: SessionPool
    service_table: ServiceTable
