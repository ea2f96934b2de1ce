"""dbt's own incremental models, by every strategy."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import run_dbt


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass


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
