"""Interface to the pointers of a catalog, by which a branch begins and is published; each protocol has a class.

A catalog makes the changes of a build visible in one or more steps, and each step at once.

A pointer says what metadata file of a table or view is current.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import CHANGES_SUFFIX, TableName

if TYPE_CHECKING:
    from arctic_runtime.catalog.reader import CatalogReader


@dataclass(frozen=True)
class Pointer:
    """The current metadata file of a table or view; `kind` is `TABLE` or `VIEW`, as in an Iceberg JDBC catalog."""

    table: TableName
    kind: str
    file: str


@dataclass(frozen=True)
class PointerChange:
    """A table or view whose pointer differs between a branch and the catalog from which the branch was made.

    `before` is its pointer when the branch was made, or None if it did not exist; `after` is its pointer on the branch,
    or None if it was dropped there.
    """

    table: TableName
    before: Pointer | None
    after: Pointer | None


def sort_changes(changes: Iterable[PointerChange], places: Mapping[TableName, int]) -> list[PointerChange]:
    """Sorts changes in the order in which runs would have committed them.

    `places` are those of tables in the order of the graph; what has none comes first. At one place, change tables come
    before other tables, and these before views, which pin versions of the tables.
    """

    def get_key(change: PointerChange) -> tuple[int, bool, bool, TableName]:
        table, pointer = change.table, change.after or change.before
        is_view = pointer is not None and pointer.kind != "TABLE"
        return places.get(table, -1), is_view, not table.name.endswith(CHANGES_SUFFIX), table

    return sorted(changes, key=get_key)


@dataclass(frozen=True)
class BranchScope:
    """The relations that a build may read or write, and the schemas in which it may create some.

    A catalog that is not in a database is asked for these; a database is asked for all that it has.
    """

    relations: Collection[TableName] = ()
    target_schemas: Collection[str] = ()

    @property
    def schemas(self) -> list[str]:
        return sorted({relation.schema for relation in self.relations}.union(self.target_schemas))


class ChangeRefused(CatalogError):
    """Raised if a catalog refuses a change for a reason that will be the same when it is repeated."""


class CatalogPointers(Protocol):
    """Reads and changes the pointers of the tables and views of one catalog; safe to share between threads."""

    @property
    def writes_metadata(self) -> bool:
        """Whether the catalog writes metadata files itself, so that nobody needs those of a branch once it is there."""

    def list_pointers(self, scope: BranchScope, /) -> list[Pointer]:
        """Lists the pointers of the tables and views in the schemas of a build."""

    def list_namespaces(self, scope: BranchScope, /) -> Mapping[str, Mapping[str, str]]:
        """Returns the properties of each namespace of a build that exists, by its name."""

    def build_file_properties(self) -> dict[str, str]:
        """Builds the properties of a branch with which Spark and pyiceberg reach the files of the catalog's tables.

        Raises ConfigError if they are reached only by credentials that the server gives for each table.
        """

    def find_pointer(self, table: TableName) -> Pointer | None:
        """Returns the pointer of a table or view; None if it does not exist."""

    def plan_steps(self, changes: Sequence[PointerChange]) -> list[list[PointerChange]]:
        """Divides changes, which are in the order of the graph, into steps that the catalog carries out at once."""

    def list_conflicts(self, changes: Sequence[PointerChange], /) -> list[TableName]:
        """Lists tables and views that are neither as before nor as after their change.

        It need not ask a catalog that carries out all changes in one step.
        """

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        """Carries out one step, and returns the tables and views that another writer has changed.

        If there are any, nothing was changed. What is as after its change already is left alone, so a call can be
        repeated if its result was lost. Raises ChangeRefused if the catalog does not take a change.
        """


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
