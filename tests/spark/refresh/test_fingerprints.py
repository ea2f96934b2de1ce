"""All rows of a table are computed under one set of settings, from columns of one type, and by one version of rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.plan.refresh import fingerprint as fingerprints
from arctic_runtime.plan.refresh.spark_settings import DEFAULTS
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.statement import quote_name as quoted
from tests.spark.warehouse import Warehouse, refuse, sorted_rows

LANDED = "id int, city string, at_hour int, v int"
ROWS = [(1, "a", 3, 10), (2, "b", 5, 20)]
HOURS = (
    "select id, cast(timestamp_seconds(at_hour * 3600) as string) as local_time, cast(city as int) as number "
    "from {landed}"
)


def another(lake: Warehouse, **settings: str) -> Warehouse:
    """The same tables under a profile with other settings."""
    profile = lake.environment.profile
    own = replace(profile, settings={**profile.settings, **settings})
    environment = SparkEnvironment(own)
    return replace(lake, environment=environment, reader=CatalogReader(own), spark=environment.new_session())


def test_another_time_zone_computes_all_rows_again_though_nothing_is_new(lake: Warehouse) -> None:
    lake.append("landed", [(1, "7", 3, 10)], LANDED)
    model = lake.model("hours", HOURS, primary_key="id")
    lake.run(model)
    assert lake.run(model, session=refuse).mode == "unchanged"
    berlin = another(lake, **{"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "false"})
    outcome = berlin.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    assert outcome.because == (
        "SQL settings of the profile changed: `spark.sql.ansi.enabled`: true -> false, "
        "`spark.sql.session.timeZone`: UTC -> Europe/Berlin"
    )
    lake.append("landed", [(2, "n/a", 4, 10)], LANDED)
    assert berlin.run(model).mode == "incremental"
    assert berlin.rows(model) == [(1, "1970-01-01 04:00:00", 7), (2, "1970-01-01 05:00:00", None)]
    assert berlin.run(model, session=refuse).mode == "unchanged"


@pytest.mark.slow
def test_settings_that_a_profile_does_not_tell_are_seen_where_there_is_something_to_do(lake: Warehouse) -> None:
    lake.append("landed", [(1, "7", 3, 10)], LANDED)
    model = lake.model("hours", HOURS, primary_key="id")
    lake.run(model)
    hooked = replace(lake, spark=lake.environment.new_session())
    hooked.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    assert hooked.run(model).mode == "unchanged"
    lake.append("landed", [(2, "8", 4, 10)], LANDED)
    outcome = hooked.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    assert outcome.because == "`spark.sql.session.timeZone`: UTC -> Europe/Berlin"
    assert hooked.rows(model) == [(1, "1970-01-01 04:00:00", 7), (2, "1970-01-01 05:00:00", 8)]
    lake.append("landed", [(3, "9", 5, 10)], LANDED)
    assert hooked.run(model).mode == "incremental"


def test_only_a_setting_that_may_change_results_computes_all_rows(lake: Warehouse) -> None:
    lake.append("landed", [(1, "7", 3, 10)], LANDED)
    model = lake.model("hours", HOURS, primary_key="id")
    keeping = lake.model("kept", HOURS, primary_key="id", on_session_change="keep")
    for one in (model, keeping):
        lake.run(one)
    quick = another(lake, **{"spark.sql.shuffle.partitions": "3", "spark.sql.ansi.enabled": "true"})
    assert quick.run(model, session=refuse).mode == "unchanged"
    lake.append("landed", [(2, "8", 4, 10)], LANDED)
    assert [quick.run(one).mode for one in (model, keeping)] == ["incremental", "incremental"]
    loose = another(lake, **{"spark.sql.ansi.enabled": "false"})
    assert loose.run(keeping, session=refuse).mode == "unchanged"
    lake.append("landed", [(3, "n/a", 5, 10)], LANDED)
    outcomes = [loose.run(one) for one in (model, keeping)]
    assert [outcome.mode for outcome in outcomes] == ["full", "incremental"]
    assert outcomes[0].because == "SQL settings of the profile changed: `spark.sql.ansi.enabled`: true -> false"
    assert loose.rows(model) == loose.rows(keeping)
    assert [loose.run(one, session=refuse).mode for one in (model, keeping)] == ["unchanged", "unchanged"]


def test_settings_of_a_session_that_is_kept_are_stored_with_the_next_commit(lake: Warehouse) -> None:
    lake.append("landed", [(1, "7", 3, 10)], LANDED)
    model = lake.model("hours", HOURS, primary_key="id", on_session_change="keep")
    lake.run(model)
    hooked = replace(lake, spark=lake.environment.new_session())
    hooked.spark.conf.set("spark.sql.ansi.enabled", "false")
    lake.append("landed", [(2, "n/a", 4, 10)], LANDED)
    assert hooked.run(model).mode == "incremental"
    recomputing = replace(model, config=replace(model.config, on_session_change="recompute"))
    lake.append("landed", [(3, "n/a", 5, 10)], LANDED)
    assert hooked.run(recomputing).mode == "incremental"


def test_defaults_are_those_of_spark(lake: Warehouse) -> None:
    """The profile sets no other value of these settings, so that a new session has Spark's."""
    session = lake.environment.new_session()
    assert {name: session.conf.get(name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.slow
def test_kept_aggregate_state_takes_the_type_that_a_column_was_widened_to(lake: Warehouse) -> None:
    """Without ANSI a cast to the type of before wraps around."""
    lake = another(lake, **{"spark.sql.ansi.enabled": "false"})
    lake.append("landed", ROWS, LANDED)
    model = lake.model(
        "m", "select city, max(v) as most, sum(v) as total from {landed} group by city", primary_key="city",
        refresh="incremental",
    )  # fmt: skip
    lake.run(model)
    lake.append("landed", [(3, "a", 1, 8)], LANDED)
    lake.run(model)
    assert lake.state(model).aggregate_state is not None
    lake.spark.sql(f"alter table {quoted(*lake.table('landed').parts)} alter column v type bigint")
    for id_, mode in ((4, "full"), (5, "incremental"), (6, "incremental")):
        lake.append("landed", [(id_, "a", 1, 3_600_000_000 + id_)], "id int, city string, at_hour int, v bigint")
        assert (lake.run(model).mode, lake.rows(model)) == (mode, sorted_rows(lake.spark.sql(model.sql)))
    assert lake.broken(model) == []


def test_a_table_that_faulty_rules_left_wrong_is_put_right_by_the_next_version(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("landed", ROWS, LANDED)
    model = lake.model("m", "select id, v from {landed}", primary_key="id")
    lake.run(model)
    lake.spark.sql(f"update {lake.sql_name('m')} set v = 0 where id = 1")
    assert lake.run(model, session=refuse).mode == "unchanged"
    monkeypatch.setattr(fingerprints, "RULES", fingerprints.RULES + 1)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("full", "QUERY_CHANGED", (0, 1, 0))
    assert lake.rows(model) == [(1, 10), (2, 20)]
    assert lake.run(model, session=refuse).mode == "unchanged"
