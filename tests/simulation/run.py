"""Runs seeds: each to its end, through recovery, a second run that must do nothing, and a sweep of orphaned files."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from arctic_runtime.errors import ArcticError
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.maintenance.expiry import expire_versions, find_orphan_files
from arctic_runtime.spark.tables.table_session import TableSession
from tests.simulation import builds, dead_letters, edits, forgetting
from tests.simulation.checks import Checks
from tests.simulation.faults import draw_number
from tests.simulation.kernel import EPOCH, Process
from tests.simulation.patches import simulate_runtime
from tests.simulation.runtime import Pool, Reader, replace_parts
from tests.simulation.source import CUSTOMERS, ORDERS, SourceChange
from tests.simulation.world import Project, World, hook

DAY = 86_400.0
RECOVERY_POLLS = 20
"""Polls after the last fault within which all tables are up to date; a lease is that of a dead process for three."""

REPLAY_POLLS = 60
"""Further polls within which all dead letters are applied."""

FORGET_POLLS = 60
"""Further polls within which an attempt to forget is brought to its end; each commits to all tables."""


@dataclass(frozen=True)
class Result:
    """The outcome of one seed."""

    seed: int
    problems: tuple[str, ...]
    injected: Mapping[str, str]
    counts: Mapping[str, int]
    days: float
    false_claims: int
    history: tuple[str, ...] = field(repr=False)
    transactions: tuple[int, ...] = ()


@contextmanager
def prepare() -> Iterator[None]:
    """Lets the runtime use simulated parts until the block ends; seeds are run within."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.disable()  # Collections take a fifth of the time; every tenth seed collects.
    try:
        with (
            replace_parts(
                *builds.REPLACEMENTS, *forgetting.REPLACEMENTS, *dead_letters.REPLACEMENTS, *edits.REPLACEMENTS
            ),
            simulate_runtime(),
        ):
            yield
    finally:
        gc.enable()
        logging.disable(before)


def run_seed(seed: int, skip: frozenset[str] = frozenset(), plant: Callable[[World], Any] | None = None) -> Result:
    """Runs one seed within `prepare`; `skip` are ids of faults and transactions that are left out.

    `plant`, if given, returns a context manager in which the run has a bug.
    """
    world = World(seed, skip)
    checks = Checks(world)
    with hook(world), plant(world) if plant is not None else nullcontext():
        try:
            _run_phases(world, checks)
        finally:
            world.close()
            if seed % 10 == 0:
                gc.collect()
    for at, thread, error in world.kernel.errors:
        checks.report(f"{thread} ended by {type(error).__name__} at {at - EPOCH:.1f} s: {error}")
    return Result(
        seed,
        tuple(checks.problems),
        dict(world.faults.injected),
        dict(world.counts),
        world.active_seconds / DAY,
        checks.false_claims,
        tuple(world.history),
        tuple(world.transactions),
    )


def _run_phases(world: World, checks: Checks) -> None:
    end, poll = EPOCH + world.plan.seconds, world.plan.poll_seconds
    world.start()
    _run_watched(world, checks, end)
    if checks.problems:
        return
    world.faults.close()
    world.note("no more faults")
    for process in [*world.services.values(), *world.jobs.values()]:
        process.paused_until = 0.0
    latest = end + REPLAY_POLLS * poll
    _run_watched(world, checks, end + 3 * poll)
    while not checks.problems and not world.is_mended and world.kernel.now < latest:
        _run_watched(world, checks, world.kernel.now + poll)
    if not world.is_mended:
        checks.report(f"dead letters were not applied {REPLAY_POLLS} polls later: {world.list_letters()}")
    # Each batch waits for its trigger, so a source with many transactions takes longer to catch up with.
    batches = world.source.last / world.plan.batch_size
    latest = RECOVERY_POLLS * poll + batches * world.plan.trigger_seconds
    latest += world.kernel.now if world.has_flaws else end
    while not checks.problems and not checks.is_converged() and world.kernel.now < latest:
        _run_watched(world, checks, min(latest, world.kernel.now + poll))
    latest += FORGET_POLLS * poll
    while not checks.problems and world.is_forgetting and world.kernel.now < latest:
        _run_watched(world, checks, world.kernel.now + poll)
    checks.check_acknowledged()
    checks.check_letters_at_end()
    checks.check_converged(f"{RECOVERY_POLLS} polls after the last fault")
    if world.is_forgetting:
        checks.report(f"the forgetting was not finished {FORGET_POLLS} polls later")
    if checks.problems:
        return
    _stop_services(world)
    admin = Process("admin", "host9", 9, world.kernel.now)
    _perform(world, admin, lambda: _run_again(world, checks))
    world.note("two days later")
    _run_until(world, world.kernel.now + 2 * DAY)
    _write_more(world)
    world.start_processes()
    latest = world.kernel.now + 10 * poll
    while not checks.is_converged() and world.kernel.now < latest:
        _run_until(world, world.kernel.now + poll)
    _stop_services(world)
    checks.look()
    checks.check_converged("10 polls after a late transaction")
    _perform(world, admin, lambda: _sweep(world))
    checks.check_records()
    if world.is_forgotten:
        checks.check_forgotten_files()
    checks.check_files()
    checks.look()


def _run_watched(world: World, checks: Checks, end: float) -> None:
    """Lets time pass until `end`, while readers look at random moments."""
    number = 0
    while world.kernel.now < end:
        number += 1
        pause = draw_number(world.seed, "reader", world.kernel.steps, number) * world.plan.poll_seconds * 2
        _run_until(world, min(end, world.kernel.now + pause))
        checks.look()
        if checks.problems:
            return


def _run_until(world: World, end: float) -> None:
    world.active_seconds += end - world.kernel.now if world.has_service else 0.0
    world.kernel.run_until(end)


def _stop_services(world: World) -> None:
    for process in [*world.services.values(), *world.jobs.values()]:
        if not process.is_dead:
            process.is_dead = True
            world.kernel.bury(process)
    world.live.clear()
    world.jobs.clear()
    world.kernel.drop_others("restart")


def _perform(world: World, process: Process, action: Callable[[], None]) -> None:
    task = world.kernel.start(process, action, process.name)
    while not task.is_over:
        world.kernel.run_until(world.kernel.now + 60.0)


def _run_again(world: World, checks: Checks) -> None:
    """Refreshes each model twice more: no row changes, for all are up to date, and the second time nothing is done."""
    reader = Reader(world.profile, world.lake, lambda _: None)
    project = Project(world, reader, Pool(world.lake))
    for name, outcome in _refresh_all(world, checks, project):
        if any(outcome.rows.values()):
            checks.report(f"a run of {name}, which was up to date, changed rows: {outcome.rows}")
    before = world.lake.commits
    for name, outcome in _refresh_all(world, checks, project):
        if outcome.mode != "unchanged":
            checks.report(f"a second run of {name} was {outcome.mode}")
    if world.lake.commits != before:
        checks.report(f"a second run made {world.lake.commits - before} commits")


def _refresh_all(world: World, checks: Checks, project: Project) -> Iterator[tuple[str, Outcome]]:
    """Refreshes each model; yields its name and what became of it."""
    from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
    from arctic_runtime.service.refreshing.refresh_task import Task

    for followed in world.list_followed():
        try:
            done = project.refresh_model(Task(followed, PinnedSnapshots(), True, True, with_upkeep=False))
        except ArcticError as error:
            if world.source.transactions:
                checks.report(f"a run of {followed.name} after recovery failed: {error}")
            continue
        yield followed.name, done.refreshed.outcome


def _write_more(world: World) -> None:
    """A last transaction touches all tables, so that each is written once more."""
    number = 1000 + len(world.source.transactions)
    changes = [SourceChange(CUSTOMERS, 9, (9, f"late{number}")), SourceChange(ORDERS, 99, (99, 9, number, "paid"))]
    world.source.append(world.kernel.now, changes)


def _sweep(world: World) -> None:
    """Expires old versions, and deletes orphaned files, of all tables."""
    pool = Pool(world.lake)
    reader = Reader(world.profile, world.lake, lambda _: None)
    for model in world.models:
        if world.lake.find_table((model.table.schema, model.table.changes.name)) is None:
            continue
        later = datetime.fromtimestamp(world.kernel.now + 2 * DAY, timezone.utc)
        session = TableSession(model, reader, pool.take_session, later)
        expire_versions(session, world.readers.get(model.table, ()))
        find_orphan_files(session, int(DAY), remove=True)


def summarize(results: list[Result]) -> dict[str, Any]:
    """Sums results up: seeds, faults by kind, simulated days, losses, false claims of freshness."""
    faults = Counter(kind for result in results for kind in result.injected.values())
    counts: Counter[str] = sum((Counter(result.counts) for result in results), Counter())
    return {
        "seeds": len(results),
        "faults": dict(sorted(faults.items())),
        "simulated_days": round(sum(result.days for result in results), 1),
        "losses": sum(bool(result.problems) for result in results),
        "false_claims_of_freshness": sum(result.false_claims for result in results),
        "failing_seeds": [result.seed for result in results if result.problems],
        "counts": dict(sorted(counts.items())),
    }
