"""Prices the next runs of edited models and of all models below them, from metadata and stored figures alone.

Each touched model is planned as its next run would be. For a model below, the tables above are taken as they will be
once they have published their changes: with one more commit, of as many change rows as they are expected to publish.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from arctic_runtime.catalog.foreign_readers import list_foreign_offsets
from arctic_runtime.catalog.observation.file_sizes import observe_file_sizes
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.rewrite.scan_limits import list_needed_scans, list_scan_limits
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_filter import ColumnLimit
from arctic_runtime.model.run_summary import to_micros
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.new_table import estimate_new_row_bytes, estimate_new_rows
from arctic_runtime.plan.preview.preview import ModelPreview, PastRuns, RunAmounts, RunCost
from arctic_runtime.plan.preview.published_rows import add_changes, estimate_published_rows
from arctic_runtime.plan.preview.run_cost import RunTables, classify_way, estimate_run_cost
from arctic_runtime.plan.preview.table_sizes import TableSizes
from arctic_runtime.plan.refresh.cost import estimate_modes, list_past_errors
from arctic_runtime.plan.refresh.decide import Decision, has_edit, read_run_history
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.refresh_planner import RefreshPlanner

_NO_LIMITS: frozenset[ColumnLimit] = frozenset()


@dataclass(frozen=True)
class _Observed:
    """A model with the observed states of its tables and of its upstreams."""

    planner: RefreshPlanner
    state: TableState
    upstreams: Upstreams

    @property
    def model(self) -> Model:
        return self.planner.model

    @property
    def is_edited(self) -> bool:
        return has_edit(self.model, self.state, self.upstreams)


@dataclass(frozen=True)
class _Published:
    """What the run of a touched model will publish: the number of change rows, and the bytes of one."""

    rows: Amount
    row_bytes: float
    made: SourceState | None = None
    """State of the table after its first run; None for a table that exists."""


@dataclass(frozen=True)
class _Planned:
    """One case of a run: how many change rows the tables above publish, and the decision that follows."""

    decision: Decision
    sources: Mapping[str, SourceState]


class PreviewWalk:
    """Prices the runs of models, those of upstreams before those of the models that read them.

    `models` are all models of the project with a query. Tables in `absent` count as not existing: those of new models
    that another environment does not have.
    """

    def __init__(self, reader: CatalogReader, models: Iterable[Model], absent: Collection[TableName] = ()) -> None:
        self._reader = reader
        self._pins = PinnedSnapshots()
        self._absent = absent
        self._published: dict[str, _Published] = {}
        self._sizes: dict[tuple[TableName, frozenset[ColumnLimit]], FileSizes] = {}
        self.observed = {str(model.table): self._observe(model) for model in models}

    def _observe(self, model: Model) -> _Observed:
        planner = RefreshPlanner(model, self._reader, now=self._pins.time, pins=self._pins)
        upstreams = planner.observe_upstreams(self._pins)
        states = {name: None if self._is_absent(name) else state for name, state in upstreams.states.items()}
        state = TableState() if model.table in self._absent else planner.observe_state()
        return _Observed(planner, state, replace(upstreams, states=states))

    def _is_absent(self, name: str) -> bool:
        return any(name == str(table) for table in self._absent)

    def preview_models(self, named: Collection[TableName] = ()) -> tuple[ModelPreview, ...]:
        """Returns the previews of the models `named`, by default of all edited ones, and of the models below them."""
        names = {str(table) for table in named}
        graph = {
            name: [source for source in each.upstreams.states if source in self.observed]
            for name, each in self.observed.items()
        }
        previews = []
        for name in TopologicalSorter(graph).static_order():
            each = self.observed[name]
            is_first = name in names if names else each.is_edited
            if is_first or any(source in self._published for source in graph[name]):
                previews.append(self._preview_model(each))
        return tuple(previews)

    def _preview_model(self, each: _Observed) -> ModelPreview:
        table, is_edited = each.model.table, each.is_edited
        try:
            amounts, published, expected = self._price_run(each)
        except ArcticError as error:
            self._published[str(table)] = _Published(Amount(), 0.0)
            return ModelPreview(table, is_edited, "refused", because=str(error))
        way = classify_way(expected)
        if way != "nothing" or published.rows.high:
            self._published[str(table)] = published
        runs = read_run_history(each.state).runs
        thresholds = self._reader.thresholds
        errors = list_past_errors(runs, thresholds.cost)[-thresholds.preview.judged_runs :]
        past = PastRuns(len(runs), statistics.median(errors) if errors else None)
        amounts = replace(amounts, seconds=_widen_by_error(amounts.seconds, past.error))
        frozen = each.model.config.frozen_where or ""
        return ModelPreview(
            table, is_edited, way, expected.reason, expected.because, amounts, past, frozen_where=frozen
        )

    def _price_run(self, each: _Observed) -> tuple[RunAmounts, _Published, Decision]:
        """Prices the next run of a model for few, the expected and many change rows of the tables above it."""
        cases = self._plan_cases(each)
        analysed = self._analyse(each, cases[0].sources)
        tables = [self._build_tables(each, case.sources, analysed) for case in cases]
        new_rows = estimate_new_rows(analysed, cases[0].sources, tables[0].sizes)
        published = [
            estimate_published_rows(
                case.decision, each.state, case.sources, Amount.from_estimates(_count_changed(case)), new_rows
            )
            for case in cases
        ]
        rows = Amount.from_estimates(published[0].expected, [part for one in published for part in (one.low, one.high)])
        costs = [
            self._estimate_cost(each, case, table, written)
            for case, table, written in zip(cases, tables, (rows.expected, rows.low, rows.high), strict=True)
        ]
        change_bytes = tables[0].row_bytes if cases[0].decision.mode == "create" else tables[0].change_row_bytes
        made = self._build_made(each, rows, tables[0], analysed) if cases[0].decision.mode == "create" else None
        return RunAmounts.from_costs(costs[0], costs[1:]), _Published(rows, change_bytes, made), cases[0].decision

    def _estimate_cost(self, each: _Observed, case: _Planned, tables: RunTables, written: float) -> RunCost:
        cost = estimate_run_cost(each.model, case.decision, tables, written, self._reader.thresholds)
        if cost.seconds or case.decision.leaves_rows:
            return cost
        # The planner estimates no runs of change events, and none that read the table's own rows alone.
        sources = {} if classify_way(case.decision) == "own result" else case.sources
        (full,) = estimate_modes(sources, case.decision.windows, None, read_run_history(each.state))
        return replace(cost, seconds=full.seconds)

    def _plan_cases(self, each: _Observed) -> list[_Planned]:
        """Plans the run for the expected number of change rows of the tables above, then for few and many of them."""
        expected = self._plan_case(each, "expected")
        if not any(name in self._published for name in each.upstreams.states):
            return [expected, expected, expected]
        return [expected, self._plan_case(each, "low"), self._plan_case(each, "high")]

    def _plan_case(self, each: _Observed, part: str) -> _Planned:
        states = dict(each.upstreams.states)
        for name, published in self._published.items():
            rows = round(getattr(published.rows, part))
            state = states.get(name)
            if state is not None and rows:
                states[name] = add_changes(state, rows, published.row_bytes)
        decision = each.planner.decide_mode(each.state, replace(each.upstreams, states=states), each.planner.request)
        made = {name: one.made for name, one in self._published.items() if name in states and one.made is not None}
        sources = {name: state for name, state in {**states, **made}.items() if state is not None}
        if decision.mode == "create" and made:
            ways = estimate_modes(sources, decision.windows, None, read_run_history(each.state))
            decision = replace(decision, ways=ways)
        return _Planned(decision, sources)

    def _analyse(self, each: _Observed, sources: Mapping[str, SourceState]) -> Analysed | None:
        if each.model.config.input == "changes":
            return None
        try:
            return analyse_model(each.model, replace(each.upstreams, states=sources))[0]
        except NotMaintained:
            return None

    def _build_tables(
        self, each: _Observed, sources: Mapping[str, SourceState], analysed: Analysed | None
    ) -> RunTables:
        limits = {} if analysed is None else list_scan_limits(analysed.tree)
        sizes = {
            name: self._observe_source_sizes(source, limits.get(source.name, _NO_LIMITS))
            for name, source in sources.items()
        }
        own = (
            TableSizes()
            if each.state.log is None
            else TableSizes(self._observe_sizes(each.model.base), self._observe_sizes(each.model.log))
        )
        return RunTables(
            each.state,
            sources,
            sizes,
            own,
            None if analysed is None else list_needed_scans(analysed.tree, [own for _, own in analysed.outputs]),
            estimate_new_row_bytes(analysed, sources, sizes),
        )

    def _observe_source_sizes(self, source: SourceState, limits: frozenset[ColumnLimit]) -> TableSizes:
        published = self._published.get(str(source.name))
        if published is not None and published.made is not None:
            return TableSizes(FileSizes(source.rows, 1, round(source.rows * published.row_bytes)))
        if source.kind != "changes":
            return TableSizes(self._observe_sizes(source.name, limits))
        return TableSizes(self._observe_sizes(source.base or source.name, limits), self._observe_sizes(source.log))

    def _observe_sizes(self, table: TableName, limits: frozenset[ColumnLimit] = _NO_LIMITS) -> FileSizes:
        if (table, limits) not in self._sizes:
            self._sizes[table, limits] = observe_file_sizes(self._reader, table, limits) or FileSizes()
        return self._sizes[table, limits]

    def _build_made(self, each: _Observed, rows: Amount, tables: RunTables, analysed: Analysed | None) -> SourceState:
        """Builds the state of a table after its first run, as far as it can be known before."""
        count = round(rows.expected)
        version = Version("", 0, 1)
        commit = Commit(version, None, "append", count, round(count * tables.row_bytes), {}, 0)
        columns = (
            tuple(Column(name, analysed.types.get(own, "string")) for name, own in analysed.outputs) if analysed else ()
        )
        key = each.model.config.primary_key or None
        return SourceState(each.model.table, "changes", version, (commit,), columns, 3, rows=count, key=key)

    def list_below(self, table: TableName) -> set[TableName]:
        """Returns the tables of models whose queries read a table, directly or through other models."""
        below: set[TableName] = set()
        waiting = [str(table)]
        while waiting:
            name = waiting.pop()
            new = {each.model.table for each in self.observed.values() if name in each.upstreams.states} - below
            below |= new
            waiting += map(str, new)
        return below

    def list_foreign_readers(self, table: TableName) -> set[TableName]:
        """Returns the models of other projects that read a table."""
        each = self.observed.get(str(table))
        if each is None:
            return set()
        return set(list_foreign_offsets(each.state.log, self._reader, to_micros(self._pins.time) // 1000))


def _widen_by_error(seconds: Amount, error: float | None) -> Amount:
    """Widens a range of seconds by the relative error of past estimates; None if it is not known."""
    return seconds if error is None else seconds.scale_by(1 / (1 + error), 1.0, 1 + error)


def _count_changed(case: _Planned) -> int:
    windows = case.decision.windows
    return sum(source.count_rows_in(windows[name]) for name, source in case.sources.items() if name in windows)
