"""The live sample's own decisions: what is played when, how old tables are, what is exact, and where it begins."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sqlglot
import yaml
from sqlglot import exp

from sample_project.live import phases, screen
from sample_project.live.__main__ import main
from sample_project.live.changes import COLUMNS, KEYS, Change, Tables, changes_from, tables_at
from sample_project.live.exactness import difference
from sample_project.live.freshness import Rate, Reached
from sample_project.live.phases import phase_of
from sample_project.live.pipeline import Refreshes
from sample_project.live.play import Player, due
from sample_project.live.sources import FilesSource, Source, statement
from sample_project.loader import FIRST_DAY

PROJECT = Path(phases.__file__).parent
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class Clock:
    """A clock that each look moves on."""

    def __init__(self, step: float) -> None:
        self.now, self._step = -step, step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


class Noted(Source):
    """A source that notes the changes of each call."""

    name, pause_seconds, settings = "", 0.0, {}

    def __init__(self) -> None:
        self.calls: list[list[Change]] = []

    def make(self, changes: Any) -> None:
        self.calls.append(list(changes))

    def close(self) -> None:
        raise NotImplementedError


def plane(number: int) -> Change:
    return Change("planes", "c", {"tailnum": f"N{number}"})


def test_changes_are_due_by_the_time_that_has_passed() -> None:
    assert [due(at, 200, 60) for at in (0, 0.004, 0.005, 1, 59.999, 60, 75)] == [0, 0, 1, 200, 11_999, 12_000, 12_000]
    assert due(10, 0.5, 60) == 5


def test_a_player_keeps_its_speed_and_ends_with_its_time() -> None:
    source, tables = Noted(), Tables()
    player = Player(source, tables, map(plane, range(1_000)), 10, 3, Clock(0.4))
    player.run(Event())
    assert player.made == 30 == len(tables)
    assert [len(call) for call in source.calls] == [4, 4, 4, 4, 4, 4, 4, 2]


def test_a_player_ends_with_the_changes_there_are() -> None:
    player = Player(Noted(), Tables(), map(plane, range(7)), 10, 1_000, Clock(0.5))
    player.run(Event())
    assert player.made == 7


def test_a_player_that_is_stopped_makes_nothing_more() -> None:
    stopped, source = Event(), Noted()
    stopped.set()
    Player(source, Tables(), map(plane, range(7)), 10, 10, Clock(1)).run(stopped)
    assert source.calls == []


def test_the_age_is_that_of_the_newest_change() -> None:
    reached = Reached().with_batch(100, NOON - timedelta(seconds=9)).with_batch(5, NOON - timedelta(seconds=2.5))
    assert (reached.changes, reached.age(NOON)) == (105, 2.5)
    assert reached.with_batch(1, None).age(NOON) == 2.5
    assert Reached(1, NOON.replace(tzinfo=None)).age(NOON + timedelta(seconds=1)) == 1
    assert Reached(1, NOON + timedelta(milliseconds=1)).age(NOON) == 0
    assert Reached().age(NOON) is None


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate(2)
    assert [rate.at(second, count) for second, count in enumerate([0, 100, 300, 300, 300, 350])] == [
        0, 100, 150, 100, 0, 25,
    ]  # fmt: skip


def test_a_second_is_a_line_that_tells_refreshes_once_they_have_ended() -> None:
    ended = Refreshes(2, Counter({"insert": 1_200, "delete": 3}), 1.26)
    lines = [screen.head(), screen.second(9, "playing", 1_800, 1_640, 190.4, 2.34, [ended])]
    lines.append(screen.second(10, "draining", 2_000, 1_640, 150, None, []))
    assert lines == [
        "  time  phase          played     in ODS   rows/s   DWS age    refreshed",
        "   9 s  playing         1,800      1,640      190     2.3 s    2 models: +1,200 ~0 -3 rows in 1.3 s",
        "  10 s  draining        2,000      1,640      150         -",
    ]


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ((True, 10, 10, 10), "playing"),
        ((False, 10, 9, 9), "draining"),
        ((False, 10, 10, 9), "refreshing"),
        ((False, 10, 10, 10), None),
    ],
)
def test_it_ends_when_the_tables_have_everything(state: tuple[bool, int, int, int], phase: str | None) -> None:
    assert phase_of(*state) == phase


def test_days_played_give_the_rows_of_the_day_after() -> None:
    """A flight is created before it is updated, and no update or delete goes astray."""
    played, end = tables_at(FIRST_DAY), FIRST_DAY + timedelta(days=2)
    for change in changes_from(FIRST_DAY):
        if change.table == "flights" and change.row["flight_date"] == end:
            break
        assert (change.key in played.rows[change.table]) == (change.operation != "c")
        played.apply(change)
    assert played.rows["flights"] == tables_at(end).rows["flights"]


def test_rows_that_differ_are_reported_by_kind_with_an_example() -> None:
    expected = {("a",): {"k": "a", "v": 1}, ("b",): {"k": "b", "v": 2}}
    assert difference(expected, [{"v": 2, "k": "b"}, {"k": "a", "v": 1}], ("k",)) is None
    actual = [{"k": "a", "v": 3}, {"k": "c", "v": 1}, {"k": "c", "v": 1}]
    assert difference(expected, actual, ("k",)) == (
        "1 missing, such as b; 1 too many, such as c; 1 other values, such as a; 1 keys more than once"
    )


def test_a_change_is_a_statement_about_its_key() -> None:
    row = {**dict.fromkeys(COLUMNS["weather"]), "origin": "O'Hare", "observed_hour": NOON}
    made = {kind: sqlglot.parse_one(statement(Change("weather", kind, row)), dialect="postgres") for kind in "cud"}
    assert [type(tree) for tree in made.values()] == [exp.Insert, exp.Update, exp.Delete]
    for tree in made.values():
        (literal,) = [node.this for node in tree.find_all(exp.Literal)]
        assert json.loads(literal) == {**row, "observed_hour": str(NOON)}
    for kind in "ud":
        tested = {column.name for column in made[kind].args["where"].find_all(exp.Column)}
        assert tested == set(KEYS["weather"])
    assert {expression.this.name for expression in made["u"].expressions} == {*COLUMNS["weather"]} - {*KEYS["weather"]}


def test_files_appear_whole_in_the_order_of_their_changes() -> None:
    source = FilesSource()
    try:
        folder = Path(source.settings["NYC_FLIGHTS_FILES"])
        source.make([plane(1), Change("airports", "d", {"faa": "JFK"}), plane(2)])
        source.make([plane(3)])
        splitlines = {
            str(file.relative_to(folder)): file.read_text().splitlines() for file in sorted(folder.rglob("*.*"))
        }
    finally:
        source.close()
    assert [(name, [json.loads(line)["op"] for line in lines]) for name, lines in splitlines.items()] == [
        ("airports/00000001.json", ["d"]),
        ("planes/00000001.json", ["c", "c"]),
        ("planes/00000002.json", ["c"]),
    ]
    assert not folder.exists()


@pytest.mark.parametrize("table", COLUMNS)
def test_all_descriptions_of_a_table_have_its_columns_and_key(table: str) -> None:
    created = {
        statement.this.this.name: statement
        for statement in sqlglot.parse((PROJECT / "airline.sql").read_text(), dialect="postgres")
    }
    columns = [column_def.name for column_def in created[table].find_all(exp.ColumnDef)]
    sources = yaml.safe_load((PROJECT / "connectors" / "files" / "sources.yml").read_text())["sources"]
    (declared,) = [item for item in sources[0]["tables"] if item["name"] == table]
    assert sorted(columns) == sorted(COLUMNS[table])
    assert columns == [column["name"] for column in declared["columns"]]
    assert declared["config"]["meta"]["arctic"]["primary_key"] == list(KEYS[table])


def test_models_above_find_the_ingested_tables_by_the_names_of_ods() -> None:
    shared = PROJECT.parent / "models"
    read = {name for layer in ("dwd", "dws") for file in (shared / layer).glob("*.sql") for name in refs(file)}
    assert {name for name in read if name.startswith("ods_")} == {file.stem for file in (PROJECT / "models").iterdir()}
    for connector in (PROJECT / "connectors").iterdir():
        (source,) = yaml.safe_load((connector / "sources.yml").read_text())["sources"]
        assert (source["name"], [table["name"] for table in source["tables"]]) == ("airline", list(COLUMNS))


def refs(file: Path) -> list[str]:
    return re.findall(r"ref\('(\w+)'\)", file.read_text())


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--events-per-second", "-1"], ["--days", "400"]])
def test_what_can_not_be_played_is_wrong_use(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2


def test_a_warehouse_of_somebody_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(phases, "WAREHOUSE", tmp_path)
    (tmp_path / "precious").touch()
    assert main([]) == 2
    assert (tmp_path / "precious").exists()
    assert "holds data that this program did not make" in capsys.readouterr().err
