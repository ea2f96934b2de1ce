"""Analyses the query of an attempt: its time, and whether Spark reads it as our parser does; records facts about it."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.plan.refresh import decide as decisions
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, hash_query_reading
from arctic_runtime.spark.refresh.attempt import RefreshAttempt
from arctic_runtime.spark.refresh.clock import pin_time
from arctic_runtime.spark.refresh.from_query.day_texts import find_day_texts
from arctic_runtime.spark.refresh.from_query.parser_check import check_predicates, check_same_reading


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


def _find_day_texts(attempt: RefreshAttempt) -> RefreshAttempt:
    """Records for later runs whether the query's result depends on the day of the run.

    It does if upstreams have texts with a time but no date that the query converts to timestamps.
    """
    if not attempt.upstreams.reads.day_columns or attempt.request.schema_only:
        return attempt
    windows, thresholds = attempt.decision.windows, attempt.thresholds.pruning
    texts = find_day_texts(attempt.spark, attempt.upstreams, windows, attempt.is_incremental, thresholds)
    return attempt.record_entries(RunSummary(day_texts=texts))
