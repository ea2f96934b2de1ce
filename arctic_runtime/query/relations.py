"""Finds the tables and views that a query names, with their columns, and builds the queries of their rows in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.reader import CatalogReader, RelationInfo, UnsupportedType, find_table, to_spark_type
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ivm.frontend.scope import ViewText
from arctic_runtime.model.columns import ACTION, SEQUENCE, Column, parse_key
from arctic_runtime.model.masking import Mask, combine_masks
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND, PINNED_BASE, PINNED_HEAD, PINNED_MERGED, PRIMARY_KEY
from arctic_runtime.model.shape import DELETE
from arctic_runtime.query.duckdb_types import call, column, number, text, to_duckdb_type
from arctic_runtime.query.engine import QueryEngine, name_field
from arctic_runtime.query.masked_columns import get_masked_type, hides_any, mask_value
from arctic_runtime.query.pruning import build_file_filter
from arctic_runtime.query.refusal import NotAnswered
from arctic_runtime.query.statement import TableReference
from arctic_runtime.query.table_files import AppendedRows, SnapshotRows
from arctic_runtime.query.times import read_timestamp

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

Rows = SnapshotRows | AppendedRows


@dataclass(frozen=True)
class StoredRelation:
    """A table, or the view of a table that is merged on read, whose unmerged changes are `changes` with the key `key`.

    `mask` says which columns are masked.
    """

    rows: Rows
    mask: Mask
    changes: AppendedRows | None = None
    key: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with the types that a query sees; masked ones are texts."""
        return tuple(
            Column(part.name, get_masked_type(part.name, _get_type(part), self.mask))
            for part in self.rows.schema.fields
        )

    @property
    def is_masked(self) -> bool:
        """Whether a query sees any column masked."""
        return any(hides_any(part.name, _get_type(part), self.mask) for part in self.rows.schema.fields)

    def create_view(
        self, engine: QueryEngine, name: str, wanted: Mapping[str, str], conditions: Iterable[exp.Expr], is_utc: bool
    ) -> None:
        """Creates a view with the columns `wanted`: the names in conditions by names in the table.

        Files in which the conditions are true for no row are left out.
        """
        fields = {part.name: part for part in self.rows.schema.fields}
        named = {shown: fields[own] for own, shown in wanted.items()}
        for part in named.values():
            to_duckdb_type(_get_type(part))  # Refuses a type that DuckDB can't read.
        stored = {*named.values()} | {fields[part] for part in self.key}
        ordered = sorted(stored, key=lambda part: part.field_id)
        prunable = {
            shown: current
            for shown, part in named.items()
            if not self.mask.hides_column(part.name) and (current := self._find_current(part, is_utc)) is not None
        }
        rows = engine.select_rows(
            self.rows.table, ordered, self.rows.list_files(build_file_filter(conditions, prunable))
        )
        if self.changes is not None:
            rows = self._merge_changes(engine, rows, ordered)
        shown_columns = [
            exp.alias_(
                mask_value(column(name_field(part)), part.name, _get_type(part), self.mask),
                own,
                quoted=True,
            )
            for own, part in ((own, fields[own]) for own in wanted)
        ]
        engine.create_view(name, exp.Select(expressions=shown_columns or [exp.true()]).from_(rows.subquery("r")))

    def _find_current(self, part: NestedField, is_utc: bool) -> NestedField | None:
        """Returns a column as the table has it now, by whose names pyiceberg looks for bounds; None without one."""
        from pyiceberg.types import TimestamptzType

        if isinstance(part.field_type, TimestamptzType) and not is_utc:
            return None
        now = self.rows.table.schema()
        known = {field.field_id: field for field in now.fields}.get(part.field_id)
        return known if known is not None and known.field_type == part.field_type else None

    def _merge_changes(self, engine: QueryEngine, base: exp.Query, fields: Sequence[NestedField]) -> exp.Query:
        """Builds the rows of the base without those of changed keys, and the newest rows of these."""
        assert self.changes is not None
        log = {part.name.lower(): part for part in self.changes.schema.fields}
        own = [log[part.name.lower()] for part in fields]
        stored = [*own, log[ACTION], log[SEQUENCE]]
        changed = engine.select_rows(self.changes.table, stored, self.changes.list_files(), has_sequence=True)
        keys = [(part, log_part) for part, log_part in zip(fields, own, strict=True) if part.name in self.key]
        matches = [
            exp.EQ(this=column(name_field(log_part), "c"), expression=column(name_field(part), "b"))
            for part, log_part in keys
        ]
        is_changed = exp.Select(expressions=[number(1)]).from_(changed.subquery("c"))
        is_changed = is_changed.where(*matches) if matches else is_changed
        names = [name_field(part) for part in fields]
        kept = (
            exp.Select(expressions=[column(name, "b") for name in names] or [exp.true()])
            .from_(base.subquery("b"))
            .where(exp.Not(this=exp.Exists(this=is_changed)))
        )
        newest = exp.Window(
            this=call("row_number"),
            partition_by=[column(name_field(log_part)) for _, log_part in keys],
            order=exp.Order(
                expressions=[
                    exp.Ordered(this=column("sequence"), desc=True, nulls_first=False),
                    exp.Ordered(this=column(name_field(log[SEQUENCE])), desc=True, nulls_first=False),
                ]
            ),
            over="OVER",
        )
        ranked = exp.Select(expressions=[exp.Star(), exp.alias_(newest, "place", quoted=True)]).from_(
            changed.copy().subquery("c")
        )
        is_live = exp.and_(
            exp.EQ(this=column("place"), expression=number(1)),
            exp.NEQ(this=column(name_field(log[ACTION])), expression=text(DELETE)),
        )
        shown = [
            exp.alias_(column(name_field(log_part)), name_field(part), quoted=True)
            for part, log_part in zip(fields, own, strict=True)
        ]
        added = exp.Select(expressions=shown or [exp.true()]).from_(ranked.subquery("n")).where(is_live)
        return exp.Union(this=kept, expression=added, distinct=False)


def _get_type(part: NestedField) -> str:
    try:
        return to_spark_type(part.field_type)
    except UnsupportedType:
        return str(part.field_type)


@dataclass
class RelationLookup:
    """Finds relations by the names that a query has for them, each once.

    `names` are the relations of the project by their own names, which are enough if they are words of a query; with
    `schema` other words are names in this schema. `masks` are the masks of columns by relation, with an entry for each
    of the project. With `stays_in_project` a query can name no other; a view of the project may read others.
    `relations` and `views` are those found so far.
    """

    reader: CatalogReader
    catalog: str
    names: Mapping[str, TableName]
    masks: Mapping[TableName, Mapping[str, bool]]
    build_mask: Callable[[Mapping[str, bool]], Mask]
    schema: str | None = None
    stays_in_project: bool = False
    relations: dict[str, StoredRelation] = field(default_factory=dict)
    views: dict[str, ViewText] = field(default_factory=dict)
    known: dict[tuple[TableName, TableReference], TableName] = field(default_factory=dict)

    @property
    def is_utc(self) -> bool:
        """Whether UTC is the time zone of the project's sessions."""
        return self.reader.profile.build_session_settings()["spark.sql.session.timeZone"] == "UTC"

    def list_tables(self) -> list[TableName]:
        """Lists the relations found so far, also those that only views read."""
        return sorted({name for name, _ in self.known})

    def resolve(self, reference: TableReference) -> TableName:
        """Finds a relation, and returns the name under which `relations` or `views` has it."""
        name = self.complete_name(reference)
        if self.stays_in_project and _fold_case(name) not in self._masks:
            raise ConfigError(
                f"{reference} is no table of the project.",
                expected="a model, seed, snapshot or source",
                fix="declare it as a source, or ask somebody who can run `arctic sql`",
            )
        key = name, replace(reference, parts=name.parts)
        if key not in self.known:
            self.known[key] = name if reference.is_newest else name.with_name(f"{name.name}@{len(self.known)}")
            self._find(name, reference, self.known[key])
        return self.known[key]

    def complete_name(self, reference: TableReference) -> TableName:
        """Completes the name of a relation; raises ConfigError if one word names no relation of the project."""
        *levels, name = reference.parts
        if levels:
            catalog = levels[0] if len(levels) > 1 else self.catalog
            if catalog != self.catalog:
                raise ConfigError(f"{reference}: the catalog is another one.", expected=self.catalog, actual=catalog)
            return TableName(self.catalog, levels[-1], name)
        if self.schema is not None:
            return TableName(self.catalog, self.schema, name)
        if name not in self.names:
            raise ConfigError(
                f"The project has no relation {name}{suggest_nearest(name, self.names)}.",
                fix="name a model, or schema.table",
            )
        return self.names[name]

    def _find(self, name: TableName, reference: TableReference, own: TableName) -> None:
        table = find_table(self.reader, name)
        if table is None:
            self._find_view(name, reference)
        else:
            self.relations[str(own)] = StoredRelation(_select_rows(table, reference), self._mask(name))

    def _find_view(self, name: TableName, reference: TableReference) -> None:
        from pyiceberg.exceptions import NoSuchViewError

        try:
            info = self.reader.load_view(name.schema, name.name)
        except (NoSuchViewError, NotImplementedError):
            raise self._build_missing_error(name) from None
        if not reference.is_newest:
            raise ConfigError(
                f"{name} is a view, which has no versions.", fix=f"read {name.base} or {name.changes} at a version"
            )
        if info.properties.get(KIND) == "view" and PINNED_BASE in info.properties:
            self.relations[str(name)] = self._open_merged_on_read(name, info)
        elif (sql := read_view_sql(self.reader, name)) is not None:
            self._add_view(name, info, sql)
        else:
            raise NotAnswered(f"the view {name}, which names tables of another schema")

    def _open_merged_on_read(self, name: TableName, info: RelationInfo) -> StoredRelation:
        base, log = (find_table(self.reader, part) for part in (name.base, name.changes))
        if base is None or log is None:
            raise self._build_missing_error(name.base if base is None else name.changes)
        pinned, merged, head = (int(info.properties[key]) for key in (PINNED_BASE, PINNED_MERGED, PINNED_HEAD))
        rows = SnapshotRows(base, base.schema(), pinned)
        changes = None if merged == head else AppendedRows(log, log.schema(), merged, head)
        return StoredRelation(rows, self._mask(name), changes, parse_key(info.properties[PRIMARY_KEY]))

    def _add_view(self, name: TableName, info: RelationInfo, sql: str) -> None:
        from arctic_runtime.query.statement import parse_view

        # The tables of a view of arctic have its masks.
        mask = self._mask(name)
        hidden = [part.name for part in info.columns if hides_any(part.name, part.type, mask)]
        if hidden and KIND not in info.properties:
            raise ConfigError(
                f"The view {name} has masked columns, which only tables can have in a query: {', '.join(hidden)}.",
                fix="read the tables of the view, or set `mask: false` where its query reads a masked column",
            )
        inside = replace(self, schema=info.default_schema or name.schema, stays_in_project=False)
        columns = tuple(part.name for part in info.columns)
        self.views[str(name)] = ViewText(parse_view(sql, inside.resolve), columns)

    def _mask(self, name: TableName) -> Mask:
        return self.build_mask(self._masks.get(_fold_case(name), {}))

    @cached_property
    def _masks(self) -> Mapping[TableName, Mapping[str, bool]]:
        """The masks by names in lower case, since some catalogs find a table by a name in any case."""
        masks: dict[TableName, Mapping[str, bool]] = {}
        for name, own in self.masks.items():
            folded = _fold_case(name)
            masks[folded] = combine_masks(masks[folded], own) if folded in masks else own
        return masks

    def _build_missing_error(self, name: TableName) -> ConfigError:
        nearest = suggest_nearest(name.name, self.reader.list_relations(name.schema))
        return ConfigError(f"There is no table or view {name}{nearest}.", fix="run the model, or correct the name")


def _fold_case(name: TableName) -> TableName:
    return TableName(name.catalog, name.schema.lower(), name.name.lower())


def _select_rows(table: Table, reference: TableReference) -> Rows:
    if reference.start is not None:
        end = reference.end or table.metadata.current_snapshot_id
        if end is None:
            raise ConfigError(f"{reference} has no snapshot yet.", fix="refresh it")
        return AppendedRows(table, table.schema(), reference.start, end)
    if reference.is_newest:
        return SnapshotRows(table, table.schema(), table.metadata.current_snapshot_id)
    snapshot = _find_snapshot(table, reference)
    state = table.snapshot_by_id(snapshot)
    if state is None:
        raise ConfigError(
            f"{reference} has no version {snapshot}, or it has expired.",
            expected=f"one of {', '.join(str(known.snapshot_id) for known in table.snapshots()[-5:]) or 'none'}",
            fix="the versions in `arctic history` are those of the change table, whose name ends in __changes",
        )
    schema = table.schema() if state.schema_id is None else table.schemas()[state.schema_id]
    ref = table.metadata.refs.get(str(reference.version))
    is_branch = ref is not None and ref.snapshot_ref_type.value == "branch"
    return SnapshotRows(table, table.schema() if is_branch else schema, snapshot)


def _find_snapshot(table: Table, reference: TableReference) -> int:
    if reference.timestamp is not None:
        return _find_snapshot_at(table, reference)
    version = str(reference.version)
    ref = table.metadata.refs.get(version)
    if ref is not None:
        return int(ref.snapshot_id)
    if not version.isdecimal():
        raise ConfigError(
            f"{reference} has no tag or branch {version!r}{suggest_nearest(version, table.metadata.refs)}."
        )
    return int(version)


def _find_snapshot_at(table: Table, reference: TableReference) -> int:
    """Finds the newest snapshot that was current at a time of UTC."""
    written = read_timestamp(str(reference.timestamp), is_utc=False)
    if written is None:
        raise ConfigError(
            f"{reference}: the time can't be read.",
            expected="'2024-01-31' or '2024-01-31 23:59:59', in UTC",
            actual=repr(reference.timestamp),
        )
    at = datetime.fromisoformat(written).replace(tzinfo=timezone.utc).timestamp() * 1000
    known = [entry.snapshot_id for entry in table.history() if entry.timestamp_ms <= at]
    if not known:
        raise ConfigError(f"{reference} has no version as old as {reference.timestamp}.", fix="give a later time")
    return known[-1]
