"""Interface to the pointers of a catalog, by which a branch begins and is published; each kind of catalog has a class.

A catalog makes the changes of a build visible in one or more steps, and each step at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from arctic_runtime.catalog.branch.pointers import Pointer, PointerChange
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName


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
