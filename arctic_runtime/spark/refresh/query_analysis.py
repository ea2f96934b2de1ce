"""Analyses the query of an attempt: its time, and whether Spark reads it as our parser does; records facts about it.

Incremental plans are built from an operator tree that our own parser makes of a query. If Spark understood the query
differently, the plans would compute wrong rows. So SQL is generated from our parse of the text, and Spark's plans of
this SQL and of the original text are compared: first the analyzed plans, and if Spark does not consider them the same,
the optimized plans as texts. That proves the parser. The analysis refuses all syntax that it does not know, and Spark
compares the columns of its tree with those of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from operator import or_

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.clock import BEFORE, NOW
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal
from arctic_runtime.ivm.algebra.tree import Node, list_scans
from arctic_runtime.ivm.frontend.day_texts import TIME_ALONE, is_text
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.render import name_input, render_sql
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName, parse_table_name
from arctic_runtime.model.run_summary import ClockReading, RunSummary
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh import decide as decisions
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, hash_query_reading
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model, build_relation
from arctic_runtime.plan.refresh.window_rows import is_appended
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_number, trust_query
from arctic_runtime.spark.refresh.attempt import RefreshAttempt
from arctic_runtime.spark.refresh.images import read_rows_at
from arctic_runtime.spark.refresh.increments import as_query
from arctic_runtime.spark.tables.rows.frames import NULL, cast_as, read_appended_rows, to_column
from arctic_runtime.sql.spark_sql import list_literals, write_sql
from arctic_runtime.thresholds import PruningThresholds

_ZONE = "spark.sql.session.timeZone"
_JUDGING = {
    # The text of a plan omits the rows of VALUES, and would omit expressions that are evaluated on them early.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    "spark.sql.debug.maxToStringFields": "100000",
}

_INLINED_CTES = {"spark.sql.legacy.ctePrecedencePolicy": "LEGACY"}
"""Inlines CTEs in analyzed plans, since their ids would differ between any two of these."""

_SECTION = re.compile(r"^== (\w+) Logical Plan ==\n(.*?)(?=^== (?:\w+ Logical|Physical) Plan ==$)", re.M | re.S)
_NUMBER = re.compile(r"#(\d+)L?")
_CTE_NUMBER = re.compile(r"(\bCTERelation(?:Def|Ref)) \d+")
_SHOWN = 200
_CHECKED = "arctic_checked"


@dataclass(frozen=True)
class Verdict:
    """Whether Spark makes the same plan of a query and of the SQL generated from our parse of it.

    If not, `because` describes the difference.
    """

    is_same: bool
    because: str = ""


def pin_clock(attempt: RefreshAttempt) -> RefreshAttempt:
    """Pins the time of the session for a query that reads the clock, and records it for later runs.

    Raises NotMaintained in an incremental run if the session has another time zone than that of the last run.
    """
    if not attempt.upstreams.reads.clocks or attempt.model.config.input == "changes":
        return attempt
    reading = attempt.last_run.clock
    now = pin_time(attempt.spark, attempt.upstreams.clock, reading)
    if attempt.is_incremental and reading is not None and reading.zone != now.zone:
        raise NotMaintained("QUERY_CHANGED", f"the time zone is {now.zone} now, and was {reading.zone}")
    return attempt.record_entries(RunSummary(clock=now))


def pin_time(spark: SparkSession, micros: int, last: ClockReading | None) -> ClockReading:
    """Creates the session's functions for the time `micros`, and for the time of the `last` run if it is known.

    Spark replaces their calls by constants before it plans a query, so it skips files by them. Returns the time with
    the session's time zone.
    """
    for name, value in ((NOW, micros), (BEFORE, micros if last is None else last.micros)):
        create = fill_statement(
            "CREATE OR REPLACE TEMPORARY FUNCTION {name}() RETURNS BIGINT RETURN {value}",
            name=quote_name(name.lower()),
            value=quote_number(value),
        )
        spark.sql(create)
    return ClockReading(micros, str(spark.conf.get(_ZONE)))


def analyse_query(attempt: RefreshAttempt, query: DataFrame) -> RefreshAttempt:
    """Compares how Spark and our parser read the query, and finds out if its result depends on the day of the run.

    Both are recorded for later runs. Raises ConfigError if the two understand the contract's checks differently. If
    they understand the query differently, raises NotMaintained in an incremental run, and PlanError in a run that
    creates a table with `refresh: strict`.
    """
    if attempt.model.checks and attempt.last_run.query != compute_fingerprint(attempt.model, attempt.upstreams):
        check_predicates(query, attempt.model)
    return _find_day_texts(_confirm_parser(attempt, query))


def _confirm_parser(attempt: RefreshAttempt, query: DataFrame) -> RefreshAttempt:
    """Returns the attempt with whether Spark understands the query as our analysis does.

    This is compared once per query text. Nothing is compared if the query can't be refreshed incrementally, or if an
    earlier attempt gave up an incremental refresh; the parser then counts as not confirmed.
    """
    is_query = attempt.model.config.input == "state" and not attempt.request.schema_only
    if not is_query or not decisions.can_follow_changes(attempt.upstreams):
        return attempt
    judged = hash_query_reading(attempt.model, attempt.upstreams)
    attempt, last = attempt.record_entries(RunSummary(judged=judged)), attempt.last_run
    if attempt.decision.given_up is not None:
        return attempt
    if last.judged != judged or last.given_up is not None:
        try:
            check_same_reading(attempt.model, attempt.upstreams, query)
        except NotMaintained as refused:
            return _record_difference(attempt, refused)
    return replace(attempt, is_parser_confirmed=True)


def _record_difference(attempt: RefreshAttempt, refused: NotMaintained) -> RefreshAttempt:
    """Records for later runs that Spark understands the query differently than our analysis."""
    if attempt.is_incremental:
        raise refused
    if attempt.model.config.refresh == "strict" and attempt.decision.mode == "create":
        raise decisions.build_never_strict_error(attempt.model, refused) from refused
    if refused.reason != "NOT_SAME_TO_SPARK":
        return attempt
    return attempt.record_entries(RunSummary(given_up=str(Refusal(refused.reason, refused.because))))


def check_predicates(query: DataFrame, model: Model) -> None:
    """Raises ConfigError if Spark understands one of the contract's checks differently than our parser."""
    query.createOrReplaceTempView(_CHECKED)
    for check in model.checks:
        verdict = _compare_check(query.sparkSession, check)
        if not verdict.is_same:
            raise ConfigError(
                f"{model.table}: Spark and dbt-arctic read a check constraint differently, so it can't be enforced.\n"
                f"  constraint: {check}",
                actual=verdict.because,
                fix="write the constraint in another way, or write a dbt test",
            )


def check_predicate_reading(rows: DataFrame, predicate: str) -> None:
    """Raises ConfigError if Spark understands a predicate over `rows` differently than our parser.

    Raises Spark's AnalysisException if Spark can't read it.
    """
    rows.createOrReplaceTempView(_CHECKED)
    verdict = _compare_check(rows.sparkSession, predicate)
    if not verdict.is_same:
        raise ConfigError(
            f"Spark and dbt-arctic read {predicate!r} differently.",
            actual=verdict.because,
            fix="write the predicate in another way",
        )


def _compare_check(spark: SparkSession, check: str) -> Verdict:
    select = fill_statement(
        "SELECT ({check}\n) AS held FROM {rows}", check=trust_query(check), rows=quote_name(_CHECKED)
    )
    return compare_with_spark(spark, select)


def check_same_reading(model: Model, upstreams: Upstreams, query: DataFrame) -> None:
    """Raises NotMaintained if Spark understands a model's query, or a view in it, differently than our analysis.

    `query` is the model's query as Spark has read it. So if Spark can't read one of the texts that are made here, the
    query can still be computed in full: also raises NotMaintained.
    """
    spark = query.sparkSession
    _check_text(spark, model.sql, model.table, "the query")
    for view, sql in upstreams.views.items():
        table = parse_table_name(view, model.table)
        with _use_namespace(spark, table) if _has_short_names(parse_query(sql)) else nullcontext():
            _check_text(spark, sql, table, f"the view {view}")
    _check_tree(model, upstreams, query)


def _check_tree(model: Model, upstreams: Upstreams, query: DataFrame) -> None:
    """Raises NotMaintained if the tree of a model's query is no query to Spark, or has other columns than `query`.

    The comparison of texts proves how the query is parsed. This one also sees how the parsed query is analysed, as far
    as columns and their types tell.
    """
    try:
        analysed, _ = analyse_model(model, upstreams)
    except NotMaintained:
        return
    known = {name: build_relation(state).columns for name, state in upstreams.states.items() if state is not None}
    register_empty_sources(query.sparkSession, analysed.tree, known)
    try:
        as_query(query.sparkSession.sql(render_sql(analysed.tree)), analysed.outputs, query).schema  # noqa: B018
    except (AnalysisException, ParseException) as error:
        because = f"Spark does not take the tree of the query: {_get_first_line(error)}"
        raise NotMaintained("NOT_SAME_TO_SPARK", because) from error


def register_empty_sources(spark: SparkSession, tree: Node, sources: Mapping[str, Sequence[Column]]) -> None:
    """Creates the views that a tree reads, without rows, so that Spark tells the types of the tree's columns.

    `sources` are the columns of the tables that it reads, by the names of the tables.
    """
    for scan in list_scans(tree):
        columns = [cast_as(NULL, column.type, column.name) for column in sources[str(scan.source)]]
        spark.range(0).selectExpr(*columns).createOrReplaceTempView(quote_name(name_input(scan.source, scan.image)))


def _check_text(spark: SparkSession, sql: str, at: TableName, subject: str) -> None:
    try:
        verdict = compare_with_spark(spark, sql, at)
    except (AnalysisException, ParseException) as error:
        verdict = Verdict(False, f"Spark does not take it by itself: {_get_first_line(error)}")
    if not verdict.is_same:
        raise NotMaintained("NOT_SAME_TO_SPARK", f"Spark and dbt-arctic read {subject} differently: {verdict.because}")


def compare_with_spark(spark: SparkSession, sql: str, at: TableName | None = None) -> Verdict:
    """Compares how Spark and our parser understand the query `sql`.

    In the SQL that is generated from our parse, names of tables are completed by the catalog and the schema of `at`;
    None leaves them as they are. Raises NotMaintained if our parser rejects the query, and Spark's own error if Spark
    rejects it.
    """
    query = parse_query(sql)
    if at is not None:
        _complete_names(query, at)
    if _has_shadowed_cte(query):
        return Verdict(False, "a WITH inside another one gives a name that the outer one gives as well")
    try:
        written = write_sql(query)
    except (SqlglotError, ValueError) as error:
        return Verdict(False, f"it can't be written back: {_get_first_line(error)}")
    with override_settings(spark, _JUDGING):
        try:
            with override_settings(spark, _INLINED_CTES):
                return _compare_plans(spark, sql, written)
        except AnalysisException:
            # Where CTEs are inlined, one that is defined inside another CTE can't read those of the outer WITH.
            return _compare_plans(spark, sql, written)


def _compare_plans(spark: SparkSession, sql: str, written: str) -> Verdict:
    one = spark.sql(sql)
    fields = _list_fields(one)
    try:
        other = spark.sql(written)
        spark_fields = _list_fields(other)
    except (AnalysisException, ParseException) as error:
        return Verdict(False, f"Spark does not take it as it is written back: {_get_first_line(error)}")
    if fields != spark_fields:
        return Verdict(False, _find_first_difference(fields, spark_fields))
    if one.sameSemantics(other):
        return Verdict(True)
    plans, others = explain_plans(spark, sql), explain_plans(spark, written)
    has_same_plan = plans.get("Optimized") == others.get("Optimized") is not None
    if has_same_plan and list_literals(sql) == list_literals(written):
        return Verdict(True)
    return Verdict(False, _find_first_difference(_list_analyzed_lines(plans), _list_analyzed_lines(others)))


def _list_fields(frame: DataFrame) -> list[str]:
    """Lists name and type of each column of `frame`; names that Spark generated from expressions become `(…)`."""
    return [
        f"{'(…)' if '(' in field.name else field.name} {field.dataType.simpleString()}" for field in frame.schema.fields
    ]


def explain_plans(spark: SparkSession, sql: str) -> dict[str, str]:
    """Returns Spark's logical plans of a query as texts, by their names, such as `Optimized`.

    The ids of columns are renumbered in the order in which they appear, so that plans can be compared.
    """
    explained = spark.sql(fill_statement("EXPLAIN EXTENDED {query}", query=trust_query(sql))).collect()[0][0]
    return {plan_name: _renumber_columns(plan) for plan_name, plan in _SECTION.findall(explained)}


def _renumber_columns(plan: str) -> str:
    numbers: dict[str, int] = {}
    return _NUMBER.sub(lambda match: f"#{numbers.setdefault(match[1], len(numbers))}", plan)


def _list_analyzed_lines(plans: dict[str, str]) -> list[str]:
    """Returns the lines of the analyzed plan without ids of columns and CTEs and indentation."""
    analyzed = _CTE_NUMBER.sub(r"\1", _NUMBER.sub("", plans.get("Analyzed", "")))
    return [line.strip(" :+-") for line in analyzed.splitlines()]


def _find_first_difference(one: list[str], other: list[str]) -> str:
    left, right = next(((a, b) for a, b in zip_longest(one, other, fillvalue="") if a != b), ("", ""))
    parts = zip_longest(_split_at_commas(left), _split_at_commas(right), fillvalue="")
    left, right = next(((a, b) for a, b in parts if a != b), (left, right))
    return f"Spark reads `{left[:_SHOWN]}`, and of what is written back `{right[:_SHOWN]}`"


def _split_at_commas(line: str) -> list[str]:
    """Splits the list in square brackets in `line` at its commas, except commas inside nested parentheses.

    A line without such a list is split as a whole.
    """
    pieces, depth = [""], 0
    for character in line.partition("[")[2].rpartition("]")[0] or line:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [part.strip() for part in pieces]


@contextmanager
def _use_namespace(spark: SparkSession, table: TableName) -> Iterator[None]:
    """Makes the catalog and the schema of `table` the current ones of the Spark session until the `with` block ends."""
    catalog, schema = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    spark.sql(fill_statement("USE {schema}", schema=quote_name(table.catalog, table.schema)))
    try:
        yield
    finally:
        # A catalog that was just made current has its default schema, which may be one without a name.
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentCatalog(catalog)
        if schema:
            spark.sql(fill_statement("USE {schema}", schema=quote_name(catalog, schema)))


def _has_short_names(query: exp.Query) -> bool:
    """Whether a query names any table without its catalog."""
    return next(_list_short_names(query), None) is not None


def _list_short_names(query: exp.Query) -> Iterator[exp.Table]:
    named = _list_names(query.find_all(exp.CTE))
    for table in query.find_all(exp.Table):
        is_table = isinstance(table.this, exp.Identifier) and (table.db or table.name.lower() not in named)
        if is_table and not table.catalog:
            yield table


def _complete_names(query: exp.Query, at: TableName) -> None:
    """Adds to short table names in `query` the schema and the catalog of `at`, as Spark would; changes `query`."""
    for table in list(_list_short_names(query)):
        table.set("db", table.args.get("db") or exp.to_identifier(at.schema, quoted=True))
        table.set("catalog", exp.to_identifier(at.catalog, quoted=True))


def _has_shadowed_cte(query: exp.Query) -> bool:
    """Whether a WITH defines a name that an enclosing WITH also defines; a Spark setting decides which one is used."""
    return any(
        _list_names(clause.expressions) & _list_names(_list_inner_ctes(clause)) for clause in query.find_all(exp.With)
    )


def _list_inner_ctes(clause: exp.With) -> list[exp.CTE]:
    assert clause.parent is not None
    return [cte for cte in clause.parent.find_all(exp.CTE) if cte.parent is not clause]


def _list_names(named: Iterable[exp.Expr]) -> set[str]:
    return {cte.alias.lower() for cte in named}


def _get_first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _find_day_texts(attempt: RefreshAttempt) -> RefreshAttempt:
    """Records for later runs whether the query's result depends on the day of the run.

    It does if upstreams have texts with a time but no date that the query converts to timestamps.
    """
    if not attempt.upstreams.reads.day_columns or attempt.request.schema_only:
        return attempt
    windows, thresholds = attempt.decision.windows, attempt.thresholds.pruning
    texts = find_day_texts(attempt.spark, attempt.upstreams, windows, attempt.is_incremental, thresholds)
    return attempt.record_entries(RunSummary(day_texts=texts))


def find_day_texts(
    spark: SparkSession,
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    follows: bool,
    thresholds: PruningThresholds,
) -> str | None:
    """Returns an explanation if an upstream has times without a date in text that the query converts to timestamps.

    The explanation names the first such upstream and its columns; it is None if there is none. An incremental run
    (`follows`) searches only changed rows, since earlier runs have searched the others. Runs one Spark job for each
    upstream with text columns that the query converts.
    """
    for name, state in upstreams.states.items():
        asked = (
            [column for column in state.columns if column.name.lower() in upstreams.reads.day_columns] if state else []
        )
        asked = [column for column in asked if is_text(column.type)]
        if state is None or not asked:
            continue
        rows = _read_source_rows(spark, state, windows.get(name) if follows else None, thresholds)
        is_any = reduce(or_, [to_column(column.name).cast("string").rlike(TIME_ALONE) for column in asked])
        if rows.where(is_any).limit(1).count():
            return f"{name} has times without a date in {' or '.join(column.name for column in asked)}"
    return None


def _read_source_rows(
    spark: SparkSession, source: SourceState, window: Window | None, thresholds: PruningThresholds
) -> DataFrame:
    if window is None or window.start is None:
        return read_rows_at(spark, source, source.version if window is None else window.end, thresholds)
    if source.kind == "changes" or is_appended(source, window):
        return read_appended_rows(spark, source, window)
    return read_rows_at(spark, source, window.end, thresholds)
