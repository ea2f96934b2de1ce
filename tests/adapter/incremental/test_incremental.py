"""dbt's own incremental models, by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import run_dbt


@pytest.mark.slow
class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass


@pytest.mark.slow
class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


@pytest.mark.slow
class TestIncrementalUniqueKey(BaseIncrementalUniqueKey):
    pass


class Predicates(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        strategy = self.strategy  # type: ignore[attr-defined]
        return {"models": {"+predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": strategy}}


class TestPredicatesMerge(Predicates):
    strategy = "merge"


@pytest.mark.slow
class TestPredicatesDeleteInsert(Predicates):
    strategy = "delete+insert"


@pytest.mark.slow
class TestMicrobatch(BaseMicrobatch):
    pass


OVERWRITE = """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['day'],
          tblproperties={'write.metadata.delete-after-commit.enabled': 'true'}) }}
{% if is_incremental() %} select 1 as day, 10 as amount union all select 3, 30
{% else %} select 1 as day, 1 as amount union all select 2, 2 {% endif %}
"""


class TestInsertOverwrite:
    """Only the partitions that the new rows touch are replaced, and the setting for that stays in its model."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m.sql": OVERWRITE}

    def test_other_partitions_stay(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run"])
        rows = project.run_sql(f"select day, amount from `lake`.{project.test_schema}.m order by day", fetch="all")
        assert rows == [(1, 10), (2, 2), (3, 30)]
        mode = project.run_sql("set spark.sql.sources.partitionOverwriteMode", fetch="all")
        assert mode[0][1].lower() == "static"


HALVES = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id', alias='it`s') }}
select 1 as id, {% if is_incremental() %} {{ var('value') }} {% else %} 'old' {% endif %} as v
"""
BATCHES = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='day',
          begin='2025-01-01', partition_by=['months(at)'], unique_key='id') }}
select id, at, n from {{ ref('events') }}
"""
EVENTS = """
{{ config(materialized='table', event_time='at') }}
select id, timestamp'2025-01-01 12:00:00' + make_dt_interval(id) as at, {{ var('n', 0) }} as n from range(3)
where id not in ({{ var('gone', -1) }})
"""
DAY = ["--event-time-start", "2025-01-02", "--event-time-end", "2025-01-03"]


class TestIncrementsOfTwoStatements:
    """Rows are deleted and inserted in one step: whoever reads, or comes after a crash, sees all of it or nothing."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"halves.sql": HALVES, "batches.sql": BATCHES, "events.sql": EVENTS}

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        return sorted(project.run_sql(f"select * from `lake`.{project.test_schema}.{name}", fetch="all"))

    def test_where_the_second_fails_the_first_has_not_happened(self, project: Any) -> None:
        run_dbt(["run", "--select", "halves"])
        for value in ("cast(array(1) as string) || raise_error('now')", "'new'"):
            run_dbt(["run", "--select", "halves", "--vars", f'{{value: "{value}"}}'], expect_pass="new" in value)
            expected = "new" if "new" in value else "old"
            assert self.rows(project, "`it``s`") == [(1, expected)]
        reader = project.adapter.catalog_reader
        assert set(reader.load_table(project.test_schema, "it`s").metadata.refs) == {"main"}
        assert not [name for name in reader.list_relations(project.test_schema) if "__dbt_tmp" in name]

    @pytest.mark.slow
    def test_branches_of_runs_that_died_are_dropped_once_they_are_behind(
        self, project: Any, under: Callable[..., None]
    ) -> None:
        under(expiry={"abandoned_branch_seconds": -1})
        run_dbt(["run", "--select", "halves", "--full-refresh"])
        project.run_sql(f"alter table `lake`.{project.test_schema}.`it``s` create branch arctic_died")
        project.run_sql(f"alter table `lake`.{project.test_schema}.`it``s` create branch mine")
        for value, kept in (("'b'", {"main", "mine", "arctic_died"}), ("'c'", {"main", "mine"})):
            run_dbt(["run", "--select", "halves", "--vars", f'{{value: "{value}"}}'])
            table = project.adapter.catalog_reader.load_table(project.test_schema, "it`s")
            assert set(table.metadata.refs) == kept

    def test_a_batch_replaces_its_time_window_and_not_its_partition(self, project: Any) -> None:
        run_dbt(
            ["run", "--select", "events batches", "--event-time-start", "2025-01-01", "--event-time-end", "2025-01-04"]
        )
        assert [(row[0], row[2]) for row in self.rows(project, "batches")] == [(0, 0), (1, 0), (2, 0)]
        run_dbt(["run", "--select", "events batches", *DAY, "--vars", "n: 5"])
        assert [(row[0], row[2]) for row in self.rows(project, "batches")] == [(0, 0), (1, 5), (2, 0)]
        run_dbt(["run", "--select", "events batches", *DAY, "--vars", "gone: 1"])
        assert [(row[0], row[2]) for row in self.rows(project, "batches")] == [(0, 0), (2, 0)]


DATED = """
{{ config(materialized='table', event_time='day of') }}
select id, DAY as `day of`, {{ var('n', 0) }} as n from range(1, 3)
"""
BATCHES_OF_DAYS = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='day of', batch_size='day',
          begin='2025-01-01') }}
select * from {{ ref('SOURCE') }}
"""
DAYS = {
    "dates": "date'2025-01-01' + cast(id as int)",
    "local": "timestamp_ntz'2025-01-01 00:00:00' + make_dt_interval(id)",
    "texts": "'2025-01-0' || (id + 1) || 'T00:00'",
}


@pytest.mark.in_turn
class TestBatchesOutsideUtc:
    """A batch deletes the rows that it reads again, and no others, wherever the session is."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any]) -> dict[str, Any]:
        settings = {**profile_target["server_side_parameters"], "spark.sql.session.timeZone": "Asia/Tokyo"}
        return {**profile_target, "server_side_parameters": settings}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        given = {f"given_{name}.sql": DATED.replace("DAY", day) for name, day in DAYS.items()}
        return given | {f"{day}.sql": BATCHES_OF_DAYS.replace("SOURCE", f"given_{day}") for day in DAYS}

    def test_rows_of_other_batches_stay_and_none_is_there_twice(self, project: Any) -> None:
        run_dbt(["run", "--event-time-start", "2025-01-02", "--event-time-end", "2025-01-04"])
        run_dbt(["run", *DAY, "--vars", "n: 5"])
        for day in DAYS:
            rows = project.run_sql(f"select id, n from `lake`.{project.test_schema}.{day} order by id", fetch="all")
            assert [tuple(row) for row in rows] == [(1, 5), (2, 0)], day
