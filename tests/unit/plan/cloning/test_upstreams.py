"""Runs of a clone go on from its origin's offsets, under its own names of upstreams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ivm.frontend.reads import Reads
from arctic_runtime.model.clone import CloneOrigin
from arctic_runtime.model.columns import Column, format_key
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CLONED_FROM, MODE, OFFSETS, PRIMARY_KEY, QUERY, RUN
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, SourceState, TableState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.request import Request

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
