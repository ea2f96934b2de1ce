"""Checks that a table equals the rows that result from its change rows, and that change rows are consistent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import find_last_with_other_columns
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE
from arctic_runtime.model.files.expiry import read_trimmed_age
from arctic_runtime.model.properties import FORGOTTEN, REPAIRED
from arctic_runtime.model.shape import DELETE, INSERT, UPDATE, UPSERT, Shape
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import Sql, quote_name
from arctic_runtime.spark.tables.rows.bounds import NOWHERE
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    read_all_changes,
    read_current_rows,
    read_folded_rows,
    to_column,
)
from arctic_runtime.thresholds import ReportThresholds, Thresholds

_HELD = ("__arctic_previous", "__arctic_previous_action", "__arctic_place", "__arctic_copy")


@dataclass(frozen=True)
class Finding:
    """Result of one check of one table: the number of rows that break it, with examples.

    `left_out` is the reason if the check was skipped, else empty. `note` tells users what it did not compare.
    """

    check: str
    broken: int = 0
    examples: tuple[str, ...] = ()
    left_out: str = ""
    note: str = ""


def list_broken_promises(
    spark: SparkSession, reader: CatalogReader, model: Model, state: TableState, shape: Shape
) -> tuple[str, ...]:
    """Returns the names of the checks that a table and its change table fail; does not run the query.

    Reads both tables once or twice, and shuffles them by key.
    """
    thresholds = reader.thresholds
    findings = (
        check_changes_fold_to_table(spark, model, state, shape, thresholds),
        check_unique_keys(spark, model, state, thresholds),
        *check_history(spark, reader, model, state, shape),
    )
    return tuple(finding.check for finding in findings if finding.broken)


def check_changes_fold_to_table(
    spark: SparkSession, model: Model, state: TableState, shape: Shape, thresholds: Thresholds
) -> Finding:
    """Checks that the table's row of each key equals the row after its newest change."""
    assert state.changes is not None
    folded = read_folded_rows(spark, model, state)
    table = read_current_rows(spark, model, state, thresholds.pruning)
    return compare_rows(folded, table, shape, "the changes fold to the table", thresholds.reports)


def check_unique_keys(spark: SparkSession, model: Model, state: TableState, thresholds: Thresholds) -> Finding:
    """Checks that no key occurs twice in the table, which a comparison by key would not detect."""
    table = read_current_rows(spark, model, state, thresholds.pruning)
    assert table is not None
    key = [to_column(part) for part in model.config.primary_key] or [F.lit(0).alias("__arctic_key")]
    counted = table.groupBy(*key).agg(F.count(F.lit(1)).alias("__arctic_rows"))
    return build_finding(
        "each key stands once in the table", counted.where(F.col("__arctic_rows") > 1), thresholds.reports
    )


def compare_rows(
    expected: DataFrame,
    rows: DataFrame | None,
    shape: Shape,
    check: str,
    thresholds: ReportThresholds,
    ignored: Sql = NOWHERE,
) -> Finding:
    """Compares a table's rows with `expected` ones; the finding counts the change rows that would make them equal.

    `rows` are the table's rows, None for no rows; `check` is the name of the check, and `ignored` the condition of
    change rows that do not count.
    """
    differences = diff_states(expected, rows, shape).where(~F.expr(ignored))
    shown = differences.drop("_ts", SEQUENCE).withColumnRenamed(ACTION, "missing_change")
    return build_finding(check, shown, thresholds)


def check_history(
    spark: SparkSession, reader: CatalogReader, model: Model, state: TableState, shape: Shape
) -> list[Finding]:
    """Checks in one pass that the change rows are consistent; returns a finding for each rule.

    All findings together have at most `sampled_rows` rows. Change rows up to the last repair are not checked, since
    they may break rules forever.
    """
    assert state.changes is not None
    limits, properties = reader.thresholds.reports, state.changes.properties
    forgotten = int(properties.get(FORGOTTEN, 0))
    # Ingestion keeps events that change nothing while the source has dead letters, which have to be put in order.
    is_ingested = model.ingested_from is not None
    unchanged = max(
        find_last_with_other_columns(reader, model.table.changes), forgotten, 2**63 - 1 if is_ingested else 0
    )
    rules = _build_rules(shape, unchanged, max(read_trimmed_age(properties).sequence, forgotten))
    breaks = F.array_compact(F.array(*[F.when(rule, F.lit(check)) for check, rule in rules.items()]))
    changes = _add_previous(read_all_changes(spark, model, state), shape, state.changes.keeps_all)
    placed = changes.withColumn("__arctic_breaks", breaks)
    is_later = F.col("__arctic_place") > int(properties.get(REPAIRED, 0))
    broken = placed.where(is_later & (F.size("__arctic_breaks") > 0)).drop(*_HELD).limit(limits.sampled_rows)
    rows = [row.asDict(recursive=True) for row in broken.collect()]
    broken_rows = [(set(row.pop("__arctic_breaks")), str(row)) for row in rows]
    by_check = {check: tuple(text for checks, text in broken_rows if check in checks) for check in rules}
    return [Finding(check, len(examples), examples[: limits.examples]) for check, examples in by_check.items()]


def _add_previous(changes: DataFrame, shape: Shape, keeps_all: bool) -> DataFrame:
    key = [to_column(part) for part in shape.key] or [F.lit(0)]
    order = Over.partitionBy(*key).orderBy(F.col("__arctic_place"), F.col(SEQUENCE))
    place = [F.col("__arctic_place"), *([F.col(SEQUENCE)] if keeps_all else [])]
    copies = Over.partitionBy(*key, *place).orderBy(F.col(SEQUENCE))
    image = F.struct(*[to_column(column.name) for column in shape.rest] or [F.lit(True).alias("exists")])
    return changes.withColumn("__arctic_place", F.col(COMMIT_ORDER)).withColumns(
        {
            "__arctic_previous": F.lag(image).over(order),
            "__arctic_previous_action": F.lag(ACTION).over(order),
            "__arctic_copy": F.row_number().over(copies),
        }
    )


def _build_rules(shape: Shape, unchanged_until: int, trimmed: int) -> dict[str, Expression]:
    """Builds the conditions, by the name of each rule, that are true for change rows that break the rule.

    Updates in commits up to the sequence number `unchanged_until` may have equal new and old rows, since columns in
    which they differed were dropped. In commits up to `trimmed`, the previous change row of a key may have been
    deleted, so change rows are not compared with it.
    """
    action, was = F.col(ACTION), F.col("__arctic_previous_action")
    is_whole = F.col("__arctic_place") > trimmed
    there = was.isNotNull() & (was != DELETE)
    absent, there = ~there & is_whole, there & is_whole
    rules = {
        "each key changes once in a commit": F.col("__arctic_copy") > 1,
        "every action is known": ~F.coalesce(action.isin(INSERT, UPDATE, DELETE, UPSERT), F.lit(False)),
        "an insert adds a row that did not exist": (action == INSERT) & there,
        "an update changes an existing row": (action == UPDATE) & absent,
    }
    if not shape.rest:
        return rules
    has_before = F.col(BEFORE).isNotNull()
    is_previous = _build_sameness(("__arctic_previous",), (BEFORE,), shape)
    unchanged = _build_sameness((BEFORE,), (), shape)
    return {
        **rules,
        "a delete with _before deletes an existing row": (action == DELETE) & has_before & absent,
        "_before equals the row before the change": has_before & there & ~is_previous,
        "an update has _before": (action == UPDATE) & ~has_before,
        "an update changes the row": (action == UPDATE)
        & has_before
        & unchanged
        & (F.col("__arctic_place") > unchanged_until),
    }


def _build_sameness(left: Sequence[str], right: Sequence[str], shape: Shape) -> Expression:
    """Builds the condition that the structs `left` and `right` have equal values in all columns outside the key.

    Both are given as the parts of a column name; without parts, the row itself takes the place of the struct.
    """
    return ~F.expr(
        write_difference(
            (quote_name(*left, column.name), quote_name(*right, column.name), column.type) for column in shape.rest
        )
    )


def build_finding(check: str, broken: DataFrame, thresholds: ReportThresholds) -> Finding:
    """Builds the finding of `check` from `broken`, the rows that break it; counts at most `sampled_rows` of them."""
    rows = broken.limit(thresholds.sampled_rows).collect()
    shown = tuple(str(row.asDict(recursive=True)) for row in rows[: thresholds.examples])
    return Finding(check, len(rows), shown)
