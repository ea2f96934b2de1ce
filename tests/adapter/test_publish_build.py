"""`publish: build`: readers see the models of a build after its tests, all at once, or none of what failed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import EFFECTS, set_failpoint
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshWorkers, Report
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.session_pool import get_pool, lend_session
from dbt.adapters.arctic import cli
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location

ORDERS = """{{ config(materialized='arctic', primary_key='id', meta={'arctic': {'test_after_refresh': true}}) }}
select id, customer, amount from {{ source('raw', 'orders') }}
"""
BY_CUSTOMER = """{{ config(materialized='arctic', primary_key='customer', merge='on_read') }}
select customer, sum(amount) as total from {{ ref('orders') }} group by customer
"""
OTHER = """{{ config(materialized='table') }}
select count(*) as n from {{ source('raw', 'orders') }}
"""
YAML = """
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables: [{name: orders, identifier: raw_orders}]
models:
  - name: orders
    columns:
      - name: amount
        data_tests: [not_null]
  - name: by_customer
    columns:
      - name: customer
        data_tests: [not_null]
"""

OF_STEPS = {"build.drop", "build.note_record", "build.remove_record", "build.write_record"}
"""Effects of publications in several steps, which a catalog in a database does not need."""


class TestPublishBuild:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "by_customer.sql": BY_CUSTOMER, "other.sql": OTHER, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**profile_target, "publish": "build"}

    @pytest.fixture(autouse=True)
    def raw_orders(self, project: Any) -> Iterator[None]:
        self.sql(project, "create or replace table lake.{schema}.raw_orders (id int, customer string, amount int)")
        self.sql(project, "insert into lake.{schema}.raw_orders values (1, 'a', 10), (2, 'b', 20)")
        yield
        # Asked of the catalog: dbt's cache does not know what another process or a service has made.
        with project.adapter.connection_named("__test"):
            schema = project.adapter.Relation.create(database=project.database, schema=project.test_schema)
            for relation in project.adapter.list_relations_without_caching(schema):
                project.adapter.drop_relation(relation)

    def sql(self, project: Any, text: str) -> Any:
        return project.run_sql(text.format(schema=project.test_schema), fetch="all")

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.sql(project, f"select * from lake.{{schema}}.{name}")))

    def relations(self, project: Any) -> set[str]:
        return set(CatalogReader(project.adapter.profile).list_relations(project.test_schema))

    def test_published_together(self, project: Any) -> None:
        seen: dict[str, set[str]] = {}
        reader = CatalogReader(project.adapter.profile)

        def look(name: str, action: Any) -> Any:
            if "build.publish" not in seen:
                seen[name] = set(reader.list_relations(project.test_schema))
            return action()

        with set_failpoint(look):
            run_dbt(["build"])
        assert {"changes.create", "commit.append", "view.replace", "build.publish"} <= set(seen)
        assert all(relations == {"raw_orders"} for relations in seen.values())
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert self.rows(project, "other") == [(2,)]

    def test_failed_test(self, project: Any) -> None:
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'a', null)")
        run_dbt(["build"], expect_pass=False)
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert self.rows(project, "other") == [(3,)]
        self.sql(project, "update lake.{schema}.raw_orders set amount = 5 where id = 3")
        results = run_dbt(["build"])
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20), (3, "a", 5)]
        assert self.rows(project, "by_customer") == [("a", 15), ("b", 20)]
        messages = {result.node.name: result.message for result in results}
        assert messages["orders"].startswith("incremental +1")

    @pytest.mark.in_turn
    def test_rows_that_are_not_published_can_be_looked_at(self, project: Any, monkeypatch: Any, capsys: Any) -> None:
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'a', null)")
        run_dbt(["build"], expect_pass=False)
        (branch,) = Path(project.project_root, "target", "arctic_branches").glob("*.db")
        capsys.readouterr()
        run_dbt(["show", "--inline", "select count(*) as n from {{ ref('orders') }}"])
        assert "| 2 |" in capsys.readouterr().out
        monkeypatch.setenv("ARCTIC_BRANCH", str(branch))
        run_dbt(["show", "--inline", "select count(*) as n from {{ ref('orders') }}"])
        assert "| 3 |" in capsys.readouterr().out
        monkeypatch.delenv("ARCTIC_BRANCH")
        run_dbt(["show", "--inline", "select 1 as one"])
        self.sql(project, "delete from lake.{schema}.raw_orders where id = 3")
        run_dbt(["build"])
        assert list(branch.parent.iterdir()) == []

    @pytest.mark.in_turn
    def test_every_table_has_the_cut(self, project: Any) -> None:
        run_dbt(["build"])
        first = self.cuts(project)
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        run_dbt(["build"])
        (new,) = self.cuts(project) - first
        (old,) = first
        for name in ("orders", "other"):
            count = f"select count(*) from lake.{{schema}}.{name} version as of"
            assert len({self.sql(project, f"{count} '{cut}'")[0][0] for cut in (old, new)}) == (name == "orders") + 1
        self.sql(project, "insert into lake.{schema}.raw_orders values (4, 'c', null)")
        run_dbt(["build"], expect_pass=False)
        assert self.cuts(project) == {old, new}

    @pytest.mark.in_turn
    def test_all_models_go_back_to_a_cut(self, project: Any, capsys: Any) -> None:
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        run_dbt(["build"])
        (old,) = self.cuts(project)
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        run_dbt(["build"])
        assert cli.main(["restore", "--cut", old, *folders]) == 0
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert cli.main(["restore", "--cut", old, *folders]) == 0
        run_dbt(["build"])
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 1)]
        capsys.readouterr()
        assert cli.main(["restore", "--cut", "build_20000101T000000Z_0000", *folders]) == 2
        assert old in capsys.readouterr().err
        assert cli.main(["restore", "--version", old, *folders]) == 2
        assert "found: 2 tables" in capsys.readouterr().err

    def cuts(self, project: Any) -> set[str]:
        rows = self.sql(project, "select name from lake.{schema}.orders__changes.refs where name like 'build%'")
        return {name for (name,) in rows}

    @pytest.mark.in_turn
    def test_another_writer(self, project: Any) -> None:
        run_dbt(["build"])
        before = self.rows(project, "orders")
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")

        def write_meanwhile(name: str, action: Callable[[], Any]) -> Any:
            if name == "build.publish":
                self.sql(project, "alter table lake.{schema}.orders__changes set tblproperties ('x' = 'y')")
            return action()

        with set_failpoint(write_meanwhile):
            error = run_dbt_error(["build"])
        assert "orders__changes" in str(error)
        assert "run the build again" in str(error)
        assert self.rows(project, "orders") == before
        assert self.rows(project, "other") == [(2,)]
        assert {result.status for result in run_dbt(["retry"])} == {"success", "pass"}
        assert self.rows(project, "other") == [(3,)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 1)]

    def test_source_written_often(self, project: Any) -> None:
        """A build reads its sources as they were at its begin, even if Iceberg deletes their metadata of then."""
        keep_one = "'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '1'"
        self.sql(project, f"alter table lake.{{schema}}.raw_orders set tblproperties ({keep_one})")

        def write_often(name: str, action: Callable[[], Any]) -> Any:
            if name == "changes.create" and not written:
                written.append(name)
                with lend_session(get_pool(profile)) as session:
                    for _ in range(3):
                        session().sql(f"insert into lake.{project.test_schema}.raw_orders values (9, 'z', 1)")
            return action()

        written: list[str] = []
        profile = project.adapter.profile
        with set_failpoint(write_often):
            run_dbt(["build"])
        assert written
        assert self.rows(project, "other") == [(2,)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]

    @pytest.mark.in_turn
    def test_retry_after_a_failed_test(self, project: Any) -> None:
        """What a failed test kept from publication is computed and tested again, not the test alone."""
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', null)")
        run_dbt(["build"], expect_pass=False)
        self.sql(project, "update lake.{schema}.raw_orders set amount = 5 where id = 3")
        retried = {result.node.name for result in run_dbt(["retry"])} - {"test-on-run-end-0"}
        assert retried == {"orders", "not_null_orders_amount", "by_customer", "not_null_by_customer_customer"}
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 5)]

    @pytest.mark.in_turn
    def test_retry_after_a_failed_hook(self, project: Any) -> None:
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        run_dbt(["build", "--vars", "{hook: select raise_error('no')}"], expect_pass=False)
        run_dbt(["retry", "--vars", "{hook: ''}"])
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 1)]

    @pytest.mark.in_turn
    def test_failed_hook(self, project: Any) -> None:
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        run_dbt(["build", "--vars", "{hook: select raise_error('no')}"], expect_pass=False)
        assert self.rows(project, "other") == [(2,)]
        run_dbt(["build", "--vars", "{hook: 'create table {{ target.schema }}.hooked as select 1 as one'}"])
        assert self.rows(project, "hooked") == [(1,)]
        assert self.rows(project, "other") == [(3,)]
        self.sql(project, "drop table lake.{schema}.hooked")

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"on-run-end": "{{ render(var('hook', '')) if var('hook', '') else '' }}"}

    @pytest.mark.in_turn
    def test_arctic_run_once(self, project: Any) -> None:
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        assert cli.main(["run", "--once", *folders]) == 0
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert len(self.cuts(project)) == 1
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        with set_failpoint(raise_at("build.publish")), pytest.raises(OSError, match="lost"):
            cli.main(["run", "--once", *folders])
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert cli.main(["run", "--once", *folders]) == 0
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 1)]

    def test_refreshes_of_a_service(self, project: Any) -> None:
        """A model with `test_after_refresh` is visible after its tests, and models below it read what is visible."""
        warnings: list[str] = []
        live = LiveProject(Location(Path(project.project_root), Path(project.profiles_dir)), warnings.append)
        assert live.list_tested_tables() == ()
        reports: list[Report] = []
        workers = RefreshWorkers(live.refresh_model, 2, live.prepare_thread)
        with Follower(SharedState(live.reader), workers, RefreshListeners(warnings.append, reports.append)) as follower:
            follower.follow_models(live.list_followed())
            follower.run_once()
            assert [report.status for report in reports] == ["refreshed", "refreshed"]
            assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
            self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'a', null)")
            reports.clear()
            follower.run_once()
            assert [report.status for report in reports] == ["failed", "skipped"]
            assert "1 of 1 tests failed" in reports[0].error
            assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        self.sql(project, "update lake.{schema}.raw_orders set amount = 5 where id = 3")
        reports.clear()
        with Follower(SharedState(live.reader), workers, RefreshListeners(warnings.append, reports.append)) as follower:
            follower.follow_models(live.list_followed())
            follower.run_once()
            assert [report.status for report in reports] == ["refreshed", "refreshed"]
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20), (3, "a", 5)]
        assert self.rows(project, "by_customer") == [("a", 15), ("b", 20)]

    @pytest.mark.slow
    @pytest.mark.parametrize("name", sorted({name for name in EFFECTS if name.startswith("build.")} - OF_STEPS))
    @pytest.mark.parametrize("moment", ["kill", "kill-after"])
    def test_killed(self, project: Any, name: str, moment: str) -> None:
        """All or nothing is visible after a kill, and the next build does the rest."""
        run_dbt(["build"])
        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'c', 1)")
        folders = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        environment = {**os.environ, "ARCTIC_FAILPOINTS": f"{name}={moment}", "PYTHONPATH": str(Path.cwd())}
        command = [sys.executable, "-m", "dbt.cli.main", "build", *folders]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        seen = (len(self.rows(project, "orders")), len(self.rows(project, "by_customer")), self.rows(project, "other"))
        assert seen in ((2, 2, [(2,)]), (3, 3, [(3,)]))
        run_dbt(["build"])
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20), ("c", 1)]
        assert self.rows(project, "other") == [(3,)]


def raise_at(effect: str) -> Callable[[str, Callable[[], Any]], Any]:
    def lose(name: str, action: Callable[[], Any]) -> Any:
        if name == effect:
            raise OSError("lost")
        return action()

    return lose


def run_dbt_error(arguments: list[str]) -> BaseException:
    """Runs dbt, which must fail, and returns its error."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        run_dbt(arguments)
    return raised.value
