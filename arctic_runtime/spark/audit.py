"""Audits the incremental models of a project one after the other; only reads tables, and writes none.

All tables are read as of one moment: a snapshot of each, all of them current at the same time. Of query and table, the
columns that both have are compared, with the types of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.audit.audited_model import (
    AuditedModel,
    AuditedProject,
    AuditOptions,
    Evidence,
    UpstreamModel,
    collect_evidence,
)
from arctic_runtime.audit.causes import describe_filters, list_rules
from arctic_runtime.audit.comparison import (
    DIFFERENCES,
    NEXT,
    OWN,
    QUERY,
    TABLE,
    ComparedColumn,
    Comparison,
    Kind,
    build_differences,
    count_groups,
    sample_groups,
)
from arctic_runtime.audit.pinned_query import Pins, fold_name, list_all_tables, list_table_reads, pin_query
from arctic_runtime.audit.report import Example, Group, ModelAudit
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    quote_name,
    quote_number,
    quote_text,
    trust_query,
    type_name,
)
from arctic_runtime.spark.tables.rows.frames import type_of
from arctic_runtime.sql.types import Map, list_primitives, read_type

Progress = Callable[[str], None]

_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"
"""Setting that an audit turns off in its session: each compared column has several aliases, and the time that Spark
needs to infer conditions between aliases doubles with each column."""

RelationState = Literal["pinned", "empty", "view", "unversioned", "missing"]
_FLOATS = ("float", "double")
_NOT_COMPARED = ("variant", "geometry", "geography")


@dataclass
class Auditor:
    """Audits models in the order of the project: upstream models first, since their differences affect later audits.

    The session must belong to the audit alone: its settings are changed, and it gets temporary views. A model is wrong
    if its table differs from its query; `wrong` has the tables of the wrong models, in lower case. If a model reads a
    wrong one, at any distance, its query is computed over the queries of its upstream models instead of their tables,
    as a full refresh of the whole project would compute it.
    """

    spark: SparkSession
    reader: CatalogReader
    project: AuditedProject
    options: AuditOptions
    progress: Progress = lambda _: None
    wrong: set[TableName] = field(default_factory=set)
    _moment: Moment = field(init=False)

    @property
    def catalog(self) -> str:
        return self.reader.profile.catalog

    def audit_models(self) -> tuple[ModelAudit, ...]:
        """Audits all models, with all tables read as of the same time."""
        self.spark.conf.set(_CONSTRAINTS, "false")
        self._moment = observe_moment(self.spark, self.reader, self._list_tables())
        return tuple(self._audit_in_turn())

    def _list_tables(self) -> Iterator[TableName]:
        """Yields the tables that an audit may read: those of the models, and those that their queries name."""
        for model in self.project.models:
            yield model.table
            for sql in filter(None, (model.full_sql, model.incremental_sql)):
                yield from list_all_tables(sql, self.catalog, {})
        for other in self.project.others.values():
            if other.sql:
                yield from list_all_tables(other.sql, self.catalog, {})

    def _audit_in_turn(self) -> Iterator[ModelAudit]:
        count = len(self.project.models)
        for number, model in enumerate(self.project.models, 1):
            self.progress(f"{number} of {count}: {model.name}")
            start = time.monotonic()
            audit = self._audit_safely(model)
            if audit.status == "differs":
                self.wrong.add(fold_name(model.table))
            yield replace(audit, seconds=round(time.monotonic() - start, 3))

    def _audit_safely(self, model: AuditedModel) -> ModelAudit:
        """Audits a model; an error of its query is returned in its audit, so that the other models are still audited.

        Raises SparkEnded if the error is that Spark has ended.
        """
        audit = ModelAudit(model.name, str(model.table), "failed", model.key, model.key_source)
        if self._moment.get_state(model.table) == "missing":
            return replace(audit, status="not built")
        if model.full_sql is None:
            return replace(audit, error=model.error)
        try:
            return self._audit_model(model, model.full_sql, audit)
        except (PySparkException, Py4JError) as error:
            if (ended := to_spark_ended(error)) is not None:
                raise ended from error
            return replace(audit, error=get_message(error))

    def _audit_model(self, model: AuditedModel, full_sql: str, audit: ModelAudit) -> ModelAudit:
        own, full, notes = self._build_pins(model, full_sql)
        table = self._read_table(model.table)
        query = self._run_query(full_sql, model.table, full)
        whole_text = pin_query(full_sql, self.catalog, Pins(queries=full.queries), frozenset({fold_name(model.table)}))
        evidence = collect_evidence(model, query.columns, whole_text)
        choice = choose_columns(model, query, table, evidence.volatile, self.options)
        if not choice.columns:
            return replace(audit, error="none of its columns can be compared", notes=(*notes, *choice.notes))
        select_compared_columns(query, choice).createOrReplaceTempView(QUERY)
        select_compared_columns(table, choice).createOrReplaceTempView(TABLE)
        has_own = own.queries != full.queries
        if has_own:
            select_compared_columns(self._run_query(full_sql, model.table, own), choice).createOrReplaceTempView(OWN)
        has_next, more = self._register_next(model, own, choice)
        comparison = Comparison(choice.columns, has_own, has_next, model.replaces_rows)
        groups, more_notes = self._compare_rows(model, comparison, choice, evidence)
        audit = replace(
            audit,
            key=() if more_notes else choice.key,
            table_rows=table.count(),
            filters=describe_filters(evidence.filters),
            notes=(*notes, *choice.notes, *more, *more_notes),
        )
        return audit.with_groups(groups)

    # Reading

    def _build_pins(self, model: AuditedModel, full_sql: str) -> tuple[Pins, Pins, tuple[str, ...]]:
        """Builds two kinds of pins for a model: upstream tables as they are, and upstream tables as they should be.

        Pins name the snapshot, or the query, to read in place of a table. The first read all upstream tables at their
        snapshots; the second replace those of wrong models, and of models that read these, by the models' queries. The
        third value are notes about these reads for the report.
        """
        upstreams = self._list_upstreams(model)
        tainted = self._list_tainted()
        views = {fold_name(other.table): other.sql for other in upstreams.values() if other.is_view and other.sql}
        own = Pins(self._moment.snapshots, views)
        computed = {
            fold_name(other.table): other.sql for name, other in upstreams.items() if name in tainted and other.sql
        }
        full = Pins(self._moment.snapshots, {**views, **computed})
        opaque = sorted(other.name for name, other in upstreams.items() if name in tainted and not other.sql)
        return own, full, tuple(self._list_notes(full_sql, full, opaque))

    def _list_notes(self, full_sql: str, pins: Pins, opaque: list[str]) -> Iterator[str]:
        if list_table_reads(full_sql, self.catalog) is None:
            yield "its query could not be parsed: its tables were read as they are now, and causes are not told by it"
        tables = list_all_tables(full_sql, self.catalog, pins.queries)
        kinds = {"view": "views", "unversioned": "tables without snapshots"}
        for state, kind in kinds.items():
            if names := sorted({str(table) for table in tables if self._moment.get_state(table) == state}):
                yield f"{kind} were read as they are now: {', '.join(names)}"
        if opaque:
            yield f"{', '.join(opaque)} can't be computed by a query; its table was read as it is"
        if not self._moment.is_steady:
            yield "tables changed while their snapshots were looked up, so these may not have been current together"

    def _list_upstreams(self, model: AuditedModel) -> dict[str, UpstreamModel]:
        """Returns all nodes upstream of a model, at any distance, by dbt's ids."""
        others, waiting = dict[str, UpstreamModel](), list(model.upstreams)
        while waiting:
            name = waiting.pop()
            if name not in others and name in self.project.others:
                others[name] = self.project.others[name]
                waiting += others[name].upstreams
        return others

    def _list_tainted(self) -> set[str]:
        """Returns dbt's ids of the nodes whose table is wrong, and of all nodes that read these, at any distance."""
        tainted: set[str] = set()
        for name, other in self.project.others.items():
            if fold_name(other.table) in self.wrong or not tainted.isdisjoint(other.upstreams):
                tainted.add(name)
        return tainted

    def _run_query(self, sql: str, table: TableName, pins: Pins) -> DataFrame:
        """Returns the rows of `sql`, the query of `table`, over the snapshots and queries that `pins` name.

        Spark refuses a statement that is no query.
        """
        pinned = pin_query(sql, self.catalog, pins, frozenset({fold_name(table)}))
        return self.spark.sql(fill_statement("SELECT * FROM (\n{query}\n)", query=trust_query(pinned)))

    def _read_table(self, table: TableName) -> DataFrame:
        snapshot = self._moment.snapshots.get(fold_name(table))
        name = quote_name(*table.parts)
        if snapshot is None:
            return self.spark.table(name)
        return self.spark.sql(
            fill_statement("SELECT * FROM {name} VERSION AS OF {at}", name=name, at=quote_number(snapshot))
        )

    def _register_next(self, model: AuditedModel, own: Pins, choice: ColumnChoice) -> tuple[bool, tuple[str, ...]]:
        """Registers the rows that the next incremental run would compute as the temporary view NEXT.

        Returns whether that was possible, and otherwise notes with the reason.
        """
        if model.incremental_sql is None:
            return False, ("rows that the next run brings are not told apart from wrong ones",)
        try:
            rows = self._run_query(model.incremental_sql, model.table, own)
            names = {name.lower() for name in rows.columns}
            if not {column.name.lower() for column in choice.columns} <= names:
                return False, ("the incremental query has other columns than the full one",)
            select_compared_columns(rows, choice).createOrReplaceTempView(NEXT)
        except PySparkException as error:
            return False, (f"the next incremental run could not be computed: {get_message(error)}",)
        return True, ()

    # Comparing

    def _compare_rows(
        self, model: AuditedModel, comparison: Comparison, choice: ColumnChoice, evidence: Evidence
    ) -> tuple[tuple[Group, ...], tuple[str, ...]]:
        """Returns the groups of differences by kind and cause, and notes.

        If the query returns a key in two or more rows, all columns are compared as one key instead, and a note says so.
        """
        differences = self._run_sql(
            build_differences(comparison, list_rules(model, comparison, evidence)).sql(dialect="spark")
        ).persist()
        try:
            differences.createOrReplaceTempView(DIFFERENCES)
            counts = self._run_sql(count_groups().sql(dialect="spark")).collect()
            ambiguous = sum(row["keys"] for row in counts if row["kind"] == "ambiguous")
            if not ambiguous:
                examples = self._list_examples(comparison, choice)
                return tuple(_build_group(row, examples) for row in counts), ()
        finally:
            differences.unpersist()
        whole = replace(comparison, columns=tuple(replace(column, is_key=True) for column in comparison.columns))
        groups, _ = self._compare_rows(model, whole, choice, evidence)
        key = ", ".join(model.key)
        return groups, (f"rows are compared as a whole, since the query has {ambiguous:,} keys of {key} twice or more",)

    def _list_examples(self, comparison: Comparison, choice: ColumnChoice) -> Mapping[tuple[str, str], list[Example]]:
        """Returns the first differing rows, in the order of their keys, for each pair of kind and cause."""
        examples: dict[tuple[str, str], list[Example]] = {}
        if self.options.examples <= 0:
            return examples
        sampled = self._run_sql(sample_groups(comparison, self.options.examples).sql(dialect="spark"))
        others = ["kind", "cause", "place", "query_copies", *(f"d{index}" for index in comparison.values)]
        rows = sampled.selectExpr(*others, *write_shown_columns(choice)).collect()
        for row in sorted(rows, key=lambda row: int(row["place"])):
            examples.setdefault((row["kind"], row["cause"]), []).append(_build_example(row, comparison))
        return examples

    def _run_sql(self, sql: str) -> DataFrame:
        """Runs SQL text that sqlglot has generated; it may contain conditions taken from the model's query."""
        return self.spark.sql(trust_query(sql))


def _build_group(row: Row, examples: Mapping[tuple[str, str], list[Example]]) -> Group:
    kind: Kind = row["kind"]
    cause: str = row["cause"]
    return Group(kind, cause, int(row["keys"]), int(row["wrong_rows"]), tuple(examples.get((kind, cause), ())))


def _build_example(row: Row, comparison: Comparison) -> Example:
    side = "q" if row["query_copies"] else "t"
    key = {comparison.columns[index].name: row[f"{side}{index}"] for index in comparison.keys}
    shown = [index for index in comparison.values if row["kind"] == "stale" and row[f"d{index}"]]
    table = {comparison.columns[index].name: row[f"t{index}"] for index in shown}
    query = {comparison.columns[index].name: row[f"q{index}"] for index in shown}
    return Example(key, table, query)


@dataclass(frozen=True)
class Moment:
    """States and snapshots of tables and views, by their names in lower case.

    A `pinned` relation is an Iceberg table that is read at its snapshot. An `empty` one is an Iceberg table without a
    snapshot. A `view` and an `unversioned` table, which is not of Iceberg, are read as they are at the time of the
    query. A `missing` relation does not exist. `is_steady` is False if no two rounds of look-ups in a row were equal,
    so that the snapshots may not have been current at the same time.
    """

    states: Mapping[TableName, RelationState]
    snapshots: Mapping[TableName, int]
    is_steady: bool = True

    def get_state(self, table: TableName) -> RelationState:
        return self.states.get(fold_name(table), "missing")


def observe_moment(spark: SparkSession, reader: CatalogReader, tables: Iterable[TableName]) -> Moment:
    """Looks up the current snapshots of all tables, in rounds, until two rounds in a row are equal.

    Equal rounds prove that all these snapshots were current at the same time. After a limited number of rounds the last
    one is returned, with `is_steady` False.
    """
    known = {fold_name(table): table for table in tables}
    before: dict[TableName, tuple[RelationState, int | None]] = {}
    for _ in range(reader.thresholds.commits.observation_rounds):
        states = {name: _observe_relation(spark, reader, table) for name, table in known.items()}
        is_steady = states == before
        if is_steady:
            break
        before = states
    snapshots = {name: snapshot for name, (_, snapshot) in before.items() if snapshot is not None}
    return Moment({name: state for name, (state, _) in before.items()}, snapshots, is_steady)


def _observe_relation(spark: SparkSession, reader: CatalogReader, table: TableName) -> tuple[RelationState, int | None]:
    if not reader.is_supported or table.catalog != reader.profile.catalog:
        return _observe_by_spark(spark, table)
    from pyiceberg.exceptions import NoSuchTableError

    try:
        snapshot = reader.load_table(table.schema, table.name).metadata.current_snapshot_id
    except NoSuchTableError:
        if not reader.lists_views:
            return _observe_by_spark(spark, table)
        kind = reader.list_relations(table.schema).get(table.name)
        return ("missing" if kind is None else "view"), None
    except CatalogError:
        return _observe_by_spark(spark, table)
    return ("empty", None) if snapshot is None else ("pinned", snapshot)


def _observe_by_spark(spark: SparkSession, table: TableName) -> tuple[RelationState, int | None]:
    """Looks up state and snapshot id of a relation by Spark, for catalogs and tables that pyiceberg can't read."""
    name = quote_name(*table.parts)
    try:
        heads = spark.sql(
            fill_statement(
                "SELECT snapshot_id FROM {name}.refs WHERE name = {main}", name=name, main=quote_text("main")
            )
        )
        rows = heads.collect()
        return ("pinned", int(rows[0]["snapshot_id"])) if rows else ("empty", None)
    except PySparkException:
        return ("unversioned" if spark.catalog.tableExists(name) else "missing"), None


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that an audit compares, those of the key first, and notes about the columns that it does not compare.

    `key` names the columns by which rows of query and table are matched; it is empty if rows are compared as a whole.
    `types` has the table's SQL type of each compared column.
    """

    key: tuple[str, ...]
    columns: tuple[ComparedColumn, ...]
    types: tuple[str, ...]
    notes: tuple[str, ...]


def choose_columns(
    model: AuditedModel, query: DataFrame, table: DataFrame, volatile: Iterable[str], options: AuditOptions
) -> ColumnChoice:
    """Chooses the columns of a model that can be compared.

    These are the columns that both frames have, except those in `volatile`, those that the options exclude, and those
    of types that Spark can't compare. If a key column is not among them, rows are compared as a whole.
    """
    stored = {field.name.lower(): (field.name, type_of(field.dataType)) for field in table.schema.fields}
    computed = {name.lower(): name for name in query.columns}
    shared = [name for name in computed if name in stored]
    changing = set(volatile)
    excluded = [name for name in shared if options.excludes_column(model.name, name)]
    unlike = [name for name in shared if not _is_comparable(stored[name][1])]
    left_out = {*changing, *excluded, *unlike}
    names = [name for name in shared if name not in left_out]
    groups = {
        "the query has it, and the table does not": [computed[name] for name in computed if name not in stored],
        "the table has it, and the query does not": [stored[name][0] for name in stored if name not in computed],
        "each run computes another value": [stored[name][0] for name in shared if name in changing],
        "it is excluded": [stored[name][0] for name in excluded],
        "values of its type can't be compared": [stored[name][0] for name in unlike],
    }
    notes = [f"not compared: {', '.join(columns)}: {why}" for why, columns in groups.items() if columns]
    key = [column.lower() for column in model.key]
    if key and not set(key) <= set(names):
        missing = ", ".join(column for column in model.key if column.lower() not in names)
        notes.append(f"rows are compared as a whole, since key column {missing} is not compared")
        key = []
    ordered = [*key, *(name for name in names if name not in key)]
    types = tuple(stored[name][1] for name in ordered)
    columns = (ComparedColumn(stored[name][0], not key or name in key, stored[name][1] in _FLOATS) for name in ordered)
    return ColumnChoice(model.key if key else (), tuple(columns), types, tuple(notes))


def _is_comparable(kind: str) -> bool:
    known = read_type(kind)
    nested = known.value if isinstance(known, Map) else known
    texts = {leaf.text for leaf in list_primitives(known)}
    return not texts & set(_NOT_COMPARED) and "map<" not in str(nested)


def select_compared_columns(rows: DataFrame, choice: ColumnChoice) -> DataFrame:
    """Selects the compared columns as `c0`, `c1`, …, converted to the types of the table."""
    kinds = {field.name.lower(): type_of(field.dataType) for field in rows.schema.fields}
    values = (
        F.expr(_write_value(column.name, kinds[column.name.lower()], kind)).alias(f"c{index}")
        for index, (column, kind) in enumerate(zip(choice.columns, choice.types, strict=True))
    )
    return rows.select(*values)


def _write_value(name: str, kind: str, wanted: str) -> Sql:
    value = quote_name(name)
    if kind != wanted:
        value = fill_statement("try_cast({value} AS {kind})", value=value, kind=type_name(wanted))
    if isinstance(read_type(wanted), Map):
        # Spark can't group or compare maps, but it can compare their sorted entries.
        return fill_statement("array_sort(map_entries({value}))", value=value)
    return value


def write_shown_columns(choice: ColumnChoice, sides: Sequence[str] = ("q", "t")) -> list[Sql]:
    """Builds expressions that cast the compared values of query (q0, …) and table (t0, …) to text, with equal names.

    Binary values become hexadecimal text.
    """
    shown = []
    for side in sides:
        for index, kind in enumerate(choice.types):
            name = quote_name(f"{side}{index}")
            template = fill_statement("hex({name})", name=name) if kind == "binary" else name
            shown.append(fill_statement("CAST({value} AS string) AS {name}", value=template, name=name))
    return shown
