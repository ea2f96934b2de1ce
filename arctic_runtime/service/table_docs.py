"""The part of a table's description that the project has: descriptions, masked columns, and data tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

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
class ColumnDocs:
    """Description of a column, and whether the project masks its values by `meta: {mask: true}`."""

    description: str = ""
    is_masked: bool = False


@dataclass(frozen=True)
class TableDocs:
    """Description of a table in the project; `columns` has those that the project documents, in lower case."""

    description: str = ""
    sql: str = ""
    """Source code of the model, with its Jinja; empty for a table that no model of the project computes."""

    columns: Mapping[str, ColumnDocs] = field(default_factory=dict)
    tests: tuple[LastDataTest, ...] = ()

    def get_column(self, name: str) -> ColumnDocs:
        return self.columns.get(name.lower(), ColumnDocs())


@dataclass(frozen=True)
class DataTestRun:
    """Outcomes of a run of a table's data tests by the service, and its end."""

    at: datetime
    outcomes: tuple[DataTestOutcome, ...]


def list_newest_results(known: Iterable[LastDataTest], run: DataTestRun | None) -> tuple[LastDataTest, ...]:
    """Lists tests with their newest results, failures first: those of the service's `run`, or `known` from dbt's runs.

    A test that the service has run and that is no longer among `known` is left out.
    """
    by_service = {outcome.name: outcome for outcome in run.outcomes} if run is not None else {}

    def choose_newest(test: LastDataTest) -> LastDataTest:
        outcome = by_service.get(test.name)
        if outcome is None or run is None or (test.at is not None and test.at > run.at):
            return test
        return LastDataTest(test.name, outcome.status, outcome.message, run.at)

    newest = (choose_newest(test) for test in known)
    return tuple(sorted(newest, key=lambda test: (_RANK[test.status], test.name)))


_RANK: Mapping[LastStatus, int] = {"error": 0, "fail": 0, "warn": 1, "unknown": 2, "pass": 3}
