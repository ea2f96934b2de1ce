"""The command `arctic`: looks at, checks and maintains what dbt builds.

Exit codes: 0 done, 1 a difference or failure in the data, 2 wrong use.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from arctic_runtime.catalog.lookup import lookup
from arctic_runtime.catalog.observe import last_consumed, observe_own
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CatalogError, CommitConflict, ConfigError
from arctic_runtime.model.compaction import CompactionMode, describe_compaction
from arctic_runtime.model.names import named_table
from arctic_runtime.model.step import describe
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations import node_tree as drawing
from arctic_runtime.plan.compaction import describe_plan, plan_waste
from arctic_runtime.plan.configure import read_size
from arctic_runtime.plan.expiry import describe_expiry
from arctic_runtime.plan.maintenance_settings import read_age
from arctic_runtime.spark.refresh.planning import RefreshPlanner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.spark.refresh.run import Refresh
    from arctic_runtime.spark.tables.table_session import TableSession
    from dbt.adapters.arctic.project import Project

DONE, DIFFERENT, WRONG_USE = 0, 1, 2


@dataclass(frozen=True)
class Desk:
    """What a command works with; Spark starts only for those that ask for a run."""

    project: Project
    reader: CatalogReader
    session: Callable[[], SparkSession]
    options: argparse.Namespace

    def planner(self, model: Model) -> RefreshPlanner:
        return RefreshPlanner(model, self.reader)

    def table(self, model: Model) -> TableSession:
        from arctic_runtime.spark.tables.table_session import TableSession

        return TableSession(model, self.reader, self.session)

    def refresh(self, model: Model) -> Refresh:
        from arctic_runtime.spark.refresh.run import Refresh

        return Refresh.of(model, self.reader, self.session)


@dataclass(frozen=True)
class Answer:
    """What a command found: for programs, for people, and as an exit code."""

    data: Any
    lines: tuple[str, ...]
    code: int = DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        alone = _WITHOUT_MODELS.get(options.command)
        answer = alone(options) if alone else _COMMANDS[options.command](_desk(options))
    except (ConfigError, CatalogError) as error:
        print(f"arctic {options.command}: {error}", file=sys.stderr)
        return WRONG_USE
    except ArcticError as error:
        print(f"arctic {options.command}: {error}", file=sys.stderr)
        return DIFFERENT
    except Exception as error:
        if (ended := _spark_ended(error)) is None:
            raise
        print(f"arctic {options.command}: {ended}", file=sys.stderr)
        return DIFFERENT
    print(json.dumps(answer.data, indent=2, default=str) if options.json else "\n".join(answer.lines))
    return answer.code


def _spark_ended(error: Exception) -> ArcticError | None:
    """What to say where Spark's end made a command fail; one that used no Spark does not load it for that."""
    if "arctic_runtime.spark.engine.session" not in sys.modules:
        return None
    from arctic_runtime.spark.engine.ended import spark_ended

    return spark_ended(error)


def _desk(options: argparse.Namespace) -> Desk:
    from arctic_runtime.spark.engine.session import SparkEnvironment
    from dbt.adapters.arctic.project import load_project

    project = load_project(options.project_dir, options.profiles_dir, options.target)
    session = functools.cache(SparkEnvironment(project.profile).session)
    return Desk(project, CatalogReader(project.profile), session, options)


def _verify(desk: Desk) -> Answer:
    from arctic_runtime.spark.refresh.verify import verify

    found: dict[str, list[dict[str, Any]]] = {}
    lines: list[str] = []
    for model in desk.project.select(desk.options.models):
        start = time.monotonic()
        findings = verify(desk.refresh(model))
        broken = [finding for finding in findings if finding.broken]
        left_out = [finding for finding in findings if finding.left_out]
        verdict = "differs" if broken else "ok"
        found[str(model.table)] = [asdict(finding) for finding in findings]
        checks = len(findings) - len(left_out)
        _say(desk, f"{verdict:8} {model.table}: {checks} checks in {time.monotonic() - start:.1f} s")
        lines += [f"{model.table}: not checked: {finding.check}: {finding.left_out}" for finding in left_out]
        for finding in broken:
            lines.append(f"{model.table}: {finding.check}: {finding.broken} row(s) break it")
            lines += [f"  example: {example}" for example in finding.examples]
        if broken:
            lines.append(f"{model.table}: {_MEND.format(model=model.table.name)}")
    any_broken = any(finding["broken"] for findings in found.values() for finding in findings)
    return Answer(found, tuple(lines), DIFFERENT if any_broken else DONE)


_MEND = (
    "what to do: `dbt run --full-refresh --select {model}` computes the table anew, publishes what differs and tells "
    "readers; if it differs again afterwards, the query's own answer changes"
)


def _say(desk: Desk, line: str) -> None:
    """Shows progress while work goes on, where nobody parses the output."""
    if not desk.options.json:
        print(line, flush=True)


def _explain(desk: Desk) -> Answer:
    model = desk.project.one(desk.options.model)
    plan = desk.planner(model).explain()
    lines = [
        f"{model.table}",
        f"  next run: {plan.decision.mode} ({plan.decision.reason}{_because(plan.decision.because)})",
        *(f"  reads {name}: {_window(window)}" for name, window in plan.decision.windows.items()),
        *(f"  {way.explain()}" for way in plan.decision.ways),
        *(f"  {line}" for line in (plan.decision.increment.describe() if plan.decision.increment else ())),
        *(f"  in full: {line}" for line in plan.joins),
        *(f"  then: {describe(step)}" for step in plan.steps),
        *([f"  then: {_catch_up(model)}"] if plan.decision.mode != "unchanged" else []),
    ]
    return Answer(asdict(plan), tuple(lines))


def _catch_up(model: Model) -> str:
    """What follows a commit; how much depends on how many rows that commit will have."""
    if model.config.merge == "on_write":
        return f"merge the new changes into {model.base}"
    return f"replace view {model.table}, and merge into {model.base} where enough has come together"


def _because(text: str) -> str:
    return f": {text}" if text else ""


def _window(window: Any) -> str:
    if window.start is None:
        return f"all of version {window.end.snapshot}"
    if window.is_empty:
        return f"nothing new since version {window.end.snapshot}"
    return f"from version {window.start.snapshot} to {window.end.snapshot}"


def _status(desk: Desk) -> Answer:
    chosen = desk.project.select(desk.options.models)
    data: list[Any] = []
    lines: list[str] = []
    wanted = desk.options.tree or desk.options.partition is not None
    for model in chosen:
        status = inspect.status(desk.reader, model, desk.project.models)
        tree = drawing.tree(desk.reader, model, desk.options.partition) if wanted else None
        data.append({**asdict(status), **({"tree": asdict(tree)} if tree else {})})
        lines += [*inspect.describe_status(status), *(drawing.describe_tree(tree) if tree else [])]
    return Answer(data, tuple(lines))


def _history(desk: Desk) -> Answer:
    entries = inspect.history(desk.reader, desk.project.one(desk.options.model))
    lines = [inspect.describe_history(entry) for entry in entries]
    return Answer([asdict(entry) for entry in entries], tuple(lines or ["no versions yet"]))


def _changes(desk: Desk) -> Answer:
    from arctic_runtime.spark.maintenance.between import changes_between

    model = desk.project.one(desk.options.model)
    rows = changes_between(desk.table(model), desk.options.start, desk.options.end, desk.options.limit)
    return Answer(rows, tuple(str(row) for row in rows) or ("no changes between these versions",))


def _lookup(desk: Desk) -> Answer:
    found = lookup(desk.reader, desk.project.one(desk.options.model), desk.options.key)
    lines = (
        "no such row" if found.row is None else "\n".join(f"{name}: {value}" for name, value in found.row.items()),
        f"({found.files_opened} data file(s) opened, {found.bytes_read:,} bytes read)",
    )
    return Answer(asdict(found), lines, DIFFERENT if found.row is None else DONE)


def _compact(desk: Desk) -> Answer:
    """One model by its name, or several by what their readers lose; those not built yet are left out of all."""
    left = math.inf if desk.options.most is None else read_size("--most", desk.options.most)
    if len(desk.options.models) == 1:
        return _compact_one(desk, desk.project.one(desk.options.models[0]), left)[0]
    answers: dict[str, Answer] = {}
    for model in _most_hurt_first(desk):
        try:
            answers[str(model.table)], taken = _compact_one(desk, model, left)
            left -= taken
        except CommitConflict as conflict:
            answers[str(model.table)] = Answer({"conflict": str(conflict)}, (str(conflict),), DIFFERENT)
    lines = [line for table, answer in answers.items() for line in (f"{table}:", *(f"  {of}" for of in answer.lines))]
    code = max((answer.code for answer in answers.values()), default=DONE)
    return Answer({table: answer.data for table, answer in answers.items()}, tuple(lines), code)


def _compact_one(desk: Desk, model: Model, most_bytes: float) -> tuple[Answer, int]:
    """The answer, and how many bytes were written anew."""
    from arctic_runtime.spark.maintenance.compaction import compact, plan_compaction

    table = desk.table(model)
    if desk.options.plan:
        _, plan = plan_compaction(table, desk.options.mode)
        return Answer(asdict(plan), tuple(describe_plan(plan))), 0
    done = compact(table, desk.options.mode, functools.partial(_say, desk), most_bytes)
    lines = [f"done: {describe_compaction(step)}" for step in done.steps]
    if done.next is not None:
        lines.append(f"left for another time, over --most: {describe_compaction(done.next)}")
    return Answer(asdict(done), tuple(lines or [f"{table.model.table}: nothing to do"])), done.bytes


def _most_hurt_first(desk: Desk) -> list[Model]:
    from arctic_runtime.spark.maintenance.compaction import plan_compaction

    found: list[tuple[int, Model]] = []
    for model in desk.project.select(desk.options.models):
        with suppress(ConfigError) if desk.options.all else nullcontext():
            found.append((plan_waste(plan_compaction(desk.table(model), desk.options.mode)[1]), model))
    return [model for _, model in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _split(desk: Desk) -> Answer:
    from arctic_runtime.spark.maintenance.compaction import plan_split, split

    table = desk.table(desk.project.one(desk.options.model))
    if desk.options.plan:
        _, plan = plan_split(table)
        return Answer(asdict(plan), tuple(describe_plan(plan)))
    done = split(table)
    lines = [f"done: {describe_compaction(step)}" for step in done.steps]
    return Answer(asdict(done), tuple(lines or [f"{table.model.table}: nothing to split"]))


def _expire(desk: Desk) -> Answer:
    from arctic_runtime.spark.maintenance.expiry import expire, orphan_files, plan_expiry

    table = desk.table(desk.project.one(desk.options.model))
    if desk.options.orphans:
        found = orphan_files(table, read_age("--older-than", desk.options.older_than), remove=not desk.options.plan)
        verb = "to go" if desk.options.plan else "gone"
        lines = [f"{verb}: {file}" for files in found.values() for file in files]
        return Answer(found, tuple(lines or ["nothing to do"]))
    readers = [model.table for model in desk.project.models]
    plan = plan_expiry(table, readers) if desk.options.plan else expire(table, readers)
    return Answer(asdict(plan), tuple(describe_expiry(plan, "to go" if desk.options.plan else "gone")))


def _restore(desk: Desk) -> Answer:
    from arctic_runtime.spark.refresh.restore import restore

    table = desk.table(desk.project.one(desk.options.model))
    counts = restore(table, desk.options.version)
    return Answer(counts, (inspect.describe_restored(table.model, counts),))


def _overwrite(desk: Desk) -> Answer:
    from arctic_runtime.spark.refresh.overwrite import overwrite

    refresh = desk.refresh(desk.project.one(desk.options.model))
    values = dict(_column_value(of) for of in desk.options.partition)
    counts = overwrite(refresh, named_table(desk.options.source, refresh.model.table), desk.options.as_of, values)
    return Answer(counts, (inspect.describe_overwritten(refresh.model, counts, desk.options.as_of),))


def _column_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"`--partition` must be a column and its value, such as region=eu; found {text!r}")
    return name, value


def _reset(desk: Desk) -> Answer:
    """Says what goes and whom that concerns; it goes only where that is confirmed."""
    from arctic_runtime.spark.maintenance.reset import reset

    session = desk.table(desk.project.one(desk.options.model))
    table = session.model.table
    readers = [of.table for of in desk.project.models if str(table) in last_consumed(desk.reader, of.table)]
    own = reset(session) if desk.options.yes else observe_own(desk.reader, session.model)
    verb = "dropped" if desk.options.yes else "to drop"
    lines = [f"{verb}: {of.kind} {of.name}" for of in own] or [f"{table}: nothing was built"]
    lines += [
        f"read by {reader}: its next run computes everything once, and with `input: changes` needs --full-refresh"
        for reader in readers
    ]
    if own and not desk.options.yes:
        lines.append("nothing was dropped: all versions and change rows would be lost; add --yes to do it")
    return Answer({"relations": [asdict(of) for of in own], "readers": [str(of) for of in readers]}, tuple(lines))


def _savepoint(desk: Desk) -> Answer:
    from arctic_runtime.spark.maintenance.savepoint import drop_savepoint, make_savepoint

    table, name = desk.table(desk.project.one(desk.options.model)), desk.options.name
    if desk.options.drop:
        drop_savepoint(table, name)
        return Answer({"dropped": name}, (f"{table.model.table}: dropped savepoint {name}",))
    made = make_savepoint(table, name, desk.options.version)
    return Answer(asdict(made), (inspect.describe_savepoint(table.model, made),))


def _spark(options: argparse.Namespace) -> Answer:
    """Starts, ends or shows the server that a target keeps; the project's models are not looked at."""
    from arctic_runtime.spark.engine import server
    from dbt.adapters.arctic.project import load_profile

    profile = load_profile(options.project_dir, options.profiles_dir, options.target)
    if not profile.is_kept:
        raise ConfigError(
            "this target keeps no Spark server.\n  expected: method: connect and url: local\n"
            f"  found: method: {profile.method}\n  what to do: write these two into the profile"
        )
    found = {"start": server.ensure, "stop": server.stop, "status": server.find}[options.action](profile)
    if found is None:
        return Answer({"running": False}, ("not running",), DIFFERENT if options.action == "status" else DONE)
    is_there = options.action != "stop"
    line = f"{'running' if is_there else 'stopped'}: process {found.pid}, port {found.port}, since {found.since}"
    return Answer({"running": is_there, **found.shown()}, (line,))


_COMMANDS: Mapping[str, Callable[[Desk], Answer]] = {
    "verify": _verify,
    "explain": _explain,
    "status": _status,
    "history": _history,
    "changes": _changes,
    "lookup": _lookup,
    "compact": _compact,
    "split": _split,
    "expire": _expire,
    "restore": _restore,
    "reset": _reset,
    "savepoint": _savepoint,
    "overwrite": _overwrite,
}

_WITHOUT_MODELS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {"spark": _spark}


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--project-dir", type=Path, default=Path(), help="where dbt_project.yml is (default: here)")
    shared.add_argument("--profiles-dir", type=Path, default=None, help="where profiles.yml is, as for dbt")
    shared.add_argument("--target", default=None, help="the profile's target, as for dbt")
    shared.add_argument("--json", action="store_true", help="answer in JSON")
    parser = argparse.ArgumentParser(
        prog="arctic", description="Looks at, checks and maintains the tables that dbt builds."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[shared])

    for name, text in (
        ("verify", "recompute and compare tables with their queries and their histories"),
        ("status", "versions, changes not merged yet, files, consumers and their lag"),
    ):
        add(name, text).add_argument("models", nargs="*", metavar="MODEL", help="all where none is named")
    for name, text in (
        ("explain", "what the next run will do, and why"),
        ("history", "the versions of a table"),
        ("changes", "change rows between two versions"),
        ("lookup", "one row by its key"),
        ("split", "cut nodes that outgrew their limit in two, and put small ones together"),
        ("expire", "let old snapshots go that nobody needs"),
        ("restore", "go back to an earlier version, as a new change"),
        ("savepoint", "give a version a name, which keeps it from expiry"),
        ("reset", "drop everything that a model has made, so that its next run is its first"),
        ("overwrite", "say what all rows are as of a place in the order of events; later events still hold"),
    ):
        add(name, text).add_argument("model", metavar="MODEL")
    add("compact", "put small files together and take deleted rows out of files")
    spark = add("spark", "a Spark server of your own that stays between runs")
    spark.add_argument("action", choices=("start", "stop", "status"), help="what to do with it")
    _looking(commands.choices)
    _maintaining(commands.choices)
    _changing(commands.choices)
    return parser


def _looking(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Arguments of commands that change nothing."""
    status, changes = commands["status"], commands["changes"]
    status.add_argument("--tree", action="store_true", help="draw the nodes of the largest partition")
    status.add_argument("--partition", metavar="P", help="draw the nodes of this one, as `--plan` names partitions")
    changes.add_argument("--from", dest="start", required=True, metavar="V", help="after this version")
    changes.add_argument("--to", dest="end", required=True, metavar="V", help="up to this version")
    changes.add_argument("--limit", type=int, default=1000, help="at most so many rows (default: 1000)")
    commands["lookup"].add_argument("key", nargs="+", metavar="KEY", help="a value per key column")


def _maintaining(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Arguments of commands that change files, and no rows."""
    compact, expire = commands["compact"], commands["expire"]
    chosen = compact.add_mutually_exclusive_group(required=True)
    chosen.add_argument("models", nargs="*", default=[], metavar="MODEL", help="one, or several by what readers lose")
    chosen.add_argument("--all", action="store_true", help="every model that was built")
    compact.add_argument("--mode", choices=get_args(CompactionMode), default="auto", help="how much (default: auto)")
    compact.add_argument("--most", metavar="SIZE", help="write no more anew than this, such as 50 GiB")
    for command in (compact, commands["split"], expire):
        command.add_argument("--plan", action="store_true", help="only show what would be done, and why")
    expire.add_argument("--orphans", action="store_true", help="let files go instead that belong to no snapshot")
    expire.add_argument("--older-than", default="3d", metavar="AGE", help="with --orphans (default: 3d; 1d or more)")


def _changing(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Arguments of commands that say what rows are, or give a version a name."""
    restore, overwrite, savepoint = commands["restore"], commands["overwrite"], commands["savepoint"]
    known = "as `arctic history` shows it, or a savepoint's name"
    restore.add_argument("--version", required=True, metavar="V", help=known)
    overwrite.add_argument(
        "--from", dest="source", required=True, metavar="TABLE", help="a table or view with the rows"
    )
    overwrite.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="replace this partition alone; once for each column that the table is partitioned by",
    )
    overwrite.add_argument("--as-of", required=True, metavar="P", help="a value of the model's `sequence_by`")
    commands["reset"].add_argument("--yes", action="store_true", help="do it; without, say what would go")
    savepoint.add_argument("name", metavar="NAME", help="of the savepoint")
    chosen = savepoint.add_mutually_exclusive_group()
    chosen.add_argument("--version", metavar="V", help=f"{known} (default: the newest)")
    chosen.add_argument("--drop", action="store_true", help="take the name away")


if __name__ == "__main__":
    sys.exit(main())
