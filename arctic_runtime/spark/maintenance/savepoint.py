"""Savepoints are made and dropped: tags of one name on the base and on the change table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from arctic_runtime.catalog.observe import observe_savepoints, observe_snapshots
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.run_summary import last_load
from arctic_runtime.model.savepoint import Savepoint, Tag
from arctic_runtime.model.state import built
from arctic_runtime.plan.savepoint import dropped, savepoint
from arctic_runtime.spark.engine.statement import name as quoted
from arctic_runtime.spark.engine.statement import number, statement
from arctic_runtime.spark.maintenance.between import version_named
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.table_session import TableSession


def make_savepoint(session: TableSession, name: str, version: str | None = None) -> Savepoint:
    """Gives a version a name, the newest one where none is told; doing it again changes nothing.

    Raises ConfigError where the version is not kept, or the name can't be used.
    """
    state = session.settled(session.observe())
    changes, _ = built(state, session.model.table)
    known = observe_savepoints(session.reader, session.model)
    newest = last_load(changes)
    if version is None and newest is None:
        raise ConfigError(f"{session.model.table} has no version yet; run it first")
    commit = newest if version is None else version_named(session, changes.commits, version)
    base = observe_snapshots(session.reader, session.model.base)
    assert commit is not None
    assert base is not None
    _perform(session.spark(), *savepoint(session.model, name, commit, base, known))
    return Savepoint(name, commit)


def drop_savepoint(session: TableSession, name: str) -> None:
    """Takes a name away, so that expiry keeps its version no longer; raises ConfigError where there is none."""
    _perform(session.spark(), *dropped(session.model, name, observe_savepoints(session.reader, session.model)))


def _perform(spark: SparkSession, *tags: Tag) -> None:
    for tag in tags:
        parts = {"table": quoted(*tag.table.parts), "tag": quoted(tag.name)}
        if tag.snapshot is None:
            drop = statement("ALTER TABLE {table} DROP TAG IF EXISTS {tag}", **parts)
            perform_statement("savepoint.drop_tag", spark, drop)
        else:
            template = "ALTER TABLE {table} CREATE OR REPLACE TAG {tag} AS OF VERSION {v}"
            perform_statement("savepoint.tag", spark, statement(template, **parts, v=number(tag.snapshot)))
