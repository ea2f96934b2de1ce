"""The operation that compares tables with those of another environment or with earlier versions, and its reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import (
    KINDS,
    Counterpart,
    DiffCost,
    DiffLimit,
    RowExample,
    TableDiff,
    read_diff_limits,
)
from arctic_runtime.operations.arguments import read_count, read_flag
from arctic_runtime.operations.markdown import escape_text
from arctic_runtime.operations.masks import build_mask
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values


@dataclass(frozen=True)
class _Pair:
    """A model and the table with which its own is compared; None for `other` if versions of its own are compared."""

    model: Model
    other: Counterpart | None


def _compare_tables(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    _check_versions(values)
    chosen = models if values["only"] else _with_descendants(context, models)
    keyed = [model for model in chosen if not model.is_appended]
    if values["start"] is None:
        pairs = list(_pair_tables(context, keyed, values))
    else:
        pairs = [_Pair(model, None) for model in _list_with_versions(context, keyed, models, values)]
    if not pairs:
        raise ConfigError(
            "There is nothing to compare.",
            expected="clones, which are compared with their origins, or tables of these models in another environment",
            actual=", ".join(str(model.table) for model in models) or "no tables",
            fix="give `--state`, `--other-target` or `--schema` of the other environment, or clone with `dbt clone`",
        )
    diffs = [_compare_pair(context, pair, values) for pair in pairs]
    _check_column(values["column"], diffs)
    breaches = {str(diff.table): list(_list_breaches(diff, values["fail_on"] or ())) for diff in diffs}
    describe = describe_as_markdown if values["markdown"] else describe_diffs
    lines = tuple(describe(diffs, context.reader.thresholds.reports.longest_diff_value))
    lines += tuple(f"{table}: more than allowed: {', '.join(over)}" for table, over in breaches.items() if over)
    data = [{**to_json(diff), "breaches": breaches[str(diff.table)]} for diff in diffs]
    differs = any(breaches.values()) if values["fail_on"] else any(diff.differs for diff in diffs)
    return Answer(data, lines, differs)


def _check_versions(values: Values) -> None:
    if values["end"] is not None and values["start"] is None:
        raise ConfigError(
            "A version to compare with is missing.",
            where="`--from`",
            expected="an older version than that of `--to`",
            actual="none",
            fix="give both; `arctic history` shows the versions of a table",
        )


def _with_descendants(context: OperationContext, models: Sequence[Model]) -> list[Model]:
    """Returns the models, and those of the project that are computed from them."""
    own = {model.table for model in models}
    below = set(context.list_descendants(own)) - own
    return [*models, *(model for model in context.models if model.table in below)]


def _pair_tables(context: OperationContext, models: Sequence[Model], values: Values) -> Iterator[_Pair]:
    """Yields the models that can be compared, each with the other table; others are left out."""
    others = _find_others(context, models, values)
    for model in models:
        other = others.get(model.table)
        if other is None or other.table == model.table:
            continue
        _check_catalog(model, other)
        if all(_has_table(context.reader, table) for table in (model.table, other.table)):
            yield _Pair(model, other)


def _list_with_versions(
    context: OperationContext, models: Sequence[Model], asked: Sequence[Model], values: Values
) -> list[Model]:
    """Lists the models that have the asked versions; raises ConfigError if a named model does not.

    A snapshot id is a version of one table only, and the name of a savepoint may be that of several.
    """
    from arctic_runtime.spark.tables.versions import find_window

    named = {model.table for model in asked} if len(asked) < len(context.models) else set()
    found = []
    for model in models:
        try:
            find_window(context.reader, model, values["start"], values["end"])
            found.append(model)
        except ConfigError:
            if model.table in named:
                raise
    return found


def _find_others(context: OperationContext, models: Sequence[Model], values: Values) -> Mapping[TableName, Counterpart]:
    """Maps the tables of models to those of the other environment; by default these are the origins of clones."""
    if values["state"] is not None or values["other_target"] is not None:
        return context.find_counterparts(values["state"], values["other_target"])
    schema = values["other_schema"]
    if schema is not None:
        return {model.table: Counterpart(replace(model.table, schema=schema)) for model in models}
    clones = (observe_clone(context.reader, model.table) for model in models)
    return {
        clone.table: Counterpart(_check_origin(context.reader, clone.table, clone.origin.model))
        for clone in clones
        if clone is not None
    }


def _has_table(reader: CatalogReader, table: TableName) -> bool:
    return reader.describe_relation(table.schema, table.name) is not None


def _check_catalog(model: Model, other: Counterpart) -> None:
    if other.table.catalog != model.table.catalog:
        raise ConfigError(
            "Tables of different catalogs can't be compared.",
            where=str(model.table),
            expected=f"a table in the catalog {model.table.catalog}",
            actual=str(other.table),
            fix="compare environments that are schemas of one catalog",
        )


def _check_origin(reader: CatalogReader, table: TableName, origin: TableName) -> TableName:
    if not _has_table(reader, origin):
        raise ConfigError(
            f"{table} can't be compared with {origin}, of which it is a clone.",
            expected="a table or view of that name",
            actual="none, since it was dropped or renamed",
            fix="compare with a table of another schema, by `--schema`",
        )
    return origin


def _compare_pair(context: OperationContext, pair: _Pair, values: Values) -> TableDiff:
    from arctic_runtime.spark.maintenance.paired_rows import DiffRequest
    from arctic_runtime.spark.maintenance.table_comparison import compare_versions, compare_with_table

    needs_rows = any(limit.is_percentage for limit in values["fail_on"] or ())
    request = DiffRequest(values["column"], values["limit"], needs_rows)
    session = context.open_table(pair.model)
    if pair.other is None:
        diff = compare_versions(session, values["start"], values["end"], request)
    else:
        diff = compare_with_table(session, pair.other.table, request)
    return diff.mask_values(build_mask(pair.model.masks, pair.other.masks if pair.other is not None else {}))


def _check_column(column: str | None, diffs: Collection[TableDiff]) -> None:
    """Raises ConfigError if none of the tables has the column of which examples are asked for."""
    if column is None:
        return
    known = {name.lower(): name for diff in diffs for name in diff.column_names}
    if column.lower() not in known:
        raise ConfigError(
            f"No compared table has a column {column!r}{suggest_nearest(column, list(known.values()))}.",
            expected=", ".join(known.values()),
            actual=column,
            fix="name a column that both tables have",
        )


def _list_breaches(diff: TableDiff, limits: Iterable[DiffLimit]) -> Iterator[str]:
    for limit in limits:
        if limit.is_exceeded(diff):
            yield str(limit)


_OTHER = "other"

DIFF = Operation(
    name="diff",
    description="compare rows and columns with those of another environment, or of an earlier version",
    tables="any",
    perform=_compare_tables,
    needs_spark=True,
    changes=False,
    arguments=(
        Argument(
            "state",
            "compare with the environment whose manifest.json is in this folder, as for `dbt clone`",
            metavar="PATH",
            exclusive_group=_OTHER,
            is_local=True,
        ),
        Argument(
            "other_target",
            "compare with the tables of the same models in this target of the profile",
            metavar="NAME",
            exclusive_group=_OTHER,
            is_local=True,
        ),
        Argument(
            "other_schema",
            "compare with the tables of the same names in this schema",
            option="--schema",
            metavar="SCHEMA",
            exclusive_group=_OTHER,
        ),
        Argument(
            "start",
            "compare with this version of the same table: a number, or the name of a savepoint",
            option="--from",
            metavar="V",
            exclusive_group=_OTHER,
        ),
        Argument("end", "with `--from`: the later version (default: the newest)", option="--to", metavar="V"),
        Argument(
            "only", "compare only the named tables, and not those computed from them", read_flag, "boolean", False
        ),
        Argument("column", "show as examples only rows in which this column changed", metavar="COLUMN"),
        Argument("limit", "at most so many examples of each kind (default: 3)", read_count, "integer", metavar="N"),
        Argument(
            "fail_on",
            "exit with 1 only if there are more rows than this, in rows or percent, such as `added>100,removed>0`",
            read_diff_limits,
            metavar="LIMITS",
        ),
        Argument("markdown", "write Markdown, for a comment on a pull request", read_flag, "boolean", False),
    ),
)


def describe_diffs(diffs: Sequence[TableDiff], longest: int) -> Iterator[str]:
    """Yields lines for people: those of each table that differs, then one about all that do not.

    Values are cut to `longest` characters.
    """
    for diff in diffs:
        if diff.differs:
            yield from describe_diff(diff, longest)
    same = [str(diff.table) for diff in diffs if not diff.differs]
    if same:
        yield f"no differences: {', '.join(same)}"


def describe_diff(diff: TableDiff, longest: int) -> Iterator[str]:
    """Yields lines about one table: rows, columns, the most frequent changes of values, examples, and the cost.

    Values are cut to `longest` characters.
    """
    yield _describe_tables(diff)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in diff.counts.items())
    yield f"  rows: {counts}" + ("" if diff.other_rows is None else f", of {diff.other_rows:,}")
    for label, columns in (("added", diff.added_columns), ("removed", diff.removed_columns)):
        yield from (f"  column {label}: {column.name} ({column.type})" for column in columns)
    for name, before, after in diff.retyped_columns:
        yield f"  column {name}: {before} became {after}"
    for column in diff.columns:
        values = "; ".join(
            f"{_cut_value(change.before, longest)} → {_cut_value(change.after, longest)} ({change.rows:,})"
            for change in column.values
        )
        yield f"  {column.name}: {column.rows:,} changed, most often {values}"
    yield from (f"  {example.kind}: {_describe_example(example, longest)}" for example in diff.examples)
    if diff.cost is not None:
        yield f"  {describe_cost(diff.cost)}, {'change rows' if diff.reads_changes else 'all rows'}"


def _describe_tables(diff: TableDiff) -> str:
    if diff.versions is None:
        return f"{diff.table} beside {diff.other}"
    return f"{diff.table} from {diff.versions[0]} to {diff.versions[1]}"


def describe_cost(cost: DiffCost) -> str:
    """Describes a cost for people; rows and bytes are left out if they are not known."""
    read = "" if cost.rows is None or cost.bytes is None else f", files of {cost.rows:,} rows and {cost.bytes:,} bytes"
    return f"compared in {cost.seconds:.1f} s{read}"


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
    """Yields lines of Markdown, for a comment on a pull request: a table of the models that differ, then each of them.

    The last line names those that do not differ. Values are cut to `longest` characters.
    """
    different = [diff for diff in diffs if diff.differs]
    if different:
        yield "| model | added | removed | changed | columns |"
        yield "|---|---:|---:|---:|---|"
    for diff in different:
        counts = " | ".join(f"{diff.counts[kind]:,}" for kind in KINDS)
        yield f"| {escape_text(diff.table.name)} | {counts} | {escape_text(_summarize_columns(diff))} |"
    for diff in different:
        yield ""
        yield f"**{escape_text(diff.table.name)}**"
        yield ""
        yield from (f"- {escape_text(line.strip())}" for line in list(describe_diff(diff, longest))[1:])
    same = [escape_text(diff.table.name) for diff in diffs if not diff.differs]
    if same:
        yield from [""] if different else []
        yield f"No differences: {', '.join(same)}"


def _summarize_columns(diff: TableDiff) -> str:
    parts = [f"+{column.name}" for column in diff.added_columns]
    parts += [f"-{column.name}" for column in diff.removed_columns]
    parts += [f"{name}: {before} → {after}" for name, before, after in diff.retyped_columns]
    parts += [f"{column.name} ({column.rows:,})" for column in diff.columns]
    return ", ".join(parts)


def to_json(diff: TableDiff) -> Mapping[str, Any]:
    """Returns a difference as data for programs; the tables are texts."""
    return {**asdict(diff), "table": str(diff.table), "other": str(diff.other), "differs": diff.differs}
