"""Checks that the existing relations with the names of a model's table and views fit the model."""

from __future__ import annotations

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.columns import VALID_FROM, format_key, parse_key
from arctic_runtime.model.files.layout import format_layout, is_laid_out
from arctic_runtime.model.properties import LAYOUT, PRIMARY_KEY
from arctic_runtime.model.run_summary import find_last_load, find_last_run
from arctic_runtime.model.state import ChangeTableState, ConflictingRelation, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.adoption import check_baseline, is_being_adopted
from arctic_runtime.plan.refresh.request import Request


def is_replaceable_without_loss(model: Model, state: TableState) -> bool:
    """Whether the table never had a row and its model has read no change events, so that a new table loses nothing."""
    changes, base = state.changes, state.base
    if changes is None or not changes.begins or changes.baseline or any(commit.rows for commit in changes.commits):
        return False
    has_read = model.config.input == "changes" and find_last_load(changes) is not None
    return not has_read and (base is None or base.rows == 0)


def has_same_key(model: Model, changes: ChangeTableState) -> bool:
    """Whether the rows of a change table are identified by the model's primary key."""
    return changes.properties.get(PRIMARY_KEY, "") == format_key(model.config.primary_key)


def _may_replace(model: Model, state: TableState, conflicting: ConflictingRelation, request: Request) -> bool:
    has_all_changes = state.changes is None or state.changes.begins
    is_former = model.may_replace and conflicting.is_plain and has_all_changes and not model.is_appended
    return conflicting.name == model.table and (request.full_refresh or conflicting.is_clone or is_former)


def check_table(model: Model, state: TableState, request: Request) -> None:
    """Raises an error if the existing relations with the names of the model's table and views do not fit the model.

    Raises ConfigError if a relation with one of these names was not created by the model. There are three exceptions,
    in which the run replaces a relation that has the name of the model's own table, but not of its change table: in a
    full refresh; if `dbt clone` created the relation; and if the model may have created it with another
    materialization.

    Raises ConfigError as well if the model's own tables have another primary key, another kind of history, or, with
    `on_configuration_change: fail`, another layout than the model's configuration. Raises CorruptState if the base
    table exists without the change table.
    """
    conflicting = None if is_being_adopted(model, state) else state.conflicting
    if conflicting is not None and not _may_replace(model, state, conflicting, request):
        refresh = ", or run with --full-refresh to replace it" if conflicting.name == model.table else ""
        raise ConfigError(
            f"{model.table}: another relation has its name.",
            expected="no relation of that name",
            actual=(
                f"the {conflicting.kind} {conflicting.name}, which was not created by this model with "
                f"`merge: {model.config.merge}`"
            ),
            fix=f"drop or rename that relation, or give the model another alias{refresh}",
        )
    _check_view_names(model, state)
    if state.changes is None and state.base is not None:
        raise CorruptState(
            f"{model.table}: its change table is missing.",
            expected=f"the change table {model.table.changes} and the base {model.base}",
            actual="only the base",
            fix="restore the change table, or drop the base; the next run then creates both",
        )
    if state.changes is None or (find_last_run(state.changes) is None and is_replaceable_without_loss(model, state)):
        return
    _check_layout(model, state)
    check_baseline(model, state.changes)
    key = state.changes.properties.get(PRIMARY_KEY, "")
    _check_history(model, key)
    if not has_same_key(model, state.changes):
        raise ConfigError(
            f"{model.table}: its primary key can't be changed in place.\n"
            f"  in the table: {key}\n"
            f"  in the model: {format_key(model.config.primary_key)}",
            fix=(
                "restore the old key in the model; for a new key, give the model another alias, or delete the tables "
                f"with `arctic reset {model.table.name} --yes`"
            ),
        )


def _check_view_names(model: Model, state: TableState) -> None:
    """Raises ConfigError if another relation already has the name of a view of the model."""
    views = (
        ("current_view", "current versions", model.config.current_view, model.current_view, state.current_views),
        ("changes_view", "change rows", model.config.changes_view, model.changes_view, state.changes_views),
    )
    table = model.table
    if model.current_view is not None and model.current_view == model.changes_view:
        raise ConfigError(
            f"{table}: `current_view` and `changes_view` have the same name.", fix="give one of the two another name"
        )
    for key, shown, configured, name, relations in views:
        if name in (table, table.changes, table.base, table.totals, table.forget_keys_name):
            raise ConfigError(
                f"{table}: `{key}: {configured}` is the name of one of the model's own tables.",
                fix=f"give the view another name, or set `{key}: true`",
            )
        for relation in relations:
            if relation.name == name and not relation.is_own:
                raise ConfigError(
                    f"{table}: another relation has the name of its view of {shown}.",
                    expected="no relation of that name",
                    actual=f"the {relation.kind} {relation.name}, which was not created by this model",
                    fix=f"drop or rename that relation, or give the view another name with `{key}`",
                )


def _check_history(model: Model, key: str) -> None:
    """Raises ConfigError if the model's `history` was switched on or off since the table was created.

    `key` is the primary key that is stored in the table's properties.
    """
    is_kept, config = VALID_FROM in parse_key(key), model.config
    if is_kept == config.has_history or VALID_FROM in config.entity_key:
        return
    stored_kind = "keeps the versions of each row" if is_kept else "keeps one row per key"
    raise ConfigError(
        f"{model.table}: `history` can't be changed in place.",
        expected=f"a table for `history: {config.history}`, as the model has it",
        actual=f"a table that {stored_kind}",
        fix=(
            "set the old value; for the new one, give the model another alias, or delete the tables with "
            f"`arctic reset {model.table.name} --yes`"
        ),
    )


def _check_layout(model: Model, state: TableState) -> None:
    """Raises ConfigError if `on_configuration_change` is `fail` and the layout of the base differs from the model's."""
    if model.config.on_configuration_change != "fail" or state.base is None:
        return
    if not is_laid_out(model.config, state.base.properties):
        raise ConfigError(
            f"{model.table}: the layout of the table differs from the model's configuration.\n"
            f"  in the table: {state.base.properties[LAYOUT]}\n"
            f"  in the model: {format_layout(model.config)}",
            fix=(
                "set `on_configuration_change: apply` or run with --full-refresh to rewrite the table, which readers "
                "see in one step; or set `continue` to keep the old layout"
            ),
        )
