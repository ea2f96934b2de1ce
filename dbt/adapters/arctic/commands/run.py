"""The command `arctic run`: refreshes arctic models as soon as their upstreams have changed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.manifest.profile_file import read_profile_file
from arctic_runtime.operations.operation import Answer
from arctic_runtime.operations.refreshing import format_upkeep_warning
from arctic_runtime.operations.run_response import describe_response, format_response
from arctic_runtime.service.project import FollowedProject
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshWorkers, Report
from arctic_runtime.service.refreshing.run_results import Results
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.service.telemetry.command_metrics import Command
from arctic_runtime.service.telemetry.configured import TelemetrySettings, read_telemetry
from arctic_runtime.service.telemetry.observation import Telemetry, open_telemetry
from arctic_runtime.spark.engine.java.process import PROCESS
from dbt.adapters.arctic.commands import selection
from dbt.adapters.arctic.commands.termination import stop_on_signals, stop_with_spark
from dbt.adapters.arctic.project.project_options import find_model_files

if TYPE_CHECKING:
    from arctic_runtime.manifest.data_tests import TestResult
    from arctic_runtime.manifest.model_files import ModelFiles

NAME = "run"


@dataclass(frozen=True)
class Prepared:
    """A project whose models the command refreshes, and its own work beside the refreshes."""

    project: FollowedProject
    telemetry: Telemetry
    write: Callable[[Results, datetime], None]
    """Writes the results of the only pass, which began at the time given, also if an error has cut it short."""

    finish: Callable[[Results, datetime], str]
    """Does the work after the only pass; returns why it has failed, for people, empty if it has not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    selection.add_arguments(parser, "all arctic models")
    parser.add_argument("--once", action="store_true", help="stop when every model is up to date, as `dbt run` does")


def perform_command(options: argparse.Namespace) -> Answer:
    """Refreshes models until a signal ends it, or with `--once` each of them once.

    Raises ConfigError if no model is selected.
    """
    PROCESS.is_lasting = not options.once
    began, results = datetime.now(timezone.utc), Results()
    files = find_model_files(options)
    prepared = _prepare_project(options) if files is None else _prepare_files(files, options)
    project = prepared.project
    say = build_reporter(options.json, options.once)

    def report_refresh(finished: Report) -> None:
        if options.once:
            results.add_report(finished)
        say(finished)

    reader, models = project.reader, project.list_followed()
    workers = RefreshWorkers(project.refresh_model, project.threads, project.prepare_thread)
    telemetry = prepared.telemetry
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
                prepared.write(results, began)
            failure = prepared.finish(results, began)
            has_failed = results.have_failed or len(results.reports) < len(models)
            if has_failed or failure:
                telemetry.fail_command(results.describe_failures() if has_failed else failure)
            return Answer(None, (), differs=bool(has_failed or failure))
        _print_warning(f"follows {len(models)} models")
        follower.run_until_stopped(project)
    return Answer(None, ())


def _prepare_project(options: argparse.Namespace) -> Prepared:
    from dbt.adapters.arctic.materialize.command_rows import prepare_start
    from dbt.adapters.arctic.project.live_project import LiveProject
    from dbt.adapters.arctic.project.loaded_project import Location
    from dbt.adapters.arctic.project.run_results import publish_results, write_results

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
    config = project.loaded.config
    settings = read_telemetry(config.credentials.telemetry, Path(config.project_root), os.environ)
    telemetry = _open_telemetry(options, project, str(config.target_name), settings)
    if options.once and project.loaded.adapter.is_published_whole:
        telemetry.hold_reports()

    def write_project(results: Results, began: datetime) -> None:
        write_results(results, project.loaded, project.compiled_nodes, began)

    def publish_project(results: Results, _: datetime) -> str:
        telemetry.release_reports(publish_results(results, project.loaded))
        return ""

    return Prepared(project, telemetry, write_project, publish_project)


def _prepare_files(files: ModelFiles, options: argparse.Namespace) -> Prepared:
    from arctic_runtime.manifest.data_tests import run_tests
    from arctic_runtime.manifest.manifest_project import ManifestProject
    from arctic_runtime.manifest.results_file import write_results
    from arctic_runtime.spark.engine.session_pool import get_pool

    target = read_profile_file(options.profile)
    project = ManifestProject(files, target, options.select, options.exclude, _print_warning)
    settings = read_telemetry(target.telemetry, options.profile.absolute().parent, os.environ)
    arguments = {"which": "run", "select": options.select, "exclude": options.exclude}

    def write_models(results: Results, began: datetime) -> None:
        write_results(project.models, results.reports, (), began, arguments)

    def test_models(results: Results, began: datetime) -> str:
        refreshed = {report.followed.name for report in results.reports if report.done is not None}
        tests = run_tests(project.models, refreshed, get_pool(target.profile))
        write_results(project.models, results.reports, tests, began, arguments)
        for result in tests:
            print(_format_test(result, options.json), flush=True)
        failed = [result.unique_id for result in tests if result.status in ("fail", "error")]
        return f"failed: {', '.join(failed)}" if failed else ""

    return Prepared(project, _open_telemetry(options, project, "manifest", settings), write_models, test_models)


def _open_telemetry(
    options: argparse.Namespace, project: FollowedProject, target: str, settings: TelemetrySettings
) -> Telemetry:
    return open_telemetry(
        Command(f"arctic run{' --once' * options.once}", project.name, target),
        settings,
        lambda: project.reader,
        _print_warning,
        project.reader.thresholds.telemetry,
        is_lasting=not options.once,
    )


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
    table = report.followed.table
    head = f"{(report.began + timedelta(seconds=report.seconds)).astimezone():%H:%M:%S}  "
    if report.status == "skipped":
        return f"{head}SKIP arctic {table.schema}.{table.name} [{report.held_by} failed]"
    if report.done is None:
        again = "" if report.retry_seconds is None else f", tried again in {report.retry_seconds:.0f} s"
        error = "\n".join(f"  {line}" for line in report.error.splitlines())
        return f"{head}ERROR arctic {table.schema}.{table.name} [in {report.seconds:.2f}s{again}]\n{error}"
    response = format_response(report.done.refreshed)
    return f"{head}OK arctic {table.schema}.{table.name} [{response} in {report.seconds:.2f}s]"


_STATUS = {"refreshed": "success", "unchanged": "success", "failed": "error", "conflict": "conflict"}


def _format_json(report: Report) -> str:
    done = None if report.done is None else report.done.refreshed
    message = None if done is None else format_response(done)
    shown: dict[str, Any] = {
        "model": report.followed.name,
        "table": str(report.followed.table),
        "status": _STATUS.get(report.status, report.status),
        "began": report.began.isoformat(),
        "seconds": round(report.seconds, 3),
        "message": report.error or message,
        "adapter_response": {} if done is None else {"_message": message, **describe_response(done)},
        "retry_seconds": report.retry_seconds,
        "held_by": None if report.held_by is None else str(report.held_by),
    }
    return json.dumps(shown, default=str)


def _format_test(result: TestResult, as_json: bool) -> str:
    if as_json:
        shown = {"test": result.unique_id, "status": result.status, "failures": result.failures}
        return json.dumps({**shown, "seconds": round(result.seconds, 3), "message": result.message})
    head = f"{(result.began + timedelta(seconds=result.seconds)).astimezone():%H:%M:%S}  "
    name = result.unique_id.split(".")[2]
    message = f"\n  {result.message}" if result.message else ""
    return f"{head}{result.status.upper()} {name} [in {result.seconds:.2f}s]{message}"
