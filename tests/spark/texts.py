"""Whether Spark gives the same rows for a query as it was written and for the tree that is made of it.

Many select lists over the same rows are compared as one query, and many results are collected by one job; where
these differ, the parts are compared by halves, down to the one that is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.render import name_input, render_sql
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.refresh.query_analysis import compare_with_spark
from arctic_runtime.spark.tables.rows.frames import to_column
from arctic_runtime.sql.spark_sql import write_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG, SCHEMA = "lake", "raw"
LISTS = 20
"""So many select lists are one query."""
FRAMES = 40
"""So many results are collected by one job."""

T = TypeVar("T")


def written_back(sql: str) -> str:
    """The text that is made of a query as it was parsed, by the generator that also writes trees."""
    return write_sql(parse_query(sql))


def is_same(spark: SparkSession, sql: str) -> bool:
    """Whether Spark is shown to read what is written back as it reads the query itself."""
    try:
        return compare_with_spark(spark, sql).is_same
    except PySparkException:
        return False


@dataclass(frozen=True)
class Text:
    """A query: a select list, and what stands behind it; or another one, which has no list."""

    shown: str
    rest: str | None = None

    @property
    def sql(self) -> str:
        return self.shown if self.rest is None else f"select {self.shown}\n{self.rest}"


@dataclass(frozen=True)
class Result:
    """Types and rows, in an order that says nothing; or the kind of the error."""

    types: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Comparison:
    """A query of some texts as Spark reads it, whether it is shown to be `same`, and its tree.

    `back` is what is written back, of a single text that is not shown to be the same.
    """

    texts: Sequence[Text]
    written: DataFrame | Result
    tree: DataFrame | Result | None = None
    back: DataFrame | Result | None = None
    same: bool = False


@dataclass
class Tally:
    """How many texts were compared, which were refused and why, and what was found."""

    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    not_run: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.compared += other.compared
        self.refused += other.refused
        self.not_run += other.not_run
        self.wrong += other.wrong
        self.false_alarms += other.false_alarms

    def line(self, name: str) -> str:
        """One line for the log."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.refused.items())) or "none"
        return (
            f"{self.compared} {name} compared, {self.refused.total()} refused ({reasons}), "
            f"{len(self.false_alarms)} of them by false alarm, {len(self.not_run)} not run by Spark"
        )


@dataclass(frozen=True)
class Texts:
    """Compares queries over relations that are at hand as temporary views."""

    spark: SparkSession
    relations: Mapping[str, Relation] = field(default_factory=dict)

    @classmethod
    def over(cls, spark: SparkSession, tables: Mapping[str, tuple[Relation, str]]) -> Texts:
        """Makes the views of tables, as queries and as trees name them."""
        for name, (_, rows) in tables.items():
            for view in (name, f"`{name_input(TableName(CATALOG, SCHEMA, name), 'new')}`"):
                spark.sql(rows).createOrReplaceTempView(view)
        return cls(spark, {f"{CATALOG}.{SCHEMA}.{name}": relation for name, (relation, _) in tables.items()})

    def compare(self, texts: Iterable[Text]) -> Tally:
        """Compares the trees of all that can be followed to the queries themselves."""
        tally = Tally()
        followed = sorted((text for text in texts if self._is_followed(text, tally)), key=lambda text: text.rest or "")
        lists = [text for text in followed if text.rest is not None]
        waiting: list[Sequence[Text]] = [[text] for text in followed if text.rest is None]
        for _, alike in groupby(lists, key=lambda text: text.rest):
            waiting += _batches(alike, LISTS)
        while waiting:
            compared = [self._compared(batch) for batch in waiting]
            waiting = []
            for one, result in zip(compared, _results(compared), strict=True):
                if one.same and result["tree"] == result["written"] and not result["written"].error:
                    tally.compared += len(one.texts)
                elif len(one.texts) > 1:
                    half = len(one.texts) // 2
                    waiting += (one.texts[:half], one.texts[half:])
                else:
                    _count(tally, one.texts[0], one.same, result)
        return tally

    def _is_followed(self, text: Text, tally: Tally) -> bool:
        try:
            analyse_query(text.sql, self.relations, {}, CATALOG, SCHEMA)
        except NotMaintained as error:
            tally.refused[error.reason] += 1
            return False
        return True

    def _compared(self, texts: Sequence[Text]) -> Comparison:
        sql = texts[0].sql if len(texts) == 1 else Text(", ".join(text.shown for text in texts), texts[0].rest).sql
        tree = self._tree(sql) if is_same(self.spark, sql) else None
        if tree is not None:
            return Comparison(texts, self._frame(sql), tree, same=True)
        if len(texts) > 1:
            return Comparison(texts, Result())
        return Comparison(texts, self._frame(sql), back=self._frame(written_back(sql)))

    def _tree(self, sql: str) -> DataFrame | Result | None:
        """The tree's rows; None where lists that can be followed can't be together."""
        try:
            analysed = analyse_query(sql, self.relations, {}, CATALOG, SCHEMA)
        except NotMaintained:
            return None
        return self._frame(render_sql(analysed.tree), analysed.outputs)

    def _frame(self, sql: str, outputs: Sequence[tuple[str, str]] = ()) -> DataFrame | Result:
        try:
            frame = self.spark.sql(sql)
            return frame.select(*[to_column(made) for _, made in outputs]) if outputs else frame
        except PySparkException as error:
            return Result(error=_kind(error))


def as_texts(queries: Iterable[str]) -> list[Text]:
    return [Text(query) for query in queries]


def _count(tally: Tally, text: Text, same: bool, results: Mapping[str, Result]) -> None:
    """One text that is not shown to be the same, or whose tree differs."""
    written = results["written"]
    if written.error:
        tally.not_run.append(f"{text.sql}\n    {written.error}")
    elif same:
        tally.wrong.append(f"{text.sql}\n    expected {written}\n    found    {results['tree']}")
    else:
        tally.refused["NOT_SAME_TO_SPARK"] += 1
        if results["back"] == written:
            tally.false_alarms.append(text.sql)


def _results(compared: Sequence[Comparison]) -> list[dict[str, Result]]:
    """What the frames of each comparison hold, by their names."""
    named = [{"written": one.written, "tree": one.tree, "back": one.back} for one in compared]
    frames = [frame for parts in named for frame in parts.values() if isinstance(frame, DataFrame)]
    collected = (result for batch in _batches(frames, FRAMES) for result in _collected(batch))
    return [
        {
            name: next(collected) if isinstance(frame, DataFrame) else frame
            for name, frame in parts.items()
            if frame is not None
        }
        for parts in named
    ]


def _collected(frames: Sequence[DataFrame]) -> list[Result]:
    """What frames hold, collected together; by halves where that fails, down to the one that does."""
    placed = [_as_one_column(frame, place) for place, frame in enumerate(frames)]
    try:
        collected = reduce(DataFrame.unionAll, placed).collect()
    except PySparkException as error:
        if len(frames) == 1:
            return [Result(_types(frames[0]), error=_kind(error))]
        half = len(frames) // 2
        return [*_collected(frames[:half]), *_collected(frames[half:])]
    types = [_types(frame) for frame in frames]
    rows: dict[int, list[tuple[str | None, ...]]] = {place: [] for place in range(len(frames))}
    for place, texts in collected:
        rows[place].append(tuple(map(_shown, texts, types[place])))
    return [Result(types[place], tuple(sorted(row, key=repr))) for place, row in rows.items()]


def _shown(text: str | None, kind: str) -> str | None:
    """A value as text, without the last digits of a double: they depend on the order in which parts are added up."""
    return f"{float(text):.13g}" if text is not None and kind == "double" else text


def _types(frame: DataFrame) -> tuple[str, ...]:
    return tuple(part.dataType.simpleString() for part in frame.schema.fields)


def _as_one_column(frame: DataFrame, place: int) -> DataFrame:
    """Each row as an array of texts, so that rows of all queries have one type."""
    kinds = [part.dataType for part in frame.schema.fields]
    values = [f"hex(c{i})" if isinstance(kind, BinaryType) else f"cast(c{i} as string)" for i, kind in enumerate(kinds)]
    named = frame.toDF(*[f"c{i}" for i in range(len(kinds))])
    return named.selectExpr(f"{place} as place", f"cast(array({', '.join(values)}) as array<string>) as texts")


def _kind(error: PySparkException) -> str:
    return error.getCondition() or str(error).splitlines()[0]


def _batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    waiting = iter(values)
    while batch := list(islice(waiting, size)):
        yield batch
