"""Operations that restore, overwrite or forget a table's rows, create or drop savepoints, drop a table, or load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.observation.tables import (
    observe_model,
    observe_own,
    observe_savepoints,
    read_last_offsets,
)
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.forgetting import (
    Forget,
    describe_certificate,
    describe_forget_plan,
    join_certificates,
    join_plans,
)
from arctic_runtime.model.names import TableName, parse_table_name
from arctic_runtime.model.properties import RESUMED
from arctic_runtime.model.refs import parse_cut
from arctic_runtime.model.run_summary import find_awaited_cut, find_last_run
from arctic_runtime.model.state import ConflictingRelation
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations.arguments import read_flag, read_partition, read_source, read_texts
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, check_key, on_one
from arctic_runtime.plan.maintenance.savepoint import find_savepoint

if TYPE_CHECKING:
    from arctic_runtime.spark.forget.forgetting import Forgetting


_KNOWN = "a number that `arctic history` shows, or the name of a savepoint"


def _restore_tables(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    version, cut = values.get("version"), values.get("cut")
    if cut is not None:
        return _restore_cut(context, models, cut)
    if len(models) == 1:
        check_key("restore", models[0])
    if version is None or len(models) != 1:
        raise ConfigError(
            "restore takes one table with `--version`, or `--cut` for all tables of a build.",
            actual=f"{len(models)} tables, {'no version' if version is None else f'version {version}'}",
            fix="name one table and `--version V`, which `arctic history` shows, or give `--cut`",
        )
    (model,) = models
    counts = _restore_version(context, model, version)
    return Answer(counts, (inspect.describe_restored(model, counts),))


def _restore_cut(context: OperationContext, models: Sequence[Model], cut: str) -> Answer:
    """Restores those of the models that have the cut, one after another; raises ConfigError if none has it.

    Those whose query is not that of the cut wait for it after that.
    """
    names = {model.table: {known.name for known in observe_savepoints(context.reader, model)} for model in models}
    tagged = [model for model in models if cut in names[model.table]]
    if not tagged:
        newest = sorted(name for name in set().union(*names.values()) if parse_cut(name) is not None)
        raise ConfigError(
            f"No table has the cut {cut}.",
            expected=f"one that is kept: {', '.join(newest[-3:])}" if newest else "the cut of a build, which names it",
            actual=cut,
            fix="`arctic history MODEL` shows the cuts that a table has; expiry drops old ones",
        )
    data: dict[str, dict[str, Any]] = {}
    waiting: list[str] = []
    for model in tagged:
        waits = _has_other_query(context, model, cut)
        counts = _restore_version(context, model, cut, cut if waits else None)
        context.progress(inspect.describe_restored(model, counts))
        data[str(model.table)] = {**counts, "waits": waits}
        waiting += [f"{model.table} waits: its query is not that of the cut"] if waits else []
    advice = ["deploy the code of the cut, or run `arctic resume` with these models"] if waiting else []
    return Answer(data, (f"{len(tagged)} tables are as in {cut}", *waiting, *advice))


def _has_other_query(context: OperationContext, model: Model, cut: str) -> bool:
    """Whether the next run of a model would compute another query than that of the cut, and so undo a restore to it.

    Runs of a model of change events do not undo one.
    """
    if model.config.input != "state" or model.ingested_from is not None:
        return False
    commit = find_savepoint(model, cut, observe_savepoints(context.reader, model)).commit
    return bool(context.build_planner(model).describe_change_since(commit))


def _restore_version(
    context: OperationContext, model: Model, version: str, awaited_cut: str | None = None
) -> dict[str, int]:
    from arctic_runtime.spark.refresh.overwrite import restore_version

    return restore_version(context.open_table(model), version, awaited_cut)


def _resume_models(context: OperationContext, models: Sequence[Model], _: Values) -> Answer:
    """Ends the wait of those of the models that wait for the query of a cut."""
    from arctic_runtime.spark.tables.commit import set_properties

    resumed: dict[str, str] = {}
    for model in models:
        changes = observe_model(context.reader, model).changes
        cut, last = find_awaited_cut(changes), find_last_run(changes)
        if cut is not None and last is not None:
            set_properties("restore.resume", context.spark(), model.table.changes, {RESUMED: last.run or ""})
            resumed[str(model.table)] = cut
    lines = [f"{table}: no longer waits for the query of {cut}" for table, cut in resumed.items()]
    return Answer(resumed, tuple(lines or ["no table waits for the query of a cut"]))


def _overwrite_table(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.refresh.overwrite import overwrite_with_source

    source, as_of = values["source"], values["as_of"]
    rows = source if isinstance(source, TableName) else parse_table_name(source, model.table)
    counts = overwrite_with_source(context.build_refresh(model), rows, as_of, values["partition"] or {})
    return Answer(counts, (inspect.describe_overwritten(model, counts, as_of),))


def _set_savepoint(context: OperationContext, model: Model, values: Values) -> Answer:
    from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint

    table, name = context.open_table(model), values["name"]
    if values["drop"]:
        drop_savepoint(table, name)
        return Answer({"dropped": name}, (f"{model.table}: dropped savepoint {name}",))
    made = make_savepoint(table, name, values["version"])
    return Answer(asdict(made), (inspect.describe_savepoint(model, made),))


def _reset_table(context: OperationContext, model: Model, _: Values) -> Answer:
    from arctic_runtime.spark.maintenance.cloning import reset_model

    readers = _list_readers(context, model)
    dropped = [relation for part in model.parts for relation in reset_model(context.open_table(part))]
    return _describe_reset(model, tuple(dropped), readers, "dropped")


def _plan_reset(context: OperationContext, model: Model, _: Values) -> Answer:
    own = tuple(relation for part in model.parts for relation in observe_own(context.reader, part))
    answer = _describe_reset(model, own, _list_readers(context, model), "to drop")
    warning = "nothing was dropped: all versions and change rows would be lost; add --yes to do it"
    log = observe_model(context.reader, model).changes
    kept = f"the table was adopted, with rows from before: `arctic adopt {model.table.name} --undo` keeps these"
    notes = [kept] if log is not None and log.baseline is not None else []
    return Answer(answer.data, (*answer.lines, *notes, *([warning] if own else [])))


def _resync_table(context: OperationContext, model: Model, _: Values) -> Answer:
    from arctic_runtime.spark.maintenance.resync import request_resync

    source = request_resync(context.open_table(model))
    line = f"{model.table}: the process that ingests {source} loads it again, within a minute or when it begins"
    return Answer({"source": source, "table": model.ingested_from}, (line,))


def _list_readers(context: OperationContext, model: Model) -> list[TableName]:
    """Lists the tables of those models whose last run has read this model's table, or its quarantine."""
    tables = {str(part.table) for part in model.parts}
    return [
        other.table for other in context.models if tables.intersection(read_last_offsets(context.reader, other.table))
    ]


def _describe_reset(model: Model, own: tuple[ConflictingRelation, ...], readers: list[TableName], verb: str) -> Answer:
    lines = [f"{verb}: {relation.kind} {relation.name}" for relation in own] or [f"{model.table}: nothing was built"]
    lines += [
        f"read by {reader}: its next run computes everything once, and with `input: changes` needs --full-refresh"
        for reader in readers
    ]
    data = {"relations": [asdict(relation) for relation in own], "readers": [str(reader) for reader in readers]}
    return Answer(data, tuple(lines))


RESTORE = Operation(
    name="restore",
    needs_admin=True,
    description="go back to an earlier version, as a new change",
    tables="any",
    perform=_restore_tables,
    needs_spark=True,
    changes=True,
    arguments=(
        Argument("version", f"the version of one table: {_KNOWN}", metavar="V", exclusive_group="version"),
        Argument(
            "cut",
            "the cut of a build, to which each table goes back that has it",
            metavar="CUT",
            exclusive_group="version",
        ),
    ),
    macro_arguments=("version",),
)
RESUME = Operation(
    name="resume",
    description="let models run again that wait for the query of a cut since a restore to it",
    tables="any",
    perform=_resume_models,
    needs_spark=True,
    changes=True,
)
OVERWRITE = Operation(
    name="overwrite",
    needs_admin=True,
    description="replace all rows by a full extract, as of a place in the order of events; later events still apply",
    tables="one",
    perform=on_one(_overwrite_table),
    needs_spark=True,
    changes=True,
    needs_key=True,
    needs_query=True,
    arguments=(
        Argument(
            "source", "the table or view with all rows", read_source, is_required=True, option="--from", metavar="TABLE"
        ),
        Argument(
            "partition",
            "replace this partition alone; once for each column that the table is partitioned by",
            read_partition,
            "object",
            metavar="COLUMN=VALUE",
        ),
        Argument(
            "as_of",
            "the place in that order: a value of the model's `sequence_by`",
            is_required=True,
            metavar="P",
        ),
    ),
    macro_arguments=("source", "as_of", "partition"),
)
SAVEPOINT = Operation(
    name="savepoint",
    description="give a version a name, which keeps it from expiry",
    tables="one",
    perform=on_one(_set_savepoint),
    needs_spark=True,
    changes=True,
    needs_key=True,
    arguments=(
        Argument("name", "the name of the savepoint", is_required=True, is_positional=True, metavar="NAME"),
        Argument(
            "version", f"the version to name: {_KNOWN} (default: the newest)", metavar="V", exclusive_group="version"
        ),
        Argument("drop", "drop the savepoint", read_flag, "boolean", False, exclusive_group="version"),
    ),
    macro_arguments=("name", "version", "drop"),
)
RESET = Operation(
    name="reset",
    needs_admin=True,
    description="drop everything that a model has made, so that its next run is its first",
    tables="one",
    perform=on_one(_reset_table),
    plan=on_one(_plan_reset),
    needs_spark=True,
    changes=True,
    needs_confirmation=True,
)
RESYNC = Operation(
    name="resync",
    needs_admin=True,
    description="have a table of an ingested database loaded anew, and publish what differs",
    tables="one",
    perform=on_one(_resync_table),
    needs_spark=True,
    changes=True,
)


def _forget_rows(context: OperationContext, model: Model, values: Values) -> Answer:
    done = [_build_forgetting(context, part, values).run_forget() for part in _list_built(context, model)]
    certificate = join_certificates(done)
    data = {**asdict(certificate), "is_clean": certificate.is_clean}
    return Answer(data, tuple(describe_certificate(certificate)), differs=not certificate.is_clean)


def _plan_forget(context: OperationContext, model: Model, values: Values) -> Answer:
    plans = [_build_forgetting(context, part, values).plan_forget() for part in _list_built(context, model)]
    plan = join_plans(plans)
    warning = "nothing was forgotten: it can't be undone; add --yes to do it"
    return Answer(asdict(plan), (*describe_forget_plan(plan), *([warning] if plan.tables or plan.clones else [])))


def _list_built(context: OperationContext, model: Model) -> list[Model]:
    """Lists the model, and before it its quarantine if this is built, since a row may have been in either."""
    return [part for part in model.parts if part == model or observe_own(context.reader, part)]


def _build_forgetting(context: OperationContext, model: Model, values: Values) -> Forgetting:
    from arctic_runtime.spark.forget.forgetting import Forgetting

    request = Forget(values["key"] or (), values["where"], values["drop_savepoints"], values["drop_clones"])
    return Forgetting(
        model, context.models, context.reader, context.spark, request, context.progress, audit=context.audit
    )


FORGET = Operation(
    name="forget",
    needs_admin=True,
    description="erase rows of a table and of all that is made of it, also from their history",
    tables="one",
    perform=on_one(_forget_rows),
    plan=on_one(_plan_forget),
    needs_spark=True,
    plan_needs_spark=True,
    changes=True,
    needs_confirmation=True,
    needs_key=True,
    needs_queries=True,
    arguments=(
        Argument(
            "key",
            "keys of rows, each by one value for each column of the primary key",
            read_texts,
            "array",
            metavar="VALUE",
            exclusive_group="rows",
        ),
        Argument(
            "where", "a SQL predicate: rows that it is or was true for", metavar="PREDICATE", exclusive_group="rows"
        ),
        Argument(
            "drop_savepoints", "drop savepoints that hold such rows, which else refuse it", read_flag, "boolean", False
        ),
        Argument(
            "drop_clones",
            "drop all clones of tables that hold such rows, which else refuse it while they are in use",
            read_flag,
            "boolean",
            False,
        ),
    ),
    macro_arguments=("key", "where", "drop_savepoints", "drop_clones"),
)
