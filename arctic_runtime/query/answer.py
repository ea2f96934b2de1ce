"""Answers a query by DuckDB: parses it, plans the files of its tables, and returns its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.clock import pin_clock
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, Scan, list_scans
from arctic_runtime.ivm.frontend.analyse import Analysed, Relation, analyse_query
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.model.run_summary import to_micros
from arctic_runtime.query.engine import Limits, QueryEngine, iterate_batches, open_engine
from arctic_runtime.query.refusal import NotAnswered
from arctic_runtime.query.relations import RelationLookup, StoredRelation
from arctic_runtime.query.statement import (
    Statement,
    build_syntax_error,
    list_references,
    parse_statement,
    replace_tables,
    write_spark_query,
)
from arctic_runtime.query.tree_query import TreeTranslator, build_duckdb_query, list_scan_conditions, name_scans

if TYPE_CHECKING:
    import pyarrow as pa


_NO_SCHEMA = "default"
"""Schema of names without one, of which the query has none any more when it is analysed."""


@dataclass(frozen=True)
class QueryRows:
    """The rows of an answer: their schema, and batches, an iterator that can be read once.

    `types` are the types of the columns, as Spark writes them.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    types: tuple[str, ...]


@contextmanager
def answer_query(
    text: str, lookup: RelationLookup, limits: Limits, now: datetime, is_utc: bool = True
) -> Iterator[QueryRows]:
    """Runs a query in Spark's SQL by DuckDB; the rows can be read until the context ends.

    `now` is the time that the query sees, and `is_utc` says that UTC is the time zone of the project's sessions. Raises
    NotAnswered if Spark might answer otherwise, and ConfigError if the text is no query or names no table.
    """
    with _refuse_unknown():
        pinned = pin_clock(text, to_micros(now))
        statement = parse_statement(pinned)
        replace_tables(statement.ordered.query, lookup.resolve)
        if not is_utc and pinned != text:
            raise NotAnswered("the current date or time in another time zone than UTC")
        analysed = _analyse(statement, lookup)
        tree = _name_scans(push_down_filters(analysed.tree))
        translator = TreeTranslator(_list_types(tree, lookup), is_utc)
        conditions = list_scan_conditions(tree)
        translated = translator.translate_tree(tree)
        shown, by = statement.ordered.find_items(analysed.outputs)
        names = _check_names([name for name, _ in shown])
        order = _build_order(statement, by)
        most = _limit_rows(statement.ordered.most, limits)
        built = build_duckdb_query(
            translated, translator, [made for _, made in shown], order, statement.ordered.least, most
        )
    with open_engine(limits, lookup.reader.thresholds) as engine:
        for scan in list_scans(tree):
            _create_scan(engine, scan, lookup, conditions.get(scan.source.name, []), is_utc)
        yield _rename(engine.run_query(built), names, tuple(translator.types[made] for _, made in shown))


def prepare_for_spark(text: str, lookup: RelationLookup) -> str:
    """Returns the query of a text for Spark, with full names; raises ConfigError if it reads masked columns' tables."""
    query = write_spark_query(text, lookup.complete_name)
    for reference in list_references(text):
        lookup.resolve(reference)
    masked = sorted(name for name, relation in lookup.relations.items() if relation.is_masked)
    if masked:
        raise ConfigError(
            f"Spark does not mask columns, and {', '.join(masked)} has masked ones.",
            fix="leave `--engine spark` out, or take the mask off in the column's `meta`",
        )
    return query


@contextmanager
def _refuse_unknown() -> Iterator[None]:
    """Raises NotAnswered for a part of a query that the analysis does not know, and ConfigError for what is no SQL."""
    try:
        yield
    except SqlglotError as error:
        raise build_syntax_error(error) from error
    except NotMaintained as error:
        raise NotAnswered(str(error)) from error
    except RecursionError as error:
        raise NotAnswered("a query that is nested too deeply") from error


def _analyse(statement: Statement, lookup: RelationLookup) -> Analysed:
    relations = {name: Relation(relation.columns) for name, relation in lookup.relations.items()}
    return analyse_query(statement.write_query(), relations, lookup.views, lookup.catalog, _NO_SCHEMA)


def _name_scans(tree: Node) -> Node:
    """Gives each scan a name of its own, since each reads other files and columns."""
    count = iter(range(10**9))

    def name_scan(scan: Scan) -> Scan:
        return replace(scan, source=scan.source.with_name(f"{scan.source.name}#{next(count)}"))

    return name_scans(tree, name_scan)


def _find_relation(scan: Scan, lookup: RelationLookup) -> StoredRelation:
    name = scan.source.with_name(scan.source.name.rpartition("#")[0])
    return lookup.relations[str(name)]


def _list_types(tree: Node, lookup: RelationLookup) -> dict[str, str]:
    types: dict[str, str] = {}
    for scan in list_scans(tree):
        known = {column.name: column.type for column in _find_relation(scan, lookup).columns}
        types |= {made: known[own] for made, own in scan.fields}
    return types


def _create_scan(
    engine: QueryEngine, scan: Scan, lookup: RelationLookup, conditions: list[exp.Expr], is_utc: bool
) -> None:
    from arctic_runtime.ivm.render import name_input

    wanted = {own: made for made, own in scan.fields}
    relation = _find_relation(scan, lookup)
    relation.create_view(engine, name_input(scan.source, scan.image), wanted, conditions, is_utc)


def _check_names(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Two columns of the answer are named {name}.", fix="give one of them another name: `as`")
    return names


def _build_order(statement: Statement, by: list[str]) -> exp.Order | None:
    if statement.ordered.order is None:
        return None
    order = statement.ordered.order.copy()
    for part, name in zip(order.expressions, by, strict=True):
        part.set("this", build_column(name))
    return order


def _limit_rows(most: int | None, limits: Limits) -> int | None:
    known = [count for count in (most, limits.max_rows) if count is not None]
    return min(known, default=None)


def _rename(reader: pa.RecordBatchReader, names: list[str], types: tuple[str, ...]) -> QueryRows:
    import pyarrow as pa

    schema = pa.schema([pa.field(name, part.type) for name, part in zip(names, reader.schema, strict=True)])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in iterate_batches(reader))
    return QueryRows(schema, batches, types)
