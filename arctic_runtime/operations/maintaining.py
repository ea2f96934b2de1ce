"""Operations that change files and no rows: compaction, bucket splits and expiry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial

from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.files.compaction import describe_compaction
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import MODES, read_flag, read_mode
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one
from arctic_runtime.plan.config.config_readers import read_size
from arctic_runtime.plan.config.maintenance_settings import read_age
from arctic_runtime.plan.maintenance.compaction import describe_plan, plan_waste
from arctic_runtime.plan.maintenance.expiry import describe_expiry
from arctic_runtime.plan.maintenance.landing import describe_landing


def _compact_tables(context: OperationContext, models: Sequence[Model], values: Values, only_plan: bool) -> Answer:
    """Compacts the tables of models, or if `only_plan`, only plans this.

    The table for which readers waste the most bytes comes first. `values` are the operation's arguments: if `all` is
    set, models without a table are skipped; `most` limits the total bytes of files that are rewritten. If there are
    several models, a CommitConflict of one becomes part of the answer, and the next is compacted.
    """
    left = math.inf if values["most"] is None else values["most"]
    if len(models) == 1 and not values["all"]:
        return _compact_one(context, models[0], values, only_plan, left)[0]
    answers: dict[str, Answer] = {}
    for model in _sort_by_waste(context, models, values):
        try:
            answers[str(model.table)], written = _compact_one(context, model, values, only_plan, left)
            left -= written
        except CommitConflict as conflict:
            answers[str(model.table)] = Answer({"conflict": str(conflict)}, (str(conflict),), differs=True)
    lines = [
        line for table, answer in answers.items() for line in (f"{table}:", *(f"  {text}" for text in answer.lines))
    ]
    data = {table: answer.data for table, answer in answers.items()}
    return Answer(data, tuple(lines), any(answer.differs for answer in answers.values()))


def _compact_one(
    context: OperationContext, model: Model, values: Values, only_plan: bool, most_bytes: float
) -> tuple[Answer, int]:
    """Compacts the table of one model, or plans this; returns the answer and the total bytes of rewritten files."""
    from arctic_runtime.spark.maintenance.compaction import compact_table, plan_compaction

    table = context.open_table(model)
    if only_plan:
        _, plan = plan_compaction(table, values["mode"])
        return Answer(asdict(plan), tuple(describe_plan(plan, context.reader.thresholds.reports))), 0
    done = compact_table(table, values["mode"], context.progress, most_bytes)
    lines = [f"done: {describe_compaction(step)}" for step in done.steps]
    if done.next is not None:
        lines.append(f"left for another time, over --most: {describe_compaction(done.next)}")
    return Answer(asdict(done), tuple(lines or [f"{model.table}: nothing to compact"])), done.bytes


def _sort_by_waste(context: OperationContext, models: Sequence[Model], values: Values) -> list[Model]:
    from arctic_runtime.spark.maintenance.compaction import plan_compaction

    wastes: list[tuple[int, Model]] = []
    for model in models:
        with suppress(ConfigError) if values["all"] else nullcontext():
            wastes.append((plan_waste(plan_compaction(context.open_table(model), values["mode"])[1]), model))
    return [model for _, model in sorted(wastes, key=lambda pair: pair[0], reverse=True)]


def _split_table(context: OperationContext, model: Model, _: Values) -> Answer:
    from arctic_runtime.spark.maintenance.compaction import split_table

    done = split_table(context.open_table(model))
    lines = [f"done: {describe_compaction(step)}" for step in done.steps]
    return Answer(asdict(done), tuple(lines or [f"{model.table}: nothing to split"]))


def _plan_split(context: OperationContext, model: Model, _: Values) -> Answer:
    from arctic_runtime.spark.maintenance.compaction import plan_split

    _state, plan = plan_split(context.open_table(model))
    return Answer(asdict(plan), tuple(describe_plan(plan, context.reader.thresholds.reports)))


def _expire_table(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.maintenance.expiry import expire_landing, expire_versions

    if model.is_landing:
        _check_not_orphans(model, values)
        gone = expire_landing(model, context.models, context.reader, context.spark)
        return Answer(asdict(gone), tuple(describe_landing(gone, "gone")))
    if values["orphans"]:
        return _list_orphans(context, model, values, only_plan=False)
    done = expire_versions(context.open_table(model), [reader.table for reader in context.models])
    return Answer(asdict(done), tuple(describe_expiry(done, "gone")))


def _plan_expire(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.maintenance.expiry import plan_expiry, plan_landing

    if model.is_landing:
        _check_not_orphans(model, values)
        wanted = plan_landing(model, context.models, context.reader)
        return Answer(asdict(wanted), tuple(describe_landing(wanted, "to go")))
    if values["orphans"]:
        return _list_orphans(context, model, values, only_plan=True)
    plan = plan_expiry(context.open_table(model), [reader.table for reader in context.models])
    return Answer(asdict(plan), tuple(describe_expiry(plan, "to go")))


def _check_not_orphans(model: Model, values: Values) -> None:
    if values["orphans"]:
        raise ConfigError(
            f"{model.table}: orphaned files of a landing table are left to the programs that write it.",
            fix="remove them with Iceberg's procedure `remove_orphan_files`",
        )


def _list_orphans(context: OperationContext, model: Model, values: Values, only_plan: bool) -> Answer:
    from arctic_runtime.spark.maintenance.expiry import find_orphan_files

    orphans = find_orphan_files(context.open_table(model), values["older_than"], remove=not only_plan)
    verb = "to go" if only_plan else "gone"
    lines = [f"{verb}: {file}" for files in orphans.values() for file in files]
    return Answer(orphans, tuple(lines or ["nothing to do"]))


COMPACT = Operation(
    name="compact",
    description="put small files together and take deleted rows out of files",
    tables="named_or_all",
    tables_help="the models; several are compacted in the order of what readers lose without it",
    perform=partial(_compact_tables, only_plan=False),
    plan=partial(_compact_tables, only_plan=True),
    needs_spark=True,
    changes=True,
    arguments=(
        Argument("all", "compact every model that was built", read_flag, "boolean", False, exclusive_group="models"),
        Argument("mode", "how much is rewritten (default: auto)", read_mode, default="auto", choices=MODES),
        Argument("most", "rewrite no more than this, such as 50GiB", read_size, metavar="SIZE"),
    ),
    macro_arguments=("mode",),
)
SPLIT = Operation(
    name="split",
    description="split buckets that have outgrown their limit, and merge small ones",
    tables="one",
    perform=on_one(_split_table),
    plan=on_one(_plan_split),
    needs_spark=True,
    changes=True,
    needs_key=True,
    macro_arguments=(),
)
EXPIRE = Operation(
    name="expire",
    description="remove old snapshots, and old rows of landing tables, that nobody needs",
    tables="one",
    perform=on_one(_expire_table),
    plan=on_one(_plan_expire),
    needs_spark=True,
    changes=True,
    arguments=(
        Argument("orphans", "remove files that belong to no snapshot instead", read_flag, "boolean", False),
        Argument(
            "older_than",
            "with --orphans: only files older than this, at least 1d (default: 3d)",
            read_age,
            default="3d",
            metavar="AGE",
        ),
    ),
    macro_arguments=(),
    takes_landing=True,
)
