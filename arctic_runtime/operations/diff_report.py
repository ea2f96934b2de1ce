"""Describes differences of tables: for a terminal, as Markdown, and as data for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from arctic_runtime.model.table_diff import KINDS, DiffCost, RowExample, TableDiff, ValueChange


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
        values = "; ".join(_describe_change(change, longest) for change in column.values)
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
    """Yields lines of Markdown, for a comment on a pull request: a table of the models that differ, then each of them.

    The last line names those that do not differ. Values are cut to `longest` characters.
    """
    different = [diff for diff in diffs if diff.differs]
    if different:
        yield "| model | added | removed | changed | columns |"
        yield "|---|---:|---:|---:|---|"
    for diff in different:
        counts = " | ".join(f"{diff.counts[kind]:,}" for kind in KINDS)
        yield f"| {_escape_text(diff.table.name)} | {counts} | {_escape_text(_summarize_columns(diff))} |"
    for diff in different:
        yield ""
        yield f"**{_escape_text(diff.table.name)}**"
        yield ""
        yield from (f"- {_escape_text(line.strip())}" for line in list(describe_diff(diff, longest))[1:])
    same = [_escape_text(diff.table.name) for diff in diffs if not diff.differs]
    if same:
        yield from [""] if different else []
        yield f"No differences: {', '.join(same)}"


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


def to_json(diff: TableDiff) -> Mapping[str, Any]:
    """Returns a difference as data for programs; the tables are texts."""
    return {**asdict(diff), "table": str(diff.table), "other": str(diff.other), "differs": diff.differs}
