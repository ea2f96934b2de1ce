"""The pointers of Hive and Glue, which change one table at a time; each is compared before it is changed.

Both keep the address of the current metadata file as a parameter of the table, with a copy of its columns and
properties for other programs. Hive compares under its lock, as Iceberg's own commits do, and Glue by the number of the
table's version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.branch.catalog_pointers import (
    BranchScope,
    Pointer,
    PointerChange,
    list_scope,
    load_namespaces,
)
from arctic_runtime.catalog.foreign_types import make_readable
from arctic_runtime.catalog.metadata_files import read_metadata_at
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.object_stores import is_store_key
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LOCATION = "metadata_location"
_PREVIOUS = "previous_metadata_location"
_OF_BRANCHES = ("table-default.", "table-override.", "cache")


class TableSwaps(ABC):
    """Reads pointers of a catalog, and changes one at a time; see `CatalogPointers`."""

    writes_metadata = False

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader

    def list_pointers(self, scope: BranchScope, /) -> list[Pointer]:
        """Lists the tables of the scope; each was current when it was read."""
        relations = list_scope(self._reader, scope)
        with ThreadPoolExecutor(self._reader.thresholds.engine.parallel_actions, "branch") as pool:
            return [pointer for pointer in pool.map(self.find_pointer, relations) if pointer is not None]

    def list_namespaces(self, scope: BranchScope, /) -> Mapping[str, Mapping[str, str]]:
        return load_namespaces(self._reader, scope)

    def build_file_properties(self) -> dict[str, str]:
        properties = self._reader.profile.catalog_properties
        return {key: value for key, value in properties.items() if is_store_key(key) or key.startswith(_OF_BRANCHES)}

    def find_pointer(self, table: TableName) -> Pointer | None:
        file = self._reader.ask_catalog(f"load {table}", lambda: self._find_file(table))
        return None if file is None else Pointer(table, "TABLE", file)

    def plan_steps(self, changes: Sequence[PointerChange]) -> list[list[PointerChange]]:
        """Returns one step for each table; what is dropped comes last, from the end of the graph on."""
        dropped = [[change] for change in reversed(changes) if change.after is None]
        return [*([change] for change in changes if change.after is not None), *dropped]

    def list_conflicts(self, changes: Sequence[PointerChange], /) -> list[TableName]:
        with ThreadPoolExecutor(self._reader.thresholds.engine.parallel_actions, "branch") as pool:
            currents = list(pool.map(self.find_pointer, [change.table for change in changes]))
        pairs = zip(changes, currents, strict=True)
        return [change.table for change, current in pairs if current not in (change.before, change.after)]

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        return [change.table for change in changes if not self._apply_change(change)]

    def _apply_change(self, change: PointerChange) -> bool:
        """Changes the pointer of one table; returns whether it has the wanted one now."""
        current = self.find_pointer(change.table)
        if current == change.after:
            return True
        if current != change.before:
            return False
        if change.after is None:
            self._drop_table(change.table)
            return True
        table = self._open_metadata(change.table, change.after.file)
        swapped = self._create_table(table) if current is None else self._swap_metadata(table, current.file)
        return swapped or self.find_pointer(change.table) == change.after

    def _drop_table(self, table: TableName) -> None:
        """Drops a table, and leaves its files; does nothing if it does not exist."""
        from pyiceberg.exceptions import NoSuchTableError

        def drop_if_there() -> None:
            with suppress(NoSuchTableError):
                self._catalog.drop_table((table.schema, table.name))

        self._reader.perform_change("build.drop", f"drop {table}", drop_if_there)

    def _create_table(self, table: Table) -> bool:
        """Creates a table from its metadata file; returns whether there was none."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self._register_table(table)
        except TableAlreadyExistsError:
            return False
        return True

    def _open_metadata(self, table: TableName, file: str) -> Table:
        """Reads a metadata file as pyiceberg's table; types that pyiceberg does not know get readable ones."""
        from pyiceberg.io import load_file_io
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import TableMetadataUtil

        metadata = TableMetadataUtil.parse_obj(make_readable(read_metadata_at(self._reader, file)))
        file_io = load_file_io(self._catalog.properties, file)
        return Table((table.schema, table.name), metadata, file, file_io, self._catalog)

    def _list_foreign_parameters(self, parameters: Mapping[str, str], file: str) -> dict[str, str]:
        """Returns the parameters of a table that are no properties in its metadata file `file`: others set them."""
        own = read_metadata_at(self._reader, file).get("properties", {})
        return {key: value for key, value in parameters.items() if key not in own}

    @property
    def _catalog(self) -> Any:
        return self._reader.catalog

    @abstractmethod
    def _find_file(self, table: TableName) -> str | None:
        """Returns the address of a table's current metadata file; None if there is no such table of Iceberg."""

    @abstractmethod
    def _register_table(self, table: Table) -> None:
        """Creates a table; raises pyiceberg's TableAlreadyExistsError if there is one."""

    @abstractmethod
    def _swap_metadata(self, table: Table, expected: str) -> bool:
        """Makes the metadata file of `table` the current one if that is `expected`; returns whether it was."""


class HivePointers(TableSwaps):
    """The pointers of a Hive Metastore."""

    def _find_file(self, table: TableName) -> str | None:
        from pyiceberg.exceptions import NoSuchTableError

        catalog = self._catalog
        try:
            with catalog._client as client:
                return _get_file(catalog._get_hive_table(client, table.schema, table.name).parameters)
        except NoSuchTableError:
            return None

    def _register_table(self, table: Table) -> None:
        catalog = self._catalog
        with catalog._client as client:
            catalog._create_hive_table(client, catalog._convert_iceberg_into_hive(table))

    def _swap_metadata(self, table: Table, expected: str) -> bool:
        """Compares and changes the table under the metastore's lock."""
        from pyiceberg.exceptions import CommitFailedException, WaitingForLockException

        types: Any = import_module("hive_metastore.ttypes")
        catalog, (schema, name) = self._catalog, table.name()
        wanted = catalog._convert_iceberg_into_hive(table)
        with catalog._client as client:
            lock = client.lock(catalog._create_lock_request(schema, name))
            try:
                if lock.state != types.LockState.ACQUIRED:
                    catalog._wait_for_lock(schema, name, lock.lockid, client)
                known = catalog._get_hive_table(client, schema, name)
                if _get_file(known.parameters) != expected:
                    return False
                kept = self._list_foreign_parameters(known.parameters, expected)
                known.sd, known.parameters = wanted.sd, {**kept, **wanted.parameters, _PREVIOUS: expected}
                context = types.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
                client.alter_table_with_environment_context(schema, name, known, context)
            except (CommitFailedException, WaitingForLockException):
                return False
            finally:
                client.unlock(types.UnlockRequest(lockid=lock.lockid))
        return True


class GluePointers(TableSwaps):
    """The pointers of AWS Glue."""

    def _find_file(self, table: TableName) -> str | None:
        known = self._load_table(table)
        return None if known is None else _get_file(known.get("Parameters", {}))

    def _load_table(self, table: TableName) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog._get_glue_table(table.schema, table.name)
        except NoSuchTableError:
            return None

    def _register_table(self, table: Table) -> None:
        from pyiceberg.catalog.glue import _construct_table_input

        schema, name = table.name()
        table_input = _construct_table_input(name, table.metadata_location, table.properties, table.metadata)
        self._catalog._create_glue_table(schema, name, table_input)

    def _swap_metadata(self, table: Table, expected: str) -> bool:
        """Changes the table if Glue still has the version that was compared."""
        from pyiceberg.catalog.glue import _construct_table_input
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

        schema, name = table.name()
        known = self._load_table(TableName(self._reader.profile.catalog, schema, name))
        if known is None or _get_file(known.get("Parameters", {})) != expected:
            return False
        known["Parameters"] = self._list_foreign_parameters(known["Parameters"], expected)
        table_input = _construct_table_input(
            name, table.metadata_location, table.properties, table.metadata, known, expected
        )
        try:
            self._catalog._update_glue_table(schema, name, table_input, known["VersionId"])
        except (CommitFailedException, NoSuchTableError):
            return False
        return True


def _get_file(parameters: Mapping[str, str]) -> str | None:
    """Returns the address of the metadata file from a table's parameters; None for a table of another kind."""
    return parameters.get(_LOCATION) if parameters.get("table_type", "").lower() == "iceberg" else None
