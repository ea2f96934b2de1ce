"""The command `arctic run`: refreshes arctic models as soon as their upstreams have changed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.operations.operation import Answer
from arctic_runtime.operations.refreshing import format_upkeep_warning
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshWorkers, Report
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.service.telemetry.command_metrics import Command
from arctic_runtime.service.telemetry.configured import read_telemetry
from arctic_runtime.service.telemetry.observation import Telemetry, open_telemetry
from arctic_runtime.spark.engine.java.process import PROCESS
from dbt.adapters.arctic.commands.termination import stop_on_signals, stop_with_spark

if TYPE_CHECKING:
    from dbt.adapters.arctic.project.live_project import LiveProject

NAME = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--select", nargs="+", action="extend", default=[], metavar="MODEL", help="as for dbt")
    parser.add_argument("--exclude", nargs="+", action="extend", default=[], metavar="MODEL", help="as for dbt")
    parser.add_argument("--once", action="store_true", help="stop when every model is up to date, as `dbt run` does")


def perform_command(options: argparse.Namespace) -> Answer:
    """Refreshes models until a signal ends it, or with `--once` each of them once.

    Raises ConfigError if no model is selected.
    """
    from dbt.adapters.arctic.materialize.command_rows import prepare_start
    from dbt.adapters.arctic.project.live_project import LiveProject
    from dbt.adapters.arctic.project.loaded_project import Location
    from dbt.adapters.arctic.project.run_results import Results, publish_results, write_results

    PROCESS.is_lasting = not options.once
    began, results = datetime.now(timezone.utc), Results()
    location = Location(
        options.project_dir,
        options.profiles_dir,
        options.target,
        options.select,
        options.exclude,
        is_built=options.once,
    )
    project = LiveProject(location, _print_warning)
    if options.once:
        manifest = project.loaded.adapter.get_macro_resolver()
        prepare_start(manifest, lambda: project.reader, project.compiled_nodes)
    say = build_reporter(options.json, options.once)

    def report_refresh(finished: Report) -> None:
        if options.once:
            results.add_report(finished)
        say(finished)

    reader, models = project.reader, project.list_followed()
    workers = RefreshWorkers(project.refresh_model, project.threads, project.prepare_thread)
    telemetry = _open_telemetry(options, project)
    listeners = telemetry.add_to(RefreshListeners(_print_warning, report_refresh))
    follower = Follower(SharedState(reader), workers, listeners)
    with (
        telemetry,
        stop_with_spark(NAME, lambda _: follower.stop_following(), reader.thresholds.engine),
        follower,
        stop_on_signals(NAME, follower.stop_following, "ends after the refreshes under way"),
    ):
        follower.follow_models(models)
        if options.once:
            try:
                follower.run_once()
            finally:
                write_results(results, project.loaded, project.compiled_nodes, began)
            telemetry.release_reports(publish_results(results, project.loaded))
            has_failed = results.have_failed or len(results.reports) < len(models)
            if has_failed:
                telemetry.fail_command(results.describe_failures())
            return Answer(None, (), differs=has_failed)
        _print_warning(f"follows {len(models)} models")
        follower.run_until_stopped(project)
    return Answer(None, ())


def _open_telemetry(options: argparse.Namespace, project: LiveProject) -> Telemetry:
    config = project.loaded.config
    command = Command(f"arctic run{' --once' * options.once}", project.name, str(config.target_name))
    settings = read_telemetry(config.credentials.telemetry, Path(config.project_root), os.environ)
    telemetry = open_telemetry(
        command,
        settings,
        lambda: project.reader,
        _print_warning,
        project.reader.thresholds.telemetry,
        is_lasting=not options.once,
    )
    if options.once and project.loaded.adapter.is_published_whole:
        telemetry.hold_reports()
    return telemetry


def _print_warning(text: str) -> None:
    print(f"arctic run: {text}", file=sys.stderr, flush=True)


def build_reporter(as_json: bool, once: bool) -> Callable[[Report], None]:
    """Returns a function that prints the result of a model in a pass; unless `once`, only refreshes and failures."""
    shown_statuses = ("refreshed", "failed", "unchanged", "skipped", "conflict") if once else ("refreshed", "failed")
    show = _format_json if as_json else _format_text

    def print_report(report: Report) -> None:
        if report.status in shown_statuses:
            print(show(report), flush=True)
        _warn_of_upkeep(report)

    return print_report


def _warn_of_upkeep(report: Report) -> None:
    for part, message in (report.done.refreshed.failures if report.done else {}).items():
        _print_warning(format_upkeep_warning(report.followed.table, part, message))


def _format_text(report: Report) -> str:
    """Formats a result like a line of dbt's output, with the end time of the refresh; an error message follows it."""
    from dbt.adapters.arctic.project.run_results import to_response

    table = report.followed.table
    head = f"{(report.began + timedelta(seconds=report.seconds)).astimezone():%H:%M:%S}  "
    response = to_response(report)
    if report.status == "skipped":
        return f"{head}SKIP arctic {table.schema}.{table.name} [{report.held_by} failed]"
    if response is None:
        again = "" if report.retry_seconds is None else f", tried again in {report.retry_seconds:.0f} s"
        error = "\n".join(f"  {line}" for line in report.error.splitlines())
        return f"{head}ERROR arctic {table.schema}.{table.name} [in {report.seconds:.2f}s{again}]\n{error}"
    return f"{head}OK arctic {table.schema}.{table.name} [{response} in {report.seconds:.2f}s]"


_STATUS = {"refreshed": "success", "unchanged": "success", "failed": "error", "conflict": "conflict"}


def _format_json(report: Report) -> str:
    from dbt.adapters.arctic.project.run_results import to_response

    response = to_response(report)
    shown: dict[str, Any] = {
        "model": report.followed.name,
        "table": str(report.followed.table),
        "status": _STATUS.get(report.status, report.status),
        "began": report.began.isoformat(),
        "seconds": round(report.seconds, 3),
        "message": report.error or (None if response is None else str(response)),
        "adapter_response": {} if response is None else response.to_dict(omit_none=True),
        "retry_seconds": report.retry_seconds,
        "held_by": None if report.held_by is None else str(report.held_by),
    }
    return json.dumps(shown, default=str)
