"""Operations that show or verify a table: its status, its history, its buckets, its next run, a row, its changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.change_rows.projection import UnreadableColumn
from arctic_runtime.catalog.change_rows.read import ChangeRows, read_change_rows
from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.model.columns import COMMIT_VERSION
from arctic_runtime.model.files.layout import ROOT, HashNode
from arctic_runtime.model.sources.positions import keep_opaque
from arctic_runtime.model.step import describe_step
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations.arguments import read_count, read_flag, read_texts
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one
from arctic_runtime.operations.row_formats import convert_row
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, list_units
from arctic_runtime.plan.maintenance.split import SIDE_BY_SIDE
from arctic_runtime.spark.tables.versions import find_window
from arctic_runtime.thresholds import ReportThresholds

if TYPE_CHECKING:
    import pyarrow as pa

    from arctic_runtime.catalog.change_rows.read import ChangeRows
    from arctic_runtime.refresh_planner import Plan


ALL_ROWS = "all rows"


def describe_next_run(model: Model, plan: Plan) -> list[str]:
    """Describes the plan of a model's next run in lines for people: mode, reason, inputs, estimated costs and steps."""
    decision = plan.decision
    windows = {} if decision.has_later_changes else decision.windows
    return [
        f"{model.table}",
        f"  next run: {decision.mode} ({decision.reason}{f': {decision.because}' if decision.because else ''})",
        *([f"  key: {', '.join(model.config.primary_key)}, from {model.key_origin}"] if model.key_origin else []),
        *(f"  reads {name}: {_describe_window(window)}" for name, window in windows.items()),
        *([f"  {_describe_versions(model)}"] if model.config.has_history else []),
        *(f"  {line}" for line in _describe_merging(model)),
        *(f"  {way.explain_cost()}" for way in decision.ways),
        *(f"  {line}" for line in (decision.increment.describe_plan() if decision.increment else ())),
        *(f"  {line}" for line in (decision.edit.describe_plan() if decision.edit else ())),
        *(f"  {line}" for line in (decision.forward.describe_plan() if decision.forward else ())),
        *(f"  {line}" for line in (decision.revert.describe_plan() if decision.revert else ())),
        *(f"  {line}" for line in (decision.promotion.describe_plan() if decision.promotion else ())),
        *(f"  in full: {line}" for line in plan.joins),
        *(f"  then: {describe_step(step)}" for step in plan.steps),
        *([f"  then: {_catch_up(model)}"] if decision.mode != "unchanged" else []),
    ]


def _describe_merging(model: Model) -> Iterator[str]:
    """Yields lines for people about the settings by which a row is computed from the events of its key, or is kept.

    Yields none if a row simply equals that of the query, or the newest event of its key.
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
    if config.frozen_where is not None:
        yield f"keeps rows as they are where {config.frozen_where}"


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
    statuses = inspect.read_statuses(context.reader, models, context.models)
    for model, observed in zip(models, statuses, strict=True):
        status = replace(observed, freshness=freshness.get(model.table))
        tree = read_tree(context.reader, model, values["partition"]) if wanted else None
        data.append({**asdict(status), **({"tree": asdict(tree)} if tree else {})})
        drawing = describe_tree(tree, context.reader.thresholds.reports) if tree else []
        parse_position = model.source.parse_position if model.source else keep_opaque
        lines += [*inspect.describe_status(status, now, parse_position), *drawing]
    return Answer(data, tuple(lines))


def _show_history(context: OperationContext, model: Model, _: Values) -> Answer:
    entries = inspect.read_history(context.reader, model)
    lines = [line for entry in entries for line in inspect.describe_history(entry)]
    return Answer([asdict(entry) for entry in entries], tuple(lines or ["no versions yet"]))


def _show_changes(context: OperationContext, model: Model, values: Values) -> Answer:
    most = context.reader.thresholds.reports.shown_changes
    limited = {**values, "limit": most if values["limit"] is None else values["limit"]}
    data = [convert_row(context.show_row(model, row)) for row in _read_changes(context, model, limited)]
    return Answer(data, tuple(str(row) for row in data) or ("no changes between these versions",))


def _read_changes(context: OperationContext, model: Model, values: Values) -> list[dict[str, Any]]:
    """Reads change rows; by Spark only if they have a column of a type that nothing else reads."""
    try:
        rows = _export_changes(context, model, values)
    except UnreadableColumn:
        from arctic_runtime.spark.maintenance.window_changes import read_changes_between

        return read_changes_between(context.open_table(model), values["start"], values["end"], values["limit"])
    return [
        row
        for batch in rows.batches
        for row in batch.drop_columns([COMMIT_VERSION]).to_pylist(maps_as_pydicts="strict")
    ]


def _export_changes(context: OperationContext, model: Model, values: Values) -> ChangeRows:
    rows = open_changes(context.reader, model, values["start"], values["end"])
    return rows if values["limit"] is None else limit_rows(rows, values["limit"])


def _look_up(context: OperationContext, model: Model, values: Values) -> Answer:
    result = look_up_row(context.reader, model, values["key"])
    row = None if result.row is None else context.show_row(model, result.row)
    lines = (
        "no such row" if row is None else "\n".join(f"{name}: {value}" for name, value in row.items()),
        f"({result.files_opened} data file(s) opened, {result.bytes_read:,} bytes read)",
    )
    data = {**asdict(result), "row": None if row is None else convert_row(row)}
    return Answer(data, lines, differs=row is None)


STATUS = Operation(
    name="status",
    description="show versions, changes not merged yet, files, consumers and their lag",
    tables="any",
    perform=_show_status,
    needs_spark=False,
    changes=False,
    arguments=(
        Argument("tree", "draw the hash tree of the largest partition", read_flag, "boolean", False),
        Argument("partition", "draw the hash tree of this partition, as `arctic compact --plan` names it", metavar="P"),
    ),
    macro_arguments=(),
)
EXPLAIN = Operation(
    name="explain",
    description="show what the next run will do, and why",
    tables="one",
    perform=on_one(_explain_table),
    needs_spark=False,
    changes=False,
    needs_key=True,
    needs_query=True,
)
HISTORY = Operation(
    name="history",
    description="show the versions of a table, and how its columns changed",
    tables="one",
    perform=on_one(_show_history),
    needs_spark=False,
    changes=False,
)
CHANGES = Operation(
    name="changes",
    description="show the change rows between two versions",
    tables="one",
    perform=on_one(_show_changes),
    needs_spark=True,
    changes=False,
    needs_key=True,
    arguments=(
        Argument(
            "start",
            "after this version: a number that `arctic history` shows, or the name of a savepoint (default: all that "
            "are kept)",
            option="--from",
            metavar="V",
        ),
        Argument("end", "up to this version (default: the newest)", option="--to", metavar="V"),
        Argument(
            "limit",
            "at most so many rows (default: 1000; all in a format for programs)",
            read_count,
            "integer",
            metavar="N",
        ),
    ),
    export=_export_changes,
)
LOOKUP = Operation(
    name="lookup",
    description="find one row by its key, without a scan",
    tables="one",
    perform=on_one(_look_up),
    needs_spark=False,
    changes=False,
    needs_key=True,
    arguments=(
        Argument(
            "key",
            "the value of each column of the primary key",
            read_texts,
            "array",
            is_required=True,
            is_positional=True,
            metavar="KEY",
        ),
    ),
)


_MEND = (
    "what to do: `dbt run --full-refresh --select {model}` computes the table again, publishes what differs, and "
    "readers follow it; if it differs again afterwards, the query's own answer changes"
)


def _verify_tables(context: OperationContext, models: Sequence[Model], _: Values) -> Answer:
    from arctic_runtime.spark.refresh.verify import verify_model

    data: dict[str, list[dict[str, Any]]] = {}
    lines: list[str] = []
    for model in models:
        start = time.monotonic()
        findings = verify_model(context.build_refresh(model))
        if context.hides_values:
            # Examples are texts of whole rows, in which no column can be masked.
            findings = tuple(replace(finding, examples=()) for finding in findings)
        broken = [finding for finding in findings if finding.broken]
        left_out = [finding for finding in findings if finding.left_out]
        data[str(model.table)] = [asdict(finding) for finding in findings]
        verdict, checks = "differs" if broken else "ok", len(findings) - len(left_out)
        context.progress(f"{verdict:8} {model.table}: {checks} checks in {time.monotonic() - start:.1f} s")
        lines += [f"{model.table}: not checked: {finding.check}: {finding.left_out}" for finding in left_out]
        lines += [f"{model.table}: {finding.check}: {finding.note}" for finding in findings if finding.note]
        for finding in broken:
            lines.append(f"{model.table}: {finding.check}: {finding.broken} row(s) break it")
            lines += [f"  example: {example}" for example in finding.examples]
        if broken:
            lines.append(f"{model.table}: {_MEND.format(model=model.table.name)}")
    any_broken = any(finding["broken"] for findings in data.values() for finding in findings)
    return Answer(data, tuple(lines), differs=any_broken)


VERIFY = Operation(
    name="verify",
    description="recompute and compare tables with their queries and their histories",
    tables="any",
    perform=_verify_tables,
    needs_spark=True,
    changes=False,
    needs_query=True,
)


def open_changes(reader: CatalogReader, model: Model, start: int | str | None, end: int | str | None) -> ChangeRows:
    """Opens the change rows after version `start` and up to `end`; no row is read before the first batch is.

    A version is given by its snapshot id or by a savepoint's name. None for `start` means the oldest change row that is
    kept, None for `end` the newest version. Raises ConfigError if there is no such version, if `start` is newer than
    `end`, or if some change rows between them have been deleted.
    """
    limits = find_window(reader, model, start, end)
    return read_change_rows(reader, model.table.changes, limits.window, limits.commits)


def limit_rows(rows: ChangeRows, limit: int) -> ChangeRows:
    """Returns the change rows limited to the first `limit` rows."""
    return replace(rows, batches=_take_rows(rows.batches, limit))


def _take_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= len(batch)


@dataclass(frozen=True)
class Drawn:
    """A node of a hash tree (a bucket), by its `depth` below the root and its `index` among nodes of this depth.

    `bytes` and `files` include all nodes below it; `own_files` is the number of files of the node itself.
    """

    depth: int
    index: int
    bytes: int
    files: int
    own_files: int


@dataclass(frozen=True)
class Tree:
    """The nodes of one partition's hash tree (its buckets), sorted from the root down.

    `partition` is the text of the partition's values; `partitions` is the number of the table's partitions.
    """

    model: str
    partition: str
    partitions: int
    nodes: tuple[Drawn, ...]


@dataclass
class _Sum:
    bytes: int = 0
    files: int = 0
    own_files: int = 0


def read_tree(reader: CatalogReader, model: Model, partition: str | None = None) -> Tree | None:
    """Reads the hash tree of `partition`, or if it is None, of the largest partition, from the base table's manifests.

    Returns None if there is no table yet, or if the table has no files. Raises ConfigError if there is no such
    partition, or if the buckets of the files do not form a tree.
    """
    if observe_model(reader, model).base is None:
        return None
    table = observe_files(reader, model.base)
    if table is None or not table.file_groups:
        return None
    tree_units = list_units(table, model.config.hash_key)
    if tree_units is None:
        raise ConfigError(f"{model.base}: {SIDE_BY_SIDE}, so there is no tree to draw")
    partitions: dict[str, list[CompactionUnit]] = {}
    for unit in tree_units:
        partitions.setdefault(", ".join(map(str, unit.partition)) or ALL_ROWS, []).append(unit)
    chosen = partition or max(partitions, key=lambda name: sum(unit.bytes for unit in partitions[name]))
    if chosen not in partitions:
        raise ConfigError(
            f"{model.base} has no partition {chosen!r}{suggest_nearest(chosen, partitions)}; {_list_some(partitions)}"
        )
    return Tree(str(model.table), chosen, len(partitions), _list_nodes(partitions[chosen]))


def describe_tree(tree: Tree, thresholds: ReportThresholds) -> list[str]:
    """Draws a hash tree in lines for people, the root first.

    Deep nodes are left out if there would be too many lines; their bytes and files are included in the nodes above.
    """
    deepest = _find_deepest(tree.nodes, thresholds.tree_lines)
    shown = {HashNode(node.depth, node.index): node for node in tree.nodes if node.depth <= deepest}
    depth = max(node.depth for node in tree.nodes)
    partition_text = "" if tree.partitions == 1 else f", one of {tree.partitions} partitions"
    head = f"  nodes of {tree.partition}{partition_text}: {depth} level(s) below the root"
    return [head, *_draw_lines(ROOT, shown, "  ", "  ")]


def _list_nodes(tree_units: Sequence[CompactionUnit]) -> tuple[Drawn, ...]:
    sums: dict[HashNode, _Sum] = {}
    for unit in tree_units:
        for place, node in zip(unit.hash_nodes, unit.file_groups, strict=True):
            for depth in range(place.depth + 1):
                above = sums.setdefault(place.get_ancestor(depth), _Sum())
                above.bytes, above.files = above.bytes + node.bytes, above.files + len(node.files)
            sums[place].own_files += len(node.files)
    return tuple(
        Drawn(at.depth, at.index, totals.bytes, totals.files, totals.own_files)
        for at, totals in sorted(sums.items(), key=_get_position)
    )


def _get_position(item: tuple[HashNode, object]) -> HashNode:
    return item[0]


def _find_deepest(nodes: Sequence[Drawn], most_lines: int) -> int:
    """Returns the greatest depth at which all nodes down to this depth fit in `most_lines` lines, one line per node."""
    counts: dict[int, int] = {}
    for node in nodes:
        counts[node.depth] = counts.get(node.depth, 0) + 1
    depth, lines = 0, 0
    for depth in sorted(counts):
        lines += counts[depth]
        if lines > most_lines:
            return depth - 1
    return depth


def _draw_lines(at: HashNode, shown: Mapping[HashNode, Drawn], first: str, rest: str) -> list[str]:
    node = shown[at]
    below = [child for child in at.children if child in shown]
    own = f", {node.own_files} of them not below it" if below and node.own_files else ""
    lines = [f"{first}{at}: {node.bytes:,} bytes in {node.files} file(s){own}"]
    for child in below:
        is_last = child == below[-1]
        lines += _draw_lines(child, shown, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))
    return lines


def _list_some(partitions: Mapping[str, object]) -> str:
    names = sorted(partitions)
    return f"it has {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
