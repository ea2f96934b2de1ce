"""What the state of an upstream says of rows that are gone."""

from __future__ import annotations

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version


@pytest.mark.parametrize(
    ("trimmed", "forgotten", "is_compacted"), [(0, 0, False), (7, 0, True), (7, 7, False), (9, 7, True)]
)
def test_change_rows_are_gone_by_compaction_unless_forgetting_alone_took_them(
    trimmed: int, forgotten: int, is_compacted: bool
) -> None:
    name, version = TableName("lake", "dwd", "up"), Version("u", 1, 9)
    source = SourceState(name, "changes", version, (), (), 3, trimmed=trimmed, forgotten=forgotten)
    assert source.is_compacted is is_compacted
