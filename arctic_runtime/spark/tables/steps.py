"""The evaluator of steps: what each one does to the tables."""

from __future__ import annotations

from typing_extensions import assert_never

from arctic_runtime.model.state import Stranger
from arctic_runtime.model.step import (
    CreateBase,
    CreateChangeTable,
    DropBase,
    DropBranches,
    DropStranger,
    EvolveSchema,
    MergeBase,
    ReplaceView,
    Step,
)
from arctic_runtime.spark.engine.statement import Sql, name, statement
from arctic_runtime.spark.tables import views
from arctic_runtime.spark.tables.commit import (
    drop_branches,
    perform_statement,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import create_base, create_change_table
from arctic_runtime.spark.tables.evolve import evolve
from arctic_runtime.spark.tables.merge import merge_base


def perform(step: Step, context: Context) -> None:
    """Performs one step: every effect on a table but the commit of change rows, which is `append.publish`."""
    match step:
        case DropStranger(stranger):
            perform_statement("relation.drop", context.spark, _drop_statement(stranger))
        case DropBase(table):
            perform_statement(
                "relation.drop", context.spark, statement("DROP TABLE IF EXISTS {of}", of=name(*table.parts))
            )
        case DropBranches(table, branches):
            drop_branches(context.spark, table, branches)
        case CreateChangeTable():
            create_change_table(step, context)
        case EvolveSchema():
            evolve(step, context.spark, context.model.config.primary_key)
        case CreateBase():
            create_base(step, context)
        case MergeBase():
            merge_base(step, context)
        case ReplaceView():
            views.replace(context.spark, context.model, context.state, step)
        case _:
            assert_never(step)


def _drop_statement(stranger: Stranger) -> Sql:
    of = name(*stranger.name.parts)
    if stranger.kind == "view":
        return statement("DROP VIEW IF EXISTS {of}", of=of)
    return statement("DROP TABLE IF EXISTS {of}", of=of)
