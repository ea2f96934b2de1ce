"""Upkeep and declared rows as dbt users ask for them: in hooks and as operations, by the model's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from arctic_runtime.plan.config import maintenance_settings as upkeep

ORDERS = """
{{ config(materialized='arctic', primary_key='id', partition_by='region', compaction='off', alias='or`ders',
          retention={'versions': '1m'}, post_hook=var('hooks', [])) }}
select id, region, {{ var('v') }} * id as v from values (1, 'eu'), (2, 'us'), (3, 'eu') as t(id, region)
"""
DOWN = """
{{ config(materialized='arctic', primary_key='region', retention='off') }}
select region, sum(v) as v from {{ ref('orders') }} group by region
"""
HOOKS = """{hooks: ["{{ arctic_compact(this, 'full') }}", "{{ arctic_expire(this) }}"], v: %s}"""

ACCOUNTS = """
{{ config(materialized='arctic', input='changes', primary_key='id', sequence_by='nr', partition_by='region',
          pre_hook=var('hooks', [])) }}
select * from {{ changes(ref('events')) }}
"""
EVENTS = """
{{ config(materialized='table') }}
select * from values (1, 'eu', 10, 1), (2, 'us', 20, 2), (3, 'eu', 30, 9) as t(id, region, v, nr)
"""
EXTRACT = """
{{ config(materialized='view') }}
select * from values (1, 'eu', 11, 5) as t(id, region, v, nr)
"""


def operate(name: str, arguments: str, expect_pass: bool = True) -> str:
    _, log = run_dbt_and_capture(["run-operation", name, "--args", arguments], expect_pass=expect_pass)
    return str(log)


class TestOverwrite:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"accounts.sql": ACCOUNTS, "events.sql": EVENTS, "extract.sql": EXTRACT}

    @pytest.fixture(scope="class")
    def built(self, project: Any) -> Any:
        run_dbt(["run"])
        return project

    def rows(self, project: Any) -> list[tuple[Any, ...]]:
        rows = project.run_sql("select id, region, v from {database}.{schema}.accounts order by id", fetch="all")
        return [tuple(row) for row in rows]

    def test_rows_are_declared_by_an_operation_and_in_a_hook(self, built: Any) -> None:
        said = operate("arctic_overwrite", "{model: accounts, source: extract, as_of: 5, partition: {region: eu}}")
        assert f"{built.test_schema}.accounts: as of 5 +0 ~1 -0" in said
        assert self.rows(built) == [(1, "eu", 11), (2, "us", 20), (3, "eu", 30)]
        hook = """{hooks: ["{{ arctic_overwrite(this, ref('extract'), 8) }}"]}"""
        _, log = run_dbt_and_capture(["run", "--select", "accounts", "--vars", hook])
        assert "accounts: as of 8 +0 ~0 -1" in log
        assert self.rows(built) == [(1, "eu", 11), (3, "eu", 30)]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ("source: extract, as_of: null", "`as_of` has no value"),
            ("source: extract, as_of: 9, partition: {region: null}", "`partition.region` has no value"),
            ("source: extract, as_of: 9, partition: {id: 1}", "expected: a value for each of region"),
            ("source: extract, as_of: soon", "'soon' is not a valid position in the order of events"),
            ("source: nothing, as_of: 9", "`nothing` cannot be found"),
            ("source: a-b, as_of: 9", "'a-b' is not a valid table name"),
        ],
    )
    def test_what_is_declared_wrongly_is_said(self, built: Any, arguments: str, expected: str) -> None:
        before = self.rows(built)
        assert expected in operate("arctic_overwrite", f"{{model: accounts, {arguments}}}", False)
        assert self.rows(built) == before


@pytest.mark.in_turn
class TestUpkeep:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "down.sql": DOWN}

    def files(self, project: Any) -> list[tuple[Any, ...]]:
        name = f"`lake`.`{project.test_schema}`.`or``ders`.files"
        return sorted(project.run_sql(f"select `partition`.region, count(*) from {name} group by 1", fetch="all"))

    def test_hooks_and_operations_look_after_a_table_and_readers_stay_incremental(
        self, project: Any, under: Callable[..., None]
    ) -> None:
        under(merge={"overwritten_share": 100.0})
        for v in (1, 2):
            run_dbt(["run", "--vars", f"v: {v}"])
        assert [count for _, count in self.files(project)] == [3, 3]
        assert "not called" not in operate("arctic_status", "{model: orders}")
        _, log = run_dbt_and_capture(["run", "--vars", HOOKS % 3])
        assert "done: rewrite" in log
        assert "and newer:" in log
        assert [count for _, count in self.files(project)] == [1, 1]
        assert {r.message for r in run_dbt(["run", "--vars", "v: 3"])} == {"unchanged"}
        assert "nothing to compact" in operate("arctic_compact", "{model: orders, mode: full}")
        assert "nothing to split" in operate("arctic_split", "{model: orders}")
        assert "has read up to it" in operate("arctic_expire", "{model: orders}")
        assert f"read by lake.{project.test_schema}.down: 0 commits behind" in operate(
            "arctic_status", "{model: orders}"
        )
        assert {r.node.name: r.message for r in run_dbt(["run", "--vars", "v: 4"])}["down"] == "incremental +0 ~2 -0"

    @pytest.mark.slow
    def test_an_operation_goes_back_to_a_savepoint(self, project: Any) -> None:
        (result,) = run_dbt(["run", "--select", "orders", "--vars", "v: 6"])
        version = result.adapter_response["version"]
        run_dbt(["run", "--select", "orders", "--vars", "v: 7"])
        said = operate("arctic_savepoint", f"{{model: orders, name: good, version: {version}}}")
        assert f"savepoint good at version {version}" in said
        assert f"savepoint good: version {version}" in operate("arctic_status", "{model: orders}")
        assert "restored +0 ~3 -0" in operate("arctic_restore", "{model: orders, version: good}")
        assert "dropped savepoint good" in operate("arctic_savepoint", "{model: orders, name: good, drop: true}")

    @pytest.mark.slow
    def test_a_run_lets_old_versions_go_by_itself_but_not_those_that_a_reader_needs(
        self, project: Any, under: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(upkeep, "_SECONDS", {"m": 0})
        under(expiry={"snapshots": 1})
        run_dbt(["run", "--full-refresh", "--no-partial-parse", "--vars", "v: 10"])
        versions = f"select count(*) from `lake`.`{project.test_schema}`.`or``ders__changes`.snapshots"
        for v in (11, 12):
            run_dbt(["run", "--select", "orders", "--vars", f"v: {v}"])
        assert project.run_sql(versions, fetch="one")[0] == 3
        run_dbt(["run", "--select", "down", "--vars", "v: 12"])
        run_dbt(["run", "--select", "orders", "--vars", "v: 13"])
        assert project.run_sql(versions, fetch="one")[0] == 2

    def test_upkeep_after_a_run_that_fails_is_a_warning_and_the_run_a_success(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("no space left on device")

        monkeypatch.setattr("arctic_runtime.spark.maintenance.compaction.compact_if_due", fail)
        monkeypatch.setattr("arctic_runtime.spark.maintenance.expiry.expire_if_due", fail)
        results, log = run_dbt_and_capture(["run", "--select", "orders", "--vars", "v: 20"])
        (result,) = results
        assert (result.status, result.message) == ("success", "incremental +0 ~3 -0; compaction failed; expiry failed")
        assert result.adapter_response["failures"] == dict.fromkeys(("compaction", "expiry"), "no space left on device")
        assert "the rows of this run are committed, but the compaction after it failed" in log
        assert {r.message for r in run_dbt(["run", "--select", "orders", "--vars", "v: 20"])} == {"unchanged"}

    def test_what_is_asked_for_wrongly_is_said(self, project: Any) -> None:
        assert "no arctic model is named nobody" in operate("arctic_compact", "{model: nobody}", False)
        said = operate("arctic_compact", "{model: orders, mode: hard}", False)
        assert "unknown compaction mode 'hard'; expected one of auto, minor, major, full" in said
        assert "nothing can expire" in operate("arctic_expire", "{model: down}", False)
        said = operate("arctic_restore", "{model: down, version: yesterday}", False)
        assert "has no savepoint yesterday" in said

    def test_retention_is_checked_when_the_project_is_parsed(self, project: Any) -> None:
        write_file(ORDERS.replace("'1m'", "'soon'"), "models", "orders.sql")
        with pytest.raises(Exception, match="must be an age in minutes"):
            run_dbt(["parse"])
        write_file(ORDERS, "models", "orders.sql")
