"""Plans how a table goes forward after an edit of its model's query: its rows stay, and later changes follow the query.

A row is computed by the present query once that returns another row for its key than before; the run that follows the
change compares it with the stored row. All other rows stay those of earlier queries. Such a table keeps no aggregate
state, and only a request computes it in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from arctic_runtime.errors import PlanError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import Reason
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.edits import pin_windows
from arctic_runtime.plan.refresh.fingerprint import (
    compute_fingerprint,
    has_edited_query,
    has_other_query_or_contract,
)
from arctic_runtime.plan.refresh.increment import Upstreams, check_maintained, drop_aggregate_state, plan_increment
from arctic_runtime.thresholds import Thresholds


@dataclass(frozen=True)
class ForwardPlan:
    """An edit after which the rows of the table stay, and the versions of the sources as of which the query holds."""

    edit: ForwardEdit
    windows: Mapping[str, Window]
    """The version of each source, as the start and the end of a window."""


def explain_rows_left(model: Model, last: RunSummary) -> str:
    """Explains that the table has rows of earlier queries and the model no longer leaves them; "" if that is not so."""
    if last.forward is None or model.config.on_query_change == "forward":
        return ""
    return "the table has rows of earlier queries, which an edit with `on_query_change: forward` left"


def goes_forward(model: Model, upstreams: Upstreams, last: RunSummary) -> bool:
    """Whether rows stay after a change since the `last` run, because it is an edit of the query or follows one."""
    is_edited = last.forward is not None or has_edited_query(last.query, compute_fingerprint(model, upstreams))
    return model.config.on_query_change == "forward" and is_edited


def plan_forward(
    model: Model, state: TableState, upstreams: Upstreams, changed: str, thresholds: Thresholds
) -> ForwardPlan:
    """Plans to leave the rows of a table after an edit; `changed` describes the edit for users.

    The query begins to hold as of the versions that the last run read, or as of now for a source that it did not read.
    Raises NotMaintained if the query can't follow changes since then, or if more than the query was changed.
    """
    last, changes, base = find_last_run(state.log), state.changes, state.base
    keeps_settings = model.config.on_session_change == "keep"
    if last is None or not has_other_query_or_contract(
        last.query, compute_fingerprint(model, upstreams), keeps_settings
    ):
        raise NotMaintained("QUERY_CHANGED", changed)
    if changes is None or changes.head is None or base is None:
        raise NotMaintained("QUERY_CHANGED", "the table has no base yet")
    if upstreams.reads.day_columns:
        raise NotMaintained("QUERY_CHANGED", "the query converts texts to times")
    windows = pin_windows(upstreams, last)
    _check_followed(with_any_cost(model), state, upstreams, windows, thresholds)
    rows = base.rows + changes.count_rows_after(base.merged)
    return ForwardPlan(ForwardEdit(changes.head, upstreams.clock // 1000, rows), windows)


def _check_followed(
    model: Model, state: TableState, upstreams: Upstreams, windows: Mapping[str, Window], thresholds: Thresholds
) -> None:
    """Raises NotMaintained if the query can't follow the changes after `windows` without aggregate state."""
    later = {
        name: Window(name, window.end, source.version)
        for name, window in windows.items()
        if (source := upstreams.states[name]) is not None
    }
    increment = plan_increment(model, upstreams, later, state, thresholds)
    if increment is None:
        check_maintained(model, upstreams, may_keep_state=False)
    elif isinstance(increment.maintenance, AggregateState):
        drop_aggregate_state(increment)


def with_any_cost(model: Model) -> Model:
    """Returns the model as one whose changes are followed whatever that costs."""
    return replace(model, config=replace(model.config, refresh="incremental"))


def build_forward_error(model: Model, reason: Reason, because: str) -> PlanError:
    """Builds the error for a table with rows of earlier queries if changes can't be followed by the present query."""
    return PlanError(
        f"{model.table}: `on_query_change: forward`, but only a computation of all rows can bring it up to date.",
        expected="an edited query that holds for what changes from now on",
        actual=f"{because} ({reason})",
        fix=f"take the edit back; or run `dbt run --full-refresh -s {model.table.name}`, or set "
        "`on_query_change: recompute`, to compute all rows by the query",
    )
