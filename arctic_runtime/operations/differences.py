"""The operation that compares tables with those of another environment."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.observation.clones import observe_clone
from arctic_runtime.catalog.observation.tables import observe_savepoints
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.model.names import TableName, list_changes_read
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import (
    KINDS,
    DiffLimit,
    RowExample,
    TableDiff,
    ValueChange,
    mask_diff,
    read_diff_limits,
)
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values


def _compare_tables(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    chosen = _add_models_below(context, models)
    if values["start"] is not None:
        diffs = list(_compare_versions(context, chosen, values))
    else:
        pairs = _pair_tables(context, chosen, values)
        diffs = list(_compare_all(context, pairs, values["column"]))
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


def _add_models_below(context: OperationContext, models: Sequence[Model]) -> tuple[Model, ...]:
    """Returns models with all models below them: those that read them, directly or through other models."""
    reads = {
        model.table: set(find_reads(model.sql, model.table.catalog, model.table.schema).tables)
        | set(list_changes_read(model.sql))
        for model in context.models
    }
    chosen = {model.table for model in models}
    size = 0
    while size < len(chosen):
        size = len(chosen)
        chosen |= {table for table, read in reads.items() if read & {*chosen, *(name.changes for name in chosen)}}
    below = [model for model in context.models if model.table in chosen - {model.table for model in models}]
    return (*models, *below)


def _pair_tables(context: OperationContext, models: Sequence[Model], values: Values) -> list[tuple[Model, TableName]]:
    """Pairs each model with the table that it is compared with; leaves out models without one."""
    find = _choose_other(context, values)
    pairs = [(model, other) for model in models if not model.is_appended and (other := find(model)) is not None]
    if not pairs:
        raise ConfigError(
            "There is nothing to compare.",
            expected="clones, which are compared with their origins, or an environment with tables of the same models",
            actual=", ".join(str(model.table) for model in models) or "no tables",
            fix="give `--state`, `--with-target` or `--schema`, or clone tables with `dbt clone`",
        )
    return pairs


def _choose_other(context: OperationContext, values: Values) -> Callable[[Model], TableName | None]:
    """Returns a function that finds the table with which a model's is compared; None if there is none."""
    if values["state"] is not None:
        tables = _read_state(values["state"])
        return lambda model: _find_existing(context, model, tables.get(model.node))
    if values["with_target"] is not None:
        tables = context.map_target(values["with_target"])
        return lambda model: _find_existing(context, model, tables.get(model.node))
    if values["other_schema"] is not None:
        schema = values["other_schema"]
        return lambda model: _find_existing(context, model, replace(model.table, schema=schema))
    return lambda model: _find_origin(context, model)


def _read_state(folder: str) -> Mapping[str, TableName]:
    """Reads the tables of all models from the `manifest.json` in a folder, by the ids of the models."""
    file = Path(folder)
    file = file / "manifest.json" if file.is_dir() else file
    try:
        nodes = json.loads(file.read_text())["nodes"]
        return {
            name: TableName(str(node["database"]), str(node["schema"]), str(node["alias"]))
            for name, node in nodes.items()
            if node["resource_type"] == "model" and node["config"].get("materialized") != "ephemeral"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "The state of the other environment can't be read.",
            where=f"--state: {file}",
            expected="the manifest.json that dbt wrote for it, or its folder",
            actual=str(error),
        ) from error


def _find_existing(context: OperationContext, model: Model, other: TableName | None) -> TableName | None:
    """Returns `other` if it is another table than the model's, and both exist; raises ConfigError for two catalogs."""
    if other is None or other == model.table:
        return None
    if other.catalog != model.table.catalog:
        raise ConfigError(
            f"{model.table} can't be compared with {other}, which is in another catalog.",
            expected="two environments in one catalog",
            actual=f"{model.table.catalog} and {other.catalog}",
        )
    known = [context.reader.describe_relation(part.schema, part.name) for part in (model.table, other)]
    return None if None in known else other


def _find_origin(context: OperationContext, model: Model) -> TableName | None:
    clone = observe_clone(context.reader, model.table)
    return None if clone is None else _check_origin(context.reader, model.table, clone.origin.model)


def _check_origin(reader: CatalogReader, table: TableName, origin: TableName) -> TableName:
    if reader.describe_relation(origin.schema, origin.name) is None:
        raise ConfigError(
            f"{table} can't be compared with {origin}, of which it is a clone.",
            expected="a table or view of that name",
            actual="none, since it was dropped or renamed",
            fix="compare with a table of another schema, by `--schema`",
        )
    return origin


def _compare_all(
    context: OperationContext, pairs: Iterable[tuple[Model, TableName]], column: str | None
) -> Iterator[TableDiff]:
    from arctic_runtime.spark.maintenance.table_comparison import compare_with_table

    secret = secrets.token_bytes(32)
    for model, other in pairs:
        yield mask_diff(compare_with_table(context.open_table(model), other, column), model.masked, secret)


def _compare_versions(context: OperationContext, models: Sequence[Model], values: Values) -> Iterator[TableDiff]:
    """Compares each model that has the two versions; the names of savepoints may be missing in models below."""
    from arctic_runtime.spark.maintenance.table_comparison import compare_versions

    secret, start, end = secrets.token_bytes(32), values["start"], values["end"]
    keyed = [model for model in models if not model.is_appended]
    named = [name for name in (start, end) if name is not None and not name.isdecimal()]
    for place, model in enumerate(keyed):
        known = {savepoint.name for savepoint in observe_savepoints(context.reader, model)}
        if place == 0 or (known.issuperset(named) and len(named) == 2 - (end is None)):
            diff = compare_versions(context.open_table(model), start, end, values["column"])
            yield mask_diff(diff, model.masked, secret)


def _list_breaches(diff: TableDiff, limits: Iterable[DiffLimit]) -> Iterator[str]:
    for limit in limits:
        if limit.is_exceeded(diff):
            yield str(limit)


def describe_diff(diff: TableDiff, longest: int) -> Iterator[str]:
    """Yields lines for people: rows, columns, the most frequent changes of values, and examples.

    Values are cut to `longest` characters.
    """
    title = f"{diff.table} beside {diff.other}"
    if diff.versions is not None:
        title = f"{diff.table} from {diff.versions[0]} to {diff.versions[1] or 'the newest version'}"
    if not diff.differs:
        yield f"{title}: no differences"
        return
    yield f"{title} ({'from change rows, ' if diff.reads_changes else ''}{diff.seconds:.1f} s)"
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
    description="rows and columns that differ from a clone's origin, another environment, or an earlier version",
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
            exclusive_group="other",
        ),
        Argument(
            "state",
            "compare with the tables of the same models in the manifest.json in this folder",
            metavar="PATH",
            is_local=True,
            exclusive_group="other",
        ),
        Argument(
            "with_target",
            "compare with the tables of the same models in this target of the profile",
            metavar="TARGET",
            is_local=True,
            exclusive_group="other",
        ),
        Argument(
            "start",
            "compare with the table's own rows as of this version, a number or the name of a savepoint",
            option="--from",
            metavar="VERSION",
            exclusive_group="other",
        ),
        Argument("end", "the newer version, for `--from`; without it, the newest", option="--to", metavar="VERSION"),
        Argument("column", "show only rows in which this column differs as examples", metavar="COLUMN"),
        Argument(
            "fail_on",
            "exit with 1 only if there are more rows than this, in rows or percent, such as `added>100,removed>0`",
            read_diff_limits,
            metavar="LIMITS",
        ),
        Argument("markdown", "write Markdown, for a comment on a pull request", read_flag, "boolean", False),
    ),
)
