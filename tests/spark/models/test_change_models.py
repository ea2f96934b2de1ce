"""Models whose query says what happened: events are applied exactly once, in their order, however they arrive."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError, SourceError
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from arctic_runtime.spark.tables.rows import marks
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, a string, b int, op string, lsn bigint"
QUERY = "select id, a, b, op, lsn from {changes(events)}"
Event = tuple[int, str | None, int | None, str | None, int]
Image = tuple[str | None, int | None]


def cdc(lake: Warehouse, name: str = "m", sql: str = QUERY, **config: Any) -> Model:
    """A model of change events as a database's log gives them."""
    settings: dict[str, Any] = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "lsn",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "lsn"],
    }
    return lake.model(name, sql, **{key: value for key, value in {**settings, **config}.items() if value is not None})


def replace(old: Image | None, new: Image) -> Image:
    return new


def update(old: Image | None, new: Image) -> Image:
    return new if old is None else (new[0] if new[0] is not None else old[0], new[1] if new[1] is not None else old[1])


def ignore(old: Image | None, new: Image) -> Image:
    return new if old is None else old


MATCH: dict[str, Callable[[Image | None, Image], Image]] = {"replace": replace, "update": update, "ignore": ignore}


def applied(events: Sequence[Event], on_match: str) -> list[tuple[Any, ...]]:
    """What events leave behind, one at a time in the order of their sequence, then of their arrival."""
    table: dict[int, Image] = {}
    for _, (key, a, b, op, _) in sorted(enumerate(events), key=lambda placed: (placed[1][4], placed[0])):
        if op == "d":
            table.pop(key, None)
        else:
            table[key] = MATCH[on_match](table.get(key), (a, b))
    return sorted(((key, *image) for key, image in table.items()), key=repr)


def stream(seed: int, count: int, in_order: bool) -> list[Event]:
    chance = random.Random(seed)
    places = [chance.randrange(count) for _ in range(count)]
    return [
        (
            chance.randrange(12),
            chance.choice([None, "x", "y"]),
            chance.choice([None, 1, 2]),
            chance.choice([None, "u", "u", "d"]),
            place,
        )
        for place in (sorted(places) if in_order else places)
    ]


def batches(seed: int, events: Sequence[Event], count: int) -> list[Sequence[Event]]:
    """The same events in their order, cut at random."""
    cuts = sorted(random.Random(seed).sample(range(1, len(events)), count - 1))
    return [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("on_match", "merge", "seed"),
    [
        ("replace", "on_read", 1),
        pytest.param("update", "on_write", 2, marks=pytest.mark.slow),
        pytest.param("ignore", "on_read", 3, marks=pytest.mark.slow),
        pytest.param("replace", "on_write", 4, marks=pytest.mark.slow),
        pytest.param("update", "on_read", 5, marks=pytest.mark.slow),
        pytest.param("ignore", "on_write", 6, marks=pytest.mark.slow),
        pytest.param("replace", "on_read", 7, marks=pytest.mark.slow),
    ],
)
def test_any_split_of_a_stream_leaves_the_same_table(lake: Warehouse, on_match: str, merge: str, seed: int) -> None:
    events = stream(seed, 80, in_order=False)
    model = cdc(lake, on_match=on_match, merge=merge)
    so_far: list[Event] = []
    for batch in batches(seed, events, 4):
        lake.append("events", batch, EVENTS)
        so_far += batch
        lake.run(model)
        assert lake.rows(model) == applied(so_far, on_match), f"seed {seed}"
    assert lake.broken(model) == [], f"seed {seed}"


def test_events_without_a_sequence_apply_in_the_order_of_their_rows(lake: Warehouse) -> None:
    events = stream(8, 60, in_order=True)
    model = cdc(lake, sql="select id, a, b, op, 0 as lsn from {changes(events)} where id >= 0", sequence_by=None)
    first, second, third = batches(8, events, 3)
    lake.append("events", first, EVENTS)
    lake.run(model)
    lake.append("events", second, EVENTS)
    lake.append("events", third, EVENTS)
    lake.run(model)
    assert lake.rows(model) == applied(events, "replace")
    assert lake.broken(model) == []


def test_each_event_is_consumed_once(lake: Warehouse) -> None:
    model = cdc(lake, merge="on_read")
    lake.append_v2("events", [(1, "x", 1, "c", 1), (2, "y", 2, "c", 2)], EVENTS)
    assert lake.actions(lake.run(model)) == (2, 0, 0)
    assert lake.run(model, refuse).mode == "unchanged"
    lake.append_v2("events", [(1, "z", 1, "u", 3)], EVENTS)
    lake.append_v2("events", [(2, "y", 2, "d", 4), (3, "n", None, "c", 5)], EVENTS)
    outcome = lake.run(model)
    assert lake.actions(outcome) == (1, 1, 1)
    newest = lake.reader.load_table(lake.namespace, "events").current_snapshot()
    assert newest is not None
    assert outcome.consumed == {str(lake.table("events")): newest.snapshot_id}
    assert lake.run(model, refuse).mode == "unchanged"
    assert lake.rows(model) == [(1, "z", 1), (3, "n", None)]
    assert [set(row) for row in lake.log(model)] == [{"id", "a", "b", "_action", "_seq", "_before"}] * 5
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)
    assert lake.broken(model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("changelog", ["lookup", pytest.param("input", marks=pytest.mark.slow)])
def test_older_events_that_arrive_late_lose(lake: Warehouse, changelog: str) -> None:
    model = cdc(lake, changelog=changelog)
    steps: list[list[Event]] = [
        [(0, "x", 1, "c", 1), (1, "x", 1, "c", 10), (2, "x", 1, "c", 10), (3, "x", 1, "c", 10)],
        # A delete before its insert, a delete of a row that is there, and an event that changes nothing.
        [(4, "x", 1, "d", 50), (1, "x", 1, "d", 50), (2, "x", 1, "u", 50), (3, "y", 1, "u", 20)],
        # All older than what was seen of their key, but the last two: one newer, one in the same place.
        [(4, "o", 1, "c", 40), (1, "o", 1, "u", 40), (2, "o", 1, "u", 40), (3, "n", 1, "u", 30)],
        [(3, "m", 1, "u", 30), (0, "k", 1, "u", 2), (5, "x", 1, "c", 3)],
    ]
    for events in steps:
        lake.append("events", events, EVENTS)
        lake.run(model)
    assert lake.rows(model) == [(0, "k", 1), (2, "x", 1), (3, "m", 1), (5, "x", 1)]
    assert lake.broken(model) == []
    if changelog == "lookup":
        tombstones = [row for row in lake.log(model) if row["id"] == 4]
        assert [(row["_action"], row["_seq"], row["_before"]) for row in tombstones] == [("delete", 50, None)]


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_an_input_changelog_stores_what_the_origin_said(lake: Warehouse, merge: str) -> None:
    model = cdc(lake, changelog="input", merge=merge)
    lake.append("events", [(1, "x", 1, "c", 1), (2, "y", 2, "c", 2), (3, "z", 3, "c", 3)], EVENTS)
    assert lake.actions(lake.run(model)) == (3, 0, 0)
    lake.append("events", [(1, "X", 1, "u", 4), (2, None, None, "d", 5), (4, "n", 4, "c", 6)], EVENTS)
    outcome = lake.run(model)
    assert outcome.rows == {"insert": 0, "update": 0, "delete": 1, "upsert": 2}
    rows = [(row["_action"], row["id"], row["_before"]) for row in lake.log(model)[3:]]
    assert rows == [("upsert", 1, None), ("delete", 2, None), ("upsert", 4, None)]
    assert lake.rows(model) == [(1, "X", 1), (3, "z", 3), (4, "n", 4)]
    assert lake.broken(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


def test_changes_of_a_model_feed_the_next_one(lake: Warehouse) -> None:
    columns = "id int, a string, b int"
    upstream = lake.model("up", "select * from {s}", primary_key="id", merge="on_read")
    lake.load("s", [(1, "x", 1), (2, "y", 2), (3, "z", None)], columns)
    lake.run(upstream)
    downstream = lake.model(
        "down",
        "select id, upper(a) as a, _action, _before.a as was from {changes(up)}",
        primary_key="id",
        input="changes",
        delete_when="_action = 'delete'",
    )
    lake.run(downstream)
    for rows in ([(1, "x", 7), (2, "n", 2), (4, "k", 4)], [(1, "x", 7), (4, "l", 4), (3, "again", 3)]):
        lake.load("s", rows, columns)
        lake.run(upstream)
    assert lake.actions(lake.run(downstream)) == (1, 2, 1)
    assert [row[:2] for row in lake.rows(downstream)] == [(1, "X"), (3, "AGAIN"), (4, "L")]
    assert lake.run(downstream, refuse).mode == "unchanged"
    assert lake.broken(upstream) == []
    assert lake.broken(downstream) == []


FLAWS: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "null key": (
        [(None, "x", 1, "c", 1)],
        r"1 of 1 events have a null in the primary key \(id\); nothing was written.*'a': 'x'",
    ),
    "null sequence": ([(1, "x", 1, "c", None)], r"null in `sequence_by` \(lsn\).*nothing was written.*'id': 1"),
    "tie": (
        [(1, "x", 1, "c", 1), (1, "y", 1, "c", 1)],
        r"have the same `sequence_by` value \(lsn\).*nothing was written.*'id': 1",
    ),
}


def test_events_without_a_key_or_a_place_are_shown_and_nothing_is_written(lake: Warehouse) -> None:
    for number, (flaw, (rows, message)) in enumerate(FLAWS.items()):
        source = f"events{number}"
        model = cdc(lake, f"m{number}", sql=f"select id, a, b, op, lsn from {{changes({source})}}")
        lake.append_v2(source, [(9, "sound", 9, "c", 0)], EVENTS)
        lake.run(model)
        lake.append_v2(source, rows, EVENTS)
        head = lake.head(model)
        with pytest.raises(DataError, match=f"(?s){message}"):
            lake.run(model)
        assert (lake.head(model), lake.rows(model)) == (head, [(9, "sound", 9)]), flaw


def test_an_order_that_is_not_known_is_asked_for(lake: Warehouse) -> None:
    lake.append_v2("events", [(1, "x", 1, "c", 1)], EVENTS)
    with pytest.raises(ConfigError, match="the order of events is unknown"):
        lake.run(cdc(lake, sequence_by=None, exclude_columns=["op"]))
    with pytest.raises(ConfigError, match="`sequence_by` names column `nothing`"):
        lake.run(cdc(lake, "other", sequence_by="nothing"))


def dropped(lake: Warehouse) -> None:
    lake.reader.catalog.drop_table((lake.namespace, "events"))


def recreated(lake: Warehouse) -> None:
    dropped(lake)
    lake.append("events", [(7, "new", 7, "c", 1)], EVENTS)


def overwritten(lake: Warehouse) -> None:
    lake.spark.sql(f"update {lake.sql_name('events')} set b = 5 where id = 1")


def rolled_back(lake: Warehouse) -> None:
    first = lake.reader.load_table(lake.namespace, "events").snapshots()[0].snapshot_id
    table = f"{lake.namespace}.events"
    lake.spark.sql(f"call lake.system.rollback_to_snapshot('{table}', {first})").collect()


def rolled_back_and_continued(lake: Warehouse) -> None:
    lake.append("events", [(3, "z", 3, "c", 3)], EVENTS)
    lake.run(cdc(lake))
    rolled_back(lake)
    lake.append("events", [(4, "k", 4, "c", 4)], EVENTS)


@pytest.mark.slow
def test_an_upstream_that_was_not_only_appended_to_is_refused_and_a_full_refresh_repairs(lake: Warehouse) -> None:
    model = cdc(lake)
    lake.append("events", [(1, "x", 1, "c", 1)], EVENTS)
    lake.append("events", [(2, "y", 2, "c", 2)], EVENTS)
    lake.run(model)
    cases: list[tuple[Callable[[Warehouse], None], str, list[tuple[Any, ...]]]] = [
        (rolled_back, "rolled back", [(1, "x", 1)]),
        (rolled_back_and_continued, "rolled back", [(1, "x", 1), (4, "k", 4)]),
        (overwritten, "found: overwrite", [(1, "x", 5), (4, "k", 4)]),
        (recreated, "dropped and created again", [(7, "new", 7)]),
    ]
    for change, message, left in cases:
        change(lake)
        rows = lake.rows(model)
        with pytest.raises(SourceError, match=message):
            lake.run(model, refuse)
        assert lake.rows(model) == rows
        lake.run(model, full_refresh=True)
        assert lake.rows(model) == left
        assert lake.run(model, refuse).mode == "unchanged"
    dropped(lake)
    with pytest.raises(SourceError, match=r"the changes of .* can't be read"):
        lake.run(model, refuse)
    assert lake.rows(model) == [(7, "new", 7)]


@pytest.mark.slow
def test_a_refresh_from_an_emptied_source_empties_the_table(lake: Warehouse) -> None:
    """Deleted rows then have no place in the order; a text like '0' would be none of a timestamp's."""
    columns = "id int, a string, at timestamp"
    at = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    sql = "select id, a, at from {changes(events)}"
    model = cdc(lake, sql=sql, sequence_by="at", delete_when=None, exclude_columns=None, merge="on_read")
    lake.append("events", [(1, "x", at), (2, "y", at + datetime.timedelta(microseconds=1))], columns)
    lake.run(model)
    lake.append("events", [(1, "late", at - datetime.timedelta(days=1)), (2, "z", at + datetime.timedelta(1))], columns)
    lake.run(model)
    assert [row[1] for row in lake.rows(model)] == ["x", "z"]
    lake.spark.sql(f"delete from {lake.sql_name('events')}")
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 2)
    assert lake.rows(model) == []


@pytest.mark.in_turn
def test_compaction_and_expiry_of_the_upstream_lose_and_repeat_nothing(lake: Warehouse) -> None:
    model = cdc(lake)
    first, second, third = batches(9, stream(9, 60, in_order=False), 3)
    lake.append("events", first[:10], EVENTS)
    lake.append("events", first[10:], EVENTS)
    lake.run(model)
    table = f"{lake.namespace}.events"
    compact = f"call lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    expire = f"call lake.system.expire_snapshots(table => '{table}', older_than => now(), retain_last => 1)"
    lake.spark.sql(compact).collect()
    assert lake.actions(lake.run(model)) == (0, 0, 0)
    lake.append("events", second, EVENTS)
    lake.spark.sql(compact).collect()
    lake.run(model)
    assert lake.rows(model) == applied([*first, *second], "replace")
    lake.append("events", third, EVENTS)
    lake.spark.sql(compact).collect()
    lake.spark.sql(expire).collect()
    assert len(lake.reader.load_table(lake.namespace, "events").snapshots()) == 1
    lake.run(model)
    assert lake.rows(model) == applied([*first, *second, *third], "replace")
    assert lake.broken(model) == []


@pytest.mark.slow
def test_an_expired_upstream_without_row_lineage_is_refused(lake: Warehouse) -> None:
    model = cdc(lake)
    for lsn in (1, 2, 3):
        lake.append_v2("events", [(lsn, "x", 1, "c", lsn)], EVENTS)
        if lsn == 1:
            lake.run(model)
    table = f"{lake.namespace}.events"
    lake.spark.sql(
        f"call lake.system.expire_snapshots(table => '{table}', older_than => now(), retain_last => 1)"
    ).collect()
    with pytest.raises(SourceError, match="UPSTREAM_EXPIRED"):
        lake.run(model, refuse)
    lake.run(model, full_refresh=True)
    assert [row[0] for row in lake.rows(model)] == [1, 2, 3]


@pytest.mark.in_turn
def test_a_contract_is_asked_of_the_row_that_an_event_leaves_behind(lake: Warehouse) -> None:
    model = cdc(lake, on_match="update", not_null=("a",), checks=("length(a) > b",))
    lake.append("events", [(1, "four", 3, "c", 1), (2, "six", 1, "c", 1)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, None, 2, "u", 2), (2, None, None, "d", 2)], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "four", 2)]
    for number, broken in enumerate([(1, None, 9, "u", 3), (3, None, 1, "c", 3)]):
        lake.append("events", [broken], EVENTS)
        with pytest.raises(DataError, match="have a " + ("broken check" if number == 0 else "null column")):
            lake.run(cdc(lake, on_match="update", not_null=("a",), checks=("length(a) > b",) if number == 0 else ()))
        assert lake.rows(model) == [(1, "four", 2)]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("on_match", "left"), [pytest.param("update", ("a1", 2), marks=pytest.mark.slow), ("ignore", ("a0", None))]
)
def test_a_late_event_takes_its_place_among_all_of_its_key(
    lake: Warehouse, on_match: str, left: tuple[Any, ...]
) -> None:
    model = cdc(lake, on_match=on_match, merge="on_read")
    steps: list[list[Event]] = [
        [(1, "a1", None, "c", 10), (2, "x", 1, "c", 10), (3, "x", 1, "c", 10)],
        [(2, None, None, "d", 30), (4, "x", 1, "c", 30)],
        [(1, "a0", None, "u", 5), (1, None, 2, "u", 20), (2, "gone", 1, "u", 20), (3, None, 3, "u", 20)],
        [(2, None, 7, "u", 40), (2, "late", None, "u", 35), (3, None, None, "d", 7)],
    ]
    for events in steps:
        lake.append("events", events, EVENTS)
        lake.run(model)
    everything = [event for events in steps for event in events]
    assert lake.rows(model) == applied(everything, on_match)
    assert lake.rows(model)[0] == (1, *left)
    assert lake.broken(model) == lake.left_out(model) == []
    restore_version(lake.session_of(model), lake.head(model))
    lake.append("events", [(4, "late", None, "u", 1)], EVENTS)
    with pytest.raises(DataError, match="found: it was restored"):
        lake.run(model)


@pytest.mark.in_turn
def test_a_late_event_opens_no_file_without_newer_events_of_its_key(
    lake: Warehouse,
) -> None:
    lake = lake.under(pruning={"scanned_table_rows": 0, "scanned_table_ratio": 0})
    model = cdc(lake)
    older_and_others = [[(1, "x", 1, "c", 1), (9, "x", 1, "c", 2)], [(9, "y", 1, "u", 50)]]
    for events in (*older_and_others, [(1, "y", 1, "u", 20)]):
        lake.append("events", events, EVENTS)
        lake.run(model)
    table = lake.reader.load_table(lake.namespace, "events")
    snapshots = [snapshot.snapshot_id for snapshot in table.snapshots()]
    for path in table.inspect.files(snapshots[1])["file_path"].to_pylist():
        Path(path.removeprefix("file:")).unlink()
    lake.append("events", [(1, "late", 1, "u", 10), (2, "late", 1, "c", 11)], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "y", 1), (2, "late", 1), (9, "y", 1)]


TIMED = "id int, a string, at timestamp"


def at_utc(minutes: int) -> datetime.datetime:
    """A moment of the night in which Berlin has the hour from minute 0 on and the one from minute 60 on by one name."""
    return datetime.datetime(2024, 10, 27, tzinfo=datetime.timezone.utc) + datetime.timedelta(minutes=minutes)


@pytest.fixture
def in_zone(lake: Warehouse) -> Iterator[Callable[[str], None]]:
    """Sets the session's time zone."""
    own = lake.spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: lake.spark.conf.set("spark.sql.session.timeZone", zone)
    lake.spark.conf.set("spark.sql.session.timeZone", own)


def as_earlier_versions_wrote(monkeypatch: pytest.MonkeyPatch, step: Callable[[], Any]) -> None:
    """Does a step with places in the order written in the session's time zone."""
    with monkeypatch.context() as patched:
        patched.setattr(marks, "write_sequence_text", lambda place, kind: place.cast("string"))
        step()


@pytest.mark.in_turn
def test_a_late_event_never_overwrites_a_newer_row_in_any_time_zone(
    lake: Warehouse, in_zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lake.model(
        "m", "select id, a, at from {changes(events)}", primary_key="id", input="changes", sequence_by="at"
    )

    def come(minutes: int, a: str) -> None:
        lake.append("events", [(1, a, at_utc(minutes))], TIMED)
        lake.run(model)

    in_zone("Europe/Berlin")
    come(70, "newest")
    come(30, "late, by the clock later")
    in_zone("Asia/Tokyo")
    come(69, "late")
    as_earlier_versions_wrote(monkeypatch, lambda: come(80, "newest of all"))
    in_zone("America/Los_Angeles")
    come(79, "late after an earlier version's run")
    assert [row[1] for row in lake.rows(model)] == ["newest of all"]
    come(81, "news")
    assert [row[1] for row in lake.rows(model)] == ["news"]
    assert lake.broken(model) == []


@pytest.mark.slow
def test_rows_declared_as_of_a_moment_are_so_in_any_time_zone(
    lake: Warehouse, in_zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lake.model(
        "m", "select id, a, at from {changes(events)}", primary_key="id", input="changes", sequence_by="at"
    )
    lake.append("events", [(1, "first", at_utc(0))], TIMED)
    lake.run(model)
    lake.append("extract", [(1, "declared", at_utc(5))], TIMED)

    def declare(as_of: str) -> None:
        overwrite_with_source(lake.refresh_of(model), lake.table("extract"), as_of)

    in_zone("Europe/Berlin")
    declare("2024-10-27 02:10:00+01:00")
    in_zone("Asia/Tokyo")
    lake.append("events", [(2, "known", at_utc(70)), (3, "news", at_utc(71))], TIMED)
    lake.run(model)
    assert [row[:2] for row in lake.rows(model)] == [(1, "declared"), (3, "news")]
    as_earlier_versions_wrote(monkeypatch, lambda: declare("2024-10-27 12:00:00"))
    in_zone("Europe/Berlin")
    day = 24 * 60
    lake.append("events", [(4, "news", at_utc(2 * day)), (5, "known", at_utc(-day))], TIMED)
    lake.run(model)
    assert [row[:2] for row in lake.rows(model)] == [(1, "declared"), (4, "news")]
    lake.append("events", [(6, "older or newer", at_utc(12 * 60))], TIMED)
    with pytest.raises(ConfigError, match=r"all rows were declared as of 2024-10-27 12:00:00 without a time zone"):
        lake.run(model)
    declare("2024-10-28 12:00:00Z")
    lake.run(model)
    assert [row[:2] for row in lake.rows(model)] == [(1, "declared"), (4, "news")]


BOTH = "select id, a, b, op, lsn from {changes(events)} union all select id, a, b, op, lsn from {changes(others)}"


@pytest.mark.slow
def test_a_source_without_news_and_a_source_that_is_added_are_read_with_others(lake: Warehouse) -> None:
    lake.append("events", [(1, "x", 1, "c", 10)], EVENTS)
    lake.run(cdc(lake))
    lake.append("others", [(2, "y", 1, "c", 5), (1, "late", 1, "u", 9)], EVENTS)
    model = cdc(lake, sql=BOTH)
    assert lake.actions(lake.run(model)) == (1, 0, 0)
    for idle, busy, lsn in (("events", "others", 20), ("others", "events", 21)):
        lake.append(busy, [(1, busy, 1, "u", lsn), (2, "late", 1, "u", 4)], EVENTS)
        outcome = lake.run(model)
        assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 1, 0)), idle
    assert lake.rows(model) == [(1, "events", 1), (2, "y", 1)]
    assert lake.run(model, refuse).mode == "unchanged"
    assert lake.broken(model) == []
