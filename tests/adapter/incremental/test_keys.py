"""Keys of dbt's incremental models: any column's name, and nulls, which are equal to each other."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

ROWS = """
select * from values
  (1, 'a', 1, 1, {{ var('n', 0) }}, {{ var('n', 0) }}), (1, null, 1, 1, {{ var('n', 0) }}, {{ var('n', 0) }}),
  (null, 'a', null, 2, {{ var('n', 0) }}, {{ var('n', 0) }}), (2, 'a|', 1, 1, {{ var('n', 0) }}, {{ var('n', 0) }})
  as t(`user id`, `Grp.x`, `a``b`, `order`, `kept value`, v)
"""
WHOLE_KEY = "['user id', 'GRP.X', '`a``b`', 'order']"
MODELS = {
    "merged": f"unique_key={WHOLE_KEY}",
    "kept": f"unique_key={WHOLE_KEY}, merge_exclude_columns=['KEPT value']",
    "updated": f"unique_key={WHOLE_KEY}, merge_update_columns='V'",
    "untouched": f"unique_key={WHOLE_KEY}, merge_exclude_columns={WHOLE_KEY} + ['kept value', 'v']",
    "replaced": f"unique_key={WHOLE_KEY}, incremental_strategy='delete+insert'",
    "partitioned": "partition_by=['user id', 'bucket(4, `Grp.x`)'], incremental_strategy='insert_overwrite'",
    "chosen": f"unique_key={WHOLE_KEY}, incremental_predicates=['DBT_INTERNAL_DEST.`user id` = 2 or 1 = 0', 'true']",
    "deleted": f"unique_key={WHOLE_KEY}, predicates='`user id` = 2 or 1 = 0', incremental_strategy='delete+insert'",
}
ONE_KEY = (
    "{{ config(materialized='incremental', unique_key='user id') }} select * from ("
    + ROWS
    + ") where v >= 0 and `order` = 2"
)
LATER = ["--vars", "n: 5"]


class TestKeysOfAnyName:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        configured = {
            f"{name}.sql": "{{ config(materialized='incremental', " + config + ") }}" + ROWS
            for name, config in MODELS.items()
        }
        return configured | {"single.sql": ONE_KEY}

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run", *LATER])

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        columns = "`user id`, `Grp.x`, `kept value`, v"
        query = f"select {columns} from `lake`.`{project.test_schema}`.`{name}` order by `order`, 1, 2, 4"
        return project.run_sql(query, fetch="all")  # type: ignore[no-any-return]

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("merged", [(5, 5)] * 4),
            ("kept", [(0, 5)] * 4),
            ("updated", [(0, 5)] * 4),
            ("untouched", [(0, 0)] * 4),
            ("replaced", [(5, 5)] * 4),
            ("partitioned", [(5, 5)] * 4),
        ],
    )
    def test_each_row_of_a_key_with_nulls_is_there_once(
        self, project: Any, name: str, values: list[tuple[int, int]]
    ) -> None:
        keys = [(1, None), (1, "a"), (2, "a|"), (None, "a")]
        assert self.rows(project, name) == [(*key, *value) for key, value in zip(keys, values, strict=True)]

    def test_a_single_key_that_is_null_is_there_once(self, project: Any) -> None:
        assert self.rows(project, "single") == [(None, "a", 5, 5)]

    @pytest.mark.parametrize("name", ["chosen", "deleted"])
    def test_a_predicate_is_one_condition_in_addition_to_the_key(self, project: Any, name: str) -> None:
        """Rows that the predicate does not choose are not updated; their new versions are inserted, as dbt has it."""
        assert sorted(row[-1] for row in self.rows(project, name)) == [0, 0, 0, 5, 5, 5, 5]


UNKNOWN = {
    "key.sql": ("unique_key='idd'", "`unique_key` names 'idd', which is no column"),
    "left_out.sql": ("unique_key='id', merge_exclude_columns=['w']", "`merge_exclude_columns` names 'w'"),
    "chosen.sql": ("unique_key='id', merge_update_columns=['w']", "`merge_update_columns` names 'w'"),
}


class TestKeysThatAreNoColumns:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        query = " select 1 as id, {{ var('n', 0) }} as v"
        return {
            name: "{{ config(materialized='incremental', " + config + ") }}" + query
            for name, (config, _) in UNKNOWN.items()
        }

    def test_a_name_that_is_no_column_is_an_error_and_nothing_is_written(self, project: Any) -> None:
        run_dbt(["run"])
        results = run_dbt(["run", *LATER], expect_pass=False)
        assert len(results) == 3
        for result in results:
            assert UNKNOWN[f"{result.node.name}.sql"][1] in result.message
            table = f"`lake`.`{project.test_schema}`.`{result.node.name}`"
            assert project.run_sql(f"select v from {table}", fetch="all") == [(0,)]
