"""The engine that provenance reads source rows with, and computes rows again: Spark, over local tables of few rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import IntegerType, StructField, StructType
from sqlglot import exp

from arctic_runtime.ivm.algebra.tree import Node, Scan
from arctic_runtime.ivm.provenance.restrictions import Restriction
from arctic_runtime.ivm.provenance.source_rows import SIDE, UNIT, EvaluationFailed, Images, Row, TooManyRows
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    trust_query,
    write_expression,
)
from arctic_runtime.spark.tables.rows.frames import combine_all, combine_any
from arctic_runtime.thresholds import WhyThresholds

_FEW_ROWS = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.codegen.wholeStage": "false"}
"""Settings of statements over a few rows in one partition: a task each, without broadcasts, and without compilation."""

_KEY = "__arctic_key_"
_WORLD = "__arctic_world"
_VALUE = "__arctic_value_"


@dataclass(frozen=True)
class FoundRows:
    """Rows at the start and at the end of a window, with all columns, whose types are in `schema`."""

    old: Sequence[SparkRow]
    new: Sequence[SparkRow]
    schema: StructType


FindRows = Callable[[Mapping[str, tuple[Any, ...]]], "FoundRows | None"]
"""Function that finds rows by wanted values of columns; None if only Spark can read them."""


@dataclass(frozen=True)
class ReadableSource:
    """Frames of a source's rows at both ends of a window, with all columns that a query may read.

    `key` are columns that identify a row at one end; None if there are none. `old` is None if there were no rows, and
    the same function as `new` if nothing changed.
    """

    key: tuple[str, ...] | None
    old: Callable[[], DataFrame] | None
    new: Callable[[], DataFrame]
    find_rows: FindRows = lambda _: None
    """Finds the rows that have wanted values at both ends without Spark, if it can."""


@dataclass
class SparkEngine:
    """Reads rows of `sources` by restrictions, at most `limits.rows` of each scan, and evaluates trees over them."""

    spark: SparkSession
    sources: Mapping[TableName, ReadableSource]
    limits: WhyThresholds
    key_schema: StructType
    """Types of the key of the row that is looked for, by position."""

    _schemas: dict[Scan, StructType] = field(default_factory=dict)

    def read_images(self, scan: Scan, restrictions: Sequence[Restriction], identity: Sequence[str]) -> Images:
        source = self.sources[scan.source]
        key = tuple(identity) if source.key is None else source.key
        if (images := self._find_images(scan, key, source, restrictions)) is not None:
            return images
        new = self._collect_rows(scan, key, source.new(), restrictions)
        if source.old is None:
            return Images((), new)
        return Images(
            new if source.old is source.new else self._collect_rows(scan, key, source.old(), restrictions), new
        )

    def _find_images(
        self, scan: Scan, key: Sequence[str], source: ReadableSource, restrictions: Sequence[Restriction]
    ) -> Images | None:
        """Finds the rows by those restrictions that are about values of columns, without Spark; None if it can't.

        There may be rows more than the other restrictions allow, which a row is computed from without an effect.
        """
        fields = dict(scan.fields)
        wanted = _list_wanted(restrictions, fields)
        images = source.find_rows(wanted) if wanted else None
        if images is None or max(len(images.old), len(images.new)) > self.limits.rows:
            return None
        kinds = {part.name.lower(): part.dataType for part in images.schema.fields}
        self._schemas[scan] = StructType([StructField(name, kinds[column.lower()]) for name, column in scan.fields])
        old, new = (
            _project_rows(rows, [column for _, column in scan.fields], key) for rows in (images.old, images.new)
        )
        return Images(old, new)

    def _collect_rows(
        self, scan: Scan, key: Sequence[str], frame: DataFrame, restrictions: Sequence[Restriction]
    ) -> list[tuple[Row, Row]]:
        spelled = {name.lower(): name for name in frame.columns}
        keys = [alias_as(quote_name(spelled[part.lower()]), f"{_KEY}{place}") for place, part in enumerate(key)]
        named = [alias_as(quote_name(spelled[column.lower()]), name) for name, column in scan.fields]
        rows = frame.selectExpr(*named, *keys)
        for one in restrictions:
            rows = self._restrict_rows(rows, one)
        width = len(scan.fields)
        self._schemas[scan] = StructType(rows.schema.fields[:width])
        collected = rows.limit(self.limits.rows + 1).collect()
        if len(collected) > self.limits.rows:
            raise TooManyRows(scan.source)
        return [(tuple(row)[width:], tuple(row)[:width]) for row in collected]

    def _restrict_rows(self, rows: DataFrame, one: Restriction) -> DataFrame:
        """Selects rows that meet a restriction, by a condition on literals that Spark skips files by."""
        expressions = [F.expr(write_expression(part)) for part in one.expressions]
        if one.values is None:
            return rows.where(expressions[0])
        columns = list(zip(*one.values, strict=True))
        if len(one.values) <= self.limits.literals:
            return rows.where(
                combine_any(
                    [
                        combine_all([part.eqNullSafe(F.lit(v)) for part, v in zip(expressions, row, strict=True)])
                        for row in one.values
                    ]
                )
                if len(expressions) > 1
                else _is_among(expressions[0], columns[0])
            )
        kinds = rows.select(*expressions).schema.fields
        schema = StructType([StructField(f"{_VALUE}{i}", part.dataType) for i, part in enumerate(kinds)])
        wanted = self.spark.createDataFrame(list(one.values), schema)
        pairs = [part.eqNullSafe(F.col(f"{_VALUE}{i}")) for i, part in enumerate(expressions)]
        return rows.join(wanted.hint("broadcast"), combine_all(pairs), "left_semi")

    def load_table(self, name: str, scan: Scan, rows: Sequence[Row]) -> None:
        known = self._schemas.get(scan)
        marks = [StructField(UNIT, IntegerType()), StructField(SIDE, IntegerType())]
        if known is None:
            known = self._read_schema(scan)
        self._load_rows(name, StructType([*known.fields, *marks]), rows)

    def _load_rows(self, name: str, schema: StructType, rows: Sequence[Row]) -> None:
        """Makes a local table of rows, in one partition, so that no statement over such tables shuffles rows.

        As Arrow the rows are part of Spark's plan, which needs no job to read them.
        """
        local = LocalDataToArrowConversion.convert(list(rows), schema, use_large_var_types=False) if rows else []
        self.spark.createDataFrame(local, schema).coalesce(1).createOrReplaceTempView(quote_name(name))

    def _read_schema(self, scan: Scan) -> StructType:
        frame = self.sources[scan.source].new()
        spelled = {name.lower(): name for name in frame.columns}
        named = [alias_as(quote_name(spelled[column.lower()]), name) for name, column in scan.fields]
        return frame.selectExpr(*named).schema if named else StructType()

    def load_key(self, name: str, key: Row) -> None:
        fields = [StructField(f"{name}{place}", part.dataType) for place, part in enumerate(self.key_schema.fields)]
        self._load_rows(name, StructType(fields), [key])

    def evaluate(self, trees: Sequence[Node]) -> list[list[Row]]:
        """Evaluates trees with the same columns as one statement, since planning and jobs cost more than few rows."""
        parts = [
            fill_statement(
                "SELECT {number} AS {world}, * FROM ({query})",
                number=quote_number(number),
                world=quote_name(_WORLD),
                query=trust_query(render_sql(tree)),
            )
            for number, tree in enumerate(trees)
        ]
        together = join_parts(parts, " UNION ALL ")
        answers: list[list[Row]] = [[] for _ in trees]
        for row in self._run_query(together):
            number, *values = row
            answers[number].append(tuple(values))
        return answers

    def _run_query(self, together: Sql) -> list[SparkRow]:
        try:
            with override_settings(self.spark, _FEW_ROWS):
                return self.spark.sql(fill_statement("SELECT * FROM ({parts})", parts=together)).collect()
        except PySparkException as error:
            if (ended := to_spark_ended(error)) is not None:
                raise ended from error
            raise EvaluationFailed(get_message(error)) from error


def _list_wanted(restrictions: Sequence[Restriction], fields: Mapping[str, str]) -> dict[str, tuple[Any, ...]]:
    """Lists the values that rows may have by column, from restrictions of columns to values.

    `fields` has the column of the source by the name in a restriction.
    """
    wanted: dict[str, dict[str, Any]] = {}
    for one in restrictions:
        for place, part in enumerate(one.expressions):
            if one.values is not None and isinstance(part, exp.Column):
                values = {repr(row[place]): row[place] for row in one.values}
                before = wanted.get(fields[part.name], values)
                wanted[fields[part.name]] = {name: value for name, value in values.items() if name in before}
    return {column: tuple(values.values()) for column, values in wanted.items()}


def _project_rows(rows: Sequence[SparkRow], columns: Sequence[str], key: Sequence[str]) -> list[tuple[Row, Row]]:
    """Returns the key and the values of `columns` of each row."""
    spelled = {name.lower(): name for row in rows[:1] for name in row.__fields__}
    names, keys = ([spelled[part.lower()] for part in parts] if rows else [] for parts in (columns, key))
    return [(tuple(row[part] for part in keys), tuple(row[part] for part in names)) for row in rows]


def _is_among(expression: Expression, values: Sequence[Any]) -> Expression:
    known = [value for value in values if value is not None]
    parts = [expression.isin(known)] if known else []
    return combine_any([*parts, *([expression.isNull()] if len(known) < len(values) else [])])
