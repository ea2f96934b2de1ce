"""The operation that computes a part of a model's table anew, and shows what the models below it would read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.tables import observe_own, read_last_offsets
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import describe_frozen
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one

if TYPE_CHECKING:
    from arctic_runtime.spark.refresh.restate import RestatedPart


@dataclass(frozen=True)
class ReaderBelow:
    """A model below a restated table, by its table.

    `reads` are the tables of which it reads changes, and `change_rows` the number of change rows that it would read;
    None if a model between it and the restated table decides how many these are.
    """

    table: str
    reads: tuple[str, ...]
    change_rows: int | None


def _restate_rows(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.refresh.restate import restate_part

    if values["below"]:
        return _plan_restate(context, model, values)
    done: dict[str, Mapping[str, int]] = {}
    for part in _list_built(context, model):
        restated = restate_part(context.build_refresh(part), values["where"], values["frozen"])
        done[str(part.table)] = {**restated.rows, "frozen": restated.frozen}
    return Answer(done, tuple(f"{table}: restated {_describe_rows(rows)}" for table, rows in done.items()))


def _describe_rows(rows: Mapping[str, int]) -> str:
    note = describe_frozen(rows["frozen"])
    return f"{inspect.format_row_counts(rows)}{f'; {note}' if note else ''}"


def _plan_restate(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.refresh.restate import count_restated

    parts = {
        str(part.table): count_restated(context.build_refresh(part), values["where"], values["frozen"])
        for part in _list_built(context, model)
    }
    reads = {other.table: tuple(read_last_offsets(context.reader, other.table)) for other in context.models}
    below = list_readers_below({table: sum(part.rows.values()) for table, part in parts.items()}, reads)
    data = {
        "tables": {table: asdict(part) for table, part in parts.items()},
        "below": [asdict(reader) for reader in below],
    }
    return Answer(data, (*_describe_parts(parts), *_describe_below(below)))


def list_readers_below(changed: Mapping[str, int], reads: Mapping[TableName, Sequence[str]]) -> tuple[ReaderBelow, ...]:
    """Lists the models that read tables with changes, and then those that read these models, each once.

    `changed` are the numbers of change rows by table, and `reads` the names of the tables that each model's last run
    has read.
    """
    readers: dict[str, ReaderBelow] = {}
    names = set(changed)
    while True:
        layer = {
            str(table): tuple(name for name in upstreams if name in names)
            for table, upstreams in sorted(reads.items())
            if str(table) not in names and names.intersection(upstreams)
        }
        if not layer:
            return tuple(readers.values())
        for table, above in layer.items():
            is_exact = all(name in changed for name in above)
            readers[table] = ReaderBelow(table, above, sum(changed[name] for name in above) if is_exact else None)
        names.update(layer)


def _describe_parts(parts: Mapping[str, RestatedPart]) -> list[str]:
    lines = []
    for table, part in parts.items():
        lines.append(f"{table}: would be restated {_describe_rows({**part.rows, 'frozen': part.frozen})}")
        lines += [f"  {line}" for line in part.reads]
        flaws = {action: count for action, count in part.rows.items() if action.startswith("!") and count}
        lines += [f"  {count:,} row(s) have a {action[1:]}, which refuses all" for action, count in flaws.items()]
    return [*lines, "nothing was written"]


def _describe_below(below: Sequence[ReaderBelow]) -> list[str]:
    return [
        f"below: {reader.table} would read {reader.change_rows:,} change row(s) of {', '.join(reader.reads)}"
        if reader.change_rows is not None
        else f"below: {reader.table} would read what changes in {', '.join(reader.reads)}"
        for reader in below
    ]


def _list_built(context: OperationContext, model: Model) -> list[Model]:
    """Lists the model, and before it its quarantine if this is built, between which rows may move."""
    return [part for part in model.parts if part == model or observe_own(context.reader, part)]


RESTATE = Operation(
    name="restate",
    needs_admin=True,
    description="compute the rows that a predicate selects anew, and publish what differs",
    tables="one",
    perform=on_one(_restate_rows),
    plan=on_one(_plan_restate),
    needs_spark=True,
    plan_needs_spark=True,
    changes=True,
    needs_key=True,
    needs_query=True,
    arguments=(
        Argument(
            "where",
            "a SQL predicate over the columns of the model: the rows to compute",
            is_required=True,
            metavar="PREDICATE",
        ),
        Argument("frozen", "compute the rows that `frozen_where` selects too", read_flag, "boolean", False),
        Argument("below", "show what the models below would read, and write nothing", read_flag, "boolean", False),
    ),
    macro_arguments=("where", "frozen", "below"),
)
