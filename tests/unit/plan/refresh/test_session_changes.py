"""Sessions of Spark are told apart by what may change the result of a query, and by nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import QUERY, SESSION
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.refresh.decide import decide_refresh
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, describe_fingerprint_change
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.session_changes import SessionState, describe_session_change
from arctic_runtime.plan.refresh.spark_settings import DEFAULTS, HARMLESS
from tests.unit.plan.refresh.test_decide import READ_ONE, RUN_AGAIN, a_model, a_source, built, reading

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
HARMLESS_NAMES = [f"{name}part" if name.endswith(".") else name for name in HARMLESS]

EARLIER = {
    ZONE: "UTC",
    ANSI: "true",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.windowExec.buffer.spill.threshold": "9",
    "spark.master": "local[2]",
}
EARLIER_HASH = "1b9e5423139c421d"
"""What the releases before the readable text stored for Spark 4.1.4 with the settings `EARLIER`."""

EARLIER_MODEL = Model(TableName("lake", "raw", "m"), "select 1 as id", ModelConfig(("id",)))
EARLIER_FINGERPRINT = (
    '{"query": "c95f057d4c6e2d25", "configuration": "e96ea51324bddb5f", "columns": "2e38e77b22c314a4", '
    '"settings": "8085d61bd26b6f68", "rules": "d4735e3a265e16ee", "events": null}'
)
"""What these releases stored for `EARLIER_MODEL` under a profile with the settings `EARLIER`."""


def describe(before: SessionState, now: SessionState) -> str:
    return describe_session_change(before.encode(), now)


def test_a_reason_names_each_part_that_differs() -> None:
    before = SessionState("4.1.4", {ANSI: "true", ZONE: "UTC"})
    assert describe(before, SessionState("4.2.0", {ANSI: "true", ZONE: "UTC"})) == "Spark 4.1 -> 4.2"
    now = SessionState("4.2.0", {ANSI: "false", "spark.sql.new": "1"})
    assert describe(before, now) == (
        "Spark 4.1 -> 4.2, `spark.sql.ansi.enabled`: true -> false, `spark.sql.new`: not set -> 1, "
        "`spark.sql.session.timeZone`: UTC -> not set"
    )


@pytest.mark.parametrize("seed", range(20))
def test_harmless_settings_defaults_and_patch_releases_change_nothing(seed: int) -> None:
    draw = Random(seed)

    def add_harmless() -> dict[str, str]:
        drawn = {name: str(draw.random()) for name in draw.sample(HARMLESS_NAMES, 5)}
        others = {f"spark.executor.{number}": str(number) for number in range(draw.randrange(3))}
        return {**settings, **drawn, **others, **dict(draw.sample(sorted(DEFAULTS.items()), 4))}

    settings = {f"spark.sql.some.{number}": str(draw.randrange(3)) for number in range(draw.randrange(4))}
    before, now = (SessionState(f"4.1.{draw.randrange(9)}", add_harmless()) for _ in range(2))
    assert describe(before, now) == ""


@pytest.mark.parametrize("seed", range(20))
def test_any_other_setting_changes_results(seed: int) -> None:
    draw = Random(seed)
    settings = {f"spark.sql.some.{number}": str(draw.randrange(3)) for number in range(4)}
    key = draw.choice([*settings, "spark.sql.unheard", *DEFAULTS])
    before, now = SessionState("4.1.4", settings), SessionState("4.1.4", {**settings, key: "other"})
    assert f"`{key}`: " in describe(before, now)
    assert f"`{key}`: other -> " in describe(now, before)


def test_the_stored_text_is_readable_and_has_no_secrets() -> None:
    settings = {
        ZONE: "UTC",
        ANSI: "true",
        "spark.sql.catalog.lake.password": "hunter2",
        "spark.sql.x.password": "hunter2",
        "spark.sql.x.address": "https://me:hunter2@host",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
    }
    text = SessionState("4.1.4", settings).encode()
    assert "hunter2" not in text
    assert json.loads(text)["spark"] == "4.1"
    assert json.loads(text)["settings"].keys() == {ZONE, "spark.sql.x.password", "spark.sql.x.address"}
    other = SessionState("4.1.4", {**settings, "spark.sql.x.password": "hunter3"})
    assert "spark.sql.x.password" in describe_session_change(text, other)


@pytest.mark.parametrize("version", ["4.1.4", "4.1.0", "4.1.7"])
def test_a_session_that_an_earlier_release_stored_as_a_hash_is_recognised(version: str) -> None:
    assert describe_session_change(EARLIER_HASH, SessionState(version, EARLIER)) == ""


@pytest.mark.parametrize(
    "session",
    [
        SessionState("4.2.0", EARLIER),
        SessionState("4.1.4", {**EARLIER, ZONE: "Europe/Berlin"}),
        SessionState("4.1.4", {}),
    ],
)
def test_another_session_than_that_of_a_hash_is_another_one(session: SessionState) -> None:
    assert "others than in the last run" in describe_session_change(EARLIER_HASH, session)


def test_a_profile_that_an_earlier_release_stored_as_a_hash_is_recognised() -> None:
    now = compute_fingerprint(EARLIER_MODEL, Upstreams(settings=EARLIER))
    assert now != EARLIER_FINGERPRINT
    assert describe_fingerprint_change(EARLIER_FINGERPRINT, now) == ""
    other = compute_fingerprint(EARLIER_MODEL, Upstreams(settings={**EARLIER, ANSI: "false"}))
    assert describe_fingerprint_change(EARLIER_FINGERPRINT, other) == "SQL settings of the profile changed"
    assert describe_fingerprint_change(now, other) == (
        "SQL settings of the profile changed: `spark.sql.ansi.enabled`: true -> false"
    )


@pytest.mark.parametrize("settings", [{"spark.sql.shuffle.partitions": "9"}, {ANSI: "true"}, {}])
def test_a_profile_with_another_harmless_setting_computes_nothing(settings: dict[str, str]) -> None:
    before = compute_fingerprint(EARLIER_MODEL, Upstreams())
    assert describe_fingerprint_change(before, compute_fingerprint(EARLIER_MODEL, Upstreams(settings=settings))) == ""


@pytest.mark.parametrize("refresh", ["auto", "strict"])
def test_a_model_that_keeps_its_rows_follows_changes_in_any_session(refresh: str) -> None:
    model = a_model(refresh=refresh)
    keeping = replace(model, config=replace(model.config, on_session_change="keep"))
    earlier = SessionState("4.1.4", {ZONE: "UTC"}).encode()
    upstreams = replace(reading(a_source(1, 2)), settings={ANSI: "false"})
    request = Request(session=SessionState("4.2.0", {ZONE: "Europe/Berlin"}))
    for one, mode in ((model, "full"), (keeping, "incremental")):
        state = built(one, READ_ONE, **{SESSION: earlier, QUERY: compute_fingerprint(one, Upstreams())})
        assert decide_refresh(one, state, upstreams, request).mode == mode
        assert decide_refresh(one, state, upstreams, RUN_AGAIN).mode == mode


def test_a_model_that_keeps_its_rows_computes_another_query() -> None:
    model = a_model(on_session_change="keep")
    state = built(model, READ_ONE, **{QUERY: compute_fingerprint(replace(model, sql="select 2"), Upstreams())})
    decision = decide_refresh(model, state, reading(a_source(1)), RUN_AGAIN)
    assert (decision.mode, decision.because) == ("full", "the model's query, or a view that it reads, changed")
