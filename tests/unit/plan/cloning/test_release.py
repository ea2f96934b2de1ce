"""Upkeep of clones: what nobody uses goes, and nothing that may be in the making."""

from __future__ import annotations

import pytest

from arctic_runtime.model.clone import Clone, CloneOrigin, CloneTag, CloneTags
from arctic_runtime.model.names import TableName
from arctic_runtime.model.version import Version
from arctic_runtime.plan.cloning.release import is_use_outdated, plan_release
from arctic_runtime.thresholds import SHIPPED

DAY = 86_400_000
TABLE, MODEL = TableName("l", "d", "m"), TableName("l", "p", "m")
TAGS = ((MODEL.changes, "t"),)


def seen(at_days: float, used_days: float | None) -> CloneTags:
    tag = CloneTag(TABLE, round(at_days * DAY))
    origin = CloneOrigin(MODEL, Version("u", 1, 1), MODEL.changes, tag.at_ms, "me")
    clone = None if used_days is None else Clone(TABLE, origin, round(used_days * DAY))
    return CloneTags(tag, TAGS, clone)


@pytest.mark.parametrize(
    ("at", "used", "ttl", "expected"),
    [
        (100, 100, 14, None),
        (80, 87, 14, None),
        (80, 85, 14, (True, "it was not run for 15 days")),
        (80, 85, None, None),
        (99.5, None, 14, None),
        (98, None, 14, (False, "there is no such clone")),
        (98, None, None, (False, "there is no such clone")),
    ],
)
def test_clones_go_when_nobody_uses_them(
    at: float, used: float | None, ttl: float | None, expected: tuple[bool, str] | None
) -> None:
    seconds = None if ttl is None else ttl * DAY / 1000
    steps = plan_release([seen(at, used)], 100 * DAY, seconds, SHIPPED.expiry)
    assert [(step.clone, step.tags, step.is_dropped, step.reason) for step in steps] == [
        (TABLE, TAGS, *wanted) for wanted in ([expected] if expected else [])
    ]


def test_a_use_is_noted_once_a_day() -> None:
    clone = seen(1, 5).clone
    assert clone is not None
    assert not is_use_outdated(clone, round(5.9 * DAY), SHIPPED.expiry)
    assert is_use_outdated(clone, round(6.1 * DAY), SHIPPED.expiry)
