"""Settings of a run: few rows are interpreted and others compiled, and many joins are planned without pruning."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from arctic_runtime.ivm.algebra.tree import Join, Node, Scan
from arctic_runtime.ivm.strategies.maintain import Deltas
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import BaseState, Commit, SourceState, TableState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.increment import Increment, Upstreams
from arctic_runtime.spark.refresh.run import build_compiler_settings, build_planning_settings
from arctic_runtime.thresholds import EngineThresholds, JoinThresholds

LIMIT = EngineThresholds.interpreted_rows
NAME = "lake.ods.orders"
VERSIONS = tuple(Version("log", number, number) for number in (1, 2, 3))


def a_source(rows: int, *added: int) -> SourceState:
    commits = tuple(
        Commit(version, None, "append", count, 1, {}, 0) for version, count in zip(VERSIONS, added, strict=False)
    )
    return SourceState(TableName("lake", "ods", "orders"), "changes", VERSIONS[-1], commits, (), 3, rows=rows)


def is_interpreted(states: Mapping[str, SourceState | None], base_rows: int | None = None) -> bool:
    base = None if base_rows is None else BaseState("base", (Column("id", "int"),), 1, VERSIONS[0], base_rows, {})
    decision = Decision("incremental", "CHANGES", {NAME: Window(NAME, VERSIONS[0], VERSIONS[2])})
    settings = build_compiler_settings(TableState(base=base), decision, Upstreams(states), EngineThresholds())
    assert settings in ({}, {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"})
    return bool(settings)


@pytest.mark.parametrize(
    ("rows", "added", "base_rows", "interpreted"),
    [
        (0, (), None, True),
        (LIMIT, (), None, True),
        (LIMIT + 1, (), None, False),
        (LIMIT - 10, (LIMIT, 5, 5), None, True),
        (LIMIT - 10, (0, 5, 6), None, False),
        (LIMIT - 10, (0, 5, 4), 1, True),
        (LIMIT - 10, (0, 5, 4), 2, False),
        (0, (), LIMIT + 1, False),
    ],
)
def test_rows_of_sources_windows_and_base_count(
    rows: int, added: tuple[int, ...], base_rows: int | None, interpreted: bool
) -> None:
    assert is_interpreted({NAME: a_source(rows, *added)}, base_rows) == interpreted


def test_a_run_whose_rows_are_not_known_is_compiled() -> None:
    assert not is_interpreted({})
    assert not is_interpreted({NAME: a_source(1), "lake.ods.files": None})
    assert is_interpreted({NAME: a_source(1), "lake.ods.files": a_source(1)})


def test_many_joins_of_a_plan_are_planned_without_dynamic_pruning() -> None:
    def plan_joins(count: int) -> dict[str, str]:
        tree: Node = Scan(TableName("lake", "ods", "t0"), (("a0", "a"),))
        for number in range(1, count + 1):
            tree = Join("inner", tree, Scan(TableName("lake", "ods", f"t{number}"), ((f"a{number}", "a"),)), None)
        return build_planning_settings(Increment(Deltas(tree), (), (), tree, frozenset()), JoinThresholds())

    assert plan_joins(JoinThresholds.pruned_joins) == build_planning_settings(None, JoinThresholds()) == {}
    assert plan_joins(JoinThresholds.pruned_joins + 1) == {
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"
    }
