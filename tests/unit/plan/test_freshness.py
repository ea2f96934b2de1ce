"""Freshness is a claim about the sources: it holds through all layers, and says what a table is late for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.freshness import Freshness, OriginStatus, TableFacts
from arctic_runtime.model.sources.ingestion import Failure, LoadProgress, to_millis
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version
from arctic_runtime.plan.freshness import FreshnessPlan

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
CONFIRMED = 120.0


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def commit(
    log: str,
    number: int,
    at: datetime,
    rows: int = 1,
    offsets: Mapping[str, Version] | None = None,
    shown_before: datetime | None = None,
    source_time: datetime | None = None,
) -> Commit:
    run = RunSummary(
        run=str(number),
        offsets=offsets,
        shown_before_ms=None if shown_before is None else to_millis(shown_before),
        source_time_ms=None if source_time is None else to_millis(source_time),
    )
    return Commit(Version(log, number, number), None, "append", rows, 0, run.encode(), to_millis(at))


ORIGIN = OriginStatus("shop", ago(30), ingested_by="process 7 on db1", ingested_until=NOON + timedelta(seconds=40))
"""The source is idle and was looked at half a minute ago."""


def ods(origin: OriginStatus = ORIGIN, *more: Commit) -> TableFacts:
    return TableFacts("ods", (commit("ods", 1, ago(9000), source_time=ago(9001)), *more), None, origin)


def model(log: str, target_lag: float = 0.0, **read: int) -> TableFacts:
    offsets = {above: Version(above, number, number) for above, number in read.items()}
    return TableFacts(log, (commit(log, 1, ago(8000), offsets=offsets),), offsets, None, target_lag)


def layers(**changed: TableFacts) -> dict[str, TableFacts]:
    return {"ods": ods(), "dwd": model("dwd", ods=1), "dws": model("dws", dwd=1), **changed}


def fresh(tables: Mapping[str, TableFacts], name: str) -> Freshness:
    return FreshnessPlan(tables, NOON, CONFIRMED).get_freshness(name)


LATE = commit("ods", 2, ago(5), shown_before=ago(20))
"""A commit that no model has read; until it the table showed its source as of 20 s ago."""
DOWN = Failure("db1 does not answer.\n  what to do: start the database", ago(600))

CASES: dict[str, tuple[dict[str, TableFacts], str, dict[str, Any]]] = {
    "an idle source that is looked at": (layers(), "dws", {"state": "fresh", "as_of": ago(30)}),
    "a table that others write is a source itself": (
        {"raw": TableFacts("raw", (commit("raw", 1, ago(9000)),)), "m": model("m", raw=1)},
        "m",
        {"state": "fresh", "as_of": NOON},
    ),
    "a change of a table that others write, not read yet": (
        {"raw": TableFacts("raw", (commit("raw", 1, ago(90)), commit("raw", 2, ago(9)))), "m": model("m", raw=1)},
        "m",
        {
            "state": "behind",
            "as_of": ago(9),
            "since": ago(9),
            "reason": "raw has 1 commit more: m has yet to read them",
        },
    ),
    "the oldest of several sources counts": (
        layers(other=replace(ods(replace(ORIGIN, as_of=ago(70))), log="other"), dws=model("dws", dwd=1, other=1)),
        "dws",
        {"state": "fresh", "as_of": ago(70)},
    ),
    "a commit that the first model has not read": (
        layers(ods=ods(ORIGIN, LATE)),
        "dws",
        {
            "state": "behind",
            "as_of": ago(20),
            "since": ago(5),
            "reason": "ods has 1 commit more: dwd has yet to read them",
        },
    ),
    "a commit that the middle model has and the last has not": (
        layers(
            ods=ods(ORIGIN, LATE),
            dwd=replace(
                model("dwd", ods=2),
                commits=(
                    commit("dwd", 1, ago(8000), offsets={"ods": Version("ods", 1, 1)}),
                    commit("dwd", 2, ago(3), offsets={"ods": Version("ods", 2, 2)}),
                ),
            ),
        ),
        "dws",
        {
            "state": "behind",
            "as_of": ago(20),
            "since": ago(3),
            "reason": "dwd has 1 commit more: dws has yet to read them",
        },
    ),
    "a change may wait as target_lag allows, there and below": (
        layers(ods=ods(ORIGIN, LATE), dwd=model("dwd", 60, ods=1)),
        "dws",
        {"state": "delayed", "as_of": ago(20), "allowed_lag_seconds": 60.0},
    ),
    "no longer than that": (
        layers(ods=ods(ORIGIN, LATE), dwd=model("dwd", 4, ods=1)),
        "dws",
        {"state": "behind", "allowed_lag_seconds": 4.0},
    ),
    "a first load that has not ended, however new its rows are": (
        layers(ods=ods(replace(ORIGIN, as_of=None, load=LoadProgress(167, 1000)))),
        "dws",
        {"state": "behind", "as_of": None, "reason": "ods is not loaded in full yet: 167 of about 1,000 rows"},
    ),
    "a load of which nobody knows how long it is": (
        layers(ods=ods(replace(ORIGIN, as_of=None, load=LoadProgress(1167)))),
        "ods",
        {"state": "behind", "as_of": None, "reason": "ods is not loaded in full yet: 1,167 rows so far"},
    ),
    "a table that is loaded again shows what it showed before": (
        layers(ods=ods(replace(ORIGIN, load=LoadProgress(5, 1000, ago(30))))),
        "dws",
        {"state": "behind", "as_of": ago(30), "reason": "ods is loaded again: 5 of about 1,000 rows"},
    ),
    "a source that fails, however new its tables are": (
        layers(ods=ods(replace(ORIGIN, as_of=ago(1), failure=DOWN))),
        "dws",
        {
            "state": "behind",
            "as_of": ago(1),
            "source": "shop",
            "since": ago(600),
            "reason": "ingestion of source shop fails: db1 does not answer",
            "action": "start the database",
        },
    ),
    "a process that ingests and does not come on": (
        layers(ods=ods(replace(ORIGIN, as_of=ago(500)))),
        "dws",
        {
            "state": "behind",
            "as_of": ago(500),
            "source": "shop",
            "since": ago(500),
            "reason": "ingestion of source shop by process 7 on db1 has come no further",
        },
    ),
    "a process that ingests has died": (
        layers(ods=ods(replace(ORIGIN, as_of=ago(500), ingested_until=ago(440)))),
        "dws",
        {
            "state": "behind",
            "as_of": ago(500),
            "since": ago(500),
            "reason": "no process ingests source shop",
            "action": "start `arctic serve` or `arctic ingest shop`",
        },
    ),
    "a process that ended a moment ago has left fresh tables": (
        layers(ods=ods(replace(ORIGIN, ingested_until=None))),
        "dws",
        {"state": "fresh", "as_of": ago(30)},
    ),
    "batches that are far apart": (
        layers(ods=ods(replace(ORIGIN, as_of=ago(500), trigger_seconds=600))),
        "dws",
        {"state": "fresh"},
    ),
    "a table that is not loaded in full": (
        layers(ods=ods(replace(ORIGIN, as_of=None))),
        "dws",
        {"state": "behind", "as_of": None, "source": "shop", "reason": "ods is not loaded in full yet", "action": ""},
    ),
    "a table that nobody loads": (
        layers(ods=ods(OriginStatus("shop"))),
        "ods",
        {"state": "behind", "as_of": None, "action": "start `arctic serve` or `arctic ingest shop`"},
    ),
    "a table of a source that waits alone": (
        layers(ods=ods(replace(ORIGIN, wait=Failure("column id is gone", ago(50))))),
        "ods",
        {"state": "held", "source": "shop", "since": ago(50), "reason": "ods waits: column id is gone"},
    ),
    "a model below it": (
        layers(ods=ods(replace(ORIGIN, wait=Failure("column id is gone", ago(50))))),
        "dws",
        {"state": "behind", "since": ago(50), "reason": "ods waits: column id is gone"},
    ),
    "a table above was made anew": (
        layers(ods=replace(ods(), log="another")),
        "dws",
        {"state": "behind", "as_of": None, "reason": "ods was recreated, and its rows were not read yet"},
    ),
    "a commit of an earlier version, which does not say as of when its table showed the source": (
        layers(ods=ods(ORIGIN, commit("ods", 2, ago(5)))),
        "dws",
        {"state": "behind", "as_of": ago(9001)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_freshness_says_as_of_when_the_source_is_shown_and_what_a_table_is_late_for(case: str) -> None:
    tables, name, expected = CASES[case]
    seen = fresh(tables, name)
    assert {key: getattr(seen, key) for key in expected} == expected


def test_a_line_says_state_time_reason_and_what_to_do() -> None:
    assert (
        fresh(layers(), "dws").describe_freshness(NOON)
        == "fresh: shows the source as of 2026-01-02 11:59:30+00:00, 30 s ago"
    )
    down = layers(ods=ods(replace(ORIGIN, failure=DOWN)))
    assert fresh(down, "dws").describe_freshness(NOON) == (
        "behind since 2026-01-02 11:50:00+00:00: shows the source as of 2026-01-02 11:59:30+00:00, 30 s ago: ingestion "
        "of source shop fails: db1 does not answer; what to do: start the database"
    )
    unknown = layers(ods=ods(replace(ORIGIN, as_of=None)))
    assert fresh(unknown, "dws").describe_freshness(NOON) == (
        "behind: it is not known as of when it shows the source: ods is not loaded in full yet"
    )


# A random warehouse, in which it is known which change of which source each version of each table has


@dataclass
class Table:
    """A table of the simulation: its commits, and the changes of sources that each version has."""

    log: str
    reads: tuple[str, ...] = ()
    commits: list[Commit] = field(default_factory=list)
    content: dict[int, frozenset[tuple[str, datetime]]] = field(default_factory=dict)
    offsets: dict[str, Version] | None = None

    def add(self, made: Commit, content: frozenset[tuple[str, datetime]]) -> None:
        self.commits.append(made)
        self.content[made.version.sequence] = content

    @property
    def last(self) -> int:
        """Number of commits that there have been."""
        return self.commits[-1].version.sequence if self.commits else 0

    @property
    def newest(self) -> frozenset[tuple[str, datetime]]:
        return self.content[self.last] if self.commits else frozenset()


class Warehouse:
    """Two sources that are ingested with pauses, and five models in random layers, refreshed at random."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now = NOON
        self.tables = {name: Table(name) for name in ("a", "b")}
        for name in ("m1", "m2", "m3", "m4", "m5"):
            above = sorted(self.tables)
            self.tables[name] = Table(name, tuple(chance.sample(above, chance.randint(1, min(3, len(above))))))
        self.made: dict[str, list[datetime]] = {"a": [], "b": []}
        self.as_of: dict[str, datetime | None] = {"a": None, "b": None}

    def step(self) -> None:
        self.now += timedelta(milliseconds=self.chance.randint(1, 5000))
        source = self.chance.choice(("a", "b"))
        act = self.chance.choice(("change", "ingest", "look", "refresh", "refresh", "refresh", "expire"))
        if act == "change":
            self.made[source].append(self.now)
        elif act == "ingest":
            self._ingest(source)
        elif act == "look" and not self._pending(source):
            self.as_of[source] = self.now
        elif act == "expire":
            self._expire(self.chance.choice(list(self.tables)))
        elif act == "refresh":
            self._refresh(self.chance.choice([name for name, table in self.tables.items() if table.reads]))

    def _expire(self, name: str) -> None:
        """Takes old commits away, even if readers have not read them: they find the rows in the files."""
        table = self.tables[name]
        until = self.chance.randint(0, max(0, table.last - 1))
        table.commits = [one for one in table.commits if one.version.sequence > until]

    def _pending(self, source: str) -> list[datetime]:
        has = {at for _, at in self.tables[source].newest}
        return [at for at in self.made[source] if at not in has]

    def _ingest(self, source: str) -> None:
        table = self.tables[source]
        taken = self._pending(source)[: self.chance.randint(1, 3)]
        if taken:
            made = commit(source, table.last + 1, self.now, shown_before=self.as_of[source], source_time=taken[-1])
            table.add(made, table.newest | {(source, at) for at in taken})
            self.as_of[source] = max(filter(None, (self.as_of[source], taken[-1])))

    def _refresh(self, name: str) -> None:
        """A run reads each table at its newest version or an older one, never older than the run before."""
        table = self.tables[name]
        offsets = dict(table.offsets or {})
        content: frozenset[tuple[str, datetime]] = frozenset()
        for above in table.reads:
            upstream = self.tables[above]
            if not upstream.commits:
                return
            last = offsets[above].sequence if above in offsets else 1
            sequence = self.chance.choice((self.chance.randint(last, upstream.last), upstream.last))
            offsets[above] = Version(above, sequence, sequence)
            content |= upstream.content[sequence]
        number = table.last + 1
        rows = len(content - table.newest)
        table.offsets = offsets
        table.add(commit(name, number, self.now, rows, offsets), content)

    def facts(self) -> dict[str, TableFacts]:
        return {
            name: TableFacts(
                name,
                tuple(table.commits),
                table.offsets,
                OriginStatus(name, self.as_of[name]) if name in self.as_of else None,
                expired_until=table.commits[0].version.sequence - 1 if table.commits else 0,
            )
            for name, table in self.tables.items()
        }


@given(st.integers(0, 2**32))
def test_a_table_has_every_change_up_to_the_time_as_of_which_it_is_said_to_show_its_sources(seed: int) -> None:
    world = Warehouse(random.Random(seed))
    for _ in range(120):
        world.step()
    plan = FreshnessPlan(world.facts(), world.now, CONFIRMED)
    for name, table in world.tables.items():
        as_of = plan.get_freshness(name).as_of
        if not table.commits or as_of is None:
            continue
        sources = {source for source in ("a", "b") if source in _sources(world, name)}
        lacking = [
            (source, at)
            for source in sources
            for at in world.made[source]
            if at <= as_of and (source, at) not in table.newest
        ]
        assert lacking == [], (name, as_of, f"seed {seed}")


@given(st.integers(0, 2**32))
def test_tables_that_have_read_all_show_the_source_as_ingestion_does(seed: int) -> None:
    world = Warehouse(random.Random(seed))
    for _ in range(80):
        world.step()
    for source in ("a", "b"):
        world.made[source].append(world.now)
        while world._pending(source):
            world._ingest(source)
        world.as_of[source] = world.now
    for name, table in world.tables.items():
        if table.reads:
            table.offsets = {above: world.tables[above].commits[-1].version for above in table.reads}
            table.add(commit(name, table.last + 1, world.now, 1, table.offsets), frozenset())
    plan = FreshnessPlan(world.facts(), world.now + timedelta(seconds=60), CONFIRMED)
    for name in world.tables:
        assert plan.get_freshness(name) == Freshness("fresh", world.now), f"seed {seed}"


def _sources(world: Warehouse, name: str) -> set[str]:
    reads = world.tables[name].reads
    return {name} if not reads else set().union(*(_sources(world, above) for above in reads))


def test_a_table_without_a_run_shows_no_source() -> None:
    begun = TableFacts("m", (), {}, None)
    fresh = FreshnessPlan({"ods": ods(), "m": begun}, NOON, CONFIRMED).get_freshness("m")
    assert (fresh.state, fresh.as_of, fresh.reason) == ("behind", None, "m has no rows of a run yet")


def test_a_table_that_has_not_read_expired_versions_is_not_known_to_be_fresh() -> None:
    above = replace(model("m", raw=1), commits=(commit("m", 4, ago(90), rows=0, offsets={}),), expired_until=3)
    facts = {"raw": TableFacts("raw", (commit("raw", 1, ago(9000)),)), "m": above}
    late = FreshnessPlan({**facts, "n": model("n", m=1)}, NOON, CONFIRMED).get_freshness("n")
    assert (late.state, late.as_of) == ("behind", None)
    assert late.reason == "m has versions that have expired, and its rows were not read yet"
    assert FreshnessPlan({**facts, "n": model("n", m=3)}, NOON, CONFIRMED).get_freshness("n").state == "fresh"


def test_a_table_that_others_compact_and_expire_at_night_makes_no_reader_late() -> None:
    raw = TableFacts("raw", (commit("raw", 4, ago(90), rows=0),), expired_until=3)
    facts = {"raw": raw, "m": model("m", raw=1)}
    assert FreshnessPlan(facts, NOON, CONFIRMED).get_freshness("m").state == "fresh"
    more = replace(raw, commits=(*raw.commits, commit("raw", 5, ago(9))))
    assert FreshnessPlan({**facts, "raw": more}, NOON, CONFIRMED).get_freshness("m").as_of is None


def test_a_query_that_reads_no_table_is_fresh_after_its_run() -> None:
    made = TableFacts("m", (commit("m", 1, ago(8000), offsets={}),), {}, None)
    assert FreshnessPlan({"m": made}, NOON, CONFIRMED).get_freshness("m").state == "fresh"


def test_a_table_whose_upstream_could_not_be_observed_claims_nothing() -> None:
    fresh = FreshnessPlan({"m": model("m", ods=1)}, NOON, CONFIRMED).get_freshness("m")
    assert (fresh.state, fresh.as_of, fresh.reason) == ("behind", None, "ods is gone, or could not be looked at")
