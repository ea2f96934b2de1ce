"""Combines the change rows of each key in a window of versions to one: its row before the window, and after it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, Column
from arctic_runtime.model.shape import DELETE, UPDATE, is_named
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, NULL, name_key_column


def write_net_changes(
    changes: Sql,
    key: Sequence[str],
    names: Collection[str],
    before: Sequence[Column],
    after: Sequence[Column],
    is_single: bool,
) -> Sql:
    """Builds the query of the net changes of the change rows in the relation `changes`, which has the columns `names`.

    The result has one row per key: the key's columns, named as by `as_key`; `before` and `after`, structs of the
    columns given for them, which are null without a row. Columns that `changes` lacks are null. `is_single` promises at
    most one change row of each key. A change row without `_before` has no row before, so rows of `changelog: input`
    can't be read so.
    """
    keys = [alias_as(quote_name(part), name_key_column(place)) for place, part in enumerate(key)]
    keys = keys or [alias_as(Sql("true"), name_key_column(0))]
    own = join_parts(quote_name(name_key_column(place)) for place in range(len(keys)))
    images = fill_statement(
        """SELECT {keys}, struct({commit} AS commit, {seq} AS seq) AS position,
             struct(CASE WHEN {had_row} THEN {before} END AS image) AS oldest,
             struct(CASE WHEN {action} <> {delete} THEN {after} END AS image) AS newest
           FROM {changes}""",
        keys=join_parts(keys),
        commit=quote_name(COMMIT_ORDER),
        seq=quote_name(SEQUENCE),
        action=quote_name(ACTION),
        delete=quote_text(DELETE),
        had_row=_write_had_row(names),
        before=_write_image(before, key, names, is_before=True),
        after=_write_image(after, key, names, is_before=False),
        changes=changes,
    )
    if not is_single:
        images = fill_statement(
            """SELECT {own}, min_by(oldest, position) AS oldest, max_by(newest, position) AS newest
               FROM ({images}) GROUP BY {own}""",
            own=own,
            images=images,
        )
    return fill_statement(
        "SELECT {own}, oldest.image AS before, newest.image AS after FROM ({images})", own=own, images=images
    )


def _write_image(columns: Sequence[Column], key: Sequence[str], names: Collection[str], is_before: bool) -> Sql:
    """Builds the struct of a row, from `_before` if `is_before`, else from the columns of the change row."""
    values = []
    for column in columns:
        own = quote_name(BEFORE, column.name) if is_before and not is_named(column.name, key) else None
        value = quote_name(column.name) if own is None else own
        if not is_named(column.name, tuple(names)):
            value = fill_statement("CAST({null} AS {kind})", null=NULL, kind=type_name(column.type))
        values.append(alias_as(value, column.name))
    return fill_statement("struct({values})", values=join_parts(values))


def _write_had_row(names: Collection[str]) -> Sql:
    """Builds the condition that there was a row before a change row; a delete may be of a row that was not there."""
    changed = fill_statement(
        "{action} IN ({update}, {delete})",
        action=quote_name(ACTION),
        update=quote_text(UPDATE),
        delete=quote_text(DELETE),
    )
    if not is_named(BEFORE, tuple(names)):
        return changed
    return fill_statement("{changed} AND {before} IS NOT NULL", changed=changed, before=quote_name(BEFORE))
