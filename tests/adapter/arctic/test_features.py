"""dbt's own features on arctic models: samples, unit tests, deferral, changed configuration and schemas."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

EVENTS = """
{{ config(materialized='table', event_time='at') }}
select id, timestamp'2025-01-01 00:00:00' + make_dt_interval(id) as at from range({{ var('days', 3) }})
"""
COPY = "{{ config(materialized='arctic', primary_key='id') }} select id, at from {{ ref('events') }}"
JOURNAL = """
{{ config(materialized='arctic', primary_key='id', input='changes') }} select id, at from {{ changes(ref('events')) }}
"""
SAMPLE = "--sample={'start': '2025-01-02', 'end': '2025-01-04'}"


def ids(project: Any, name: str) -> list[int]:
    return sorted(row[0] for row in project.run_sql(f"select id from `lake`.{project.test_schema}.{name}", fetch="all"))


def messages(results: Any) -> dict[str, str]:
    return {result.node.name: result.message for result in results}


@pytest.mark.slow
class TestSample:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"events.sql": EVENTS, "copy.sql": COPY, "journal.sql": JOURNAL}

    def test_a_sample_makes_a_table_and_deletes_rows_only_when_asked_to(self, project: Any) -> None:
        run_dbt(["run", "--select", "events"])
        assert messages(run_dbt(["run", "--select", "copy", SAMPLE])) == {"copy": "create +2 ~0 -0"}
        assert ids(project, "copy") == [1, 2]
        assert messages(run_dbt(["run", "--select", "copy"])) == {"copy": "incremental +1 ~0 -0"}
        refused = run_dbt(["run", "--select", "copy", SAMPLE], expect_pass=False).results[0].message
        assert "add --full-refresh" in refused
        assert ids(project, "copy") == [0, 1, 2]
        results = run_dbt(["run", "--select", "copy", SAMPLE, "--full-refresh"])
        assert messages(results) == {"copy": "full +0 ~0 -1"}

    def test_events_are_not_sampled_since_each_counts_once(self, project: Any) -> None:
        refused = run_dbt(["run", "--select", "journal", SAMPLE], expect_pass=False).results[0].message
        assert "a run reads each new row only once" in refused


UP = "{{ config(materialized='arctic', primary_key='id') }} select id, v from values (1, 'a'), (2, 'b') as t(id, v)"
DOWN = "{{ config(materialized='arctic', primary_key='v') }} select v, count(*) as n from {{ ref('up') }} group by v"
AUDIT = """
{{ config(materialized='arctic', primary_key='id', input='changes', delete_when="_action = 'delete'",
          exclude_columns='_action') }}
select id, v, _action from {{ changes(ref('up')) }}
"""
UNIT_TESTS = """
unit_tests:
  - name: rows_are_counted
    model: down
    given:
      - input: ref('up')
        rows: [{id: 1, v: x}, {id: 2, v: x}, {id: 3, v: y}]
    expect:
      rows: [{v: x, n: 2}, {v: y, n: 1}]
  - name: given_rows_are_the_changes
    model: audit
    given:
      - input: ref('up')
        format: sql
        rows: select 1 as id, 'x' as v, 'delete' as _action
    expect:
      rows: [{id: 1, v: x, _action: delete}]
"""


@pytest.mark.in_turn
class TestUnitTestsAndDeferral:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"up.sql": UP, "down.sql": DOWN, "audit.sql": AUDIT, "unit.yml": UNIT_TESTS}

    def test_given_rows_stand_for_an_arctic_upstream_and_for_its_changes(self, project: Any) -> None:
        run_dbt(["run", "--select", "up"])
        assert len(run_dbt(["test", "--select", "test_type:unit"])) == 2

    def test_a_deferred_upstream_is_followed_where_it_is(self, project: Any) -> None:
        run_dbt(["run", "--select", "up"])
        shutil.copytree("target", "state", dirs_exist_ok=True)
        write_file(UP.replace("'arctic'", "'arctic', schema='else'"), "models", "up.sql")
        results = run_dbt(["run", "--select", "down", "--defer", "--state", "state"])
        assert messages(results) == {"down": "create +2 ~0 -0"}
        assert "test.up" in run_dbt(["ls", "--select", "state:modified", "--state", "state"])


LAID_OUT = """
{{ config(materialized='arctic', primary_key='id', sort_key=var('sort_key', none),
          on_configuration_change=var('then', 'apply')) }}
select id, v from {{ ref('up') }}
"""


class TestChangedConfiguration:
    """`on_configuration_change` decides what becomes of another layout."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"up.sql": UP, "m.sql": LAID_OUT}

    def sorted_by(self, project: Any) -> list[str]:
        table = project.adapter.catalog_reader.load_table(project.test_schema, "m")
        return [table.schema().find_column_name(field.source_id) for field in table.sort_order().fields]

    def test_it_is_applied_left_or_refused(self, project: Any) -> None:
        run_dbt(["run"])
        assert self.sorted_by(project) == []
        left = run_dbt(["run", "--vars", "{sort_key: v, then: continue}"])
        assert messages(left)["m"] == "unchanged"
        refused = run_dbt(["run", "--vars", "{sort_key: v, then: fail}"], expect_pass=False)
        assert "the layout of the table differs" in messages(refused)["m"]
        assert self.sorted_by(project) == []
        assert messages(run_dbt(["run", "--vars", "{sort_key: v}"]))["m"] == "unchanged"
        assert self.sorted_by(project) == ["v"]
        assert messages(run_dbt(["run"]))["m"] == "unchanged"
        assert self.sorted_by(project) == []


EVOLVING = """
{{ config(materialized='arctic', primary_key='id', on_schema_change='%s') }}
select {{ var('columns', 'id, v') }} from {{ ref('up') }}
"""


@pytest.mark.slow
class TestSchemaChanges:
    """`on_schema_change`, as in the suite for incremental models."""

    KEPT = (
        ("append_new_columns", "id v w", "id v w"),
        ("sync_all_columns", "id v w", "id"),
        ("ignore", "id v", "id v"),
    )

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"up.sql": UP} | {f"{policy}.sql": EVOLVING % policy for policy in ("fail", *[k[0] for k in self.KEPT])}

    def columns(self, project: Any, name: str) -> str:
        described = project.adapter.catalog_reader.describe_relation(project.test_schema, name)
        return " ".join(column.name for column in described.columns)

    def test_columns_come_and_go_as_configured(self, project: Any) -> None:
        run_dbt(["run"])
        for columns, place in (("id, v, 'new' as w", 1), ("id", 2)):
            results = run_dbt(["run", "--vars", f'{{columns: "{columns}"}}'], expect_pass=False)
            assert [result.node.name for result in results if result.status == "error"] == ["fail"]
            for kept in self.KEPT:
                assert self.columns(project, kept[0]) == kept[place], kept
        assert self.columns(project, "fail") == "id v"


CHECKED = """
{{ config(materialized='arctic', primary_key='id', merge='on_read') }}
select id, `a b` from {{ ref('landed') }}
"""
CHECKED_EVENTS = """
{{ config(materialized='arctic', primary_key='id', input='changes', changelog='input') }}
select id, `a b` from {{ changes(ref('landed')) }}
"""
LANDED = """
{{ config(materialized='incremental') }}
select {{ var('id') }} as id, '{{ var('value') }}' as `a b`
"""
CONTRACT = """
    config: {contract: {enforced: true}}
    constraints: [{type: check, expression: "`a b` <> 'bad' and id < 100"}]
    columns:
      - {name: id, data_type: int, constraints: [{type: check, expression: ID > 0}]}
      - {name: a b, quote: true, data_type: string}
"""


class TestChecks:
    """Check constraints of a contract hold for every row that is written."""

    NAMES = ("rows", "events")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        properties = "models:\n" + "".join(f"  - name: {name}{CONTRACT}" for name in self.NAMES)
        return {"landed.sql": LANDED, "rows.sql": CHECKED, "events.sql": CHECKED_EVENTS, "schema.yml": properties}

    def run(self, identifier: int, value: str, expect_pass: bool = True) -> dict[str, str]:
        return messages(run_dbt(["run", "--vars", f"{{id: {identifier}, value: {value}}}"], expect_pass=expect_pass))

    def check_refused(self, project: Any, names: tuple[str, ...], identifier: int, value: str, check: str) -> None:
        said = self.run(identifier, value, expect_pass=False)
        for name in names:
            assert "1 row(s) of the query have a broken check" in said[name]
            assert check in said[name]
            assert ids(project, name) == [7]

    def test_a_row_that_breaks_one_is_reported_and_nothing_is_written(self, project: Any) -> None:
        self.run(7, "good")
        self.check_refused(project, self.NAMES, 1, "bad", "`a b` <> 'bad'")
        project.run_sql(f"delete from `lake`.{project.test_schema}.landed where id = 1")
        self.check_refused(project, ("rows",), -1, "good", "ID > 0")
