"""Splitting one node of sixteen, against splitting all of them, which writes the whole table anew."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.model.files.compaction import ResizeBuckets
from arctic_runtime.model.table import Model
from arctic_runtime.plan.maintenance.split import plan_split
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import Lake, events_model, lake
from benchmarks.measure import Measurement, ratio, side_by_side

NODES = 16
MOST = 1.5
"""Times the sixteenth part of what all nodes take."""


def measure(rows: int, rounds: int = 2) -> list[Measurement]:
    """What one node takes, in parts of what a sixteenth of all takes; another node, and another level, each round."""
    with lake(rows) as bench:
        bench.fill_events()
        one, all_ = (_filled(bench, name) for name in ("one", "all"))
        nodes = iter(range(NODES))
        actions = {"one": lambda: _split_one(bench, one, next(nodes)), "all": partial(_split_all, bench, all_)}
        times = side_by_side(actions, rounds)
        if bench.rows != bench.spark.table(str(one.table)).count():
            raise AssertionError("rows were lost or came twice")
        detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
        label = f"split of one node of {NODES}, {rows:,} rows / a sixteenth of the table"
        return [Measurement(label, NODES * ratio(times, "one", "all"), "x", MOST, False, detail)]


def _filled(bench: Lake, name: str) -> Model:
    wanted = events_model(name, nodes=NODES, compaction="off")
    model = replace(wanted, config=replace(wanted.config, node_bytes=1))
    bench.run(model)
    return model


def _planned(bench: Lake, model: Model) -> ResizeBuckets:
    """All nodes one level deeper, in one step."""
    table = observe_files(bench.reader, model.base)
    assert table is not None
    steps = [
        step for step in plan_split(model, table, bench.reader.thresholds).steps if isinstance(step, ResizeBuckets)
    ]
    depth = min(
        max(value.transform.parameter or 1 for value in node.partition) for node in table.file_groups
    ).bit_length()
    return replace(steps[0], nodes=table.file_groups, depth=depth, default_depth=depth, whole=True)


def _split_one(bench: Lake, model: Model, index: int) -> None:
    step = _planned(bench, model)
    chosen = [node for node in step.nodes if [value.value for value in node.partition] == [str(index)]]
    nodes = tuple(node for node in chosen if node.partition[0].transform.parameter == NODES)
    depth = NODES.bit_length()
    _perform(bench, model, replace(step, nodes=nodes, depth=depth, default_depth=depth - 1, whole=False))


def _split_all(bench: Lake, model: Model) -> None:
    _perform(bench, model, _planned(bench, model))


def _perform(bench: Lake, model: Model, step: ResizeBuckets) -> None:
    session = TableSession(model, bench.reader, lambda: bench.spark)
    perform_step(step, session.build_context(session.observe_state()))
