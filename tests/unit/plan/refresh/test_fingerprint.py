"""The fingerprint of all that makes a table what it is, and what is said of a part that is another one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.reads import Reads
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.strategies.maintain import Facts, plan_maintenance
from arctic_runtime.model.clone import CloneOrigin
from arctic_runtime.model.columns import Column, format_key
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CLONED_FROM, MODE, OFFSETS, PRIMARY_KEY, QUERY, RUN, SESSION
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, SourceState, TableState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.plan.refresh import fingerprint as fingerprints
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.fingerprint import (
    compute_fingerprint,
    describe_fingerprint_change,
)
from arctic_runtime.plan.refresh.increment import Increment, Upstreams
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.session_changes import SessionState, describe_settings
from arctic_runtime.profile import Profile
from tests.unit.plan.refresh.test_decide import READ_ONE, RUN_AGAIN, STATE, UP, a_model, a_source, built, reading
from tests.unit.project.test_docs import CHANGED, EXAMPLES, SHOP

NOTHING = Upstreams()

MADE = (2, "04664beb2f9e")
"""The version of the rules, and a digest of what they make of the examples of docs/incremental.md."""


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (a_model("select 2"), "query"),
        (a_model(primary_key=("id", "x")), "key"),
        (a_model(keep_deleted=False), "keep_deleted"),
        (a_model(on_schema_change="fail"), "on_schema_change"),
        (replace(STATE, not_null=("x",)), "contract"),
        (replace(STATE, contract=(Column("id", "int"),)), "contract"),
        (replace(STATE, checks=("id > 0",)), "checks"),
    ],
)
def test_the_fingerprint_changes_with_everything_that_changes_the_answer(changed: Model, part: str) -> None:
    assert part in describe_fingerprint_change(
        compute_fingerprint(STATE, NOTHING), compute_fingerprint(changed, NOTHING)
    )


@pytest.mark.parametrize(
    "changed", [a_model(nodes=8), a_model(sort_key=("x",)), replace(STATE, comment="x"), a_model(merge="on_read")]
)
def test_the_fingerprint_does_not_look_at_layout_and_comments(changed: Model) -> None:
    assert (
        compute_fingerprint(changed, NOTHING)
        == compute_fingerprint(STATE, NOTHING)
        == compute_fingerprint(a_model(), NOTHING)
    )
    assert describe_fingerprint_change(compute_fingerprint(STATE, NOTHING), compute_fingerprint(changed, NOTHING)) == ""


def moved(*columns: str) -> Upstreams:
    source: SourceState = replace(a_source(1), reassigned_columns=columns)
    return Upstreams({str(UP): source})


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (
            [Upstreams(views=views) for views in ({}, {"a.v": "select 1"}, {"a.v": "select 2"}, {"a.w": "select 2"})],
            "view",
        ),
        ([moved(), moved("v=3"), moved("v=4"), moved("v:long"), moved("v=3", "v:long")], "columns of its upstreams"),
        (
            [Upstreams(settings=settings) for settings in ({}, {"spark.sql.ansi.enabled": "false"})],
            "settings of the profile",
        ),
    ],
    ids=["views", "columns", "settings"],
)
def test_the_fingerprint_changes_with_what_the_query_reads_and_how(texts: list[Upstreams], part: str) -> None:
    first, *others = (compute_fingerprint(STATE, text) for text in texts)
    assert len({first, *others}) == len(texts)
    assert all(part in describe_fingerprint_change(first, other) for other in others)


def test_other_rules_compute_tables_in_full_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = built(STATE, READ_ONE)
    old = built(STATE, READ_ONE, **{QUERY: "0123456789abcdef"})
    monkeypatch.setattr(fingerprints, "RULES", fingerprints.RULES + 1)
    for state in (before, old):
        decision = decide_refresh(STATE, state, reading(a_source(1)), RUN_AGAIN)
        assert (decision.mode, decision.reason) == ("full", "QUERY_CHANGED")
        assert (
            decision.because
            == "another version of dbt-arctic made the table, and this one follows changes by other rules"
        )
    assert decide_refresh(STATE, built(STATE, READ_ONE), reading(a_source(1)), RUN_AGAIN).mode == "unchanged"


def test_settings_that_only_say_how_work_is_done_have_no_effect() -> None:
    """What has is what each profile sets of zone and texts, the catalog of plain names, and settings of its own."""
    own = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.shuffle.partitions": "3", "spark.executor.cores": "2"}
    profile = Profile.for_embedded("/tmp/lake", settings=own)
    kept = {
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    assert describe_settings(profile.build_session_settings()) == kept
    assert describe_settings(profile.build_spark_settings()) == kept


@pytest.mark.parametrize("refresh", ["auto", "strict"])
def test_rows_of_another_session_are_not_followed(refresh: str) -> None:
    """A server may have settings of its own, which nobody sees before Spark is asked."""
    model = a_model(refresh=refresh)
    upstreams = reading(a_source(1, 2))
    utc, berlin = (SessionState("4.1.4", {"spark.sql.session.timeZone": zone}) for zone in ("UTC", "Europe/Berlin"))
    state = built(model, READ_ONE, **{SESSION: utc.encode()})
    assert decide_refresh(model, state, upstreams, RUN_AGAIN).mode == "incremental"
    assert decide_refresh(model, state, upstreams, Request(session=utc)).mode == "incremental"
    decision = decide_refresh(model, state, upstreams, Request(session=berlin))
    assert (decision.mode, decision.reason) == ("full", "QUERY_CHANGED")
    assert decision.because == "`spark.sql.session.timeZone`: UTC -> Europe/Berlin"


def test_rules_that_make_other_plans_than_before_are_of_another_version_if_they_repair_tables() -> None:
    assert (fingerprints.RULES, digest()) == MADE, (
        "The rules make other plans than before, or there are other examples. If tables that the earlier ones made may "
        "be wrong, raise RULES: each table is computed in full once then. Write the digest that they make now here."
    )


def digest() -> str:
    made = [plan_text(query) for _, (query, _) in sorted(EXAMPLES.items())]
    assert len(set(made)) > 20
    return hashlib.sha256("\n".join(made).encode()).hexdigest()[:12]


def plan_text(query: str) -> str:
    """What Spark is given to follow changes, where totals are kept if they can be; the reason where it is nothing."""
    try:
        analysed = analyse_query(query, SHOP, {}, "lake", "shop")
        key = (analysed.outputs[0][1],)
        maintenance = plan_maintenance(analysed.tree, key, CHANGED, Facts(types=analysed.types, few_rows=True))
    except NotMaintained as refused:
        return refused.reason
    increment = Increment(maintenance, analysed.outputs, key, analysed.tree, CHANGED)
    return "\n".join(map(render_sql, increment.trees))


ORIGIN, CLONE = TableName("lake", "prod", "m"), TableName("lake", "dev", "m")
THEIRS, OWN = TableName("lake", "prod", "odd`name"), TableName("lake", "dev", "odd`name")
CONFIG = ModelConfig(("id",), hash_key="id")
SQL = "select * from `lake`.`{schema}`.`odd``name` where id not in (select id from `lake`.`{schema}`.`m`)"


def decide(
    sql: str, upstream: TableName, config: ModelConfig = CONFIG, views: dict[str, str] | None = None
) -> Decision:
    """Decides on the first run of a clone that reads one upstream at its second version."""
    version = Version("clone", 1, 1)
    of_origin = Upstreams(views={"lake.prod.odd`name": "select 1 from `lake`.`prod`.`m`"} if views else {})
    said = {
        RUN: "token",
        MODE: "full",
        OFFSETS: encode_versions({str(OWN): Version("up", 101, 1)}),
        QUERY: compute_fingerprint(Model(ORIGIN, SQL.format(schema="prod"), config), of_origin),
    }
    origin = CloneOrigin(ORIGIN, version, ORIGIN.changes, 1, "me", ((OWN, THEIRS),))
    properties = {PRIMARY_KEY: format_key(config.primary_key), CLONED_FROM: origin.encode()}
    commit = Commit(version, None, "append", 3, 30, said, 0)
    state = TableState(
        ChangeTableState("clone", (), (commit,), properties), BaseState("b", (), 1, version, 3, properties)
    )
    commits = tuple(Commit(Version("up", 100 + n, n), 99 + n if n > 1 else None, "append", 1, 1, {}, 0) for n in (1, 2))
    kept = frozenset(commit.version.snapshot for commit in commits)
    source = SourceState(upstream, "table", commits[-1].version, commits, (Column("id", "int"),), 3, kept)
    upstreams = Upstreams({str(upstream): source}, Reads(), views or {})
    return decide_refresh(Model(CLONE, sql, config), state, upstreams, Request())


@pytest.mark.parametrize("views", [None, {"lake.dev.odd`name": "select 1 from `lake`.`dev`.`m`"}])
def test_the_same_query_over_clones_is_not_another_one(views: Any) -> None:
    decision = decide(SQL.format(schema="dev"), OWN, views=views)
    assert decision.reason != "QUERY_CHANGED"
    assert decision.windows[str(OWN)].start == Version("up", 101, 1)


@pytest.mark.parametrize(
    "sql", [SQL.format(schema="dev") + " and id > 1", SQL.format(schema="test"), "select * from `lake`.`dev`.`m2`"]
)
def test_another_query_is_another_one(sql: str) -> None:
    decision = decide(sql, OWN)
    assert (decision.mode, decision.reason) == ("full", "QUERY_CHANGED")


def test_rows_of_the_origins_upstream_are_not_followed() -> None:
    decision = decide(SQL.format(schema="prod"), THEIRS)
    assert (decision.mode, decision.windows[str(THEIRS)].start) == ("full", None)


def test_changes_of_the_origins_upstream_are_not_read_from_the_beginning() -> None:
    config = replace(CONFIG, input="changes")
    decision = decide("select * from `changes(lake.dev.odd%60name)`", OWN, config)
    assert (decision.mode, decision.reason) == ("incremental", "CHANGES")
    with pytest.raises(SourceError, match="can't go on with the changes of lake"):
        decide("select * from `changes(lake.prod.odd%60name)`", THEIRS, config)
