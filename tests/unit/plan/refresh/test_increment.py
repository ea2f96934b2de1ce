"""The incremental plan of a model: which windows can be followed, at what cost, and what the plan reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Join, list_scans, walk_tree
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.strategies.maintain import AffectedKeys, Deltas
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.model.columns import BEFORE, Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CHANGELOG, REPAIRED
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh import increment as increments
from arctic_runtime.plan.refresh.increment import (
    Increment,
    Upstreams,
    analyse_model,
    check_maintained,
    collect_statistics,
    is_keyed,
    plan_increment,
    remove_join_hints,
)
from arctic_runtime.thresholds import SHIPPED

LIMITS = SHIPPED.incremental
JOINS = SHIPPED.joins

TABLE = TableName("lake", "dwd", "orders")
UP, OTHER = TableName("lake", "ods", "up"), TableName("lake", "ods", "other")
COLUMNS = (Column("id", "bigint"), Column("place", "string"), Column("tags", "map<string,string>"))
JOINED = "select u.id, o.place from ods.up as u left join ods.other as o on o.id = u.id"


def a_model(sql: str = "select id, place from ods.up", key: tuple[str, ...] = ("id",), refresh: Any = "auto") -> Model:
    return Model(TABLE, sql, ModelConfig(key, refresh=refresh))


def v(sequence: int, table: str = "uuid") -> Version:
    return Version(table, 100 + sequence, sequence)


READ = v(1)


def a_source(
    sequences: Iterable[int] = (1, 2),
    name: TableName = UP,
    operations: Mapping[int, str] = {},
    first_parent: int | None = None,
    **fields: Any,
) -> SourceState:
    """A table of 1,000 rows; each of its commits brought 10."""
    numbers = list(sequences)
    parents = [first_parent, *(v(number).snapshot for number in numbers)]
    commits = tuple(
        Commit(v(number), parent, operations.get(number, "append"), 10, 100, {}, 0)
        for number, parent in zip(numbers, parents, strict=False)
    )
    kept = frozenset(commit.version.snapshot for commit in commits)
    state = SourceState(name, "table", commits[-1].version, commits, COLUMNS, 3, kept, rows=1000)
    return replace(state, **fields)


def keyed(source: SourceState) -> SourceState:
    """The same source as an arctic model's."""
    return replace(source, kind="changes", key=("id",))


def telling(source: SourceState) -> SourceState:
    """The same source as an arctic model's whose log tells what rows were before."""
    return replace(keyed(source), columns=(*COLUMNS, Column(BEFORE, "struct<place:string>")))


def saying(source: SourceState, summary: Mapping[str, str], sequence: int = 2) -> SourceState:
    """The same source with a commit whose summary says this."""
    commits = (
        replace(commit, summary=summary) if commit.version == v(sequence) else commit for commit in source.commits
    )
    return replace(source, commits=tuple(commits))


def without_old_rows(source: SourceState, sequence: int) -> SourceState:
    """The same source with a commit whose change rows do not tell them."""
    return saying(source, {CHANGELOG: "input"}, sequence)


def upstreams(*sources: SourceState, views: Mapping[str, str] = {}) -> Upstreams:
    return Upstreams({str(source.name): source for source in sources}, views=views)


def windows(*sources: SourceState, start: Version | None = READ) -> dict[str, Window]:
    return {str(source.name): Window(str(source.name), start, source.version) for source in sources}


def plan_or_fail(model: Model, *sources: SourceState, views: Mapping[str, str] = {}) -> Increment:
    increment = plan_increment(model, upstreams(*sources, views=views), windows(*sources))
    assert increment is not None
    return increment


def explain_refusal(model: Model, source: SourceState, start: Version | None = READ) -> tuple[str, str]:
    with pytest.raises(NotMaintained) as raised:
        plan_increment(model, upstreams(source), windows(source, start=start))
    return raised.value.reason, raised.value.because


# What came between two versions.

EXPIRED = {"sequences": (3, 4), "first_parent": 102}


@pytest.mark.parametrize(
    ("source", "start", "reason", "because"),
    [
        (a_source(), None, "SOURCE_UNKNOWN", "was not read by the last run"),
        (a_source(), v(1, "another"), "SOURCE_REPLACED", "was dropped and created again"),
        (keyed(a_source((3, 4))), v(1), "SOURCE_REPLACED", "no longer has the version that"),
        (keyed(a_source((1, 2, 5))), v(4), "SOURCE_REPLACED", "no longer has the version that"),
        (keyed(a_source((3, 4), first_parent=102)), v(6), "SOURCE_REPLACED", "no longer has the version that"),
        (a_source((3, 4)), v(1), "UPSTREAM_EXPIRED", "no longer keeps the version that the last run read"),
        (a_source(format_version=1), v(1), "UNSUPPORTED", "is of format version 1"),
        (keyed(a_source(operations={2: "overwrite"})), v(1), "SOURCE_REPLACED", "the change table of lake.ods.up"),
        (keyed(a_source(operations={2: "delete"})), v(1), "SOURCE_REPLACED", "the change table of lake.ods.up"),
        (saying(keyed(a_source()), {REPAIRED: "each key stands once"}), v(1), "SOURCE_REPAIRED", "was repaired"),
        (a_source(**EXPIRED, format_version=2), v(1), "UPSTREAM_EXPIRED", "no longer keeps the version"),
        (a_source(**EXPIRED, operations={4: "overwrite"}), v(1), "UPSTREAM_EXPIRED", "no longer keeps the version"),
    ],
)  # fmt: skip
def test_what_came_between_two_versions_that_do_not_follow_one_another_is_never_guessed(
    source: SourceState, start: Version | None, reason: str, because: str
) -> None:
    message = explain_refusal(a_model(), source, start)
    assert message[0] == reason
    assert "lake.ods.up" in message[1]
    assert because in message[1]


@pytest.mark.parametrize(
    "source",
    [
        a_source(),
        a_source(operations={2: "overwrite"}),
        a_source(operations={2: "delete"}, format_version=2),
        a_source(operations={1: "overwrite"}),
        a_source((3, 4), snapshots=frozenset({101, 103, 104})),
        keyed(a_source(operations={2: "replace"})),
        keyed(a_source(**EXPIRED)),
        keyed(a_source(**EXPIRED, operations={4: "replace"})),
    ],
)
def test_versions_that_follow_one_another_are_followed(source: SourceState) -> None:
    assert {scan.source for scan in plan_or_fail(a_model(), source).scans} == {UP}


def test_only_sources_that_changed_are_asked_what_came_between() -> None:
    still = a_source((1,), OTHER)
    gone = {str(OTHER): Window(str(OTHER), still.version, still.version)}
    up = a_source()
    increment = plan_increment(a_model(JOINED), upstreams(up, still), {**windows(up), **gone})
    assert increment is not None
    assert {scan.image for scan in increment.scans if scan.source == OTHER} <= {"new"}


# What it costs.


@pytest.mark.parametrize(("rows", "is_followed"), [(30_000, True), (30_001, False), (500_000, False)])
def test_a_larger_part_than_that_is_recomputed_unless_asked_otherwise(rows: int, is_followed: bool) -> None:
    assert LIMITS.changed_share == 0.3
    source = a_source()
    source = replace(source, rows=100_000, commits=(source.commits[0], replace(source.commits[1], rows=rows)))
    if is_followed:
        assert plan_or_fail(a_model(), source)
    else:
        assert explain_refusal(a_model(), source) == (
            "COST",
            f"{rows:,} of 100,000 rows of lake.ods.up have changed, which is too many",
        )
    for refresh in ("incremental", "strict"):
        assert plan_or_fail(a_model(refresh=refresh), source) == plan_or_fail(a_model(refresh=refresh), a_source())


def test_a_small_table_that_was_rewritten_is_compared_and_a_large_one_is_not() -> None:
    anew = a_source((3,), snapshots=frozenset({101, 103}))
    small, large = (
        replace(anew, rows=rows) for rows in (LIMITS.compared_version_rows, LIMITS.compared_version_rows + 1)
    )
    assert plan_or_fail(a_model(), small)
    reason, because = explain_refusal(a_model(), large)
    assert (reason, because) == (
        "COST",
        "lake.ods.up was rewritten, and its 1,000,001 rows are too many to compare",
    )
    assert plan_or_fail(a_model(refresh="incremental"), large)


@pytest.mark.parametrize(("rows", "is_followed"), [(10_000, True), (10_001, False)])
def test_few_rows_are_followed_even_if_they_are_all_rows(rows: int, is_followed: bool) -> None:
    source = a_source()
    source = replace(source, commits=(source.commits[0], replace(source.commits[1], rows=rows)))
    if is_followed:
        assert plan_or_fail(a_model(), source)
    else:
        assert explain_refusal(a_model(), source)[0] == "COST"


def test_rows_that_were_read_before_cost_nothing() -> None:
    source = a_source((1, 2, 3))
    before = tuple(replace(commit, rows=1000) for commit in source.commits[:2])
    source = replace(source, commits=(*before, source.commits[2]))
    assert plan_increment(a_model(), upstreams(source), windows(source, start=v(2))) is not None


def test_one_upstream_that_changed_much_is_enough() -> None:
    other = a_source(name=OTHER)
    other = replace(other, commits=tuple(replace(commit, rows=20_000) for commit in other.commits))
    with pytest.raises(NotMaintained, match=r"COST: 20,000 of .* rows of lake\.ods\.other have changed"):
        plan_or_fail(a_model(JOINED), a_source(), other)


# What the plan is.


def test_a_query_over_keyed_tables_is_joined_and_one_over_others_is_computed_for_what_is_affected() -> None:
    up, other = keyed(a_source()), keyed(a_source(name=OTHER))
    assert isinstance(plan_or_fail(a_model(JOINED), up, other).maintenance, Deltas)
    assert isinstance(plan_or_fail(a_model(JOINED), up, a_source(name=OTHER)).maintenance, AffectedKeys)


def test_rows_are_followed_together_with_what_they_were_where_the_log_tells_that() -> None:
    up = telling(a_source((1, 2, 3)))
    expired = telling(a_source((3, 4), first_parent=102))
    ways = {
        "before images": (up, Pairs),
        "before images in this window": (without_old_rows(up, 1), Pairs),
        "no before images": (without_old_rows(up, 2), Deltas),
        "perhaps no before images, in an expired commit": (expired, Deltas),
        "no column outside the key": (keyed(a_source()), Deltas),
        "no key": (replace(up, key=()), Deltas),
    }
    for name, (source, way) in ways.items():
        assert isinstance(plan_or_fail(a_model(), source).maintenance, way), name


@pytest.mark.parametrize(
    ("rows", "way"),
    [(LIMITS.paired_table_rows, Pairs), (LIMITS.paired_table_rows + 1, Deltas)],
)
def test_a_large_table_is_not_read_twice(rows: int, way: type) -> None:
    assert LIMITS.paired_table_rows == 1_000_000
    other = replace(keyed(a_source((1,), OTHER)), key=("place",), rows=rows)
    sql = "select u.id, o.id as found from ods.up as u left join ods.other as o on o.place = u.place"
    plan = plan_or_fail(a_model(sql), telling(a_source()), other)
    assert isinstance(plan.maintenance, way)
    assert {scan.image for scan in plan.scans if scan.source == UP} == {"pair" if way is Pairs else "delta"}


def test_outputs_are_the_names_that_the_query_gives_in_its_order() -> None:
    plan = plan_or_fail(a_model("select place, id as Nr, id from ods.up", ("nr",)), keyed(a_source()))
    assert [name for name, _ in plan.outputs] == ["place", "Nr", "id"]
    made = dict(plan.outputs)
    assert plan.key == (made["Nr"],)


@pytest.mark.parametrize(
    "sql",
    ["select place from ods.up", "select id, place as id from ods.up", "select id, place as ID from ods.up"],
    ids=["none", "two", "two that differ in case"],
)
def test_a_key_that_is_not_exactly_one_column_of_the_query_is_not_guessed(sql: str) -> None:
    reason, because = explain_refusal(a_model(sql), a_source())
    assert (reason, because) == ("UNRESOLVED", "the key column id is not exactly one column of the query")


def test_a_table_of_one_row_is_computed() -> None:
    assert explain_refusal(a_model("select count(*) as n from ods.up", ()), a_source())[0] == "ONE_ROW"


def test_a_query_over_its_own_table_is_computed() -> None:
    own = a_source(name=TABLE)
    reason, because = explain_refusal(a_model("select id, place from dwd.orders"), own)
    assert (reason, because) == ("SELF_REFERENCE", "the query reads the model's own table")


def test_views_are_looked_through_to_the_tables_behind_them() -> None:
    views = {"lake.dwd.seen": "select id, place from ods.up where place is not null"}
    model = a_model("select id from dwd.seen")
    plain = plan_or_fail(a_model("select id from ods.up where place is not null"), keyed(a_source()))
    through = plan_or_fail(model, keyed(a_source()), views=views)
    assert plain is not None
    assert through is not None
    assert (through.maintenance, through.describe_plan()) == (plain.maintenance, plain.describe_plan())


def test_a_plan_is_described_by_its_strategy_and_the_operators_of_the_query() -> None:
    sql = (
        "select u.place, count(*) as n from ods.up u left join ods.other o on o.id = u.id "
        "where u.place > 'a' group by u.place having count(*) > 1"
    )
    plan = plan_or_fail(a_model(sql, ("place",)), keyed(a_source()), keyed(a_source(name=OTHER)))
    assert plan is not None
    assert plan.describe_plan()[1:] == (
        "  where count > 1",
        "    group by place",
        "      where place > 'a'",
        "        left join on id = id",
        "          lake.ods.up (changed)",
        "          lake.ods.other (changed)",
    )


def test_the_key_and_the_columns_without_nulls_of_an_upstream_are_relied_on() -> None:
    sql = "select u.id from ods.up as u where u.id < 0 or not (not (u.place in (select place from ods.other)))"
    both = keyed(a_source()), keyed(a_source(name=OTHER))
    with pytest.raises(NotMaintained, match="NOT_IN_NULLABLE"):
        plan_or_fail(a_model(sql), *both)
    up, other = (replace(source, not_null=("place",)) for source in both)
    assert plan_or_fail(a_model(sql), up, other)


def test_a_column_with_a_map_is_a_reason_only_where_it_is_read_of_a_table_that_changed() -> None:
    model = a_model("select u.id, o.tags from ods.up as u left join ods.other as o on o.id = u.id")
    with pytest.raises(
        NotMaintained, match=r"UNSUPPORTED: lake\.ods\.other has changed, and the query reads a column with a map"
    ):
        plan_or_fail(model, a_source(), a_source(name=OTHER))
    still = a_source((1,), OTHER)
    assert plan_or_fail(model, a_source(), still)
    assert plan_or_fail(a_model(JOINED), a_source(), a_source(name=OTHER))


@pytest.mark.parametrize(
    ("rows", "is_sliced"),
    [(LIMITS.repeated_read_rows, False), (LIMITS.repeated_read_rows + 1, True)],
)
def test_what_several_terms_look_for_in_a_large_source_is_read_once(rows: int, is_sliced: bool) -> None:
    """An estimate counts that reading, and none of what was found."""
    twice = "left join ods.other as o on o.id = u.id join ods.other as p on p.id = u.id"
    up, other = keyed(a_source(rows=rows)), keyed(a_source(name=OTHER))
    plan = plan_or_fail(a_model(f"select u.id, o.place, p.place as next from ods.up as u {twice}"), up, other)
    assert [part.source for part in plan.reducers] == ([UP] if is_sliced else [])
    assert [scan.image for scan in plan.change_scans if scan.source == UP].count("new") == (1 if is_sliced else 2)
    assert {scan.source for scan in plan.change_scans} == {UP, OTHER}
    assert plan.describe_plan()[1].endswith("lake.ods.up is read once") == is_sliced


@pytest.mark.parametrize(
    ("rows", "size", "broadcast"),
    [
        (JOINS.shuffled_rows + 1, 100, "left"),
        (JOINS.shuffled_rows, 100, None),
        (JOINS.shuffled_rows + 1, 100 * JOINS.broadcast_bytes, None),
    ],
)
def test_of_a_join_the_few_changes_are_sent_to_where_the_rows_of_a_large_source_are(
    rows: int, size: int, broadcast: str | None
) -> None:
    """Unless the commits say that they are large."""
    source = a_source()
    up = keyed(replace(source, commits=tuple(replace(commit, bytes=size) for commit in source.commits)))
    other = keyed(a_source((1,), OTHER, rows=rows))
    plan = plan_or_fail(a_model("select u.id, o.place from ods.up as u join ods.other as o on o.id = u.id"), up, other)
    assert [node.broadcast for tree in plan.trees for node in walk_tree(tree) if isinstance(node, Join)] == [broadcast]
    doubted = remove_join_hints(plan)
    assert [node.broadcast for tree in doubted.trees for node in walk_tree(tree) if isinstance(node, Join)] == [None]


def test_of_a_source_whose_commits_are_gone_it_is_not_known_how_large_its_rows_are() -> None:
    source = replace(a_source(), commits=())
    statistics = collect_statistics(upstreams(source), windows(source))
    assert statistics.sources[UP].value_bytes == JOINS.unknown_value_bytes


@pytest.mark.parametrize(
    ("changed", "rows", "is_asked"),
    [
        (LIMITS.always_incremental_rows + 1, 40_000, True),
        (LIMITS.always_incremental_rows, 40_000, False),
        (LIMITS.always_incremental_rows + 1, 40_001, False),
    ],
)
def test_a_far_smaller_filtered_table_is_a_runtime_filter_of_many_changes(
    changed: int, rows: int, is_asked: bool
) -> None:
    source = a_source(rows=40_000 * LIMITS.reducer_row_ratio)
    up = keyed(replace(source, commits=(source.commits[0], replace(source.commits[1], rows=changed))))
    other = keyed(a_source((1,), OTHER, rows=rows))
    sql = "select u.place from ods.up as u join ods.other as o on o.id = u.id where o.place = 'x' group by u.place"
    plan = plan_or_fail(a_model(sql, ("place",)), up, other)
    assert isinstance(plan.maintenance, AffectedKeys)
    asked = [scan.source for scan in list_scans(plan.maintenance.affected)]
    assert asked == ([UP, OTHER] if is_asked else [UP])


@pytest.mark.parametrize(
    ("rows", "merged", "is_sliced"),
    [
        (LIMITS.unmerged_table_rows, 1, False),
        (LIMITS.unmerged_table_rows + 1, 1, True),
        (LIMITS.unmerged_table_rows + 1, 2, False),
    ],
)
def test_rows_of_a_large_source_are_found_before_changes_are_laid_over_it(
    rows: int, merged: int, is_sliced: bool
) -> None:
    source = keyed(a_source(rows=rows))
    up = replace(source, base=source.name, bases=((7, v(merged)),))
    plan = plan_or_fail(a_model(JOINED), up, keyed(a_source(name=OTHER)))
    assert [part.source for part in plan.reducers] == ([UP] if is_sliced else [])


def test_what_waits_to_be_merged_is_counted_from_the_newest_base_that_is_not_merged_further() -> None:
    source = replace(keyed(a_source((1, 2, 3, 4))), base=UP, bases=((7, v(2)), (8, v(3))))
    assert [source.find_base_before(v(at)) for at in (1, 2, 3, 4)] == [None, (7, v(2)), (8, v(3)), (8, v(3))]
    assert [source.count_unmerged_at(v(at)) for at in (1, 2, 3, 4)] == [0, 0, 0, 10]
    assert replace(source, bases=((7, v(2)),)).count_unmerged_at(v(4)) == 20
    assert replace(source, base=None).find_base_before(v(4)) is None


def test_a_changed_source_that_nothing_is_taken_of_changes_nothing() -> None:
    model = a_model("with unread as (select * from ods.other) select id, place from ods.up")
    up, other = a_source((1,)), a_source(name=OTHER)
    assert plan_increment(model, upstreams(up, other), windows(up, other)) is None


def test_no_windows_need_no_plan() -> None:
    assert plan_increment(a_model(), upstreams(a_source()), {}) is None


def test_a_plan_is_serialisable_as_json() -> None:
    plan = json.loads(json.dumps(asdict(plan_or_fail(a_model(JOINED), a_source(), a_source(name=OTHER))), default=str))
    assert set(plan) == {"maintenance", "outputs", "key", "tree", "changed", "reducers", "spools", "types"}


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(2, 30), max_size=6), st.integers(1, 30))
def test_a_window_is_followed_or_refused_by_name_for_any_set_of_kept_snapshots(kept: set[int], start: int) -> None:
    """From a version that is kept a table can always be followed; from one that is not, a table of rows never."""
    source = a_source(sorted({1, *kept}), format_version=2)
    if source.version.sequence == start:
        assert plan_increment(a_model(), upstreams(source), windows(source, start=v(start))) is None
    elif start in {1, *kept}:
        assert plan_increment(a_model(), upstreams(source), windows(source, start=v(start))) is not None
    else:
        assert explain_refusal(a_model(), source, v(start))[0] == "UPSTREAM_EXPIRED"


# Whether any change could be followed.


def test_a_model_is_checked_without_any_window() -> None:
    check_maintained(a_model(JOINED), upstreams(a_source(), a_source(name=OTHER)))
    for model, reason in (
        (a_model("select id from ods.up limit 1"), "LIMIT"),
        (a_model("select count(distinct id) as id from ods.up"), "EVERYTHING_AFFECTED"),
        (a_model("select id from ods.elsewhere"), "UNRESOLVED"),
        (a_model("select id from dwd.orders"), "UNRESOLVED"),
    ):
        with pytest.raises(NotMaintained, match=reason):
            check_maintained(model, upstreams(a_source()))


@pytest.mark.parametrize("sql", [JOINED, "select id, rand() as r from ods.up"])
def test_a_query_is_analysed_once_for_all_that_ask_about_it(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(text: str, *others: Any) -> Analysed:
        asked.append(text)
        return analyse_query(text, *others)

    monkeypatch.setattr(increments, "analyse_query", counted)
    model, sources = a_model(f"{sql} -- once"), (keyed(a_source()), keyed(a_source(name=OTHER)))
    for ask in (plan_increment, lambda *given: check_maintained(*given[:2]), lambda *given: is_keyed(*given[:2])):
        with suppress(NotMaintained):
            ask(model, upstreams(*sources), windows(*sources))
    assert len(asked) == 1
    is_keyed(model, upstreams(a_source(), sources[1]))
    assert len(asked) == 2


def test_the_analysis_reads_names_as_the_models_own_schema_completes_them() -> None:
    near = a_source(name=TableName("lake", "dwd", "near"))
    analysed, key = analyse_model(a_model("select id from near"), upstreams(near))
    assert analysed.outputs == (("id", key[0]),)


TWO_KEYS = a_model("select u.id, o.id as other from ods.up u join ods.other o on o.place = u.place", ("id", "other"))


@pytest.mark.parametrize(
    ("model", "both_keyed"),
    [
        (a_model(), True),
        (a_model(JOINED), True),
        (a_model("select distinct place as id from ods.up"), True),
        (a_model("select place as id, count(*) as n from ods.other group by place"), True),
        (TWO_KEYS, True),
        (a_model("select u.id from ods.up u left join ods.other o on o.place = u.place"), False),
        (a_model("select place as id from ods.up"), False),
        (a_model("select id from ods.up union all select id from ods.other"), False),
        (a_model("select what is this"), False),
        (a_model("select id from dwd.orders"), False),
    ],
)
def test_a_query_is_keyed_where_what_it_reads_and_how_proves_it(model: Model, both_keyed: bool) -> None:
    sources = upstreams(keyed(a_source()), keyed(a_source(name=OTHER)))
    assert is_keyed(model, sources) == both_keyed


def test_a_plain_table_proves_no_key() -> None:
    """Nothing holds what its identifier fields promise."""
    assert not is_keyed(a_model(), upstreams(a_source()))


def test_an_increment_tells_it_of_its_own_query() -> None:
    sources = upstreams(keyed(a_source()))
    known = plan_increment(a_model(), sources, {str(UP): Window(str(UP), READ, v(2))})
    assert known is not None
    assert is_keyed(a_model("select place as id from ods.up"), sources, known)
