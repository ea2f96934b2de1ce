"""Clones of tables from which rows are forgotten: they have the same files, and so they keep the rows."""

from __future__ import annotations

from arctic_runtime.catalog.observation.clones import list_clones, observe_clone_tags
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import list_tagged_tables, shares_files
from arctic_runtime.spark.forget.downstream import DownstreamTables
from arctic_runtime.spark.maintenance.clone_tags import release_tags


def check_no_clones(tables: DownstreamTables) -> None:
    """Raises ConfigError if one of the tables is a clone, or has clones: both have files of another table."""
    models = [*tables.keyed, *tables.appended]
    for model in models:
        log = tables.observe_state(model).log
        if log is not None and shares_files(log.properties):
            raise ConfigError(
                f"{model.table} is a clone, or has `gc.enabled: false`: its rows may be in files of another table too; "
                "nothing was done.",
                fix=f"forget the rows in its origin, then make the clone anew with `dbt clone --full-refresh -s "
                f"{model.table.name}`",
            )
    names = {model.table for model in models}
    clones = [clone for clone in list_clones(tables.reader) if clone.origin.model in names]
    if clones:
        raise ConfigError(
            f"{tables.root.table}: clones hold rows that may have to be forgotten; nothing was done.",
            actual=", ".join(f"{clone.table}, a clone of {clone.origin.model}" for clone in clones),
            fix="drop them with `arctic reset` where they were made, forget the rows, and clone again",
        )


def drop_stale_tags(tables: DownstreamTables) -> None:
    """Drops tags for clones that do not exist; a clone that is being made at the moment then fails."""
    for model in [*tables.keyed, *tables.appended]:
        for seen in observe_clone_tags(tables.reader, list_tagged_tables(model.table)):
            if seen.clone is None:
                release_tags(tables.open_session(model.table), seen.tags)
