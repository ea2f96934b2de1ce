"""Which rows of a clone a table takes over: the query, the offsets and the change rows have to allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import Clone, CloneOrigin, CloneUpstream, ObservedClone
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CHANGELOG, MODE, OFFSETS, PROMOTED, QUERY, QUERY_TEXT, RUN, SESSION
from arctic_runtime.model.query_text import QueryText
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.promote import check_promotable
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.session_changes import SessionState
from tests.unit.plan.refresh.test_decide import TABLE, UP, a_commit, a_model, v
from tests.unit.plan.refresh.test_edits import reading, source, table
from tests.unit.plan.refresh.test_reverts import made_by, own_of

OLD = "select id, v from `lake`.`ods`.`up`"
NEW = "select id, v from `lake`.`ods`.`up` where v > 1"
CLONE, CLONED_UP = TableName("lake", "pr", "orders"), TableName("lake", "pr", "up")
TABLES = {CLONE: TABLE, CLONED_UP: UP}
SHARED = v(3, "changes")


def production(*commits: Commit, sql: str = OLD) -> TableState:
    """The origin: versions 1 to 3 are those that the clone shares."""
    state = table(a_model(sql))
    assert state.changes is not None
    columns = (Column("id", "bigint"), Column("v", "int"))
    return replace(state, changes=replace(state.changes, columns=columns, commits=commits))


BEFORE = (made_by(3, OLD, 1), made_by(4, OLD, 3, rows=7))


def cloned(
    sql: str = NEW, reads: TableName = UP, offset: Version | None = None, number: int = 4, **known: Any
) -> ObservedClone:
    """A clone whose version `number` was made by the query `sql`, which reads an upstream up to an offset."""
    own = sql.replace("`ods`", f"`{reads.schema}`")
    upstreams = reading(replace(source(1, 2, 3), name=reads))
    model = replace(a_model(own), table=CLONE)
    said = {
        RUN: "run",
        MODE: "incremental",
        OFFSETS: encode_versions({str(reads): offset or v(2)}),
        QUERY: compute_fingerprint(model, upstreams),
        **known.pop("said", {}),
    }
    shared, made = replace(SHARED, table="clone"), v(number, "clone")
    commits = (replace(a_commit(shared, **BEFORE[0].summary), rows=3), replace(a_commit(made, **said), rows=5))
    state = production(*commits)
    assert state.changes is not None
    properties = {QUERY_TEXT: QueryText.from_model(model, known.pop("views", {})).encode()}
    changes = replace(state.changes, uuid="clone", properties=properties)
    origin = CloneOrigin(TABLE, SHARED, TABLE.changes, 0, "")
    observed = replace(own_of(replace(state, changes=changes)), name=CLONE)
    clone = Clone(CLONE, origin, 0)
    return replace(ObservedClone(clone, changes, observed, None, {}, TABLES), **known)


def upstream(made: Version, shared: Version | None = None) -> CloneUpstream:
    """A clone of the upstream, which shares versions with it, and whose last run made a version."""
    origin = CloneOrigin(UP, shared or v(1), UP.changes, 0, "")
    return CloneUpstream(Clone(CLONED_UP, origin, 0), made)


def decide(
    clone: ObservedClone,
    sql: str = NEW,
    state: TableState | None = None,
    up: SourceState | None = None,
    session: SessionState | None = None,
    **config: Any,
) -> Decision:
    known = state or production(*BEFORE)
    upstreams = replace(reading(up or source(1, 2, 3, 4)), own=own_of(known))
    return decide_refresh(a_model(sql, **config), known, upstreams, Request(clone=clone, session=session))


def test_a_table_takes_over_the_rows_and_the_offsets_of_its_clone() -> None:
    decision = decide(cloned())
    assert (decision.mode, decision.reason) == ("incremental", "PROMOTED")
    assert decision.because == "lake.pr.orders has computed this query"
    assert decision.consumed == {str(UP): v(2)}
    assert decision.has_later_changes
    assert decision.promotion is not None
    assert decision.promotion.changed is not None
    assert tuple(side.window for side in decision.promotion.changed) == (
        Window(str(CLONE), v(3, "clone"), v(4, "clone")),
        Window(str(TABLE), SHARED, v(4, "changes")),
    )
    assert decision.promotion.describe_plan()[0] == (
        "takes over the clone lake.pr.orders, by 12 change rows of both since the clone was made"
    )
    entries = decision.promotion.build_entries()
    assert entries.promoted == {str(CLONE): v(4, "clone")}
    assert (entries.offsets, entries.query) == (None, None), "those of the run"


def test_a_clone_that_reads_clones_is_the_same_query_by_their_names() -> None:
    shared = cloned(reads=CLONED_UP, offset=v(1, "up"), upstreams={str(CLONED_UP): upstream(v(1, "up"))})
    assert decide(shared).consumed == {str(UP): v(1)}


def promoted_up(version: int, made: Version) -> SourceState:
    """The upstream, which has taken over a version of its clone."""
    state = source(1, 2, 3, 4)
    commits = [
        replace(commit, summary={PROMOTED: encode_versions({str(CLONED_UP): made})} if place == version - 1 else {})
        for place, commit in enumerate(state.commits)
    ]
    return replace(state, commits=tuple(commits))


def test_the_version_at_which_an_upstream_took_over_its_clone_stands_for_that_of_the_clone() -> None:
    made = v(9, "up")
    clone = cloned(reads=CLONED_UP, offset=made, upstreams={str(CLONED_UP): upstream(made)})
    assert decide(clone, up=promoted_up(3, made)).consumed == {str(UP): v(3)}
    with pytest.raises(ConfigError, match=r"lake.ods.up does not have the rows of lake.pr.up that the clone has read"):
        decide(clone)
    with pytest.raises(ConfigError, match="does not have the rows"):
        decide(clone, up=promoted_up(3, v(8, "up")))


def test_a_model_below_takes_over_its_clone_without_an_edit_of_its_own() -> None:
    made = v(9, "up")
    clone = cloned(OLD, reads=CLONED_UP, offset=made, upstreams={str(CLONED_UP): upstream(made)})
    assert decide(clone, OLD).reason == "CHANGES", "the upstream was not promoted, so a run follows it"
    assert decide(clone, OLD, up=promoted_up(4, made)).reason == "PROMOTED"
    assert decide(clone, OLD, up=promoted_up(2, made)).reason == "CHANGES", "the last run has read that"


@pytest.mark.parametrize(
    ("state", "clone"),
    [
        (production(*BEFORE), cloned(number=3)),
        (
            production(*BEFORE, made_by(5, NEW, 3, **{PROMOTED: encode_versions({str(CLONE): v(4, "clone")})})),
            cloned(),
        ),
        (production(*BEFORE, made_by(5, NEW, 3)), cloned()),
    ],
)
def test_nothing_is_taken_over_that_the_table_has(state: TableState, clone: ObservedClone) -> None:
    assert decide(clone, state=state).promotion is None


WITHOUT_TEXT = replace(cloned(), changes=replace(cloned().changes, properties={}))


@pytest.mark.parametrize(
    ("clone", "config", "because"),
    [
        (cloned(f"{NEW} and v < 9"), {}, "its query, or a view that it reads, is another one"),
        (cloned(views={"lake.ods.shown": "select 1"}), {}, "its query, or a view that it reads, is another one"),
        (WITHOUT_TEXT, {}, "the text of its query is not stored"),
        (cloned(), {"keep_deleted": False}, "the model's key, contract"),
        (cloned(reads=CLONED_UP), {}, "reads lake.pr.up, which is no clone of lake.ods.up"),
        (cloned(), {"refresh": "full"}, "a run would compute all rows after it: refresh: full"),
    ],
)  # fmt: skip
def test_a_clone_that_can_not_be_taken_over_is_refused_by_its_reason(
    clone: ObservedClone, config: dict[str, Any], because: str
) -> None:
    with pytest.raises(ConfigError, match=because):
        decide(clone, **config)


@pytest.mark.parametrize(
    ("config", "because"),
    [({"input": "changes"}, "applies each event once"), ({"history": "scd2"}, "a record of what it has shown")],
)
def test_a_table_whose_rows_are_not_those_of_its_query_alone_takes_over_none(
    config: dict[str, Any], because: str
) -> None:
    with pytest.raises(ConfigError, match=because):
        check_promotable(a_model(**config))


def test_a_clone_of_another_table_is_refused() -> None:
    clone = cloned()
    other = replace(clone.clone, origin=replace(clone.clone.origin, model=UP))
    with pytest.raises(ConfigError, match=r"is a clone of lake\.ods\.up"):
        decide(replace(clone, clone=other))
    gone = replace(clone.clone, origin=replace(clone.clone.origin, version=v(3, "earlier")))
    with pytest.raises(ConfigError, match="was dropped since"):
        decide(replace(clone, clone=gone))


def test_a_clone_that_another_spark_computed_is_refused_once_the_session_is_known() -> None:
    session, other = (SessionState(version, {}) for version in ("4.0.1", "3.5.1"))
    clone = cloned(said={SESSION: other.encode()})
    assert decide(clone).reason == "PROMOTED"
    with pytest.raises(ConfigError, match=r"3\.5"):
        decide(clone, session=session)


@pytest.mark.parametrize("side", ["clone", "own"])
def test_all_rows_are_compared_if_change_rows_do_not_say_what_was_before(side: str) -> None:
    clone, state = cloned(), production(*BEFORE)
    if side == "clone":
        clone = cloned(said={CHANGELOG: "input"})
    else:
        state = production(BEFORE[0], made_by(4, OLD, 3, **{CHANGELOG: "input"}))
    decision = decide(clone, state=state)
    assert decision.promotion is not None
    assert decision.promotion.changed is None
    assert decision.promotion.describe_plan()[0] == "compares all rows with those of the clone lake.pr.orders"


def test_all_rows_are_compared_if_a_column_went() -> None:
    clone, state = cloned(), production(*BEFORE)
    assert state.changes is not None
    dropped = replace(state, changes=replace(state.changes, dropped_columns=frozenset({SHARED.snapshot})))
    lacking = replace(clone, source=replace(clone.source, columns=clone.source.columns[:1]))
    for decision in (decide(clone, state=dropped), decide(lacking)):
        assert decision.promotion is not None
        assert decision.promotion.changed is None
