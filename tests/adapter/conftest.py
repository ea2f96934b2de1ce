"""dbt-tests-adapter's classes against an embedded warehouse: one Spark and one warehouse per test process.

The suites' own preparatory SQL is written for Postgres; `run_sql` makes it Spark's.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from dbt.tests.fixtures.project import *  # noqa: F403
from dbt.tests.fixtures.project import TestProjInfo as ProjectInfo
from sqlglot import exp

from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.session_pool import stop_all_pools
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.impl import ArcticAdapter
from tests.java import INTERPRETED
from tests.thresholds import STEADY, changed


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory, embedded: Callable[..., Profile]) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("warehouse")
    yield folder
    stop_all_pools()
    server.stop_server(embedded(folder))


@pytest.fixture(scope="session", autouse=True)
def suites_for_spark() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArcticAdapter, "run_sql_for_tests", run_sql)
        patch.setattr(ProjectInfo, "get_tables_in_schema", tables_in_schema)
        yield


@pytest.fixture(scope="session", autouse=True)
def steady_thresholds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArcticCredentials, "thresholds", STEADY)
        yield


@pytest.fixture
def under(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes the thresholds of all later dbt commands of a test: `under(expiry={"snapshots": 1})`."""

    def change(**groups: dict[str, Any]) -> None:
        monkeypatch.setattr(ArcticCredentials, "thresholds", changed(ArcticCredentials.thresholds, **groups))

    return change


@pytest.fixture(scope="class")
def dbt_profile_target(profile_target: dict[str, Any]) -> dict[str, Any]:
    return profile_target


@pytest.fixture(scope="session")
def profile_target(warehouse: Path, spark_settings: dict[str, str], method: dict[str, Any]) -> dict[str, Any]:
    """A target whose Spark compiles no plans; that of the sample project does, as a user's."""
    return {
        "type": "arctic",
        **method,
        "warehouse": str(warehouse),
        "threads": 2,
        "server_side_parameters": {**spark_settings, **INTERPRETED},
    }


@pytest.fixture(scope="class")
def profile_user() -> str:
    return getpass.getuser()


def run_sql(adapter: ArcticAdapter, sql: str, fetch: str, conn: Any) -> Any:
    """Replaces the adapter's `run_sql_for_tests`, which exists for test suites alone."""
    cursor = conn.handle.cursor()
    for statement in sqlglot.parse(sql, read="spark" if "`" in sql else "postgres"):
        if isinstance(statement, exp.Drop) and statement.kind == "SCHEMA":
            schema = next(statement.find_all(exp.Table)).db or next(statement.find_all(exp.Table)).name
            adapter.drop_schema(adapter.Relation.create(database=adapter.profile.catalog, schema=schema))
        elif statement is not None:
            cursor.execute(_in_spark(adapter, statement).sql(dialect="spark"))
    return {"one": cursor.fetchone, "all": cursor.fetchall}.get(fetch, lambda: None)()


def tables_in_schema(project: ProjectInfo) -> dict[str, str]:
    relation = project.adapter.Relation.create(database=project.database, schema=project.test_schema)
    return {r.identifier: str(r.type) for r in project.adapter.list_relations_without_caching(relation)}


def _in_spark(adapter: ArcticAdapter, statement: exp.Expression) -> exp.Expression:
    """Rows cast to the table's types, as Postgres does by itself; no lengths of strings and no defaults."""
    if isinstance(statement, exp.Insert) and isinstance(statement.expression, exp.Values):
        return _with_casts(adapter, statement)
    if isinstance(statement, (exp.Create, exp.Alter)):
        for constraint in list(statement.find_all(exp.DefaultColumnConstraint)):
            constraint.parent.pop()
        for kind in list(statement.find_all(exp.DataType)):
            if kind.this in exp.DataType.TEXT_TYPES:
                kind.replace(exp.DataType.build("text"))
    return statement


def _with_casts(adapter: ArcticAdapter, statement: exp.Insert) -> exp.Insert:
    target = statement.this
    table = target.this if isinstance(target, exp.Schema) else target
    relation = adapter.Relation.create(
        database=table.catalog or adapter.profile.catalog, schema=table.db, identifier=table.name
    )
    types = {column.name.lower(): column.dtype for column in adapter.get_columns_in_relation(relation)}
    named = [c.name for c in target.expressions] if isinstance(target, exp.Schema) else list(types)
    values = exp.alias_(statement.expression.copy(), "v", table=[f"c{i}" for i in range(len(named))])
    casts = [
        exp.cast(exp.column(f"c{i}"), exp.DataType.build(types[name.lower()], dialect="spark"))
        for i, name in enumerate(named)
    ]
    statement.set("expression", exp.select(*casts).from_(values))
    return statement
