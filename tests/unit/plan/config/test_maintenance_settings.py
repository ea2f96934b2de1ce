"""`compaction` and `retention` in a model's configuration."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Compaction, Retention
from arctic_runtime.plan.config.configure import read_configuration


def configured(**keys: Any) -> Any:
    return read_configuration({"primary_key": "id", **keys}, "m")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("auto", Compaction()),
        (True, Compaction()),
        ("off", Compaction(automatic=False)),
        (False, Compaction(automatic=False)),
        ({}, Compaction()),
        ({"deleted_share": 0.5}, Compaction(deleted_share=0.5)),
        ({"deleted_share": 1, "small_files": 2, "change_files": 3}, Compaction(True, 1.0, 2, 3)),
    ],
    ids=str,
)
def test_compaction_is_a_word_or_thresholds(written: Any, meant: Compaction) -> None:
    """YAML reads `off` as a boolean."""
    assert configured(compaction=written).compaction == meant
    assert configured().compaction == Compaction()


@pytest.mark.parametrize(
    ("age", "seconds"), [("90m", 5400), ("12h", 43_200), ("5d", 432_000), ("2w", 1_209_600), (" 7 d ", 604_800)]
)
def test_retention_is_an_age(age: str, seconds: int) -> None:
    assert configured(retention={"versions": age}).retention == Retention(seconds)
    assert configured(retention={}).retention == configured().retention == Retention(432_000, max_versions=1000)


@pytest.mark.parametrize("written", ["off", False])
def test_versions_are_kept_for_ever_only_where_that_is_said(written: Any) -> None:
    """YAML reads `off` as a boolean."""
    assert configured(retention=written).retention == Retention()
    assert configured(retention={"changes": "7d"}).retention == Retention(432_000, None, 604_800, 1000)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"compaction": "on"}, "must be auto, off, or a mapping of thresholds; found 'on'"),
        ({"compaction": 3}, "must be auto, off, or a mapping"),
        ({"compaction": {"small_file": 3}}, "unknown part `small_file`; did you mean `small_files`?"),
        ({"compaction": {"x": 3}}, "unknown part `x`; it takes deleted_share, small_files, change_files"),
        ({"compaction": {"deleted_share": 0}}, "`compaction.deleted_share` must be a number above 0 and up to 1"),
        ({"compaction": {"deleted_share": 25}}, "above 0 and up to 1; found 25"),
        ({"compaction": {"deleted_share": True}}, "above 0 and up to 1"),
        ({"compaction": {"small_files": 0}}, "`compaction.small_files` must be a whole number of at least 1; found 0"),
        ({"compaction": {"change_files": 1.5}}, "`compaction.change_files` must be a whole number"),
        ({"compaction": {"change_files": True}}, "`compaction.change_files` must be a whole number"),
        ({"retention": "5d"}, "`retention` must be off or a mapping, such as {versions: '5d'}; found '5d'"),
        ({"retention": {"version": "5d"}}, "unknown part `version`; did you mean `versions`?"),
        ({"retention": {"versions": 5}}, "`retention.versions` must be an age in minutes, hours, days or weeks"),
        ({"retention": {"versions": "0d"}}, "must be an age"),
        ({"retention": {"versions": "5 years"}}, "found '5 years'"),
        ({"retention": {"changes": 7}}, "`retention.changes` must be an age in minutes, hours, days or weeks"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_what_can(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(**keys)
    assert said in str(raised.value)


def test_retention_may_keep_a_number_of_versions_with_an_age_or_without() -> None:
    both = configured(retention={"versions": "5d", "retain_last": 20}).retention
    assert (both, both.age_seconds) == (Retention(432_000, 20), 432_000)
    alone = configured(retention={"retain_last": 20}).retention
    assert (alone, alone.age_seconds) == (Retention(None, 20), 0)
    assert Retention().age_seconds is None
    fewest = configured(retention={"retain_last": 20, "max_versions": 20}).retention
    assert fewest == Retention(432_000, 20, None, 20)
    assert configured(retention={"max_versions": 7}).retention == Retention(432_000, None, None, 7)
    with pytest.raises(ConfigError, match=r"`retention\.max_versions` must be at least `retain_last`, 20; found 19"):
        configured(retention={"retain_last": 20, "max_versions": 19})
    with pytest.raises(ConfigError, match=r"`retention\.retain_last` must be a whole number of at least 1; found 0"):
        configured(retention={"retain_last": 0})


@pytest.mark.parametrize(("lag", "seconds"), [("0s", 0), ("30s", 30), (" 5 m ", 300), ("1h", 3600), ("1d", 86_400)])
def test_a_lag_is_a_time(lag: str, seconds: int) -> None:
    assert configured(target_lag=lag).target_lag == seconds


@pytest.mark.parametrize("lag", [30, "30", "soon", "1w"])
def test_another_lag_is_refused(lag: Any) -> None:
    with pytest.raises(ConfigError, match=r"`target_lag` must be a time in seconds, minutes, hours or days"):
        configured(target_lag=lag)
