"""Writes `run_results.json` for `arctic run --once` in dbt's schema, by dbt's classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.service.refreshing.refresh_task import Report
from arctic_runtime.service.refreshing.run_results import RUN_STATUS, Results
from dbt.adapters.arctic.materialize.maintain import build_response
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.project.loaded_project import LoadedProject
from dbt.adapters.arctic.project.target_folder import get_target_folder


def publish_results(results: Results, project: LoadedProject) -> Mapping[str, str]:
    """Publishes what a command has refreshed, if the target has `publish: build`.

    Returns why models were not published, by their names. Raises dbt's errors if another writer has changed one of the
    tables meanwhile.
    """
    if not project.adapter.is_published_whole:
        return {}
    build = project.adapter.begin_build()
    readers = Readers(project.manifest.nodes.values(), project.manifest.sources.values())
    for report in results.reports:
        build.note_status(report.followed.name, "success" if report.status in ("refreshed", "unchanged") else "error")
        for part in report.followed.model.parts:
            build.note_refresh(part, readers.list_readers)
    project.adapter.end_build(project.nodes)
    unpublished: Mapping[str, str] = build.unpublished
    return unpublished


def write_results(results: Results, project: LoadedProject, nodes: Mapping[str, Any], began: datetime) -> None:
    """Writes `run_results.json` to dbt's target folder; `nodes` are the compiled models by unique id.

    `began` is the start of the command.
    """
    from dbt.artifacts.schemas.run import RunExecutionResult
    from dbt.constants import RUN_RESULTS_FILE_NAME

    folder = get_target_folder(project.location.project_dir)
    folder.mkdir(parents=True, exist_ok=True)
    ended = datetime.now(timezone.utc)
    execution_result: Any = RunExecutionResult(
        results=[_build_result(report, nodes[report.followed.name]) for report in results.reports],
        elapsed_time=(ended - began).total_seconds(),
        generated_at=_to_naive_utc(ended),
        args=_build_arguments(project),
    )
    execution_result.write(str(folder / RUN_RESULTS_FILE_NAME))


def _build_result(report: Report, node: Any) -> Any:
    from dbt.artifacts.schemas.results import RunStatus
    from dbt.artifacts.schemas.run import RunResult

    adapter_response = None if report.done is None else build_response(report.done.refreshed)
    return RunResult(
        status=RunStatus(RUN_STATUS[report.status]),
        timing=list(_list_timings(report)),
        thread_id=report.thread or "main",
        execution_time=report.seconds,
        adapter_response={} if adapter_response is None else adapter_response.to_dict(omit_none=True),
        message=report.error or None if adapter_response is None else str(adapter_response),
        failures=None,
        node=node,
    )


def _list_timings(report: Report) -> Iterator[Any]:
    from dbt.artifacts.schemas.results import TimingInfo

    if report.status != "skipped":
        ended = report.began + timedelta(seconds=report.seconds)
        yield TimingInfo("execute", _to_naive_utc(report.began), _to_naive_utc(ended))


def _build_arguments(project: LoadedProject) -> dict[str, Any]:
    """Returns the options of a `dbt run` of the same models, which `dbt retry` reads.

    The target folder is left out, since it is a temporary one.
    """
    from dbt.utils import args_to_dict

    all_options: dict[str, Any] = args_to_dict(project.flags)
    command = all_options["invocation_command"].replace("dbt", "arctic", 1)
    return {key: value for key, value in all_options.items() if key != "target_path"} | {"invocation_command": command}


def _to_naive_utc(at: datetime) -> datetime:
    """Converts a time to UTC without a zone, as dbt writes times."""
    return at.astimezone(timezone.utc).replace(tzinfo=None)
