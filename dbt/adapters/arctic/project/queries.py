"""Answers queries over the tables of a project, by the names that dbt gives them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.manifest.query_lookup import build_lookup
from arctic_runtime.query.answer import QueryRows, answer_query
from arctic_runtime.query.engine import Limits
from arctic_runtime.query.relations import RelationLookup
from dbt.adapters.arctic.project.project_tables import CompiledProject


@contextmanager
def answer_project_query(
    project: CompiledProject, query: str, memory: str | None, limit: int | None
) -> Iterator[QueryRows]:
    """Runs a query in Spark's SQL by DuckDB; the rows can be read until the context ends.

    `memory` limits DuckDB, as it writes sizes, and `limit` the number of rows. Raises NotAnswered if Spark might answer
    otherwise, and ConfigError if the text is no query or names no table.
    """
    lookup, now = build_project_lookup(project), datetime.now(timezone.utc)
    with answer_query(query, lookup, Limits(memory, limit), now, lookup.is_utc) as rows:
        yield rows


def build_project_lookup(project: CompiledProject) -> RelationLookup:
    """Builds the lookup of a project's relations, as `build_lookup` does."""
    return build_lookup(CatalogReader(project.profile), project.graph.nodes, project.models)
