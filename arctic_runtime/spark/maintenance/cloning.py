"""Makes a model a clone of another one: its tables have the snapshots of the other's, and no file is copied.

Drops clones and the tags that keep files for them, and all other relations of a model when it is reset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from arctic_runtime.catalog.metadata_files import METADATA_SUFFIX, find_schema_location, read_metadata, write_metadata
from arctic_runtime.catalog.observation.clones import observe_clone, observe_clone_tags
from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.catalog.shared_files import remove_own_files
from arctic_runtime.catalog.storage.disk_files import list_folder
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.clone import Clone, CloneOrigin, list_tagged_tables, read_clone
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import APPENDED_KIND, KIND, USED_AT
from arctic_runtime.model.state import ConflictingRelation, TableState
from arctic_runtime.model.step import DropConflictingRelation, DropRelation
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.cloning.clone_plan import (
    ClonePlan,
    CloneRequest,
    OriginTable,
    Part,
    check_same_catalog,
    is_unfinished_clone,
    is_use_outdated,
    plan_clone,
)
from arctic_runtime.plan.cloning.table_copy import derive_metadata
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_text
from arctic_runtime.spark.tables.commit import drop_tags, perform_statement, set_properties, set_tag
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def clone_model(session: TableSession, request: CloneRequest, replaces: bool = False) -> CloneOrigin:
    """Makes the session's model a clone of `request.origin`, and returns the origin's version that it has.

    Tags the snapshots of the origin that the clone needs, then writes the metadata of its tables and registers them:
    the base last, since it can be computed from the change table. If `replaces`, whatever has the model's name is
    dropped first. Raises ConfigError if the model can't be a clone of the origin, or if its name is taken.
    """
    reader, model = session.reader, session.model

    def plan_now() -> ClonePlan:
        parts = read_origin(reader, request.origin)
        return plan_clone(model, request, parts, find_schema_location(reader, model.table.schema))

    def plan_and_tag() -> ClonePlan:
        plan = plan_now()
        for table, tag, snapshot in plan.tags:
            _tag_snapshot(session, table, tag, snapshot)
        return plan

    check_same_catalog(model, request)
    plan_now()
    _clear_names(session, request, replaces)
    plan = retry_on_conflict(plan_and_tag, reader.thresholds.commits.attempts)
    for table, copy in plan.copies:
        address = write_metadata(reader, copy.name, derive_metadata(table.metadata, copy))
        try:
            _register_table(session, copy.name, address, copy.uuid)
        except ConfigError:
            release_tags(session, tuple((tagged, tag) for tagged, tag, _ in plan.tags))
            raise
    _check_complete(session, plan)
    kept_layout = replace(model, config=replace(model.config, on_configuration_change="continue"))
    own = TableSession(kept_layout, reader, session.spark, session.now, session.timings)
    own.reconcile_until_done(own.observe_state(), defer=True)
    return plan.origin


def _check_complete(session: TableSession, plan: ClonePlan) -> None:
    """Drops the clone and raises CommitConflict if others have dropped one of its tables, or tags that keep its files.

    From then on its tables and tags are those of a clone that exists.
    """
    reader = session.reader
    refs = {table: reader.load_table(table.schema, table.name).metadata.refs for table, _, _ in plan.tags}
    missing = [f"tag {tag} of {table}" for table, tag, _ in plan.tags if tag not in refs[table]]
    missing += [f"table {copy.name}" for _, copy in plan.copies if not _has_uuid(reader, copy.name, copy.uuid)]
    if missing:
        reset_model(session)
        raise CommitConflict(
            f"{session.model.table}: others have dropped parts of the clone while it was made.",
            actual=", ".join(missing),
            fix="clone again",
        )


def read_origin(reader: CatalogReader, origin: TableName) -> dict[Part, OriginTable]:
    """Reads the metadata of the tables of a model; without those that it does not have.

    The base is read first, so that the change table has all versions that the base contains.
    """
    own = _read_table(reader, origin, ("base", APPENDED_KIND))
    if own is not None and own.metadata["properties"].get(KIND) == APPENDED_KIND:
        return {"log": own}
    base = own or _read_table(reader, origin.base, ("base",))
    parts: dict[Part, OriginTable | None] = {
        "base": base,
        "log": _read_table(reader, origin.changes, ("changes",)),
        "totals": _read_table(reader, origin.totals, ("totals",)),
    }
    return {part: table for part, table in parts.items() if table is not None}


def _read_table(reader: CatalogReader, name: TableName, kinds: tuple[str, ...]) -> OriginTable | None:
    metadata = read_metadata(reader, name)
    if metadata is None or metadata.get("properties", {}).get(KIND) not in kinds:
        return None
    return OriginTable(name, metadata)


def _clear_names(session: TableSession, request: CloneRequest, replaces: bool) -> None:
    """Drops the relations with the names of the model's own, also those of a clone that was not finished.

    Raises ConfigError if there are any that may not be replaced.
    """
    state, model = session.observe_state(), session.model
    conflicting = state.conflicting
    if not (replaces or is_unfinished_clone(model, state, request)):
        raise ConfigError(
            f"{model.table} exists, and can't become a clone.",
            expected="no table of that name",
            fix=f"run `dbt clone --full-refresh -s {model.table.name}`, which drops it",
        )
    if conflicting is not None and not (replaces or conflicting.is_clone):
        raise ConfigError(
            f"{model.table} can't become a clone: another relation has its name.",
            actual=f"the {conflicting.kind} {conflicting.name}",
            fix=f"drop or rename that relation, or run `dbt clone --full-refresh -s {model.table.name}`",
        )
    reset_model(session)
    if conflicting is not None:
        perform_step(DropConflictingRelation(conflicting), session.build_context(TableState()))


def _tag_snapshot(session: TableSession, table: TableName, tag: str, snapshot: int) -> None:
    """Tags a snapshot; raises CommitConflict if it has expired meanwhile."""
    try:
        set_tag("clone.tag", session.spark(), session.reader, table, tag, snapshot)
    except SPARK_ERRORS as error:
        if "unknown snapshot" in str(error) or "not found" in str(error).lower():
            raise CommitConflict(f"{table}: snapshot {snapshot} expired while it was cloned.") from error
        raise


def _register_table(session: TableSession, table: TableName, address: str, uuid: str) -> None:
    """Creates a table from a metadata file; if the catalog's answer is lost, looks whether the table was created."""
    call = fill_statement(
        "CALL {catalog}.system.register_table(table => {table}, metadata_file => {address})",
        catalog=quote_name(table.catalog),
        table=quote_text(quote_name(*table.parts)),
        address=quote_text(address),
    )
    try:
        perform_statement("clone.register", session.spark(), call)
    except SPARK_ERRORS as error:
        if "does not support endpoint" in str(error):
            raise ConfigError(
                f"{session.model.table} can't be a clone: the catalog registers no tables.",
                expected=(
                    "a catalog with `register_table`, which embedded, JDBC, Hive, Glue and most REST catalogs have"
                ),
                fix="run the model, which builds it from its query",
            ) from error
        if not _has_uuid(session.reader, table, uuid):
            raise


def _has_uuid(reader: CatalogReader, table: TableName, uuid: str) -> bool:
    loaded = find_table(reader, table)
    return loaded is not None and str(loaded.metadata.table_uuid) == uuid


def reset_model(session: TableSession) -> tuple[ConflictingRelation, ...]:
    """Drops the relations that a model created, and returns them; relations created by others stay.

    The change table is dropped last, since all other relations can be computed from it: after a crash, another reset
    drops the remaining relations, or the next run creates the dropped ones again. If the model is a clone, the files in
    folders of its own are deleted first, and the tags that its origin has for it are dropped in the end.
    """
    own, clone = observe_own(session.reader, session.model), observe_clone(session.reader, session.model.table)
    if clone is not None:
        _remove_clone_files(session.reader, own)
    for relation in own:
        perform_step(DropRelation(relation.name, relation.kind), session.build_context(TableState()))
    if clone is not None:
        drop_clone_tags(session, clone)
    return own


def drop_clone(session: TableSession, clone: TableName) -> None:
    """Drops the model `clone`, a clone of the session's model, with its files and the tags that keep others for it.

    After a death in between, the clone still exists, or only tags for it do.
    """
    model = Model(clone, "", ModelConfig(primary_key=()))
    reset_model(TableSession(model, session.reader, session.spark, session.now))


def _remove_clone_files(reader: CatalogReader, relations: Iterable[ConflictingRelation]) -> None:
    """Deletes the files in the folders of a clone's tables.

    The metadata files stay: without them the tables could not be dropped, and they have no values of rows.
    """
    for relation in relations:
        table = find_table(reader, relation.name) if relation.kind == "table" else None
        if table is not None:
            paths = [path for path, _, _ in list_folder(table.io.properties, table.location())]
            remove_own_files(reader, relation.name, [path for path in paths if not path.endswith(METADATA_SUFFIX)])


def find_clone(session: TableSession, state: TableState) -> Clone | None:
    """Returns the clone that the session's model is; None if it is none."""
    log = state.log
    if log is None:
        return None
    newest = log.commits[-1].at_ms if log.commits else 0
    return read_clone(session.model.table, log.properties, newest)


def drop_clone_tags(session: TableSession, clone: Clone) -> None:
    """Drops the tags of the origin for `clone`, which is gone."""
    for seen in observe_clone_tags(session.reader, list_tagged_tables(clone.origin.model)):
        if seen.tag == clone.tag:
            release_tags(session, seen.tags)


def release_tags(session: TableSession, tags: tuple[tuple[TableName, str], ...]) -> None:
    """Drops tags that kept files for a clone; it is no error if some do not exist."""
    for table, tag in tags:
        drop_tags("clone.drop_tag", session.spark(), session.reader, table, [tag])


def note_use(session: TableSession, state: TableState) -> None:
    """Notes that a clone is in use, once a day, since a run that changes nothing leaves no other trace."""
    clone, now_ms = find_clone(session, state), round(1000 * session.now.timestamp())
    if clone is not None and is_use_outdated(clone, now_ms, session.reader.thresholds.expiry):
        set_properties("clone.note_use", session.spark(), session.model.log, {USED_AT: str(now_ms)})
