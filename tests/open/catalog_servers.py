"""The catalogs of the suite of claims: each starts its server, and says by which properties it is opened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.profile import Profile
from tests.open.glue_catalog import run_glue_catalog
from tests.open.hive_catalog import run_hive_catalog
from tests.open.iceberg_rest_catalog import run_iceberg_rest_catalog
from tests.open.postgres_catalog import run_postgres_catalog
from tests.rest_catalog import serve

Properties = dict[str, str]

ALL = Capabilities(
    branches=True,
    views=True,
    staged_creation=True,
    format_version_3=True,
    table_transactions=False,
    conditional_writes=True,
)
WITH_TRANSACTIONS = replace(ALL, table_transactions=True)
WITHOUT_VIEWS = replace(ALL, views=False)


@dataclass(frozen=True)
class ServedCatalog:
    """How a catalog is started over a folder, and what it can do when it is tried."""

    run: Callable[[Path], AbstractContextManager[Properties]]
    capabilities: Capabilities = ALL


@contextmanager
def run_embedded(folder: Path) -> Iterator[Properties]:
    yield dict(Profile.for_embedded(folder / "warehouse").catalog_properties)


def serve_rest(**lacks: bool) -> Callable[[Path], AbstractContextManager[Properties]]:
    """Returns a function that serves the project's small REST catalog, which may lack something."""

    @contextmanager
    def run(folder: Path) -> Iterator[Properties]:
        with serve(folder, **lacks) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield {
                "type": "rest",
                "uri": f"http://127.0.0.1:{server.server_address[1]}",
                "warehouse": str(folder),
            }
            server.shutdown()

    return run


CATALOGS = {
    "embedded": ServedCatalog(run_embedded, WITH_TRANSACTIONS),
    "jdbc_postgresql": ServedCatalog(run_postgres_catalog, WITH_TRANSACTIONS),
    "glue": ServedCatalog(run_glue_catalog, WITHOUT_VIEWS),
    "hive": ServedCatalog(run_hive_catalog, WITHOUT_VIEWS),
    "rest": ServedCatalog(serve_rest(), WITH_TRANSACTIONS),
    "iceberg_rest": ServedCatalog(run_iceberg_rest_catalog, WITH_TRANSACTIONS),
    "rest_that_stages_nothing": ServedCatalog(
        serve_rest(stages=False, has_transactions=False),
        replace(ALL, staged_creation=False),
    ),
}
