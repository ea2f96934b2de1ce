"""dbt's snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.simple_snapshot import test_various_configs as various_configs
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.adapter.simple_snapshot.new_record_dbt_valid_to_current import BaseSnapshotNewRecordDbtValidToCurrent
from dbt.tests.adapter.simple_snapshot.new_record_timestamp_mode import BaseSnapshotNewRecordTimestampMode
from dbt.tests.adapter.simple_snapshot.test_ephemeral_snapshot_hard_deletes import (
    BaseSnapshotEphemeralHardDeletes,
    BaseSnapshotNewColumnSpecificCheckCols,
    BaseSnapshotNewColumnTimestampStrategy,
    BaseSnapshotNewColumnWithDeletes,
)
from dbt.tests.adapter.simple_snapshot.test_snapshot import BaseSimpleSnapshot, BaseSnapshotCheck
from dbt.tests.adapter.simple_snapshot.test_various_configs import (
    BaseSnapshotColumnNames,
    BaseSnapshotColumnNamesFromDbtProject,
    BaseSnapshotDbtValidToCurrent,
    BaseSnapshotInvalidColumnNames,
    BaseSnapshotMultiUniqueKey,
)
from dbt.tests.util import check_relations_equal, run_dbt


@pytest.mark.in_turn
class TestSimpleSnapshot(BaseSimpleSnapshot):
    pass


@pytest.mark.slow
class TestSnapshotCheck(BaseSnapshotCheck):
    pass


@pytest.mark.slow
class TestSnapshotColumnNames(BaseSnapshotColumnNames):
    pass


@pytest.mark.slow
class TestSnapshotColumnNamesFromDbtProject(BaseSnapshotColumnNamesFromDbtProject):
    pass


@pytest.mark.slow
class TestSnapshotInvalidColumnNames(BaseSnapshotInvalidColumnNames):
    pass


@pytest.mark.slow
class TestSnapshotDbtValidToCurrent(BaseSnapshotDbtValidToCurrent):
    def test_valid_to_current(self, project: Any) -> None:
        """As the suite has it, but for the order in which an unordered query returns rows."""
        for sql in (
            various_configs.create_seed_sql,
            various_configs.create_snapshot_expected_sql,
            various_configs.seed_insert_sql,
            various_configs.populate_snapshot_expected_valid_to_current_sql,
        ):
            project.run_sql(sql)
        run_dbt(["snapshot"])
        project.run_sql(various_configs.invalidate_sql)
        project.run_sql(various_configs.update_with_current_sql)
        run_dbt(["snapshot"])
        query = "select count(*) from {schema}.snapshot_actual where test_valid_to = timestamp '2099-12-31'"
        assert project.run_sql(query, fetch="one") == (20,)
        check_relations_equal(project.adapter, ["snapshot_actual", "snapshot_expected"])


@pytest.mark.slow
class TestSnapshotMultiUniqueKey(BaseSnapshotMultiUniqueKey):
    pass


@pytest.mark.slow
class TestSnapshotEphemeralHardDeletes(BaseSnapshotEphemeralHardDeletes):
    pass


@pytest.mark.slow
class TestSnapshotNewColumnTimestampStrategy(BaseSnapshotNewColumnTimestampStrategy):
    pass


@pytest.mark.slow
class TestSnapshotNewColumnSpecificCheckCols(BaseSnapshotNewColumnSpecificCheckCols):
    pass


@pytest.mark.slow
class TestSnapshotNewColumnWithDeletes(BaseSnapshotNewColumnWithDeletes):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordCheckMode(BaseSnapshotNewRecordCheckMode):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordTimestampMode(BaseSnapshotNewRecordTimestampMode):
    pass


@pytest.mark.slow
class TestSnapshotNewRecordDbtValidToCurrent(BaseSnapshotNewRecordDbtValidToCurrent):
    pass
