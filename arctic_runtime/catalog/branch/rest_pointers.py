"""The pointers of a REST catalog: tables are published by one transaction if the server has them, then views.

The server writes metadata files itself. So it is sent the updates by which the metadata of a table at the beginning of
a branch becomes the metadata on the branch. Iceberg's transactions over tables neither create tables nor concern views:
new tables are created before the transaction, which makes their rows visible; views, and tables that were dropped
and created again, follow one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Literal

from arctic_runtime.catalog.branch.catalog_pointers import (
    BranchScope,
    ChangeRefused,
    Pointer,
    PointerChange,
    list_scope,
    load_namespaces,
)
from arctic_runtime.catalog.branch.metadata_updates import (
    MAIN,
    Json,
    build_table_change,
    compute_updates,
    compute_view_updates,
    count_skipped_rows,
    find_ref,
    get_view_version,
    hide_rows,
    list_requirements,
)
from arctic_runtime.catalog.branch.rest_requests import Loaded, RestRequests, is_credential
from arctic_runtime.catalog.metadata_files import read_metadata_at
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.object_stores import is_store_key
from arctic_runtime.errors import CatalogError, CommitConflict, CommitUnknown, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import parse_cut

State = Literal["before", "after", "other"]

_OF_BRANCHES = ("table-default.", "table-override.", "view-default.", "view-override.", "cache")
"""Beginnings of the names of catalog properties that concern tables and views, not the server."""


class RestPointers:
    """Reads pointers from a REST catalog's server, and publishes by its commits; see `CatalogPointers`."""

    writes_metadata = True

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader
        self._requests = RestRequests(lambda: reader.catalog)
        self._metadata: dict[str, Json] = {}
        self._table_config: dict[str, str] = {}

    def list_pointers(self, scope: BranchScope) -> list[Pointer]:
        """Loads the tables and views of the scope; each was current when it was loaded.

        Raises ConfigError if their files are reached only by credentials that the server gives for each table.
        """
        relations = list_scope(self._reader, scope)
        with self._open_pool() as pool:
            loaded = list(pool.map(self._load_relation, relations))
        for table, known in zip(relations, loaded, strict=True):
            if known is not None:
                self._check_files(table, known)
                self._table_config |= {key: value for key, value in known.config.items() if _is_plain_store_key(key)}
        pairs = zip(relations, loaded, strict=True)
        return [Pointer(table, known.kind, known.file) for table, known in pairs if known is not None]

    def list_namespaces(self, scope: BranchScope) -> Mapping[str, Mapping[str, str]]:
        return load_namespaces(self._reader, scope)

    def build_file_properties(self) -> dict[str, str]:
        return {**self._table_config, **self._own_properties}

    @cached_property
    def _own_properties(self) -> dict[str, str]:
        """Properties of the profile and of the server for files, tables and views."""
        server = {key: str(value) for key, value in self._reader.catalog.properties.items() if key not in _PYTHON_ONLY}
        known = {**self._reader.profile.catalog_properties, **server}
        return {key: value for key, value in known.items() if is_store_key(key) or key.startswith(_OF_BRANCHES)}

    def find_pointer(self, table: TableName) -> Pointer | None:
        known = self._load_relation(table)
        return None if known is None else Pointer(table, known.kind, known.file)

    def plan_steps(self, changes: Sequence[PointerChange]) -> list[list[PointerChange]]:
        """Returns the transaction as the first step, if the server has any, and then single changes."""
        committed = [change for change in changes if self._is_commit(change)]
        dropped = [[change] for change in reversed(changes) if change.after is None]
        others = [[change] for change in changes if change.after is not None and not self._is_commit(change)]
        if not self._requests.has_transactions:
            return [*([change] for change in changes if change.after is not None), *dropped]
        return [*([committed] if committed else []), *others, *dropped]

    def list_conflicts(self, changes: Sequence[PointerChange]) -> list[TableName]:
        return [change.table for change, (_, state) in self._read_states(changes).items() if state == "other"]

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        states = self._read_states(changes)
        others = [change.table for change, (_, state) in states.items() if state == "other"]
        waiting = {change: current for change, (current, state) in states.items() if state == "before"}
        if others or not waiting:
            return others
        try:
            if all(map(self._is_commit, waiting)):
                self._commit_tables(waiting)
            else:
                for change, current in waiting.items():
                    self._replace_relation(change, current)
        except CommitConflict:
            if self._is_complete(changes):
                return []
            self._drop_empty_tables(changes)
            return self.list_conflicts(changes) or [change.table for change in changes]
        except ChangeRefused:
            self._drop_empty_tables(changes)
            raise
        except CommitUnknown:
            if not self._is_complete(changes):
                raise
        return []

    def _is_complete(self, changes: Sequence[PointerChange]) -> bool:
        """Whether a request has been carried out although its answer was lost, or was that to its repetition."""
        return all(state == "after" for _, state in self._read_states(changes).values())

    def _commit_tables(self, changes: Mapping[PointerChange, Loaded | None]) -> None:
        """Commits changes of tables that exist, and rows of new ones: in one request, or that of the only table.

        New tables are created before, in the order of their names, so that of two builds one gets all of them.
        """
        ordered = sorted(changes, key=lambda change: change.table)
        known = {change: changes[change] or self._create_new_table(change) for change in ordered}
        commits = {
            change.table: commit
            for change, current in known.items()
            if current is not None and (commit := self._build_commit(change, current)) is not None
        }
        if len(commits) == 1:
            ((table, commit),) = commits.items()
            self._requests.commit_updates("TABLE", table, commit["requirements"], commit["updates"])
        elif commits:
            self._requests.commit_transaction(list(commits.values()))

    def _create_new_table(self, change: PointerChange) -> Loaded | None:
        """Creates a table whose rows are not visible yet, and loads it.

        If there are no transactions, they are visible at once, and None is returned.
        """
        assert change.after is not None
        after = self._read_metadata(change.after.file)
        if not self._requests.has_transactions:
            self._create_table(change.table, after)
            return None
        self._create_table(change.table, hide_rows(after))
        return self._load_relation(change.table)

    def _build_commit(self, change: PointerChange, current: Loaded) -> Json | None:
        """Builds the commit of one table; None if there is nothing to commit."""
        assert change.after is not None
        after = self._read_metadata(change.after.file)
        _check_row_ids(change.table, current.metadata, after)
        updates = compute_updates(current.metadata, after)
        if not updates:
            return None
        return build_table_change([change.table.schema], change.table.name, current.metadata, updates)

    def _create_table(self, table: TableName, metadata: Json) -> None:
        _check_row_ids(table, None, metadata)
        updates = compute_updates(None, metadata)
        self._requests.commit_updates("TABLE", table, list_requirements(None, updates), updates)

    def _replace_relation(self, change: PointerChange, current: Loaded | None) -> None:
        """Drops a table or view, creates it, creates it again, or replaces a view."""
        after = change.after
        if current is not None and (after is None or after.kind != current.kind or after.kind == "TABLE"):
            self._requests.drop_relation(current.kind, change.table)
            current = None
        if after is None:
            return
        if after.kind == "TABLE":
            self._create_table(change.table, self._read_metadata(after.file))
        elif current is None:
            self._requests.create_view(change.table, _describe_view(change.table, self._read_metadata(after.file)))
        else:
            uuid = {"type": "assert-view-uuid", "uuid": current.metadata["view-uuid"]}
            updates = compute_view_updates(current.metadata, self._read_metadata(after.file))
            self._requests.commit_updates("VIEW", change.table, [uuid], updates)

    def _drop_empty_tables(self, changes: Sequence[PointerChange]) -> None:
        """Drops the tables that were created for a transaction which was refused."""
        for change in changes:
            current = self._load_relation(change.table) if change.before is None and change.after is not None else None
            if current is not None and self._is_created(change, current):
                self._requests.drop_relation("TABLE", change.table)

    def _read_states(self, changes: Sequence[PointerChange]) -> dict[PointerChange, tuple[Loaded | None, State]]:
        """Loads tables and views, and says for each whether it is as before or as after its change."""
        with self._open_pool() as pool:
            loaded = list(pool.map(self._load_relation, [change.table for change in changes]))
        pairs = zip(changes, loaded, strict=True)
        return {change: (current, self._find_state(change, current)) for change, current in pairs}

    def _find_state(self, change: PointerChange, current: Loaded | None) -> State:
        before, after = change.before, change.after
        if current is None:
            if after is None:
                return "after"
            return "before" if before is None or self._is_created_again(change) else "other"
        if after is not None and after.kind == current.kind and self._is_applied(change, current):
            return "after"
        if before is None:
            return "before" if self._is_created(change, current) else "other"
        return "before" if current.file == before.file else "other"

    def _is_created_again(self, change: PointerChange) -> bool:
        """Whether a change drops a relation and creates another one, so that it is missing in between."""
        before, after = change.before, change.after
        if before is None or after is None or before.kind == after.kind == "VIEW":
            return False
        return not self._is_commit(change)

    def _is_applied(self, change: PointerChange, current: Loaded) -> bool:
        """Whether a table or view of the catalog has got the metadata after a change, perhaps with more after it."""
        assert change.after is not None
        after = self._read_metadata(change.after.file)
        if current.kind == "VIEW":
            return not compute_view_updates(current.metadata, after)
        if current.metadata["table-uuid"] != after["table-uuid"]:
            return False
        cut = self._find_new_cut(change, after)
        return find_ref(current.metadata, cut) is not None if cut else not compute_updates(current.metadata, after)

    def _find_new_cut(self, change: PointerChange, after: Json) -> str:
        """Returns the tag of the build in the metadata after a change; empty if it has none."""
        known: Json = {}
        if change.before is not None and change.before.kind == "TABLE":
            try:
                known = self._read_metadata(change.before.file)
            except FileNotFoundError:  # Newer versions than the one before the build have made the file superfluous.
                return ""
        cuts = [name for name in after.get("refs", {}) if parse_cut(name) is not None and find_ref(known, name) is None]
        return cuts[0] if cuts else ""

    def _is_created(self, change: PointerChange, current: Loaded) -> bool:
        """Whether a new table is there without visible rows, as it is created before a transaction."""
        if change.after is None or (change.after.kind, current.kind) != ("TABLE", "TABLE"):
            return False
        uuid: str = self._read_metadata(change.after.file)["table-uuid"]
        return uuid == current.metadata["table-uuid"] and find_ref(current.metadata, MAIN) is None

    def _is_commit(self, change: PointerChange) -> bool:
        """Whether a change is that of a table which stays the same one, or is new."""
        before, after = change.before, change.after
        if after is None or after.kind != "TABLE":
            return False
        if before is None:
            return True
        if before.kind != "TABLE":
            return False
        return bool(self._read_metadata(before.file)["table-uuid"] == self._read_metadata(after.file)["table-uuid"])

    def _open_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._reader.thresholds.engine.parallel_actions, "branch")

    def _load_relation(self, table: TableName) -> Loaded | None:
        return self._reader.ask_catalog(f"load {table}", lambda: self._requests.load_relation(table))

    def _read_metadata(self, file: str) -> Json:
        """Reads a metadata file, which never changes."""
        if file not in self._metadata:
            self._metadata[file] = read_metadata_at(self._reader, file)
        return self._metadata[file]

    def _check_files(self, table: TableName, known: Loaded) -> None:
        """Raises ConfigError if the files of a table can't be reached by the settings of a branch."""
        own = self._own_properties
        signed = "true" in (str(side.get("s3.remote-signing-enabled", "")).lower() for side in (own, known.config))
        if signed or (known.has_credentials and not any(map(is_credential, own))):
            raise ConfigError(
                "`publish: build` can't be used with files that only the catalog's server gives access to.",
                where=str(table),
                expected="credentials of the object store in `catalog_config`, as s3.access-key-id and "
                "s3.secret-access-key, or client.credentials-provider",
                actual="requests that the server signs" if signed else "credentials of the server for each table",
                fix="add them to `catalog_config`, or remove `publish`",
            )
        if not known.file:
            raise ConfigError(
                "`publish: build` can't be used with a server that keeps metadata in no file.",
                where=str(table),
                expected="a `metadata-location` in what the catalog's server answers",
                actual="none",
                fix="remove `publish`, so that each model is published by its own run",
            )


_PYTHON_ONLY = ("py-io-impl", "s3.connect-timeout", "s3.request-timeout")


def _is_plain_store_key(key: str) -> bool:
    return is_store_key(key) and not is_credential(key) and key not in _PYTHON_ONLY


def _is_named(commit: Json, table: TableName) -> bool:
    return bool(commit["identifier"] == {"namespace": [table.schema], "name": table.name})


def _check_row_ids(table: TableName, before: Json | None, after: Json) -> None:
    if count_skipped_rows(before, after) > 0:
        raise CatalogError(
            f"{table} can't be published.",
            expected="all snapshots of this build, since a server of a REST catalog numbers their rows anew",
            actual="fewer: some were removed on the branch",
            fix="remove what expires snapshots inside of the build, and run it again",
        )


def _describe_view(table: TableName, metadata: Json) -> Json:
    """Returns the request that creates a view as it is on a branch."""
    version, schema = get_view_version(metadata)
    return {
        "name": table.name,
        "location": metadata["location"],
        "schema": schema,
        "view-version": {**version, "version-id": 1},
        "properties": metadata.get("properties", {}),
    }
