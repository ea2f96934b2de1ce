"""The operation that compares tables with those of another environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import KINDS, DiffLimit, RowExample, TableDiff, ValueChange, read_diff_limits
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values


def _compare_tables(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    others = ((model, _find_other(context, model, values["other_schema"])) for model in models)
    pairs = [(model, other) for model, other in others if other is not None]
    if not pairs:
        raise ConfigError(
            "There is nothing to compare.",
            expected="clones, which are compared with their origins, or a schema with tables of the same names",
            actual=", ".join(str(model.table) for model in models) or "no tables",
            fix="give `--schema`, or clone tables with `dbt clone`",
        )
    diffs = list(_compare_all(context, pairs))
    breaches = {str(diff.table): list(_list_breaches(diff, values["fail_on"] or ())) for diff in diffs}
    longest = context.reader.thresholds.reports.longest_diff_value
    if values["markdown"]:
        lines = tuple(describe_as_markdown(diffs, longest))
    else:
        lines = tuple(line for diff in diffs for line in describe_diff(diff, longest))
    lines += tuple(f"{table}: more than allowed: {', '.join(over)}" for table, over in breaches.items() if over)
    data = [{**_to_json(diff), "breaches": breaches[str(diff.table)]} for diff in diffs]
    differs = any(breaches.values()) if values["fail_on"] else any(diff.differs for diff in diffs)
    return Answer(data, lines, differs)


def _find_other(context: OperationContext, model: Model, schema: str | None) -> TableName | None:
    """Returns the table with which a model's is compared; None if there is none, or if the model has no key."""
    reader, table = context.reader, model.table
    if model.is_appended:
        return None
    if schema is None:
        clone = observe_clone(reader, table)
        return None if clone is None else _check_origin(reader, table, clone.origin.model)
    other = replace(table, schema=schema)
    known = [reader.describe_relation(part.schema, part.name) for part in (table, other)]
    return None if other == table or None in known else other


def _check_origin(reader: CatalogReader, table: TableName, origin: TableName) -> TableName:
    if reader.describe_relation(origin.schema, origin.name) is None:
        raise ConfigError(
            f"{table} can't be compared with {origin}, of which it is a clone.",
            expected="a table or view of that name",
            actual="none, since it was dropped or renamed",
            fix="compare with a table of another schema, by `--schema`",
        )
    return origin


def _compare_all(context: OperationContext, pairs: Iterable[tuple[Model, TableName]]) -> Iterator[TableDiff]:
    from arctic_runtime.spark.maintenance.table_comparison import compare_with_table

    for model, other in pairs:
        yield compare_with_table(context.open_table(model), other)


def _list_breaches(diff: TableDiff, limits: Iterable[DiffLimit]) -> Iterator[str]:
    for limit in limits:
        if limit.is_exceeded(diff):
            yield str(limit)


def describe_diff(diff: TableDiff, longest: int) -> Iterator[str]:
    """Yields lines for people: rows, columns, the most frequent changes of values, and examples.

    Values are cut to `longest` characters.
    """
    yield f"{diff.table} beside {diff.other}"
    if not diff.differs:
        yield "  no differences"
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in diff.counts.items())
    yield f"  rows: {counts}, of {diff.other_rows:,}"
    for label, columns in (("added", diff.added_columns), ("removed", diff.removed_columns)):
        yield from (f"  column {label}: {column.name} ({column.type})" for column in columns)
    for name, before, after in diff.retyped_columns:
        yield f"  column {name}: {before} became {after}"
    for column in diff.columns:
        values = "; ".join(_describe_change(change, longest) for change in column.values)
        yield f"  {column.name}: {column.rows:,} changed, most often {values}"
    yield from (f"  {example.kind}: {_describe_example(example, longest)}" for example in diff.examples)


def _describe_change(change: ValueChange, longest: int) -> str:
    return f"{_cut_value(change.before, longest)} → {_cut_value(change.after, longest)} ({change.rows:,})"


def _describe_example(example: RowExample, longest: int) -> str:
    key = ", ".join(f"{name}={_cut_value(value, longest)}" for name, value in example.key.items())
    if example.before is None or example.after is None:
        row = example.after or example.before or {}
        rest = [f"{name}={_cut_value(value, longest)}" for name, value in row.items() if name not in example.key]
    else:
        rest = [
            f"{name}: {_cut_value(before, longest)} → {_cut_value(example.after[name], longest)}"
            for name, before in example.before.items()
            if name in example.after and before != example.after[name]
        ]
    return "; ".join([key or "the row", *rest])


def _cut_value(value: Any, longest: int) -> str:
    if value is None:
        return "null"
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def describe_as_markdown(diffs: Sequence[TableDiff], longest: int) -> Iterator[str]:
    """Yields lines of Markdown, for a comment on a pull request: a table of all models, then each that differs.

    Values are cut to `longest` characters.
    """
    yield "| model | added | removed | changed | columns |"
    yield "|---|---:|---:|---:|---|"
    for diff in diffs:
        counts = " | ".join(f"{diff.counts[kind]:,}" for kind in KINDS)
        yield f"| {_escape_text(diff.table.name)} | {counts} | {_escape_text(_summarize_columns(diff))} |"
    for diff in diffs:
        if diff.differs:
            yield ""
            yield f"**{_escape_text(diff.table.name)}**"
            yield ""
            yield from (f"- {_escape_text(line.strip())}" for line in list(describe_diff(diff, longest))[1:])


def _summarize_columns(diff: TableDiff) -> str:
    parts = [f"+{column.name}" for column in diff.added_columns]
    parts += [f"-{column.name}" for column in diff.removed_columns]
    parts += [f"{name}: {before} → {after}" for name, before, after in diff.retyped_columns]
    parts += [f"{column.name} ({column.rows:,})" for column in diff.columns]
    return ", ".join(parts)


def _escape_text(text: str) -> str:
    """Escapes what Markdown or HTML would not show as it is."""
    for character in "\\`*_[]|~":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _to_json(diff: TableDiff) -> Mapping[str, Any]:
    return {**asdict(diff), "table": str(diff.table), "other": str(diff.other), "differs": diff.differs}


DIFF = Operation(
    name="diff",
    description="rows and columns that differ from those of a clone's origin, or of the same tables in another schema",
    tables="any",
    perform=_compare_tables,
    needs_spark=True,
    changes=False,
    arguments=(
        Argument(
            "other_schema",
            "compare with the tables of the same names in this schema",
            option="--schema",
            metavar="SCHEMA",
        ),
        Argument(
            "fail_on",
            "exit with 1 only if there are more rows than this, in rows or percent, such as `added>100,removed>0`",
            read_diff_limits,
            metavar="LIMITS",
        ),
        Argument("markdown", "write Markdown, for a comment on a pull request", read_flag, "boolean", False),
    ),
)
