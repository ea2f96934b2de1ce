"""The operation that says why a row is what it is: its changes, and the changes of upstream rows that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timezone
from typing import Any

from arctic_runtime.model.row_trail import RowChange, RowTrail, UpstreamChanges, Values
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import read_count, read_texts
from arctic_runtime.operations.masks import build_mask
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, on_one
from arctic_runtime.operations.operation import Values as Arguments
from arctic_runtime.operations.row_formats import convert_row

_BRANCH, _LAST, _LINE, _GAP = "├─ ", "└─ ", "│  ", "   "


def _explain_row(context: OperationContext, model: Model, values: Arguments) -> Answer:
    from arctic_runtime.spark.why.trail import RowSearch

    models = {other.table: other for other in (*context.models, model)}
    search = RowSearch(context.reader, context.spark(), models, values["depth"], context.progress)
    trail = search.trace_row(model, values["key"], values["version"])
    trail = trail.mask_values(lambda table: build_mask(models[table].masks if table in models else {}))
    longest = context.reader.thresholds.reports.longest_diff_value
    return Answer(build_trail_json(trail), tuple(describe_trail(trail, longest)), differs=not trail.changes)


def build_trail_json(trail: RowTrail) -> dict[str, Any]:
    """Converts a trail to values of JSON; times are in UTC."""
    return {
        "table": str(trail.table),
        "key": _build_row_json(trail.key),
        "changes": [_change_to_json(change) for change in trail.changes],
        "left_out": trail.left_out,
        "ends": trail.ends,
    }


def _change_to_json(change: RowChange) -> dict[str, Any]:
    run, transaction = change.run, change.transaction
    return {
        "table": str(change.table),
        "key": _build_row_json(change.key),
        "action": change.action,
        "at": change.at,
        "before": _build_row_json(change.before),
        "after": _build_row_json(change.after),
        "changed_columns": list(change.changed_columns),
        "run": None
        if run is None
        else {
            "version": str(run.version),
            "sequence": run.sequence,
            "at": run.at.astimezone(timezone.utc).isoformat(),
            "mode": run.mode,
            "reason": run.reason,
            "token": run.token,
        },
        "transaction": None
        if transaction is None
        else {
            "source": transaction.source,
            "operation": transaction.operation,
            "position": transaction.position,
            "at": transaction.at,
        },
        "upstreams": [_build_upstream_json(upstream) for upstream in change.upstreams],
        "is_proven": change.is_proven,
        "ends": change.ends,
        "notes": list(change.notes),
    }


def _build_upstream_json(upstream: UpstreamChanges) -> dict[str, Any]:
    return {
        "table": str(upstream.table),
        "from": None if upstream.start is None else str(upstream.start),
        "to": str(upstream.end),
        "changes": [_change_to_json(change) for change in upstream.changes],
        "without_effect": upstream.without_effect,
        "among": upstream.among,
        "left_out": upstream.left_out,
    }


def _build_row_json(row: Values | None) -> dict[str, Any] | None:
    return None if row is None else convert_row(row)


def describe_trail(trail: RowTrail, longest: int) -> Iterator[str]:
    """Yields a trail as lines for people, drawn as a tree; values are cut to `longest` characters."""
    yield f"{trail.table}: {_describe_row(trail.key, longest)}"
    if not trail.changes:
        yield "  no change row has this key"
    for change in trail.changes:
        yield from _draw_change(change, "", "", longest)
    if trail.left_out:
        yield f"{trail.left_out:,} older changes are not shown; `--version` shows those of one version"
    if trail.ends:
        yield trail.ends


def _draw_change(change: RowChange, first: str, rest: str, longest: int) -> Iterator[str]:
    yield f"{first}{_describe_change(change, longest)}"
    yield from _draw_parts([*_list_remarks(change), *change.upstreams], rest, longest)


def _draw_upstream(upstream: UpstreamChanges, first: str, rest: str, longest: int) -> Iterator[str]:
    """Draws the changes of an upstream below its name."""
    tail = [
        *([f"may be among {upstream.among:,} change rows"] if upstream.among is not None else []),
        *([f"and {upstream.left_out:,} more"] if upstream.left_out else []),
        *([f"{upstream.without_effect:,} other changed rows have no effect"] if upstream.without_effect else []),
    ]
    name = f"{upstream.table.schema}.{upstream.table.name}"
    yield f"{first}{name}" if upstream.changes or not tail else f"{first}{name}: {tail[0]}"
    tail = tail if upstream.changes else tail[1:]
    yield from _draw_parts([*upstream.changes, *tail], rest, longest)


def _draw_parts(parts: Sequence[RowChange | UpstreamChanges | str], rest: str, longest: int) -> Iterator[str]:
    """Draws changes, upstreams and texts as branches below the prefix `rest`."""
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        branch, below = (rest + _LAST, rest + _GAP) if is_last else (rest + _BRANCH, rest + _LINE)
        if isinstance(part, str):
            yield f"{branch}{part}"
        elif isinstance(part, RowChange):
            yield from _draw_change(part, branch, below, longest)
        else:
            yield from _draw_upstream(part, branch, below, longest)


def _describe_change(change: RowChange, longest: int) -> str:
    key = f"{_describe_row(change.key, longest)}: " if change.key else ""
    if change.before is not None and change.after is not None:
        before, after = change.before, change.after
        values = "; ".join(
            f"{name} {_cut_value(before[name], longest)} → {_cut_value(after[name], longest)}"
            for name in change.changed_columns
        )
    else:
        row = change.after if change.after is not None else change.before
        values = _describe_row({name: value for name, value in (row or {}).items() if name not in change.key}, longest)
    run = "" if change.run is None else f" ({_describe_run(change)})"
    return f"{key}{change.action}{f' {values}' if values else ''}{run}"


def _describe_run(change: RowChange) -> str:
    run = change.run
    assert run is not None
    mode = " ".join(part for part in (run.mode, run.reason if run.reason != "CHANGES" else "") if part)
    return ", ".join(part for part in (mode, f"version {run.version}", f"{run.at:%Y-%m-%d %H:%M:%S}") if part)


def _list_remarks(change: RowChange) -> Iterator[str]:
    if change.transaction is not None:
        origin = change.transaction
        position = f" at {origin.position}" if origin.position else ""
        yield f"source {origin.source}: {origin.operation}{position}{f', {origin.at}' if origin.at else ''}"
    if change.ends:
        yield f"the trail ends here: {change.ends}"
    yield from change.notes
    if change.upstreams and not change.is_proven:
        yield "not proven: computed again from these changes alone, the row has other values"


def _describe_row(row: Values, longest: int) -> str:
    return ", ".join(f"{name}={_cut_value(value, longest)}" for name, value in row.items())


def _cut_value(value: Any, longest: int) -> str:
    if value is None:
        return "null"
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


WHY = Operation(
    name="why",
    description="show the changes of one row, and those of upstream rows that made them, back to the source",
    tables="one",
    perform=on_one(_explain_row),
    needs_spark=True,
    changes=False,
    needs_key=True,
    needs_query=True,
    needs_queries=True,
    arguments=(
        Argument(
            "key",
            "the value of each column of the primary key",
            read_texts,
            "array",
            is_required=True,
            metavar="VALUE",
        ),
        Argument("version", "only the changes of this version", metavar="V"),
        Argument("depth", "layers of upstreams that are followed (default: all)", read_count, "integer", metavar="N"),
    ),
)
