"""Likely causes of differences between a table and its query, as rules over the differing rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.audit.audited_model import AuditedModel, Evidence
from arctic_runtime.audit.comparison import (
    CauseRule,
    ComparedColumn,
    Comparison,
    Kind,
    differs_in,
    is_kind,
    refer_to_query,
    refer_to_table,
)
from arctic_runtime.audit.origins import IncrementalFilter


@dataclass(frozen=True)
class Cause:
    """A cause of differences: its code, a title, and why it makes rows wrong.

    A proven cause is certain, by comparison with further queries; any other cause is only likely.
    """

    code: str
    title: str
    why: str
    is_proven: bool = False


_CAUSES = (
    Cause("pending", "not run yet", "the next incremental run brings these rows", is_proven=True),
    Cause(
        "inherited",
        "wrong upstream",
        "the table shows what its query gives over its upstream tables, and these are wrong",
        is_proven=True,
    ),
    Cause("null_time", "no event time", "the event time is null, which no comparison of the filter lets through"),
    Cause("late", "late event", "the event time is not above the newest row that the table had when the event came"),
    Cause("silent", "change without a newer event time", "a value changed, and the filtered event time did not"),
    Cause("window", "outside of the look-back window", "it came, or changed, after its time had left the window"),
    Cause("filtered", "left out by the filter", "the filter of the incremental run did not let the row through"),
    Cause("joined", "changed side of a join", "only columns of a joined table differ, which is not filtered"),
    Cause("partial", "aggregate of new rows only", "an incremental run aggregates only the rows that it reads"),
    Cause("known_keys", "known keys are left out", "the filter leaves out keys that the table has"),
    Cause("not_updated", "columns that a merge leaves alone", "only columns differ that a merge does not update"),
    Cause("appended_change", "changes are appended", "without a unique_key a changed row replaces no earlier one"),
    Cause("deleted", "deleted upstream", "the query gives no such row, and an incremental run deletes none"),
    Cause("null_key", "null in the key", "a merge compares keys by =, so a key with a null never matches"),
    Cause("appended", "appended again", "without a unique_key each run appends, so a rerun or an overlap doubles rows"),
    Cause("not_merged", "a key that was not merged", "dbt-spark appends where no strategy is set, or two runs met"),
    Cause("unknown", "no cause was recognised", "compare the example rows with the sources"),
)  # fmt: skip
CAUSES: Mapping[str, Cause] = {cause.code: cause for cause in _CAUSES}
"""All causes by their code, the most certain first."""

PENDING = "pending"


def list_rules(model: AuditedModel, comparison: Comparison, evidence: Evidence) -> tuple[CauseRule, ...]:
    """Lists the rules for the causes of a model's differences, in the order in which they are tried."""
    return (
        *_list_column_rules(model, comparison, evidence),
        *(rule for one in evidence.filters for rule in _list_filter_rules(comparison, one)),
        *_list_fallbacks(comparison, evidence),
        *_list_write_rules(model, comparison),
    )


def _list_column_rules(model: AuditedModel, comparison: Comparison, evidence: Evidence) -> Iterator[CauseRule]:
    """Yields rules that recognise a cause by the columns in which a stale row differs.

    A stale row has a key that both query and table have, with other values.
    """

    def differ_only(are: Callable[[ComparedColumn], bool]) -> exp.Expr | None:
        """Builds the condition that all differing columns satisfy `are`; None if no compared column satisfies it."""
        values = [(index, are(comparison.columns[index])) for index in comparison.values]
        if not any(holds for _, holds in values):
            return None
        others = [differs_in(index) for index, holds in values if not holds]
        return exp.and_(is_kind("stale"), *(exp.not_(other) for other in others))

    tests: tuple[tuple[str, Callable[[ComparedColumn], bool]], ...] = (
        ("not_updated", lambda column: _is_kept(model, column.name)),
        ("joined", lambda column: column.name.lower() in evidence.joined),
        ("partial", lambda column: column.name.lower() in evidence.partial),
    )
    for cause, are in tests:
        condition = differ_only(are)
        if condition is not None:
            yield CauseRule(cause, condition)
    if any(one.kind == "known_keys" for one in evidence.filters):
        yield CauseRule("known_keys", is_kind("stale"))


def _is_kept(model: AuditedModel, column: str) -> bool:
    """Whether a column keeps its old value when dbt merges new rows into the model's table."""
    if model.updated_columns is not None:
        return column.lower() not in {name.lower() for name in model.updated_columns}
    return column.lower() in {name.lower() for name in model.kept_columns}


def find_compared_column(comparison: Comparison, one: IncrementalFilter) -> int | None:
    """Returns the index of the compared column that holds the value that a filter compares; None if there is none."""
    names = [column.name.lower() for column in comparison.columns]
    return next((names.index(name) for name in one.columns if name in names), None)


def _list_filter_rules(comparison: Comparison, one: IncrementalFilter) -> Iterator[CauseRule]:
    """Yields rules for rows that the incremental filter `one` leaves out, judged by the value that it compares.

    Only filters that compare a column of the result with a mark or a moving time have such rules.
    """
    index = find_compared_column(comparison, one)
    if index is None or one.value is None or one.kind not in ("high_water_mark", "look_back"):
        return
    place, value = one.value, refer_to_query(index)
    passes = one.condition.copy()
    if passes == place:
        return
    for part in list(passes.walk()):
        if part == place:
            part.replace(value.copy())
            break
    yield CauseRule("null_time", exp.and_(is_kind("lost"), value.is_(exp.null())))
    missed = exp.not_(exp.paren(passes))
    if one.kind == "look_back":
        yield CauseRule("window", exp.and_(_is_missed(), missed))
        return
    if index in comparison.values:
        yield CauseRule("silent", exp.and_(is_kind("stale"), missed.copy(), exp.not_(differs_in(index))))
    yield CauseRule("late", exp.and_(_is_missed(), missed))


def _is_missed() -> exp.Expr:
    """Builds the condition that the query has a row that the table lacks, or has with other values."""
    return exp.or_(is_kind("lost"), is_kind("stale"))


def _list_fallbacks(comparison: Comparison, evidence: Evidence) -> Iterator[CauseRule]:
    """Yields rules that suspect a filter only because it exists, for rows that no more exact rule explains."""
    if any(one.kind == "look_back" and find_compared_column(comparison, one) is None for one in evidence.filters):
        yield CauseRule("window", _is_missed())
    if any(one.kind != "known_keys" for one in evidence.filters):
        yield CauseRule("filtered", _is_missed())


def _list_write_rules(model: AuditedModel, comparison: Comparison) -> Iterator[CauseRule]:
    """Yields rules for causes that lie in the way in which dbt writes rows: merge by a key, or append."""
    nulls = [refer_to_table(index).is_(exp.null()) for index in comparison.keys]
    appends = not model.has_unique_key and model.strategy in ("append", "merge")
    if comparison.is_keyed and model.has_unique_key:
        yield CauseRule("null_key", exp.and_(is_kind("doubled"), exp.or_(*nulls)))
        yield CauseRule("not_merged", is_kind("doubled"))
    if appends:
        yield CauseRule("appended", is_kind("doubled"))
        yield CauseRule("appended_change", is_kind("stale"))
    yield CauseRule("deleted", is_kind("left over"))


KINDS: Mapping[Kind, str] = {
    "lost": "lost: the query has the row, and the table does not",
    "left over": "left over: the table has the row, and the query does not",
    "stale": "stale: the same key has other values",
    "doubled": "doubled: the table has the row more often than the query",
}
"""Explanations of the kinds of differences, for people."""


def describe_filters(filters: Sequence[IncrementalFilter]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.text for one in filters))
