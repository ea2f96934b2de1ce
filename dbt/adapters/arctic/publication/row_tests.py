"""Tests of a build that look only at changed rows, since they passed in an earlier build, and their temporary views.

The macro `arctic__get_test_sql` gives the query of each test to `RowTests.restrict_test`, which replaces tables in it
by temporary views with the rows that matter. Only queries that `ivm/row_tests` understands are changed, and only with
dbt's default settings of what makes a test fail; all other tests look at all rows. So does `dbt test`, which belongs to
no build, and any build with `--full-refresh`.

The query of a test is taken as dbt compiles it, and only names of tables in it are replaced. It stays as it is if
`ivm/row_tests` does not know that changed rows are enough.

The versions with which tests passed are a property of the change table, so that a build publishes them together with
the rows. An entry stays true when the table changes: it is about a version.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.logging import AdapterLogger

from arctic_runtime.catalog.observation.tables import observe_readable
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.errors import ArcticError, CorruptState
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.ivm.row_tests import RowTest, find_row_test
from arctic_runtime.model.names import TableName, format_image_view
from arctic_runtime.model.properties import PASSED_TESTS
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, decode_versions
from arctic_runtime.plan.refresh.increment import build_relation
from arctic_runtime.plan.refresh.session_changes import SessionState
from arctic_runtime.plan.row_tests import find_changes_since, hash_definition, replace_relation
from arctic_runtime.spark.engine.statement import quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PassedTest:
    """The last pass of a test: a hash of its definition, and the versions of the tables that it read, by their role.

    The roles are `table` for the table that is tested, and `parent` for one that its rows refer to.
    """

    definition: str
    versions: Mapping[str, Version]


def hash_test_name(unique_id: str) -> str:
    """Returns the short text by which a test is stored; `unique_id` is its id in dbt."""
    return hashlib.sha256(unique_id.encode()).hexdigest()[:16]


def encode_passed_tests(tests: Mapping[str, PassedTest], max_tests: int) -> str:
    """Encodes tests, by their hashed names, as one line of JSON; keeps the `max_tests` with the newest versions."""
    newest = sorted(tests.items(), key=lambda item: (-_get_sequence(item[1]), item[0]))[:max_tests]
    texts = {
        name: {"definition": test.definition, **{role: asdict(at) for role, at in sorted(test.versions.items())}}
        for name, test in sorted(newest)
    }
    return json.dumps(texts, separators=(",", ":"))


def _get_sequence(test: PassedTest) -> int:
    return max((version.sequence for version in test.versions.values()), default=0)


def decode_passed_tests(text: str | None) -> dict[str, PassedTest]:
    """Parses JSON of `encode_passed_tests`; empty for None, and for a text that can't be parsed.

    Without its entry, a test looks at all rows.
    """
    try:
        entries = {name: dict(entry) for name, entry in json.loads(text or "{}").items()}
        return {name: _decode_test(entry) for name, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, CorruptState):
        return {}


def _decode_test(entry: Mapping[str, object]) -> PassedTest:
    versions = {role: version for role, version in entry.items() if role != "definition"}
    return PassedTest(str(entry["definition"]), decode_versions(json.dumps(versions)))


def merge_passed_tests(
    stored: Mapping[str, PassedTest], passed: Mapping[str, PassedTest], declared: Collection[str]
) -> dict[str, PassedTest]:
    """Returns the stored tests with those that passed now in their place, without tests that are no longer declared."""
    return {name: test for name, test in {**stored, **passed}.items() if name in declared}


_FAILS = {"fail_calc": "count(*)", "warn_if": "!=0", "error_if": "!=0"}
"""dbt's default settings of what makes a test fail: any row."""

_NOT_SET = ("limit", "store_failures", "store_failures_as", "sql_header")
"""Settings of a test with which it looks at all rows."""


_ROLES = ("table", "parent")


@dataclass(frozen=True)
class PlannedTest:
    """A test that needs to look at changed rows only.

    `states` are the observed states of the tables that it reads; `passed` is the entry to store if it passes.
    """

    test: RowTest
    states: Mapping[TableName, SourceState]
    passed: PassedTest


@dataclass(frozen=True)
class RestrictedTest:
    """A test's query that reads only changed rows, with the number of change rows and the number of all rows."""

    sql: str
    changed: int
    rows: int


def plan_test(
    reader: CatalogReader, node: Mapping[str, Any], sql: str, models: Collection[TableName], spark: SparkSession
) -> PlannedTest | None:
    """Returns the plan of a test with the query `sql`; None if its settings need all rows.

    `models` are the tables of the project's arctic models. Raises NotMaintained if the query needs all rows.
    """
    if not has_default_settings(node) or sql.strip() != str(node.get("compiled_code") or "").strip():
        return None
    names = [name for name in find_reads(sql, reader.profile.catalog, "default").tables if name in models]
    observed = {name: observe_readable(reader, name) for name in names}
    known = {name: state for name, state in observed.items() if state is not None and state.kind == "changes"}
    test = find_row_test(sql, {name: build_relation(state) for name, state in known.items()})
    states = {table: known[table] for table in test.tables}
    tables = [_describe_table(reader, state) for state in states.values()]
    definition = hash_definition(sql.strip(), tables, SessionState(spark.version, spark.conf.getAll).encode())
    versions = {role: states[table].version for role, table in zip(_ROLES, test.tables, strict=False)}
    return PlannedTest(test, states, PassedTest(definition, versions))


def _describe_table(reader: CatalogReader, state: SourceState) -> tuple[str, ...]:
    """Returns texts for the key and the columns of an arctic table; a column that was replaced has another id."""
    changes = find_table(reader, state.log)
    assert changes is not None
    columns = (f"{part.field_id} {part.name} {part.field_type}" for part in changes.schema().fields)
    return (str(state.name), str(state.key), *columns)


def restrict_planned_test(
    reader: CatalogReader, planned: PlannedTest, last: PassedTest | None, sql: str, spark: SparkSession
) -> RestrictedTest | None:
    """Creates temporary views with the rows that a test looks at since its pass `last`, and returns its query on these.

    None if the test had another definition then. Raises NotMaintained if not all changes since can be read.
    """
    # Imported here, since dbt starts without pyspark.
    from arctic_runtime.spark.refresh.query_inputs import select_tested_rows

    passed, test, states = planned.passed, planned.test, planned.states
    if last is None or last.definition != passed.definition or last.versions.keys() != passed.versions.keys():
        return None
    windows = {
        table: find_changes_since(states[table], last.versions[role], reader.thresholds.incremental)
        for role, table in zip(_ROLES, test.tables, strict=False)
    }
    views = {table: quote_name(format_image_view("tested", table)) for table in test.tables}
    restricted = sql
    for table, view in views.items():
        restricted = replace_relation(restricted, quote_name(*table.parts), view)
    for table, rows in select_tested_rows(spark, test, states, windows, reader.thresholds.pruning).items():
        rows.createOrReplaceTempView(views[table])
    state = states[test.table]
    return RestrictedTest(restricted, state.count_rows_in(windows[test.table]), state.rows)


def has_default_settings(node: Mapping[str, Any]) -> bool:
    """Whether a test fails because of any row, and neither stores its rows nor looks at some of them."""
    config = node.get("config") or {}
    is_usual = all("".join(str(config.get(key, value)).lower().split()) == value for key, value in _FAILS.items())
    return is_usual and all(config.get(key) is None or config.get(key) is False for key in _NOT_SET)


logger = AdapterLogger("Arctic")


@dataclass
class ChangedRowsResponse(AdapterResponse):
    """dbt's response for a test that looked only at changed rows, as `run_results.json` stores it."""

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
        """Returns the query of a test, changed to look only at changed rows if that is enough.

        `models` are the tables of the project's arctic models. With `all_rows`, the query stays as it is.
        """
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
