"""Snapshots open and close versions for what changed, whatever the columns are called and wherever nulls are."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

UP = """
{{ config(materialized='table') }}
select `user id`, `Grp.x`, `order`, v, at as `at time` from values
  (1, 'a', 1, 0, timestamp'2024-01-01'), (1, null, 1, 0, timestamp'2024-01-01'),
  (1, '', 1, null, timestamp'2024-01-01'),
  (null, 'a|b', 2, {{ var('n', 0) }}, timestamp'2024-01-01' + make_dt_interval({{ var('n', 0) }})),
  (null, null, 2, {{ var('n', 0) }}, timestamp'2024-01-01' + make_dt_interval({{ var('n', 0) }}))
  as t(`user id`, `Grp.x`, `order`, v, at)
where not ({{ var('gone', 'false') }})
"""
KEY = "unique_key=['user id', 'GRP.x']"
META = (
    "snapshot_meta_column_names={'dbt_valid_to': 'Valid To', 'dbt_valid_from': 'from', 'dbt_scd_id': 'i`d', "
    "'dbt_updated_at': 'Updated', 'dbt_is_deleted': 'Gone'}"
)
CHECK_V = "strategy='check', check_cols=['v']"
ONE_TEXT = "coalesce(`user id`, 0) || '-' || coalesce(`Grp.x`, 'none')"
FOR_EVER = "dbt_valid_to_current=\"timestamp'9999-12-31'\""
SNAPSHOTS = {
    "by_all": f"{KEY}, strategy='check', check_cols='all'",
    "by_twins": f"{KEY}, strategy='check', check_cols=['v', 'V', '`v`']",
    "by_case": "unique_key=['`user id`', '`grp.X`'], strategy='check', check_cols=['V', 'AT TIME'], "
    "hard_deletes='invalidate'",
    "by_time": f"{KEY}, strategy='timestamp', updated_at='AT time', hard_deletes='invalidate'",
    "by_record": f"{KEY}, strategy='timestamp', updated_at='at time', hard_deletes='new_record'",
    "by_expression": f'unique_key="{ONE_TEXT}", {CHECK_V}',
    "until": f"{KEY}, {CHECK_V}, hard_deletes='new_record', {FOR_EVER}",
    "renamed": f"{KEY}, strategy='check', check_cols='all', hard_deletes='new_record', {META}",
}
SPELLED = "{% if var('n', 0) == 0 %} select * {% else %} select `USER ID`, `grp.x`, `ORDER`, V, `AT TIME` {% endif %}"
DELETES = {"by_case", "by_time", "by_record", "until", "renamed"}
RECORDS = {"by_record", "until", "renamed"}


def snapshot(name: str, config: str) -> str:
    return (
        "{% snapshot " + name + " %}{{ config(target_schema=target.schema, " + config + ") }}"
        + SPELLED + " from {{ ref('up') }} {% endsnapshot %}"
    )  # fmt: skip


@pytest.mark.slow
class TestSnapshotKeys:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"up.sql": UP}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {f"{name}.sql": snapshot(name, config) for name, config in SNAPSHOTS.items()}

    def versions(self, project: Any, name: str) -> dict[tuple[Any, ...], int]:
        """How many versions of each key are closed and open."""
        end = "`Valid To`" if name == "renamed" else "dbt_valid_to"
        is_open = f"{end} is null or {end} = timestamp'9999-12-31'"
        query = f"select `user id`, `Grp.x`, v, {is_open} from `lake`.`{project.test_schema}`.{name}"
        counted: dict[tuple[Any, ...], int] = {}
        for row in project.run_sql(query, fetch="all"):
            counted[tuple(row)] = counted.get(tuple(row), 0) + 1
        return counted

    def take(self, *variables: str) -> None:
        values = ["--vars", "{" + ", ".join(variables) + "}"]
        run_dbt(["run", *values])
        run_dbt(["snapshot", *values])

    def test_only_rows_that_changed_have_new_versions(self, project: Any) -> None:
        steady = {(1, "a", 0, True): 1, (1, None, 0, True): 1, (1, "", None, True): 1}
        first = steady | {(None, "a|b", 0, True): 1, (None, None, 0, True): 1}
        for _ in range(2):
            self.take()
            assert {name: self.versions(project, name) for name in SNAPSHOTS} == dict.fromkeys(SNAPSHOTS, first)

        second = steady | {(None, "a|b", 0, False): 1, (None, None, 0, False): 1}
        second |= {(None, "a|b", 1, True): 1, (None, None, 1, True): 1}
        for _ in range(2):
            self.take("n: 1")
            assert {name: self.versions(project, name) for name in SNAPSHOTS} == dict.fromkeys(SNAPSHOTS, second)

        closed = {**second, (1, None, 0, False): 1}
        del closed[1, None, 0, True]
        ends = {name: second for name in SNAPSHOTS if name not in DELETES} | dict.fromkeys(DELETES, closed)
        ends |= dict.fromkeys(RECORDS, closed | {(1, None, 0, True): 1})
        for _ in range(2):
            self.take("n: 1", "gone: '`user id` <=> 1 and `Grp.x` is null'")
            assert {name: self.versions(project, name) for name in SNAPSHOTS} == ends

    def test_a_check_of_no_column_is_an_error(self, project: Any) -> None:
        """dbt's own would have opened a version of every row in every run."""
        wrong = snapshot("by_all", SNAPSHOTS["by_all"].replace("'all'", "['w']"))
        write_file(wrong, "snapshots", "by_all.sql")
        (result,) = run_dbt(["snapshot", "--select", "by_all"], expect_pass=False)
        assert "`check_cols` names 'w', which is no column" in result.message
