"""Tests of a build that look at changed rows alone, since they passed in the last build.

The macro `arctic__get_test_sql` gives the query of each test to `RowTests.restrict_test`, which replaces tables in it
by temporary views with the rows that matter. Only queries that `ivm/row_tests` understands are changed, and only with
dbt's default settings of what makes a test fail; all other tests look at all rows. So does `dbt test`, which belongs to
no build, and any build with `--full-refresh`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.logging import AdapterLogger

from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import PASSED_TESTS
from dbt.adapters.arctic.publication.planned_test import (
    PassedTest,
    decode_passed_tests,
    encode_passed_tests,
    hash_test_name,
    merge_passed_tests,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dbt.adapters.arctic.publication.planned_test import PlannedTest, RestrictedTest

logger = AdapterLogger("Arctic")


@dataclass
class ChangedRowsResponse(AdapterResponse):
    """dbt's response for a test that looked at changed rows alone, as `run_results.json` stores it."""

    changed_rows: int = 0
    """Number of change rows since the test passed; a row that changed twice counts twice."""

    rows: int = 0
    """Number of rows of the table."""


@dataclass
class RowTests:
    """The tests of a build that look at changed rows, or may do so in the next build; safe to share between threads.

    `reader` reads the build's branch.
    """

    reader: CatalogReader
    _planned: dict[str, PlannedTest] = field(default_factory=dict)
    _passed: dict[TableName, dict[str, PassedTest]] = field(default_factory=dict)
    _responses: dict[str, ChangedRowsResponse] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restrict_test(
        self, node: Mapping[str, Any], sql: str, models: Collection[TableName], spark: SparkSession, all_rows: bool
    ) -> str:
        """Returns the query of a test, changed to look at changed rows alone if that is enough.

        `models` are the tables of the project's arctic models. With `all_rows`, the query stays as it is.
        """
        from dbt.adapters.arctic.publication.planned_test import plan_test, restrict_planned_test

        name, unique_id = str(node["name"]), str(node["unique_id"])
        try:
            planned = plan_test(self.reader, node, sql, models, spark)
            if planned is None:
                return sql
            with self._lock:
                self._planned[unique_id] = planned
            last = self._read_passed_tests(planned.test.table).get(hash_test_name(unique_id))
            restricted = None if all_rows else restrict_planned_test(self.reader, planned, last, sql, spark)
        except (NotMaintained, ArcticError) as refused:
            logger.debug(f"{name} looks at all rows: {refused}")
            return sql
        if restricted is None:
            return sql
        self._say_rows(name, restricted)
        return restricted.sql

    def _say_rows(self, name: str, restricted: RestrictedTest) -> None:
        text = f"changed rows only: {restricted.changed:,} of {restricted.rows:,}"
        logger.info(f"{name} [{text}]")
        response = ChangedRowsResponse(_message=text, code="OK", changed_rows=restricted.changed, rows=restricted.rows)
        with self._lock:
            self._responses[restricted.sql.strip()] = response

    def _read_passed_tests(self, table: TableName) -> dict[str, PassedTest]:
        changes = find_table(self.reader, table.changes)
        return {} if changes is None else decode_passed_tests(changes.properties.get(PASSED_TESTS))

    def find_response(self, statement: str) -> ChangedRowsResponse | None:
        """Returns the response for a statement with a query that `restrict_test` has changed; None for any other."""
        with self._lock:
            return next((made for query, made in self._responses.items() if query in statement), None)

    def note_status(self, unique_id: str, status: str) -> None:
        """Notes dbt's status of a test that has ended."""
        with self._lock:
            planned = self._planned.pop(unique_id, None)
            if planned is not None and status == "pass":
                self._passed.setdefault(planned.test.table, {})[hash_test_name(unique_id)] = planned.passed

    def list_properties(self, declared: Collection[str]) -> dict[TableName, dict[str, str]]:
        """Returns the properties by which change tables remember the tests that passed, if they have other ones now.

        `declared` are the ids of all tests in the project.
        """
        return dict(self._iterate_properties(frozenset(map(hash_test_name, declared))))

    def _iterate_properties(self, declared: Collection[str]) -> Iterator[tuple[TableName, dict[str, str]]]:
        most = self.reader.thresholds.commits.passed_tests
        for table, passed in self._passed.items():
            stored = self._read_passed_tests(table)
            merged = merge_passed_tests(stored, passed, declared)
            if merged != stored:
                yield table.changes, {PASSED_TESTS: encode_passed_tests(merged, most)}
