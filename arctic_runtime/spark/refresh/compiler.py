"""Chooses whether Spark compiles the expressions of a run to Java, or interprets them."""

from __future__ import annotations

from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.thresholds import EngineThresholds

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def build_compiler_settings(
    state: TableState, decision: Decision, upstreams: Upstreams, thresholds: EngineThresholds
) -> dict[str, str]:
    """Builds session settings by which Spark interprets the expressions of a run that reads few rows.

    Empty for a run that reads many rows, or whose number of rows is not known: one that reads no table, or a table that
    is no Iceberg table.
    """
    if not upstreams.states:
        return {}
    rows = state.base.rows if state.base else 0
    for name, source in upstreams.states.items():
        if source is None:
            return {}
        rows += _count_rows(source, decision, name)
    return _INTERPRETED if rows <= thresholds.interpreted_rows else {}


def _count_rows(source: SourceState, decision: Decision, name: str) -> int:
    """Counts the rows of a source and the rows in its window, whichever of the two a run reads."""
    window = decision.windows.get(name)
    return source.rows + (source.count_rows_in(window) if window else 0)
