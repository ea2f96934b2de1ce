"""Plans how one test of a build looks at changed rows, by the versions with which tests passed in earlier builds.

The query of a test is taken as dbt compiles it, and only names of tables in it are replaced. It stays as it is if
`ivm/row_tests` does not know that changed rows are enough.

These versions are a property of the change table, so that a build publishes them together with the rows. An entry stays
true when the table changes: it is about a version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from arctic_runtime.catalog.observation.tables import observe_readable
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.errors import CorruptState
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.ivm.row_tests import RowTest, find_row_test
from arctic_runtime.model.names import TableName, format_image_view
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, decode_versions
from arctic_runtime.plan.refresh.fingerprint import hash_session
from arctic_runtime.plan.refresh.increment import build_relation
from arctic_runtime.plan.row_tests import find_changes_since, hash_definition, replace_relation
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.tested_rows import select_tested_rows


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


def encode_passed_tests(tests: Mapping[str, PassedTest], most: int) -> str:
    """Encodes tests, by their hashed names, as one line of JSON; keeps the `most` with the newest versions."""
    newest = sorted(tests.items(), key=lambda item: (-_get_sequence(item[1]), item[0]))[:most]
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
    """A test for which changed rows are enough: the tables as it sees them, and its entry if it passes."""

    test: RowTest
    states: Mapping[TableName, SourceState]
    passed: PassedTest


@dataclass(frozen=True)
class RestrictedTest:
    """A test's query over changed rows alone, the number of change rows, and that of all rows."""

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
    definition = hash_definition(sql.strip(), tables, hash_session(spark.version, spark.conf.getAll))
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
