"""What this adapter promises beyond what every adapter does."""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import get_connection, run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from arctic_runtime.spark.engine.session_pool import SessionPool
from dbt.adapters.arctic import cli

TABLE = "{{ config(materialized='table') }} select 1 as id"
VIEW = "{{ config(materialized='view') }} select 2 as id"


def rows(project: Any, sql: str) -> Any:
    return project.run_sql(sql, fetch="all")


class TestNothingStartsSpark:
    """Listing, creating a missing schema, documentation and parsing are answered by the catalog."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m.sql": "{{ config(materialized='ephemeral') }} select 1 as id"}

    def test_runs_without_work_take_no_session(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(pool: SessionPool) -> None:
            raise AssertionError("a session was taken")

        monkeypatch.setattr(SessionPool, "take_session", refuse)
        for command in (["parse"], ["run"], ["ls"], ["docs", "generate", "--no-compile"]):
            run_dbt(command)


class TestTypeSwitches:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m.sql": TABLE}

    def relations(self, project: Any) -> dict[str, str]:
        place = project.adapter.Relation.create(database="lake", schema=project.test_schema)
        return {r.identifier: str(r.type) for r in project.adapter.list_relations_without_caching(place)}

    def test_an_arctic_models_parts_go_when_another_materialization_takes_over(self, project: Any) -> None:
        table = f"`lake`.`{project.test_schema}`.`m`"
        rows(project, f"create table {table} tblproperties ('arctic.kind'='base', 'arctic.x'='1') as select 0 as id")
        rows(project, f"create table `lake`.`{project.test_schema}`.`m__changes` as select 0 as id")
        _, output = run_dbt_and_capture(["run"])
        assert "m__changes" in output
        assert self.relations(project) == {"m": "table"}
        assert rows(project, f"select * from {table}") == [(1,)]
        kept = project.adapter.catalog_reader.describe_relation(project.test_schema, "m").properties
        assert not [key for key in kept if key.startswith("arctic.")]

    def test_tables_become_views_and_tables_again(self, project: Any) -> None:
        for model, kind, value in ((VIEW, "view", 2), (TABLE, "table", 1)):
            write_file(model, "models", "m.sql")
            run_dbt(["run"])
            assert self.relations(project) == {"m": kind}
            assert rows(project, f"select * from `lake`.`{project.test_schema}`.`m`") == [(value,)]

    def test_a_view_stays_where_its_table_can_not_be_built(self, project: Any) -> None:
        write_file(VIEW, "models", "m.sql")
        run_dbt(["run"])
        write_file("{{ config(materialized='table') }} select nothing as id", "models", "m.sql")
        result = run_dbt(["run"], expect_pass=False).results[0]
        assert "UNRESOLVED_COLUMN" in result.message
        assert "'Project" not in result.message
        assert self.relations(project) == {"m": "view"}


@pytest.mark.slow
class TestOddNames:
    """Quotes, spaces, backticks, dots, reserved words and other scripts are names and never SQL."""

    ALIASES = ("we ird", "a`b", "it''s", "a.b", "select", "订单", "x; drop table y --")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        body = "select 1 as `a``b`, 2 as `x.y`, 3 as `订 单`, 4 as `order`"
        kinds = ("table", "view", "incremental")
        return {
            f"m{i}.sql": f"{{{{ config(materialized='{kinds[i % 3]}', alias=var('names')[{i}]) }}}} {body}"
            for i in range(len(self.ALIASES))
        } | {"down.sql": "select * from {{ ref('m1') }} union all select * from {{ ref('m6') }}"}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"vars": {"names": [*self.ALIASES]}, "models": {"+schema": "o dd`s'"}}

    def test_they_work(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run"])
        schema = project.test_schema + "_o dd`s'"
        relations = project.adapter.catalog_reader.list_relations(schema)
        assert set(relations) == {*self.ALIASES, "down"}
        run_dbt(["docs", "generate"])
        with get_connection(project.adapter):
            project.adapter.drop_schema(project.adapter.Relation.create(database="lake", schema=schema))
        assert schema not in project.adapter.catalog_reader.list_namespaces()


class TestAFileFormatThatAPackageLeavesEmpty:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"empty.sql": "{{ config(materialized='table', file_format='') }} select 1 as id"}

    def test_it_is_icebergs(self, project: Any) -> None:
        run_dbt(["run"])
        assert project.adapter.catalog_reader.load_table(project.test_schema, "empty").scan().count() == 1


class TestANameThatNoWarehouseCanHold:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"slash.sql": "{{ config(alias='a/b') }} select 1 as id"}

    def test_it_is_refused_before_anything_runs(self, project: Any) -> None:
        with pytest.raises(CompilationError, match="'a/b'; rename it"):
            run_dbt(["run"], expect_pass=False)


class TestConnections:
    def test_cancel_ends_what_runs_and_refuses_what_follows(self, project: Any) -> None:
        adapter, failed = project.adapter, []
        started = threading.Event()

        def endless() -> None:
            with adapter.connection_named("slow"):
                try:
                    adapter.execute("select 1", fetch=True)
                    started.set()
                    adapter.execute(
                        "select count(*) from range(1e12) a join range(1e12) b on a.id = b.id % 7", fetch=True
                    )
                except DbtRuntimeError as error:
                    failed.append(error)
                try:
                    adapter.execute("select 1", fetch=True)
                except DbtRuntimeError as error:
                    failed.append(error)

        thread = threading.Thread(target=endless)
        thread.start()
        assert started.wait(60)
        time.sleep(2)
        with adapter.connection_named("master"):
            assert adapter.cancel_open_connections() == ["slow"]
        thread.join(30)
        assert not thread.is_alive()
        assert "cancel" in str(failed[0]).lower()
        assert "The run was cancelled" in str(failed[1])

    def test_nothing_of_one_model_is_seen_by_the_next(self, project: Any) -> None:
        adapter = project.adapter
        with adapter.connection_named("one"):
            adapter.execute("create temporary view leftover as select 1 as id; set spark.sql.ansi.enabled = false")
        for name in ("two", "three"):
            with adapter.connection_named(name):
                with pytest.raises(DbtRuntimeError, match="TABLE_OR_VIEW_NOT_FOUND"):
                    adapter.execute("select * from leftover", fetch=True)
                _, table = adapter.execute("set spark.sql.ansi.enabled", fetch=True)
                assert str(table.rows[0][1]).lower() == "true"

    def test_bindings_are_values_and_never_sql(self, project: Any) -> None:
        values = ["it's; drop", 10**20, None, True]
        with get_connection(project.adapter):
            _, cursor = project.adapter.add_query("select ?, ?, ?, ?", auto_begin=False, bindings=values)
            assert [str(v) for v in cursor.fetchone()] == [str(v) for v in values]


class TestSourceFreshness:
    """The time of a source's newest snapshot, without reading a row."""

    @pytest.fixture(scope="class")
    def landing(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("landing")

    @pytest.fixture(scope="class")
    def models(self, landing: Path) -> dict[str, str]:
        freshness = {"freshness": {"error_after": {"count": 1, "period": "hour"}}}
        at = {"schema": "{{ target.schema }}"}
        ingest = {"connector": "files", "path": str(landing), "format": "rows"}
        events = {
            "name": "events",
            "columns": [{"name": "id", "data_type": "bigint"}],
            "config": {**freshness, "meta": {"arctic": {"primary_key": "id"}}},
        }
        plain = [{"name": name, "config": freshness} for name in ("orders", "nothing")]
        raw = {"name": "raw", **at, "tables": plain}
        shop = {"name": "shop", **at, "config": {"meta": {"arctic": {"ingest": ingest}}}, "tables": [events]}
        return {"sources.yml": yaml.safe_dump({"sources": [raw, shop]})}

    def test_a_new_snapshot_is_fresh(self, project: Any) -> None:
        rows(project, f"create table `lake`.`{project.test_schema}`.`orders` as select 1 as id")
        result = self.freshness("raw.orders")
        assert str(result.status) == "pass"
        assert result.age < 600

    def test_a_table_that_does_not_exist_is_named(self, project: Any) -> None:
        result = self.freshness("raw.nothing", expect_pass=False)
        assert "`nothing` is unknown" in result.message
        assert "what to do: create it" in result.message

    def test_a_source_without_changes_is_as_fresh_as_its_last_ingestion(self, project: Any, landing: Path) -> None:
        assert "run `arctic ingest`" in self.freshness("shop.events", expect_pass=False).message
        (landing / "events").mkdir()
        (landing / "events" / "1.json").write_text('{"id": 1}')
        ingest = ["ingest", "--once", "--project-dir", str(project.project_root)]
        ingest += ["--profiles-dir", str(project.profiles_dir)]
        problems = []
        for _ in range(2):
            before = dt.datetime.now(dt.timezone.utc)
            assert cli.main(ingest) == 0
            result = self.freshness("shop.events")
            assert str(result.status) == "pass"
            assert before <= result.max_loaded_at + dt.timedelta(milliseconds=1)
            table = project.adapter.catalog_reader.load_table(project.test_schema, "events__changes")
            problems.append((result.max_loaded_at, len(table.snapshots())))
        (first, snapshots), (second, later) = problems
        assert first < second
        assert snapshots == later

    def freshness(self, source: str, expect_pass: bool = True) -> Any:
        (result,) = run_dbt(["source", "freshness", "--select", f"source:{source}"], expect_pass=expect_pass).results
        return result
