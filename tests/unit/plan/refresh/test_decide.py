"""Decisions: what the next run does, as a table of what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError, CorruptState, PlanError, SourceError
from arctic_runtime.ivm.algebra.refusal import Refusal
from arctic_runtime.ivm.frontend.reads import Reads
from arctic_runtime.model.columns import Column, format_key, parse_key
from arctic_runtime.model.files.layout import apply_configured_layout, format_layout
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import LAYOUT, MODE, OFFSETS, PRIMARY_KEY, QUERY, RUN
from arctic_runtime.model.run_summary import SCHEMA_ONLY, RunSummary, find_last_run, get_offsets
from arctic_runtime.model.state import (
    BaseState,
    ChangeTableState,
    Commit,
    ConflictingRelation,
    NamedViewState,
    Removed,
    SourceState,
    TableState,
)
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.reconcile import plan_reconciliation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.thresholds import Thresholds

TABLE = TableName("lake", "dwd", "orders")
UP, OTHER = TableName("lake", "ods", "up"), TableName("lake", "ods", "other")
RUN_AGAIN, REFRESH, EMPTY = Request(), Request(full_refresh=True), Request(schema_only=True)


def a_model(sql: str = "select * from ods.up", **config: Any) -> Model:
    return Model(TABLE, sql, ModelConfig(**{"primary_key": ("id",), "hash_key": "id", **config}))


STATE = a_model()
CHANGES = a_model("select * from `changes(lake.ods.up)` join `changes(lake.ods.other)`", input="changes")


def v(number: int, table: str = "uuid-1") -> Version:
    return Version(table, 100 + number, number)


def a_commit(version: Version, operation: str = "append", **summary: str) -> Commit:
    parent = version.snapshot - 1 if version.sequence > 1 else None
    return Commit(version, parent, operation, 1, 10, summary, 0)


def a_source(
    *numbers: int, name: TableName = UP, table: str = "uuid-1", operations: Mapping[int, str] = {}, form: int = 3
) -> SourceState:
    commits = tuple(a_commit(v(n, table), operations.get(n, "append")) for n in numbers)
    kept = frozenset(commit.version.snapshot for commit in commits)
    return SourceState(name, "table", commits[-1].version, commits, (Column("id", "int"),), form, kept, rows=1000)


def built(model: Model, offsets: Mapping[str, Version], **summary: str) -> TableState:
    """A table whose newest run consumed `offsets`."""
    said = {
        RUN: "token",
        MODE: "full",
        OFFSETS: encode_versions(offsets),
        QUERY: compute_fingerprint(model, Upstreams()),
        **summary,
    }
    commit = Commit(v(1, "changes"), None, "append", 3, 30, said, 0)
    key = {PRIMARY_KEY: format_key(model.config.primary_key)}
    base = BaseState("base", (), 1, commit.version, 3, key)
    return TableState(ChangeTableState("changes", (), (commit,), key), base)


def reading(*sources: SourceState | None, **reads: Any) -> Upstreams:
    names = [source.name if source else UP for source in sources]
    return Upstreams({str(n): s for n, s in zip(names, sources, strict=True)}, Reads(**reads))


def both(up: SourceState, other: SourceState | None = None) -> Upstreams:
    return reading(up, other or a_source(1, name=OTHER))


READ_ONE = {str(UP): v(1)}
READ_BOTH = {str(UP): v(1), str(OTHER): v(1)}


# Input: state.


NO_ORDER = "LIMIT without an ORDER BY that tells all rows apart, as by a primary key"


@pytest.mark.parametrize(
    ("state", "upstreams", "request_", "mode", "reason"),
    [
        (TableState(), reading(a_source(1)), RUN_AGAIN, "create", "FIRST_RUN"),
        (TableState(), reading(a_source(1)), REFRESH, "create", "FIRST_RUN"),
        (TableState(), reading(None, parsed=False), RUN_AGAIN, "create", "FIRST_RUN"),
        (TableState(), reading(a_source(1)), EMPTY, "create", "SCHEMA_ONLY"),
        (built(STATE, READ_ONE), reading(a_source(1)), EMPTY, "unchanged", "SCHEMA_ONLY"),
        (built(STATE, READ_ONE), reading(a_source(1)), RUN_AGAIN, "unchanged", "NOTHING_NEW"),
        (built(STATE, READ_ONE), reading(a_source(1, 2)), RUN_AGAIN, "incremental", "CHANGES"),
        (built(STATE, READ_ONE), reading(a_source(1, 2, operations={2: "overwrite"})), RUN_AGAIN, "incremental",
         "CHANGES"),
        (built(STATE, READ_ONE), reading(a_source(1)), REFRESH, "full", "FULL_REFRESH"),
        (built(STATE, READ_ONE), reading(a_source(1), a_source(1, name=OTHER)), RUN_AGAIN, "unchanged", "NOTHING_NEW"),
        (built(STATE, READ_BOTH), reading(a_source(1)), RUN_AGAIN, "unchanged", "NOTHING_NEW"),
        (built(STATE, READ_ONE), reading(a_source(1, table="uuid-2")), RUN_AGAIN, "full", "SOURCE_REPLACED"),
        (built(STATE, READ_ONE), reading(a_source(3, 4, form=2)), RUN_AGAIN, "full", "UPSTREAM_EXPIRED"),
        (built(STATE, READ_ONE), reading(a_source(1), parsed=False), RUN_AGAIN, "full", "UNPARSED"),
        (built(STATE, READ_ONE, **{QUERY: "another"}), reading(a_source(1)), RUN_AGAIN, "full", "QUERY_CHANGED"),
        (built(STATE, READ_ONE, **{QUERY: "another"}), reading(a_source(1, 2)), RUN_AGAIN, "full", "QUERY_CHANGED"),
        (built(STATE, READ_ONE), reading(a_source(1), unstable=("NOW",)), RUN_AGAIN, "full", "NON_DETERMINISTIC"),
        (built(STATE, {}), reading(None), RUN_AGAIN, "full", "SOURCE_UNKNOWN"),
        (built(STATE, {}), reading(), RUN_AGAIN, "unchanged", "NOTHING_NEW"),
        (built(STATE, READ_ONE, **{MODE: SCHEMA_ONLY}), reading(a_source(1)), RUN_AGAIN, "create", "FIRST_RUN"),
        (built(STATE, READ_ONE, **{MODE: SCHEMA_ONLY}), reading(a_source(1)), EMPTY, "create", "SCHEMA_ONLY"),
    ],
)  # fmt: skip
def test_a_table_that_is_a_query_follows_what_it_reads_or_is_recomputed_for_a_reason(
    state: TableState, upstreams: Upstreams, request_: Request, mode: str, reason: str
) -> None:
    decision = decide_refresh(STATE, state, upstreams, request_)
    assert (decision.mode, decision.reason) == (mode, reason)
    assert (decision.increment is not None) == (mode == "incremental")


@pytest.mark.parametrize(
    ("sql", "reason", "because"),
    [
        (
            "select id from ods.up limit 3",
            "LIMIT",
            NO_ORDER,
        ),
        (
            "select id, count(*) from ods.up group by rollup('all', id)",
            "GROUPING_SETS",
            "a constant among the keys of grouping sets",
        ),
        ("select twice(id) as id from ods.up", "UNKNOWN_FUNCTION", "twice is not a built-in function of Spark"),
        (
            "select count(distinct id) as id from ods.up",
            "EVERYTHING_AFFECTED",
            "an aggregate without groups has changed",
        ),
        ("select nothing as id from ods.up", "UNRESOLVED", "nothing is not a known column"),
    ],
)
@pytest.mark.parametrize("refresh", ["auto", "incremental"])
def test_a_query_that_no_rule_covers_is_recomputed_and_says_which_part_of_it(
    sql: str, reason: str, because: str, refresh: str
) -> None:
    model = a_model(sql, refresh=refresh)
    decision = decide_refresh(model, built(model, READ_ONE), reading(a_source(1, 2)), RUN_AGAIN)
    assert (decision.mode, decision.reason, decision.because) == ("full", reason, because)


@pytest.mark.parametrize("error", [KeyError("lake.dwd.gone"), RecursionError("too deep"), ValueError("a\nb")])
@pytest.mark.parametrize("step", ["analyse_query", "plan_maintenance", "add_reducers"])
def test_a_plan_that_fails_is_a_reason_to_compute_in_full(
    monkeypatch: pytest.MonkeyPatch, error: Exception, step: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(f"arctic_runtime.plan.refresh.increment.{step}", fail)
    upstreams = reading(a_source(1, 2))
    model, strict = (
        replace(model_kind, sql=f"{model_kind.sql} -- {type(error).__name__}") for model_kind in (STATE, STRICT)
    )
    decision = decide_refresh(model, built(model, READ_ONE), upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason) == ("full", "INCREMENT_FAILED")
    text, _, place = decision.because.rpartition(" (")
    assert (text, place[:29]) == (
        f"{type(error).__name__}: {str(error).splitlines()[0]}",
        "plan/refresh/test_decide.py:1",
    )
    with pytest.raises(PlanError, match="INCREMENT_FAILED"):
        decide_refresh(strict, built(strict, READ_ONE), upstreams, RUN_AGAIN)


def test_the_reason_that_ended_an_increment_is_stored_as_reported() -> None:
    for refusal in (Refusal("COST", "most - of it", lasts=False), Refusal("INCREMENT_FAILED", "[CAST] a b")):
        assert Refusal.from_text(str(refusal)) == refusal
    assert Refusal.from_text(None) is None
    assert Refusal.from_text("REASON_OF_ANOTHER_VERSION gone") is None


def test_what_changed_decides_whether_a_join_can_follow_it() -> None:
    model = a_model("select u.id from ods.up as u left join ods.other as o on o.id > u.id")
    upstreams = both(a_source(1, 2))
    assert decide_refresh(model, built(model, READ_BOTH), upstreams, RUN_AGAIN).mode == "incremental"
    upstreams = both(a_source(1), a_source(1, 2, name=OTHER))
    assert decide_refresh(model, built(model, READ_BOTH), upstreams, RUN_AGAIN).reason == "EVERYTHING_AFFECTED"


def many(*numbers: int, name: TableName = UP) -> SourceState:
    """A source of 1,000 rows of which each commit brought 200."""
    source = a_source(*numbers, name=name)
    return replace(source, commits=tuple(replace(commit, rows=9000) for commit in source.commits))


@pytest.mark.parametrize(
    ("refresh", "numbers", "mode", "reason"),
    [
        ("auto", (1, 2), "incremental", "CHANGES"),
        ("auto", (1, 2, 3), "full", "COST"),
        ("incremental", (1, 2, 3), "incremental", "CHANGES"),
        ("strict", (1, 2, 3), "incremental", "CHANGES"),
        ("full", (1, 2), "full", "AS_CONFIGURED"),
        ("full", (1,), "unchanged", "NOTHING_NEW"),
    ],
)
def test_refresh_says_whether_much_that_has_changed_is_followed(
    refresh: str, numbers: tuple[int, ...], mode: str, reason: str
) -> None:
    model = a_model(refresh=refresh)
    decision = decide_refresh(model, built(model, READ_ONE), reading(many(*numbers)), RUN_AGAIN)
    assert (decision.mode, decision.reason) == (mode, reason)


STRICT = a_model(refresh="strict")
LIMITED = a_model("select id from ods.up limit 3", refresh="strict")


@pytest.mark.parametrize(
    ("model", "state", "upstreams", "reason", "because"),
    [
        (LIMITED, TableState(), reading(a_source(1)), "LIMIT", NO_ORDER),
        (LIMITED, built(LIMITED, READ_ONE), reading(a_source(1, 2)), "LIMIT", NO_ORDER),
        (STRICT, TableState(), reading(a_source(1), parsed=False), "UNPARSED", "the query could not be read"),
        (STRICT, TableState(), reading(a_source(1), unstable=("NOW",)), "NON_DETERMINISTIC", "NOW"),
        (STRICT, TableState(), reading(None), "SOURCE_UNKNOWN", str(UP)),
        (STRICT, built(STRICT, READ_ONE), reading(a_source(1, table="uuid-2")), "SOURCE_REPLACED", "created again"),
        (STRICT, built(STRICT, READ_ONE), reading(a_source(3, form=2)), "UPSTREAM_EXPIRED", "no longer keeps"),
        (STRICT, built(STRICT, {}), reading(a_source(1)), "SOURCE_UNKNOWN", "was not read by the last run"),
    ],
)  # fmt: skip
def test_a_strict_model_that_can_not_be_maintained_is_an_error_from_the_first_run_on(
    model: Model, state: TableState, upstreams: Upstreams, reason: str, because: str
) -> None:
    with pytest.raises(PlanError) as raised:
        decide_refresh(model, state, upstreams, RUN_AGAIN)
    message = str(raised.value)
    assert message.startswith("lake.dwd.orders: `refresh: strict`")
    assert because in message
    assert f"({reason})\n  what to do: change the query, or set `refresh: auto`" in message


@pytest.mark.parametrize("model", [STRICT, LIMITED])
def test_a_strict_model_is_recomputed_where_somebody_asked_for_it(model: Model) -> None:
    upstreams = reading(a_source(1, 2))
    changed = built(model, READ_ONE, **{QUERY: "another"})
    assert decide_refresh(model, changed, upstreams, RUN_AGAIN).reason == "QUERY_CHANGED"
    assert decide_refresh(model, built(model, READ_ONE), upstreams, REFRESH).reason == "FULL_REFRESH"
    assert decide_refresh(model, built(model, READ_ONE), reading(a_source(1)), RUN_AGAIN).mode == "unchanged"
    assert decide_refresh(model, TableState(), upstreams, EMPTY).reason == "SCHEMA_ONLY"


def test_a_changed_upstream_that_the_query_takes_nothing_of_is_no_news() -> None:
    model = a_model("with unread as (select * from ods.other) select id from ods.up")
    upstreams = both(a_source(1), a_source(1, 2, name=OTHER))
    decision = decide_refresh(model, built(model, READ_BOTH), upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason, decision.increment) == ("unchanged", "NOTHING_NEW", None)


def test_a_recomputation_says_what_was_not_deterministic_or_not_known() -> None:
    state = built(STATE, {})
    assert decide_refresh(STATE, state, reading(None), RUN_AGAIN).because == str(UP)
    assert decide_refresh(STATE, state, reading(unstable=("NOW", "RAND")), RUN_AGAIN).because == "NOW, RAND"


def test_what_a_run_consumes_is_the_newest_version_of_every_upstream_it_knows() -> None:
    state = built(STATE, READ_ONE)
    decision = decide_refresh(STATE, state, reading(a_source(1, 3), a_source(7, name=OTHER)), RUN_AGAIN)
    assert decision.mode == "incremental"
    assert decision.consumed == {str(UP): v(3), str(OTHER): v(7)}
    assert decision.windows[str(UP)] == Window(str(UP), v(1), v(3))
    assert decision.windows[str(OTHER)] == Window(str(OTHER), None, v(7))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 30), min_size=1, unique=True).map(sorted))
def test_a_run_that_recorded_its_offsets_finds_nothing_new_afterwards(numbers: list[int]) -> None:
    upstreams = reading(a_source(*numbers))
    first = decide_refresh(STATE, TableState(), upstreams, RUN_AGAIN)
    again = decide_refresh(STATE, built(STATE, first.consumed), upstreams, RUN_AGAIN)
    assert again == replace(again, mode="unchanged", reason="NOTHING_NEW")


def test_changes_in_the_query_of_a_state_need_the_other_input() -> None:
    with pytest.raises(ConfigError, match="needs `input: changes`"):
        decide_refresh(a_model(CHANGES.sql), TableState(), Upstreams(), RUN_AGAIN)


# Input: changes.


@pytest.mark.parametrize(
    ("state", "upstreams", "request_", "mode", "reason"),
    [
        (TableState(), both(a_source(1)), RUN_AGAIN, "create", "FIRST_RUN"),
        (TableState(), both(a_source(1, 2, operations={2: "delete"})), RUN_AGAIN, "create", "FIRST_RUN"),
        (TableState(), both(a_source(1)), EMPTY, "create", "SCHEMA_ONLY"),
        (built(CHANGES, READ_BOTH), both(a_source(1)), RUN_AGAIN, "unchanged", "NOTHING_NEW"),
        (built(CHANGES, READ_BOTH), both(a_source(1, 2)), RUN_AGAIN, "incremental", "CHANGES"),
        (built(CHANGES, READ_BOTH), both(a_source(1, 2, operations={2: "replace"})), RUN_AGAIN, "incremental",
         "CHANGES"),
        (built(CHANGES, READ_BOTH), both(a_source(1, 2, operations={1: "overwrite"})), RUN_AGAIN, "incremental",
         "CHANGES"),
        (built(CHANGES, READ_BOTH), both(a_source(2, 3)), RUN_AGAIN, "incremental", "CHANGES"),
        (built(CHANGES, READ_BOTH, **{QUERY: "another"}), both(a_source(1, 2)), RUN_AGAIN, "incremental", "CHANGES"),
        (built(CHANGES, READ_BOTH), both(a_source(1)), REFRESH, "full", "FULL_REFRESH"),
        (built(CHANGES, READ_BOTH), both(a_source(1, 2)), EMPTY, "unchanged", "SCHEMA_ONLY"),
        (built(CHANGES, READ_ONE), both(a_source(1)), RUN_AGAIN, "incremental", "CHANGES"),
        (built(CHANGES, READ_BOTH, **{MODE: SCHEMA_ONLY}), both(a_source(1)), RUN_AGAIN, "create", "FIRST_RUN"),
    ],
)  # fmt: skip
def test_a_table_of_events_takes_what_is_new_exactly_once(
    state: TableState, upstreams: Upstreams, request_: Request, mode: str, reason: str
) -> None:
    decision = decide_refresh(CHANGES, state, upstreams, request_)
    assert (decision.mode, decision.reason) == (mode, reason)


def test_windows_follow_on_one_another_without_a_gap_and_restart_only_when_asked() -> None:
    state, upstreams = built(CHANGES, READ_BOTH), both(a_source(1, 2))
    assert decide_refresh(CHANGES, state, upstreams, RUN_AGAIN).windows == {
        str(UP): Window(str(UP), v(1), v(2)),
        str(OTHER): Window(str(OTHER), v(1), v(1)),
    }
    assert {w.start for w in decide_refresh(CHANGES, state, upstreams, REFRESH).windows.values()} == {None}
    assert {w.start for w in decide_refresh(CHANGES, TableState(), upstreams, RUN_AGAIN).windows.values()} == {None}


@settings(max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=2, unique=True).map(sorted), st.data())
def test_every_event_is_in_exactly_one_window(numbers: list[int], data: st.DataObject) -> None:
    model = a_model("select * from `changes(lake.ods.up)`", input="changes")
    state, read, seen = TableState(), None, 0
    while seen < len(numbers):
        seen = data.draw(st.integers(seen + 1, len(numbers)))
        decision = decide_refresh(model, state, reading(a_source(*numbers[:seen])), RUN_AGAIN)
        window = decision.windows[str(UP)]
        assert (window.start, window.end) == (read, v(numbers[seen - 1]))
        read, state = window.end, built(model, decision.consumed)


def test_a_model_of_events_needs_a_query_over_changes() -> None:
    with pytest.raises(ConfigError, match=r"no changes\(…\) in the query"):
        decide_refresh(a_model(input="changes"), TableState(), Upstreams(), RUN_AGAIN)


@pytest.mark.parametrize("request_", [RUN_AGAIN, REFRESH])
def test_a_source_without_a_snapshot_cannot_be_read_for_its_changes(request_: Request) -> None:
    upstreams = Upstreams({str(UP): None, str(OTHER): a_source(1, name=OTHER)})
    with pytest.raises(SourceError, match=r"the changes of lake\.ods\.up can't be read"):
        decide_refresh(CHANGES, built(CHANGES, READ_BOTH), upstreams, request_)


@pytest.mark.parametrize(
    ("removed", "lost"),
    [
        ((Removed(1, 5), Removed(2, 7)), None),
        ((), None),
        ((Removed(1, 5), Removed(3, 7)), "delete in snapshot 104, which took away 7 row(s) that were not read yet"),
        (None, "delete in snapshot 104, which may have changed or taken away rows that were not read yet"),
    ],
)
def test_rows_of_events_may_be_deleted_when_they_were_read(
    removed: tuple[Removed, ...] | None, lost: str | None
) -> None:
    up = a_source(2, 3, 4, operations={4: "delete"})
    up = replace(up, commits=(*up.commits[:-1], replace(up.commits[-1], removed=removed)))
    state = built(CHANGES, {str(UP): v(2), str(OTHER): v(1)})
    if lost is None:
        assert decide_refresh(CHANGES, state, both(up), RUN_AGAIN).mode == "incremental"
    else:
        assert lost in source_error(up, v(2))


@pytest.mark.parametrize("up", [replace(a_source(5), trimmed=3), a_source(1, 2, operations={2: "delete"})])
def test_a_reader_that_begins_is_informed_of_events_that_are_gone(up: SourceState) -> None:
    for state, request in ((TableState(), RUN_AGAIN), (built(CHANGES, READ_BOTH), REFRESH)):
        because = decide_refresh(CHANGES, state, both(up), request).because
        assert because == "events were deleted from lake.ods.up, and those that are left are read"
    assert decide_refresh(CHANGES, TableState(), both(a_source(1)), RUN_AGAIN).because == ""


def test_rows_that_expiry_deleted_before_they_were_read_are_an_error() -> None:
    up = replace(a_source(5, 6), trimmed=3)
    assert "those up to sequence number 3 may have been deleted" in source_error(up, v(2))
    state = built(CHANGES, {str(UP): v(3), str(OTHER): v(1)})
    assert decide_refresh(CHANGES, state, both(up), RUN_AGAIN).mode == "incremental"


def source_error(up: SourceState, offset: Version) -> str:
    state = built(CHANGES, {str(UP): offset, str(OTHER): v(1)})
    with pytest.raises(SourceError) as raised:
        decide_refresh(CHANGES, state, both(up), RUN_AGAIN)
    text = str(raised.value)
    assert "lake.dwd.orders: upstream lake.ods.up" in text
    assert "--full-refresh" in text
    refreshed = decide_refresh(CHANGES, state, both(up), REFRESH)
    assert (refreshed.mode, refreshed.windows[str(UP)].start) == ("full", None)
    return text


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("numbers", [(1,), (1, 2), (1, 2, 3), (9,)])
def test_an_upstream_dropped_and_recreated_is_never_taken_for_the_old_one(numbers: tuple[int, ...], form: int) -> None:
    text = source_error(a_source(*numbers, table="uuid-2", form=form), v(2))
    assert "dropped and created again" in text
    assert "expected: table uuid-1\n  found: table uuid-2" in text


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("operation", ["overwrite", "delete"])
@pytest.mark.parametrize("kept", [(1, 2, 3, 4), (2, 3, 4)])
def test_an_upstream_that_was_overwritten_is_not_skipped_over(operation: str, form: int, kept: tuple[int, ...]) -> None:
    if form == 2 and 1 not in kept:
        kept = (1, *kept)
    text = source_error(a_source(*kept, operations={3: operation}, form=form), v(1))
    assert f"found: {operation} in snapshot 103" in text


def test_an_overwritten_upstream_without_sequence_numbers_is_not_skipped_over() -> None:
    commits = tuple(
        a_commit(Version("uuid-1", snapshot, 0), operation)
        for snapshot, operation in [(1, "append"), (2, "overwrite"), (3, "append")]
    )
    up = SourceState(UP, "table", commits[-1].version, commits, (), 1)
    assert "found: overwrite in snapshot 2" in source_error(up, commits[0].version)


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("numbers", [(1, 2), (1, 2, 5), (1, 2, 5, 6)])
def test_an_upstream_that_was_rolled_back_is_noticed_even_when_it_went_on(numbers: tuple[int, ...], form: int) -> None:
    text = source_error(a_source(*numbers, form=form), v(4))
    assert "was rolled back" in text
    assert "expected: snapshot 104" in text


def test_expired_snapshots_of_a_format_2_table_are_a_gap() -> None:
    text = source_error(a_source(3, 4, form=2), v(1))
    assert "UPSTREAM_EXPIRED" in text
    assert "expected: snapshot 101\n  found: snapshot 103 as the oldest" in text


def test_expired_snapshots_of_a_format_3_table_are_none_since_rows_know_their_commit() -> None:
    decision = decide_refresh(CHANGES, built(CHANGES, READ_BOTH), both(a_source(3, 4)), RUN_AGAIN)
    assert decision.windows[str(UP)] == Window(str(UP), v(1), v(4))


def test_an_upstream_that_was_replaced_as_a_whole_is_not_taken_for_an_expired_one() -> None:
    begun_anew = replace(a_source(3), commits=(Commit(v(3), None, "append", 1, 10, {}, 0),))
    assert "was replaced since the last run" in source_error(begun_anew, v(2))


# The table that is there.


@pytest.mark.parametrize("model", [STATE, CHANGES])
@pytest.mark.parametrize("request_", [RUN_AGAIN, REFRESH, EMPTY])
def test_a_lost_change_table_is_never_recreated_over_a_base_that_is_there(model: Model, request_: Request) -> None:
    state = replace(built(model, READ_BOTH), changes=None)
    with pytest.raises(CorruptState, match=r"its change table is missing"):
        decide_refresh(model, state, both(a_source(1)), request_)


LAID_OUT_ANEW = [{"sort_key": ("g",)}, {"nodes": 8}, {"tblproperties": {"write.metadata.compression-codec": "gzip"}}]


def laid_out_by(model: Model) -> TableState:
    state = built(model, READ_ONE)
    assert state.base is not None
    return replace(state, base=replace(state.base, properties={LAYOUT: format_layout(model.config)}))


@pytest.mark.parametrize("changed", LAID_OUT_ANEW)
def test_another_layout_is_applied_by_the_next_run(changed: dict[str, Any]) -> None:
    model, state = a_model(**changed), laid_out_by(STATE)
    assert decide_refresh(model, state, reading(a_source(1)), RUN_AGAIN).mode == "unchanged"
    assert [type(step).__name__ for step in plan_reconciliation(model, state, Thresholds().merge)] == ["CreateBase"]


@pytest.mark.parametrize("changed", LAID_OUT_ANEW)
def test_another_layout_is_an_error_or_waits_where_the_model_says_so(changed: dict[str, Any]) -> None:
    state = laid_out_by(STATE)
    failing, waiting = (a_model(**changed, on_configuration_change=value) for value in ("fail", "continue"))
    with pytest.raises(ConfigError, match="the layout of the table differs"):
        decide_refresh(failing, state, reading(a_source(1)), RUN_AGAIN)
    assert decide_refresh(waiting, state, reading(a_source(1)), RUN_AGAIN).mode == "unchanged"
    assert plan_reconciliation(waiting, state, Thresholds().merge) == ()
    assert {
        type(step).__name__ for step in plan_reconciliation(apply_configured_layout(waiting), state, Thresholds().merge)
    } == {"CreateBase"}
    assert decide_refresh(apply_configured_layout(failing), state, reading(a_source(1)), REFRESH).mode == "full"


@pytest.mark.parametrize("has_history", [True, False])
def test_history_can_not_be_switched_on_or_off(has_history: bool) -> None:
    plain, versions = a_model(), a_model(history="scd2", primary_key=("id", "_valid_from"))
    there, wanted = (versions, plain) if has_history else (plain, versions)
    with pytest.raises(ConfigError, match="`history` can't be changed in place") as raised:
        decide_refresh(wanted, built(there, READ_ONE), reading(a_source(1)), REFRESH)
    assert f"expected: a table for `history: {wanted.config.history}`" in str(raised.value)


@pytest.mark.parametrize("key", [("other",), ("id", "other"), ()])
@pytest.mark.parametrize("request_", [RUN_AGAIN, REFRESH])
def test_another_primary_key_is_refused(key: tuple[str, ...], request_: Request) -> None:
    state = built(a_model(primary_key=key), READ_ONE)
    with pytest.raises(ConfigError, match="primary key can't be changed in place") as raised:
        decide_refresh(STATE, state, reading(a_source(1)), request_)
    assert f"in the table: {format_key(key)}\n  in the model: id" in str(raised.value)


def test_a_key_changes_as_long_as_no_run_has_succeeded() -> None:
    never_loaded = TableState(changes=ChangeTableState("u", (), (), {PRIMARY_KEY: "other"}))
    assert decide_refresh(STATE, never_loaded, reading(a_source(1)), RUN_AGAIN).mode == "create"


@pytest.mark.parametrize("request_", [RUN_AGAIN, EMPTY])
@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_conflicting_relation_is_never_taken_over_silently(request_: Request, kind: Any) -> None:
    state = TableState(conflicting=ConflictingRelation(TABLE, kind))
    with pytest.raises(ConfigError, match=f"the {kind} lake.dwd.orders, which was not created by this model") as raised:
        decide_refresh(STATE, state, reading(a_source(1)), request_)
    assert "--full-refresh to replace it" in str(raised.value)


def test_a_conflicting_relation_is_replaced_only_under_the_models_own_name_and_only_when_asked() -> None:
    upstreams = reading(a_source(1))
    assert (
        decide_refresh(STATE, TableState(conflicting=ConflictingRelation(TABLE, "view")), upstreams, REFRESH).mode
        == "create"
    )
    assert (
        decide_refresh(
            STATE, TableState(conflicting=ConflictingRelation(TABLE, "view", is_clone=True)), upstreams, RUN_AGAIN
        ).mode
        == "create"
    )
    with pytest.raises(ConfigError) as raised:
        decide_refresh(STATE, TableState(conflicting=ConflictingRelation(TABLE.changes, "table")), upstreams, REFRESH)
    assert "full-refresh" not in str(raised.value)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_plain_relation_that_the_model_was_before_is_replaced(kind: Any) -> None:
    own = replace(STATE, may_replace=True)
    former = ConflictingRelation(TABLE, kind, is_plain=True)
    assert decide_refresh(own, TableState(conflicting=former), reading(a_source(1)), RUN_AGAIN).mode == "create"
    for model, conflicting in (
        (STATE, former),
        (own, replace(former, is_plain=False)),
        (own, replace(former, name=TABLE.changes)),
    ):
        with pytest.raises(ConfigError, match="another relation has its name"):
            decide_refresh(model, TableState(conflicting=conflicting), reading(a_source(1)), RUN_AGAIN)


def test_a_plain_relation_is_kept_if_the_change_table_no_longer_has_all_rows() -> None:
    own = replace(STATE, may_replace=True)
    state = built(own, READ_ONE)
    assert state.changes is not None
    former = ConflictingRelation(TABLE, "table", is_plain=True)
    kept = tuple(replace(commit, parent=1) for commit in state.changes.commits)
    trimmed = replace(state, base=None, changes=replace(state.changes, commits=kept), conflicting=former)
    with pytest.raises(ConfigError, match="another relation has its name"):
        decide_refresh(own, trimmed, reading(a_source(1)), RUN_AGAIN)


_keys = st.lists(st.text(st.sampled_from("ab,\\"), min_size=1, max_size=4), max_size=4)


@settings(max_examples=50)
@given(_keys, _keys)
def test_two_keys_are_written_alike_only_if_they_are_the_same(left: list[str], right: list[str]) -> None:
    assert (format_key(left) == format_key(right)) == (left == right)


@settings(max_examples=50)
@given(_keys)
def test_a_key_is_read_as_it_was_written(key: list[str]) -> None:
    assert parse_key(format_key(key)) == tuple(key)


def test_the_last_run_is_the_newest_that_loaded_rows() -> None:
    one, two = {RUN: "1", MODE: "create"}, {RUN: "2", MODE: "full"}
    others = [{}, {RUN: "3", MODE: SCHEMA_ONLY}, {"engine": "compaction"}]
    commits = tuple(Commit(v(i), None, "append", 1, 1, summary, 0) for i, summary in enumerate([one, two, *others]))
    assert find_last_run(ChangeTableState("u", (), commits, {})) == RunSummary.decode(two)
    assert find_last_run(ChangeTableState("u", (), (commits[2], *commits[2:]), {})) is None
    assert find_last_run(None) is None


def test_offsets_are_those_that_a_run_recorded() -> None:
    assert get_offsets(RunSummary.decode({OFFSETS: encode_versions(READ_BOTH)})) == READ_BOTH
    assert get_offsets(RunSummary()) == get_offsets(None) == {}
    with pytest.raises(CorruptState):
        RunSummary.decode({OFFSETS: "what?"})


def test_a_decision_without_windows_consumes_nothing() -> None:
    assert Decision("unchanged", "NOTHING_NEW").consumed == {}


def test_a_view_of_change_rows_takes_no_name_of_another_relation() -> None:
    model = a_model(changes_view=True)
    own, other = (NamedViewState(TABLE.with_name("orders_cdf"), "view", (), is_own) for is_own in (True, False))
    assert decide_refresh(model, TableState(changes_views=(own,)), reading(a_source(1)), RUN_AGAIN).mode == "create"
    with pytest.raises(ConfigError, match=r"view of change rows[\s\S]*the view lake\.dwd\.orders_cdf, which was not"):
        decide_refresh(model, TableState(changes_views=(other,)), reading(a_source(1)), REFRESH)
    both = a_model(history="scd2", primary_key=("id", "_valid_from"), current_view="same", changes_view="same")
    with pytest.raises(ConfigError, match="`current_view` and `changes_view` have the same name"):
        decide_refresh(both, TableState(), reading(a_source(1)), RUN_AGAIN)


def test_a_view_of_current_versions_takes_no_name_of_another_relation() -> None:
    model = a_model(history="scd2", primary_key=("id", "_valid_from"), current_view="orders_now")
    own, other = (NamedViewState(TABLE.with_name("orders_now"), "view", (), is_own) for is_own in (True, False))
    assert decide_refresh(model, TableState(current_views=(own,)), reading(a_source(1)), RUN_AGAIN).mode == "create"
    with pytest.raises(
        ConfigError, match=r"found: the view lake\.dwd\.orders_now, which was not created by this model"
    ):
        decide_refresh(model, TableState(current_views=(other,)), reading(a_source(1)), REFRESH)
    for name in ("orders", "orders__changes", "orders__base"):
        named = replace(model, config=replace(model.config, current_view=name))
        with pytest.raises(ConfigError, match="is the name of one of the model's own tables"):
            decide_refresh(named, TableState(), reading(a_source(1)), RUN_AGAIN)
