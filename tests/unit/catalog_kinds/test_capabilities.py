"""Capabilities of catalogs: what is known of them, who needs them, and what is refused without them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from arctic_runtime.catalog_kinds.capabilities import (
    CAPABILITY_USES,
    UNKNOWN,
    Capabilities,
    check_model_needs,
    list_capability_lines,
)
from arctic_runtime.errors import ConfigError

ALL = Capabilities(*[True] * len(fields(Capabilities)))


def test_every_capability_is_shown_with_who_needs_it_and_has_a_cure_if_somebody_does() -> None:
    assert [use.name for use in CAPABILITY_USES] == [part.name for part in fields(Capabilities)]
    assert all(bool(use.needed_by) == bool(use.fix) for use in CAPABILITY_USES)
    shown = list(list_capability_lines(replace(UNKNOWN, views=False, staged_creation=True)))
    assert shown[0].startswith("catalog has table branches: unknown (for arctic models")
    assert shown[1:3] == [
        "catalog has views: no (for `merge: on_read` and `current_view`)",
        "catalog has staged creation: yes (not needed)",
    ]


def test_unknown_capabilities_are_completed_and_known_ones_stay() -> None:
    assert replace(UNKNOWN, views=False).complete(ALL) == replace(ALL, views=False)
    assert ALL.complete(UNKNOWN) == ALL


@pytest.mark.parametrize(
    ("lacking", "title"),
    [("branches", "table branches"), ("format_version_3", "format version 3"), ("conditional_writes", "conditional")],
)
def test_a_model_is_refused_without_what_every_model_needs(lacking: str, title: str) -> None:
    with pytest.raises(ConfigError, match=f"dwd.m: arctic models need {title}.*nothing was written") as refused:
        check_model_needs("dwd.m", "catalog lake", replace(ALL, **{lacking: False}))
    assert refused.value.where == "catalog lake"
    assert "`jdbc` on PostgreSQL" in str(refused.value.fix)


def test_views_are_only_needed_for_keys_that_need_them() -> None:
    check_model_needs("dwd.m", "catalog lake", replace(ALL, views=False))
    with pytest.raises(ConfigError, match="`merge: on_read` needs views, and the catalog has none") as refused:
        check_model_needs("dwd.m", "catalog lake", replace(ALL, views=False), "merge: on_read")
    assert "set `merge: on_write`" in str(refused.value.fix)


def test_what_is_unknown_or_not_needed_is_not_refused() -> None:
    check_model_needs("dwd.m", "catalog lake", UNKNOWN, "merge: on_read")
    check_model_needs("dwd.m", "catalog lake", replace(ALL, staged_creation=False, table_transactions=False))
