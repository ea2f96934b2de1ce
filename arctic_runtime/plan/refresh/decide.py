"""Decides how a run refreshes a table, from the observed state of the model and of its upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from arctic_runtime.errors import CommitConflict, ConfigError, PlanError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal, refuse_on_error
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.names import list_changes_read
from arctic_runtime.model.run_summary import (
    RunSummary,
    find_awaited_cut,
    find_last_load,
    find_last_run,
    get_offsets,
    is_planned_increment,
    read_measured_seconds,
)
from arctic_runtime.model.state import Commit, TableState
from arctic_runtime.model.step import Mode, Reason
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.cost import Estimate, Past, RunHistory, Way, estimate_modes
from arctic_runtime.plan.refresh.edits import EditPlan, plan_table_edit
from arctic_runtime.plan.refresh.event_rules import can_continue, check_recomputable
from arctic_runtime.plan.refresh.event_windows import plan_event_window
from arctic_runtime.plan.refresh.existing_tables import check_table
from arctic_runtime.plan.refresh.fingerprint import (
    check_own_upstreams,
    compute_fingerprint,
    describe_query_change,
    find_changed_event_rules,
    hash_query_reading,
)
from arctic_runtime.plan.refresh.forward import (
    build_forward_error,
    explain_rows_left,
    goes_forward,
    plan_forward,
    with_any_cost,
)
from arctic_runtime.plan.refresh.increment import Increment, Upstreams, check_maintained, plan_increment
from arctic_runtime.plan.refresh.promote import Promotion, check_promotable, plan_promotion, promote_state
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.revert import RevertPlan, is_cheaper, plan_revert, rewind_state
from arctic_runtime.plan.refresh.session_changes import describe_session_change
from arctic_runtime.thresholds import SHIPPED, Thresholds


@dataclass(frozen=True)
class Decision:
    """Mode and reason of the next run, and the window of versions that it reads of each upstream."""

    mode: Mode
    reason: Reason
    windows: Mapping[str, Window] = field(default_factory=dict)
    """The window of each upstream, by its name."""

    because: str = ""
    """Explanation of the reason for users."""

    increment: Increment | None = None
    """The incremental plan; None if all rows are computed, and for a model of change events."""

    ways: tuple[Estimate, ...] = ()
    """The possible modes with their estimated costs, the cheapest first; empty for a model of change events."""

    edit: EditPlan | None = None
    """The plan by which the table follows an edit of its query; None in all other runs."""

    revert: RevertPlan | None = None
    """The plan by which the table returns to a version that its present query made; None in all other runs."""

    forward: ForwardEdit | None = None
    """The edit of the query after which this run leaves the rows as they are; None in all other runs."""

    promotion: Promotion | None = None
    """The plan by which the table takes over the rows of a clone; None in all other runs."""

    given_up: Refusal | None = None
    """Reason for which this run, or an earlier one, abandoned its incremental plan."""

    repairs: tuple[str, ...] = ()
    """Violations of the key or the contract in the table, which a full refresh repairs."""

    @property
    def estimate(self) -> Estimate | None:
        """Cost estimate of the chosen mode; None for a model of change events."""
        way = "incremental" if self.mode == "incremental" else "full"
        return next((estimate for estimate in self.ways if estimate.way == way), None)

    @property
    def leaves_rows(self) -> bool:
        """Whether the run changes no row: it has nothing to do, or leaves the rows after an edit of the query."""
        return self.mode == "unchanged" or self.forward is not None

    @property
    def has_later_changes(self) -> bool:
        """Whether the same run follows changes of the sources after this, since it is made at earlier offsets."""
        return any(plan is not None for plan in (self.edit, self.revert, self.forward, self.promotion))

    @property
    def consumed(self) -> dict[str, Version]:
        return {name: window.end for name, window in self.windows.items()}


COMPUTED_EACH_TIME: frozenset[Reason] = frozenset({"UNPARSED", "NON_DETERMINISTIC", "SOURCE_UNKNOWN"})
"""Reasons for which every run computes all rows, even if no upstream has changed."""


def decide_refresh(
    model: Model, state: TableState, upstreams: Upstreams, request: Request, thresholds: Thresholds = SHIPPED
) -> Decision:
    """Decides the mode of the next run, the reason for it, and the windows of versions that it reads.

    Raises SourceError if the new rows of an upstream can't be read or determined, and ConfigError if the model
    contradicts the existing table.
    """
    check_table(model, state, request)
    last = find_last_run(state.log)
    if request.schema_only:
        return Decision("unchanged" if last is not None else "create", "SCHEMA_ONLY")
    if request.clone is not None:
        check_promotable(model)
    if model.config.input == "changes":
        return _decide_changes(model, last, upstreams, request, state)
    decision = _decide_state(model, upstreams, request, state, thresholds)
    if decision.mode == "unchanged" or decision.ways:
        return decision
    ways = estimate_modes(upstreams.states, decision.windows, None, read_run_history(state), thresholds.cost)
    return replace(decision, ways=ways)


def has_edit(model: Model, state: TableState, upstreams: Upstreams) -> bool:
    """Whether the query or configuration of a model differs from that of its last run; True before its first run."""
    last = find_last_run(state.log)
    if last is None:
        return True
    if model.config.input == "changes":
        return bool(find_changed_event_rules(last.query, model))
    return bool(describe_query_change(model, state, upstreams, last.query))


def check_not_overtaken(planned: TableState, now: TableState, action: str) -> None:
    """Raises CommitConflict if another run has committed between the states `planned` and `now`.

    The windows of a decision begin at the offsets of the last run, so rows that the other run has read would be read
    again. `action` describes, for the message, the work of this run between the two states.
    """
    if find_last_load(now.log) != find_last_load(planned.log):
        raise CommitConflict(f"Another writer committed first.\n  while: {action}")


def _decide_changes(
    model: Model, last: RunSummary | None, upstreams: Upstreams, request: Request, state: TableState
) -> Decision:
    sources = list_changes_read(model.sql)
    if not sources:
        raise ConfigError(
            f"{model.table}: `input: changes` needs a query that reads `{{{{ changes(…) }}}}`.",
            actual="no changes(…) in the query",
            fix="read the events with changes(ref(…)) or changes(source(…)), or set `input: state`",
        )
    afresh = request.full_refresh or last is None
    offsets = {} if afresh else get_offsets(last)
    check_own_upstreams(model, state, sources, offsets)
    windows = {str(name): plan_event_window(model, name, upstreams, offsets.get(str(name))) for name in sources}
    if afresh:
        lost = [name for name in windows if (source := upstreams.states[name]) and source.has_deleted_rows]
        because = f"events were deleted from {', '.join(lost)}, and those that are left are read" if lost else ""
        return Decision("full" if last else "create", "FULL_REFRESH" if last else "FIRST_RUN", windows, because)
    changed = find_changed_event_rules(last.query, model) if last else ()
    if last and changed and not can_continue(model, changed):
        check_recomputable(model, changed, last, upstreams.states)
        whole = {name: replace(window, start=None) for name, window in windows.items()}
        return Decision("full", "QUERY_CHANGED", whole, f"{', '.join(changed)} changed")
    if all(window.is_empty for window in windows.values()):
        return Decision("unchanged", "NOTHING_NEW", windows)
    return Decision("incremental", "CHANGES", windows)


def _decide_state(
    model: Model, upstreams: Upstreams, request: Request, state: TableState, thresholds: Thresholds
) -> Decision:
    if list_changes_read(model.sql):
        raise ConfigError(
            f"{model.table}: a query that reads `changes(…)` needs `input: changes`.",
            actual="`input: state`",
            fix="set `input: changes`, or read the table with ref(…)",
        )
    last = find_last_run(state.log)
    offsets = get_offsets(last)
    windows = {
        name: Window(name, offsets.get(name), source.version) for name, source in upstreams.states.items() if source
    }
    if last is None or last.reason == "ADOPTED":
        return _decide_first_run(model, upstreams, windows, is_adopted=last is not None)
    if request.full_refresh:
        return Decision("full", "FULL_REFRESH", windows)
    changed = describe_query_change(model, state, upstreams, last.query)
    awaited = find_awaited_cut(state.log)
    if changed and awaited is not None:
        return Decision("unchanged", "WAITS_FOR_RESTORED_QUERY", because=explain_wait(model, awaited))
    changed = changed or explain_session_change(model, last, request) or explain_rows_left(model, last)
    if (promoted := _decide_to_promote(model, upstreams, request, state, thresholds)) is not None:
        return promoted
    if changed and goes_forward(model, upstreams, last):
        return _decide_to_go_forward(model, upstreams, request, state, changed, thresholds)
    if changed:
        edit = _decide_to_edit(model, upstreams, request, state, windows, changed, thresholds)
        return _decide_to_revert(model, upstreams, request, state, edit, thresholds) or edit
    if last.forward is None:
        return _decide_by_sources(model, upstreams, request, state, windows, thresholds)
    decision = _decide_by_sources(with_any_cost(model), upstreams, request, state, windows, thresholds)
    if decision.mode == "full":
        raise build_forward_error(model, decision.reason, decision.because)
    return decision


def _decide_by_sources(
    model: Model,
    upstreams: Upstreams,
    request: Request,
    state: TableState,
    windows: Mapping[str, Window],
    thresholds: Thresholds,
) -> Decision:
    """Decides on a run of a query that is that of the last run: how it follows the changes in `windows`."""
    last = find_last_run(state.log)
    assert last is not None
    for reason, because in _list_reasons_to_recompute(upstreams):
        return _decide_to_recompute(model, reason, because, windows)
    is_read = get_offsets(last) == {name: window.end for name, window in windows.items()}
    if is_read and not upstreams.has_moved_clock(last):
        return Decision("unchanged", "NOTHING_NEW", windows)
    if model.config.refresh == "full":
        return Decision("full", "AS_CONFIGURED", windows, "refresh: full")
    given_up = request.given_up or _recall_refusal(last, hash_query_reading(model, upstreams))
    if given_up is not None:
        return replace(_decide_to_recompute(model, given_up.reason, given_up.because, windows), given_up=given_up)
    decision = _decide_to_follow(model, upstreams, windows, state, thresholds)
    if request.was_overtaken or model.config.refresh != "auto":
        return decision
    return _choose_cheaper_mode(decision, read_run_history(state), thresholds)


def has_awaited_query(decision: Decision, state: TableState) -> bool:
    """Whether the runs of a restored table wait for a query, and `decision` shows that the model has it now."""
    return decision.reason == "NOTHING_NEW" and find_awaited_cut(state.log) is not None


def explain_wait(model: Model, cut: str) -> str:
    """Explains for users that the runs of a model wait for the query of a cut, and how this ends."""
    return (
        f"the table was restored to {cut}, and its query is not that of the cut; deploy that code, or run "
        f"`arctic resume {model.table.name}`"
    )


def _decide_to_go_forward(
    model: Model, upstreams: Upstreams, request: Request, state: TableState, changed: str, thresholds: Thresholds
) -> Decision:
    """Decides to leave the rows as they are after an edit, so that the query holds for what changes from now on.

    `changed` describes the difference from the last run for users. Raises PlanError if the rows can't stay, or if the
    query can't follow the changes of its sources.
    """
    last, given_up = find_last_run(state.log), request.given_up
    assert last is not None
    obstacles: list[tuple[Reason, str]] = [(given_up.reason, given_up.because)] if given_up else []
    session = explain_session_change(model, last, request)
    if session:
        obstacles.append(("QUERY_CHANGED", f"{session}; rows stay after that with `on_session_change: keep`"))
    try:
        with refuse_on_error():
            for reason, because in (*obstacles, *_list_reasons_to_recompute(upstreams)):
                raise NotMaintained(reason, because)
            plan = plan_forward(model, state, upstreams, changed, thresholds)
    except NotMaintained as refused:
        raise build_forward_error(model, refused.reason, refused.because) from refused
    because = f"{changed}; the rows stay, and it holds for what changes from now on"
    return Decision("incremental", "FORWARD", plan.windows, because, forward=plan.edit)


def _decide_to_edit(
    model: Model,
    upstreams: Upstreams,
    request: Request,
    state: TableState,
    windows: Mapping[str, Window],
    changed: str,
    thresholds: Thresholds,
) -> Decision:
    """Decides to derive the rows of an edited query from the table's own rows, or to recompute if that is impossible.

    `changed` describes the difference from the last run for users. An edit is not planned if changes of the sources
    since the last run can't be followed after it.
    """
    given_up = request.given_up
    if given_up is not None or model.config.refresh == "full" or not can_follow_changes(upstreams):
        return Decision("full", "QUERY_CHANGED", windows, f"{changed}; {given_up.because}" if given_up else changed)
    last = find_last_run(state.log)
    if last is None or explain_session_change(model, last, request):
        return Decision("full", "QUERY_CHANGED", windows, changed)
    try:
        with refuse_on_error():
            plan = plan_table_edit(model, state, upstreams)
            if plan is None:
                return Decision("full", "QUERY_CHANGED", windows, changed)
            later = {name: Window(name, window.start, windows[name].end) for name, window in plan.windows.items()}
            plan_increment(model, upstreams, later, state, thresholds)
    except NotMaintained as refused:
        return Decision("full", "QUERY_CHANGED", windows, f"{changed}; {refused.because}")
    return Decision("incremental", "EDITED", plan.windows, "; ".join(plan.edit.differences), edit=plan)


def _decide_to_revert(
    model: Model, upstreams: Upstreams, request: Request, state: TableState, edit: Decision, thresholds: Thresholds
) -> Decision | None:
    """Decides to return to the newest version that the present query made; None if `edit` costs less.

    Also None if there is no such version, or if the changes of the sources since then can't be followed after it.
    """
    revert = plan_revert(model, state, upstreams, lambda run: not explain_session_change(model, run, request))
    if revert is None or request.given_up is not None:
        return None
    later = _decide_to_go_on(model, upstreams, request, rewind_state(state, revert), thresholds)
    if later.mode == "full" or not is_cheaper(revert, edit.edit, upstreams, state, thresholds.incremental):
        return None
    return Decision("incremental", "REVERTED", revert.windows, revert.because, revert=revert)


def _decide_to_go_on(
    model: Model, upstreams: Upstreams, request: Request, state: TableState, thresholds: Thresholds
) -> Decision:
    """Decides what a run does once its table has the rows of the same query at other offsets, those of `state`.

    A full computation is no error, also with `refresh: strict`.
    """
    lenient = with_any_cost(model) if model.config.refresh == "strict" else model
    return _decide_state(lenient, upstreams, replace(request, clone=None), state, thresholds)


def _decide_to_promote(
    model: Model, upstreams: Upstreams, request: Request, state: TableState, thresholds: Thresholds
) -> Decision | None:
    """Decides to take over the rows of the clone that the request names; None if there is none, or nothing to take.

    Raises ConfigError if the table can't take over the rows, or could not follow the changes since then.
    """
    clone = request.clone
    if clone is None or request.given_up is not None:
        return None
    plan = plan_promotion(model, state, upstreams, clone)
    if plan is None:
        return None
    because = explain_session_change(model, plan.run, request)
    windows = {name: Window(name, version, version) for name, version in plan.offsets.items()}
    if not because:
        after = promote_state(state, plan, compute_fingerprint(model, upstreams))
        later = _decide_to_go_on(model, upstreams, request, after, thresholds)
        because = f"a run would compute all rows after it: {later.because or later.reason}" * (later.mode == "full")
    if because:
        raise ConfigError(
            f"{model.table} can't take over the clone {clone.clone.table}: {because}.",
            fix=f"`dbt run -s {model.table.name}` computes the query",
        )
    return Decision("incremental", "PROMOTED", windows, plan.because, promotion=plan)


def _decide_first_run(model: Model, upstreams: Upstreams, windows: Mapping[str, Window], is_adopted: bool) -> Decision:
    """Decides on the first run of a query: it creates the table, or recomputes all rows of an adopted one."""
    if model.config.refresh == "strict":
        _check_strict(model, upstreams)
    if is_adopted:
        return Decision("full", "FIRST_RUN", windows, "the rows of the adopted table are compared with the query")
    return Decision("create", "FIRST_RUN", windows)


def _decide_to_follow(
    model: Model, upstreams: Upstreams, windows: Mapping[str, Window], state: TableState, thresholds: Thresholds
) -> Decision:
    """Decides to follow the changes in `windows`, whatever that costs, or to recompute if they can't be followed."""
    try:
        increment = plan_increment(model, upstreams, windows, state, thresholds)
    except NotMaintained as refused:
        return _decide_to_recompute(model, refused.reason, refused.because, windows)
    if increment is None:
        return Decision("unchanged", "NOTHING_NEW", windows)
    history = read_run_history(state)
    scans, slices = increment.change_scans, increment.slice_scans
    ways = estimate_modes(upstreams.states, windows, scans, history, thresholds.cost, slices)
    return Decision("incremental", "CHANGES", windows, increment=increment, ways=ways)


def _choose_cheaper_mode(decision: Decision, history: RunHistory, thresholds: Thresholds) -> Decision:
    """Returns a decision for a full computation if that is cheaper than `decision`; otherwise `decision` itself."""
    increment, ways = decision.increment, decision.ways
    if increment is None or not _is_full_cheaper(ways, increment, history, thresholds):
        return decision
    because = f"{ways[1].explain_cost()}; {ways[0].explain_cost()}"
    return Decision("full", "COST", decision.windows, because, ways=ways)


def explain_session_change(model: Model, last: RunSummary, request: Request) -> str:
    """Describes how the session differs from that of the last run, if the table is computed again because of it.

    "" if not, if the model has `on_session_change: keep`, or before Spark is started.
    """
    if request.session is None or model.config.on_session_change == "keep":
        return ""
    return describe_session_change(last.session, request.session)


def _recall_refusal(last: RunSummary, query: str) -> Refusal | None:
    """Returns the reason for which the last run could not be incremental, if the reason still applies; otherwise None.

    The reason NOT_SAME_TO_SPARK, that Spark understands the query differently from the parser here, applies only if
    `query`, a hash, equals the hash that the last run stored as `judged`.
    """
    refusal = Refusal.from_text(last.given_up)
    if refusal is not None and refusal.reason == "NOT_SAME_TO_SPARK" and last.judged != query:
        return None
    return refusal if refusal is not None and refusal.lasts else None


def _is_full_cheaper(
    ways: tuple[Estimate, ...], increment: Increment, history: RunHistory, thresholds: Thresholds
) -> bool:
    """Whether a full computation is cheaper than the incremental plan; `ways` are sorted by their estimated seconds.

    True if the incremental plan needs many more scans. Otherwise the full computation must have the lower estimate. If
    it reads many rows, the difference must be large, or a run must have tried an incremental refresh before. If it
    reads few rows, an incremental run must have succeeded before, the difference must be clear, and the query must be
    deterministic: a full computation of sums of floats would change rows that did not really change.
    """
    prices = thresholds.cost
    best, *others = ways
    if best.way != "full":
        return False
    if any(other.scans > best.scans + prices.extra_scans for other in others):
        return True
    if best.rows > thresholds.incremental.large_source_rows:
        return history.was_tried or any(other.seconds > best.seconds * prices.untried_ratio for other in others)
    was_followed = any(run.way == "incremental" for run in history.runs)
    is_worth_it = all(other.seconds > best.seconds + prices.small_table_saving_seconds for other in others)
    return was_followed and is_worth_it and increment.is_deterministic


def read_run_history(state: TableState) -> RunHistory:
    """Reads the measured past runs of a model, by which estimates are corrected, from the commits of its table."""
    commits = state.changes.commits if state.changes else ()
    runs = tuple(run for run in map(_read_past_run, commits) if run)
    return RunHistory(state.base.rows if state.base else 0, runs, any(map(is_planned_increment, commits)))


def _read_past_run(commit: Commit) -> Past | None:
    ways: Mapping[str, Way] = {"incremental": "incremental", "full": "full", "create": "full"}
    run = read_measured_seconds(commit)
    if run is None or run[0] not in ways:
        return None
    mode, seconds, estimated = run
    return Past(ways[mode], seconds, estimated)


def _decide_to_recompute(model: Model, reason: Reason, because: str, windows: Mapping[str, Window]) -> Decision:
    if model.config.refresh == "strict":
        once = ", or run with --full-refresh to compute it in full once"
        raise _build_strict_error(model, reason, because, "this time", once)
    return Decision("full", reason, windows, because)


def _build_strict_error(model: Model, reason: Reason, because: str, when: str, otherwise: str = "") -> PlanError:
    return PlanError(
        f"{model.table}: `refresh: strict`, but the table can't be maintained incrementally {when}.\n"
        f"  why: {because} ({reason})",
        fix=f"change the query, or set `refresh: auto`{otherwise}",
    )


def build_never_strict_error(model: Model, refused: NotMaintained) -> PlanError:
    """Builds the error for a model with `refresh: strict` whose query can never be maintained incrementally."""
    return _build_strict_error(model, refused.reason, refused.because, "at all")


def _check_strict(model: Model, upstreams: Upstreams) -> None:
    """Raises PlanError if the query can never be maintained incrementally, before the first run builds the table."""
    for reason, because in _list_reasons_to_recompute(upstreams):
        raise _build_strict_error(model, reason, because, "at all")
    try:
        check_maintained(model, upstreams)
    except NotMaintained as refused:
        raise build_never_strict_error(model, refused) from refused


def can_follow_changes(upstreams: Upstreams) -> bool:
    """Whether an incremental run may be possible: the query is parsed and not volatile, and all sources are known."""
    return next(iter(_list_reasons_to_recompute(upstreams)), None) is None


def _list_reasons_to_recompute(upstreams: Upstreams) -> Iterable[tuple[Reason, str]]:
    if not upstreams.reads.parsed:
        yield "UNPARSED", "the query could not be read, so what it depends on is not known"
    if upstreams.reads.unstable:
        yield "NON_DETERMINISTIC", ", ".join(upstreams.reads.unstable)
    unknown = [name for name, state in upstreams.states.items() if state is None]
    if unknown:
        yield "SOURCE_UNKNOWN", ", ".join(unknown)
