"""Merging 10% of changes into everything, against a copy of the same table and against Iceberg's own rewriting."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.model.files.compaction import RewriteBase
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_number, quote_text
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import EVENTS, NAMESPACE, Lake, differing, events_model, lake
from benchmarks.measure import Measurement, ratio, seconds

CHANGED = 0.1
TIMES_LARGER = 4
TO_COPY = {"hash": 1.4, "sort": 2.0}
"""How rows meet their changes → at most so many times the seconds of a copy."""
TO_REWRITE = 1.8
FLAT = 0.85
PROJECTED_ROWS = 100_000_000
PROJECTED_SECONDS = 90.0
MERGE, COPY, REWRITE = "merge", "copy", "rewrite_data_files"
_KEYS = {"hash": (), "sort": ("a",)}
_COPY = TableName("lake", NAMESPACE, "copy")


@dataclass(frozen=True)
class Side:
    """A table that is compacted by us, and its twin where Iceberg does the same; seconds of each round by action."""

    bench: Lake
    way: str
    ours: Model
    theirs: Model
    times: Mapping[str, list[float]] = field(default_factory=lambda: {MERGE: [], COPY: [], "fold": [], REWRITE: []})

    def turn(self, turn: int) -> None:
        """As many changes again, and every action once; the copy is of the table before they are merged."""
        actions = {COPY: self._copy, MERGE: self._merge, "fold": self._fold, REWRITE: self._rewrite}
        for model in (self.ours, self.theirs):
            self.bench.run(model)
        _make_copy(self.bench, self.ours)
        for name, action in actions.items():
            taken = seconds(action)
            shown = f"round {turn}" if turn else "warm-up"
            print(f"  {self.bench.rows:,} {self.way} {shown}: {name}: {taken:.2f} s", flush=True)
            self.times[name].append(taken)

    @property
    def counted(self) -> dict[str, list[float]]:
        """Without the first round, which warms up."""
        return {name: taken[1:] for name, taken in self.times.items()}

    def differing(self) -> int:
        """Rows that one of the two tables has and the other has not."""
        tables = [self.bench.spark.table(quoted(*model.table.parts)) for model in (self.ours, self.theirs)]
        return differing(*tables)

    def _copy(self) -> None:
        rows = self.bench.spark.table(quoted(*self.ours.base.parts))
        writer = rows.writeTo(quoted(*_COPY.parts)).option("distribution-mode", "none").option("fanout-enabled", "true")
        writer.append()

    def _merge(self) -> None:
        done = compact_table(self._session(self.ours), "major")
        if not any(isinstance(step, RewriteBase) for step in done.steps):
            raise AssertionError(f"{self.ours.table} was not written anew: {done.steps}")

    def _fold(self) -> None:
        session = self._session(self.theirs)
        session.reconcile_until_done(session.observe_state(), fold=True)

    def _rewrite(self) -> None:
        order = (
            fill_statement(", strategy => 'sort', sort_order => {by}", by=quote_text("a, id"))
            if self.way == "sort"
            else Sql("")
        )
        call = fill_statement(
            "CALL lake.system.rewrite_data_files(table => {table}{order}, options => map('rewrite-all', 'true'))",
            table=quote_text(quoted(*self.theirs.base.parts)),
            order=order,
        )
        self.bench.spark.sql(call).collect()

    def _session(self, model: Model) -> TableSession:
        return TableSession(model, self.bench.reader, lambda: self.bench.spark)


def measure(rows: int, rounds: int = 2) -> list[Measurement]:
    """Ratios at `rows` and at four times as many, rows a second at both, and what follows for 100 million."""
    sizes = (rows, TIMES_LARGER * rows)
    sides = {size: _sides(size, rounds) for size in sizes}
    figures = [figure for size in sizes for side in sides[size] for figure in _ratios(size, side)]
    for small, large in zip(*(sides[size] for size in sizes), strict=True):
        figures += _growth(sizes, small, large)
    return figures


def _sides(rows: int, rounds: int) -> list[Side]:
    with lake(rows) as bench:
        bench.fill_events()
        sides = [_side(bench, way) for way in TO_COPY]
        for turn in range(rounds + 1):
            bench.append_changes(CHANGED, turn + 1)
            for side in sides:
                side.turn(turn)
        wrong = {side.way: side.differing() for side in sides}
        if any(wrong.values()):
            raise AssertionError(f"tables that must be the same differ in so many rows: {wrong}")
    return sides


def _side(bench: Lake, way: str) -> Side:
    config = {"merge": "on_read", "sort_key": list(_KEYS[way]), "compaction": "off"}
    ours, theirs = (events_model(f"{name}_{way}", EVENTS, **config) for name in ("ours", "theirs"))
    side = Side(bench, way, ours, theirs)
    for model in (ours, theirs):
        bench.run(model)
    return side


def _make_copy(bench: Lake, model: Model) -> None:
    """An empty table of the same layout."""
    files = observe_files(bench.reader, model.base)
    assert files is not None
    bench.spark.sql(
        fill_statement(
            "CREATE OR REPLACE TABLE {copy} USING iceberg PARTITIONED BY (bucket({n}, id)) "
            "TBLPROPERTIES ('format-version' = '3', 'write.parquet.compression-codec' = 'zstd') "
            "AS SELECT * FROM {base} WHERE false",
            copy=quoted(*_COPY.parts),
            base=quoted(*model.base.parts),
            n=quote_number(files.file_groups[0].partition[0].transform.parameter or 1),
        )
    ).collect()


def _ratios(rows: int, side: Side) -> list[Measurement]:
    times = side.counted
    detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
    label = f"{CHANGED:.0%} into {rows:,}, {side.way} merge"
    return [
        Measurement(f"{label} / copy", ratio(times, MERGE, COPY), "x", TO_COPY[side.way], False, detail),
        Measurement(f"{label}: {REWRITE} / ours", ratio(times, REWRITE, MERGE), "x", TO_REWRITE, True, detail),
    ]


def _growth(sizes: Sequence[int], small: Side, large: Side) -> list[Measurement]:
    taken = [statistics.median(side.counted[MERGE]) for side in (small, large)]
    rates = [rows / each for rows, each in zip(sizes, taken, strict=True)]
    detail = {f"{rows:,} rows": f"{rate:,.0f} rows a second" for rows, rate in zip(sizes, rates, strict=True)}
    projected = taken[1] * PROJECTED_ROWS / sizes[1]
    label = f"{small.way} merge"
    more = PROJECTED_ROWS * CHANGED
    return [
        Measurement(
            f"{label}: rows a second, {sizes[1]:,} / {sizes[0]:,}", rates[1] / rates[0], "x", FLAT, True, detail
        ),
        Measurement(
            f"{label}: projected for {PROJECTED_ROWS:,} + {more:,.0f}", projected, "s", PROJECTED_SECONDS, False, detail
        ),
    ]
