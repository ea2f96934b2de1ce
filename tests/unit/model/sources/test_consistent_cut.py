"""The version of a table at a place of its source has all up to there and nothing after it."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.ingest.connectors import get_position_parser
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Position
from arctic_runtime.ingest.transports.kafka.offsets import encode_offsets
from arctic_runtime.model.properties import POSITION, POSITION_EVENTS
from arctic_runtime.model.sources.consistent_cut import find_version_at
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version


def wal(commit: int, seen: int | None = None) -> str:
    offset = {"lsn": commit, "lsn_commit": commit}
    return Position({}, offset, None if seen is None else {"tx": 7, "lsn": seen}, commit).text


def binlog(file: int, place: int, seen: int | None = None) -> str:
    offset = {"file": f"b.{file:06}", "pos": place}
    row = None if seen is None else {"file": f"b.{file:06}", "pos": seen, "row": 0}
    return Position({}, offset, row, history="definitions").text


def files(number: int) -> str:
    return f'{{"batch": {number}}}'


def kafka(*offsets: int) -> str:
    return encode_offsets({("orders", number): at for number, at in enumerate(offsets)})


def commits(*positions: str | None, partial: tuple[int, ...] = ()) -> list[Commit]:
    made = []
    for number, position in enumerate(positions):
        summary: dict[str, Any] = {} if position is None else {POSITION: position}
        summary |= {POSITION_EVENTS: "3"} if number in partial else {}
        made.append(Commit(Version("t", number, number), None, "append", 1, 1, summary, number))
    return made


def version(commit: Commit | None) -> int | None:
    return None if commit is None else commit.version.snapshot


@pytest.mark.parametrize(
    ("connector", "positions", "at", "expected"),
    [
        ("postgresql", [wal(10), wal(20), wal(30)], wal(20), 1),
        ("postgresql", [wal(10), wal(20), wal(30)], wal(25), 1),
        ("postgresql", [wal(10), wal(20, seen=22)], wal(20), 0),
        ("postgresql", [wal(10), wal(20, seen=0)], wal(20), 1),
        ("postgresql", [wal(10)], wal(10, seen=12), None),
        ("postgresql", [wal(30)], wal(20), None),
        ("postgresql", [INITIAL.text, wal(30)], wal(20), 0),
        ("postgresql", [Position({}, {"lsn": 5}).text, wal(30)], wal(20), 0),
        ("postgresql", [wal(10)], INITIAL.text, None),
        ("postgresql", [wal(10), None, wal(30), None], wal(20), 1),
        ("postgresql", [None, wal(30)], wal(20), None),
        ("postgresql", [binlog(9, 400)], wal(20), None),
        ("mysql", [binlog(9, 400), binlog(10, 4), binlog(10, 90)], binlog(10, 50), 1),
        ("mysql", [binlog(10, 4), binlog(10, 50, seen=70)], binlog(10, 50), 0),
        ("mariadb", [binlog(10, 4)], binlog(10, 50, seen=70), None),
        ("files", [files(1), files(2), files(3)], files(2), 1),
        ("kafka", [kafka(1, 5), kafka(2, 5), kafka(2, 6)], kafka(2, 5, 3), 1),
        ("kafka", [kafka(1, 5, 7)], kafka(2, 5), None),
        ("kafka", [files(1), wal(10), "{}"], kafka(2, 5), None),
        ("kafka", ["1", "2"], "2", None),
        ("of others", [files(1)], files(2), None),
    ],
)
def test_the_version_at_a_place_has_nothing_after_it(
    connector: str, positions: list[str | None], at: str, expected: int | None
) -> None:
    assert version(find_version_at(commits(*positions), at, get_position_parser(connector))) == expected


def test_a_commit_of_a_part_of_a_batch_is_none() -> None:
    parse, parts = get_position_parser("postgresql"), commits(wal(10), wal(10), wal(20), partial=(1,))
    assert version(find_version_at(parts, wal(10), parse)) == 0
    assert version(find_version_at(parts, wal(20), parse)) == 2
