"""The part of a table's description that the project has: descriptions, masks of columns, and data tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.service.schedules.cron_schedules import DataTestOutcome

LastStatus = Literal["pass", "warn", "fail", "error", "unknown"]
"""Status of a data test's newest run; `unknown` if no run of it is known."""


@dataclass(frozen=True)
class LastDataTest:
    """A data test of a table with its newest known outcome; `at` is the end of that run."""

    name: str
    status: LastStatus = "unknown"
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class TableDocs:
    """Description of a table in the project; `columns` has those of its columns, by their names in lower case."""

    description: str = ""
    sql: str = ""
    """Source code of the model, with its Jinja; empty for a table that no model of the project computes."""

    columns: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[LastDataTest, ...] = ()
    masks: Mapping[str, bool] = field(default_factory=dict)
    """Masks of columns, as in `Model.masks`."""


@dataclass(frozen=True)
class _Run:
    """A run of a table's data tests: its end, and the outcomes by the tests' names."""

    at: datetime
    outcomes: Mapping[str, DataTestOutcome]


class DataTestRuns:
    """The last run of each table's data tests by the service; may be used by any thread."""

    def __init__(self) -> None:
        self._runs: dict[TableName, _Run] = {}

    def record_run(self, table: TableName, outcomes: Iterable[DataTestOutcome], at: datetime) -> None:
        """Records a run that ended at the time `at`."""
        self._runs[table] = _Run(at, {outcome.name: outcome for outcome in outcomes})

    def add_results(self, table: TableName, docs: TableDocs) -> TableDocs:
        """Returns `docs`, which have the results of dbt, with those of the service where they are newer.

        Failing tests come first.
        """
        run = self._runs.get(table)
        newest = docs.tests if run is None else tuple(_choose_newest(test, run) for test in docs.tests)
        return replace(docs, tests=tuple(sorted(newest, key=lambda test: (_RANK[test.status], test.name))))


def _choose_newest(test: LastDataTest, run: _Run) -> LastDataTest:
    outcome = run.outcomes.get(test.name)
    if outcome is None or (test.at is not None and test.at > run.at):
        return test
    return LastDataTest(test.name, outcome.status, outcome.message, run.at)


_RANK: Mapping[LastStatus, int] = {"error": 0, "fail": 0, "warn": 1, "unknown": 2, "pass": 3}
