"""Limits on the cost of an edit, as a pipeline sets them."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.preview import ModelPreview, Preview, RunAmounts
from arctic_runtime.plan.preview.preview_limits import read_preview_limits

MODEL = ModelPreview(
    TableName("lake", "dwd", "orders"),
    True,
    "full",
    amounts=RunAmounts(
        bytes_read=Amount(1e9, 2e9, 9e9),
        bytes_written=Amount(0, 1e9, 1e9),
        rows_read=Amount(100, 100, 100),
        rows_written=Amount(0, 50, 100),
        seconds=Amount(1, 60, 90),
    ),
)
UNTOUCHED = ModelPreview(TableName("lake", "dwd", "other"), False, "nothing")
PREVIEW = Preview((MODEL, UNTOUCHED))


@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ("bytes>2.9GB", ["bytes>2.9GB"]),
        ("bytes>3GB", []),
        ("bytes>2GiB", ["bytes>2GiB"]),
        ("bytes>1_000_000", ["bytes>1_000_000"]),
        ("rows>149", ["rows>149"]),
        ("rows>150", []),
        ("seconds>59.5", ["seconds>59.5"]),
        ("models>0", ["models>0"]),
        ("models>1", []),
        ("bytes > 1tb, seconds > 10", ["seconds>10"]),
    ],
)
def test_a_limit_is_exceeded_by_the_estimate_of_all_runs_together(limits: str, exceeded: list[str]) -> None:
    read = read_preview_limits("--fail-on", limits)
    assert [limit.text for limit in read if limit.is_exceeded(PREVIEW)] == exceeded
    assert not any(limit.is_exceeded(Preview()) for limit in read)


@pytest.mark.parametrize(
    "limits",
    ["", "bytes", "bytes<1", "files>1", "bytes>x", "rows>1GB", "bytes>1EB", "rows>1,", "rows>-1", "rows>1.2.3"],
)
def test_other_limits_are_refused(limits: str) -> None:
    with pytest.raises(ConfigError, match="`--fail-on` can't be read"):
        read_preview_limits("--fail-on", limits)
