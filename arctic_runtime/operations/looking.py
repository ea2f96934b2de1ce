"""Operations that show a table: its status, its history, the plan of its next run, one row, or its change rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.model.sources.positions import keep_opaque
from arctic_runtime.model.step import describe_step
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect, node_tree
from arctic_runtime.operations.arguments import read_count, read_flag, read_texts
from arctic_runtime.operations.change_export import limit_rows, open_changes
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one
from arctic_runtime.operations.row_formats import convert_row

if TYPE_CHECKING:
    from arctic_runtime.catalog.change_rows.read import ChangeRows
    from arctic_runtime.refresh_planner import Plan


def describe_next_run(model: Model, plan: Plan) -> list[str]:
    """Describes the plan of a model's next run in lines for people: mode, reason, inputs, estimated costs and steps."""
    decision = plan.decision
    return [
        f"{model.table}",
        f"  next run: {decision.mode} ({decision.reason}{f': {decision.because}' if decision.because else ''})",
        *([f"  key: {', '.join(model.config.primary_key)}, from {model.key_origin}"] if model.key_origin else []),
        *(f"  reads {name}: {_describe_window(window)}" for name, window in decision.windows.items()),
        *([f"  {_describe_versions(model)}"] if model.config.has_history else []),
        *(f"  {line}" for line in _describe_merging(model)),
        *(f"  {way.explain_cost()}" for way in decision.ways),
        *(f"  {line}" for line in (decision.increment.describe_plan() if decision.increment else ())),
        *(f"  in full: {line}" for line in plan.joins),
        *(f"  then: {describe_step(step)}" for step in plan.steps),
        *([f"  then: {_catch_up(model)}"] if decision.mode != "unchanged" else []),
    ]


def _describe_merging(model: Model) -> Iterator[str]:
    """Yields lines for people about the settings by which a row is computed from the events of its key.

    Yields none if a row simply equals the newest event of its key.
    """
    config = model.config
    for sequence, columns in config.sequence_groups.items():
        yield f"flow ordered by {sequence}, of events where that is not null: {', '.join(columns)}"
    if config.columns_to_update is not None:
        yield f"an event has the columns that {config.columns_to_update} names, all where that is null"
    if config.unavailable_value is not None:
        yield f"an event does not have a value where it says {config.unavailable_value!r}"
    for column, function in config.merge_columns.items():
        yield f"column {column}: {function}"
    if config.keep == "all":
        yield "keeps every change"
    if config.truncate_when is not None:
        yield f"is emptied by events with {config.truncate_when}"


def _catch_up(model: Model) -> str:
    """Describes the step that brings the base table or the view up to date after the run's commit of change rows.

    The description has no number of rows, since this depends on the rows that the run commits.
    """
    if model.config.merge == "on_write":
        return f"merge the new changes into {model.base}"
    return f"replace view {model.table}, and merge into {model.base} where enough has come together"


def _describe_versions(model: Model) -> str:
    if model.config.valid_time:
        return f"keeps what every event says from its {model.config.valid_time} on, and when that was recorded"
    tracked = ", ".join(model.config.track) or "any column"
    deleted = "closes its last version" if model.config.keep_deleted else "deletes its versions"
    return f"keeps every version of a row: a change of {tracked} opens one, and a deletion {deleted}"


def _describe_window(window: Any) -> str:
    if window.start is None:
        return f"all of version {window.end.snapshot}"
    if window.is_empty:
        return f"nothing new since version {window.end.snapshot}"
    return f"from version {window.start.snapshot} to {window.end.snapshot}"


def _explain_table(context: OperationContext, model: Model, _: Values) -> Answer:
    plan = context.build_planner(model).explain_refresh()
    return Answer(asdict(plan), tuple(describe_next_run(model, plan)))


def _show_status(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    data: list[Any] = []
    lines: list[str] = []
    wanted = values["tree"] or values["partition"] is not None
    now = datetime.now(timezone.utc)
    freshness = inspect.observe_freshness(context.reader, models, context.models, now)
    for model in models:
        status = inspect.read_status(context.reader, model, context.models)
        status = replace(status, freshness=freshness.get(model.table))
        tree = node_tree.read_tree(context.reader, model, values["partition"]) if wanted else None
        data.append({**asdict(status), **({"tree": asdict(tree)} if tree else {})})
        drawing = node_tree.describe_tree(tree, context.reader.thresholds.reports) if tree else []
        parse_position = model.source.parse_position if model.source else keep_opaque
        lines += [*inspect.describe_status(status, now, parse_position), *drawing]
    return Answer(data, tuple(lines))


def _show_history(context: OperationContext, model: Model, _: Values) -> Answer:
    entries = inspect.read_history(context.reader, model)
    lines = [line for entry in entries for line in inspect.describe_history(entry)]
    return Answer([asdict(entry) for entry in entries], tuple(lines or ["no versions yet"]))


def _show_changes(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.maintenance.window_changes import read_changes_between

    most = context.reader.thresholds.reports.shown_changes
    limit = most if values["limit"] is None else values["limit"]
    rows = read_changes_between(context.open_table(model), values["start"], values["end"], limit)
    data = [convert_row(row) for row in rows]
    return Answer(data, tuple(str(row) for row in data) or ("no changes between these versions",))


def _export_changes(context: OperationContext, model: Model, values: Values) -> ChangeRows:
    rows = open_changes(context.reader, model, values["start"], values["end"])
    return rows if values["limit"] is None else limit_rows(rows, values["limit"])


def _look_up(context: OperationContext, model: Model, values: Values) -> Answer:
    result = look_up_row(context.reader, model, values["key"])
    row = result.row
    lines = (
        "no such row" if row is None else "\n".join(f"{name}: {value}" for name, value in row.items()),
        f"({result.files_opened} data file(s) opened, {result.bytes_read:,} bytes read)",
    )
    data = {**asdict(result), "row": None if row is None else convert_row(row)}
    return Answer(data, lines, differs=row is None)


STATUS = Operation(
    name="status",
    description="versions, changes not merged yet, files, consumers and their lag",
    tables="any",
    perform=_show_status,
    needs_spark=False,
    changes=False,
    arguments=(
        Argument("tree", "draw the nodes of the largest partition", read_flag, "boolean", False),
        Argument("partition", "draw the nodes of this one, as `--plan` names partitions", metavar="P"),
    ),
    macro_arguments=(),
)
EXPLAIN = Operation(
    name="explain",
    description="what the next run will do, and why",
    tables="one",
    perform=on_one(_explain_table),
    needs_spark=False,
    changes=False,
    needs_key=True,
    needs_query=True,
)
HISTORY = Operation(
    name="history",
    description="the versions of a table, and how its columns changed",
    tables="one",
    perform=on_one(_show_history),
    needs_spark=False,
    changes=False,
)
CHANGES = Operation(
    name="changes",
    description="change rows between two versions",
    tables="one",
    perform=on_one(_show_changes),
    needs_spark=True,
    changes=False,
    needs_key=True,
    arguments=(
        Argument("start", "after this version", is_required=True, option="--from", metavar="V"),
        Argument("end", "up to this version", is_required=True, option="--to", metavar="V"),
        Argument("limit", "at most so many rows (default: 1000; all in a format for programs)", read_count, "integer"),
    ),
    export=_export_changes,
)
LOOKUP = Operation(
    name="lookup",
    description="one row by its key",
    tables="one",
    perform=on_one(_look_up),
    needs_spark=False,
    changes=False,
    needs_key=True,
    arguments=(
        Argument(
            "key", "a value per key column", read_texts, "array", is_required=True, is_positional=True, metavar="KEY"
        ),
    ),
)
