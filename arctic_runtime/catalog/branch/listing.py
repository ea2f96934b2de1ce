"""Lists the relations and namespaces of a build in catalogs that answer for one relation or namespace at a time."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.catalog.branch.catalog_pointers import BranchScope
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName


def list_scope(reader: CatalogReader, scope: BranchScope) -> list[TableName]:
    """Lists the relations in the schemas of a build.

    If a schema has very many, only those are listed that the project knows.
    """
    listed: list[TableName] = []
    known = {*scope.relations}
    for schema in scope.schemas:
        names = [TableName(reader.profile.catalog, schema, name) for name in reader.list_relations(schema)]
        is_large = len(names) > reader.thresholds.engine.branch_relations
        listed += [name for name in names if name in known or not is_large]
    return sorted(listed)


def load_namespaces(reader: CatalogReader, scope: BranchScope) -> Mapping[str, Mapping[str, str]]:
    """Returns the properties of the namespaces of a build that exist, by their names."""
    schemas = [schema for schema in scope.schemas if reader.has_namespace(schema)]
    return {schema: reader.load_namespace_properties(schema) for schema in schemas}
