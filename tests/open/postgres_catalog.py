"""An Iceberg catalog in a PostgreSQL of its own, on a free port of the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sample_project.servers import PostgreSQLServer


@contextmanager
def run_postgres_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Starts PostgreSQL, and yields the properties of a catalog in it whose tables lie in `folder`."""
    server = PostgreSQLServer("catalog")
    try:
        yield {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://127.0.0.1:{server.port}/{server.database}",
            "jdbc.user": "postgres",
            "jdbc.password": "not-looked-at",
            "warehouse": str(folder),
        }
    finally:
        server.remove()
