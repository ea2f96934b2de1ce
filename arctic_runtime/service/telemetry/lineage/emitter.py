"""Builds OpenLineage events of refreshes, and sends them without delaying or failing a refresh."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from queue import Full, Queue
from typing import Any, Protocol

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
    sql_job,
    symlinks_dataset,
)
from openlineage.client.uuid import generate_static_uuid
from typing_extensions import Self

from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import mask_text
from arctic_runtime.service.refreshing.refresh_task import Report, Status
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.lineage.columns import ColumnLineage, SourceColumnRead, Use, Uses
from arctic_runtime.service.telemetry.lineage.observed import Dataset, ModelLineage
from arctic_runtime.thresholds import LineageThresholds

PRODUCER = "urn:dbt-arctic"
ENDS: Mapping[Status, RunState] = {"refreshed": RunState.COMPLETE, "failed": RunState.FAIL}
"""Report statuses that are sent as OpenLineage runs, with the run state.

Unchanged models are not sent, and neither are refreshes that lost a commit race, since they are repeated.
"""


@dataclass(frozen=True)
class JobIdentity:
    """Identity of jobs: the OpenLineage namespace, and the project whose name is the prefix of job names.

    `parent` is the run of a scheduler that all runs belong to; None if no scheduler has named one.
    """

    namespace: str
    project: str
    parent: parent_run.ParentRunFacet | None = None

    def format_job_name(self, table: TableName) -> str:
        return f"{self.project}.{table.schema}.{table.name}"


def build_refresh_events(identity: JobIdentity, report: Report, lineage: ModelLineage) -> tuple[RunEvent, RunEvent]:
    """Builds the start and end events of a refresh; the run id depends only on the model and the start time."""
    job = _build_job(identity, report)
    instant = report.began.astimezone(timezone.utc)
    run_id = str(generate_static_uuid(instant, f"{job.namespace}/{job.name}".encode()))
    inputs = [_build_input(source, dataset, report) for source, dataset in sorted(lineage.inputs.items())]
    parent = {} if identity.parent is None else {"parent": identity.parent}
    outputs = [] if lineage.output is None else [_build_output(lineage.output, report, lineage)]
    started = RunEvent(
        eventTime=_format_time(instant),
        eventType=RunState.START,
        run=Run(run_id, facets={**parent}),
        job=job,
        inputs=inputs,
        outputs=[],
        producer=PRODUCER,
    )
    ended = RunEvent(
        eventTime=_format_time(instant + timedelta(seconds=report.seconds)),
        eventType=ENDS[report.status],
        run=Run(run_id, facets={**parent, **_build_failure_facet(report)}),
        job=job,
        inputs=inputs,
        outputs=outputs,
        producer=PRODUCER,
    )
    return started, ended


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _build_job(identity: JobIdentity, report: Report) -> Job:
    model = report.followed.model
    facets: dict[str, Any] = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="DBT_ARCTIC", jobType="MODEL", producer=PRODUCER
        )
    }
    if model.sql:
        facets["sql"] = sql_job.SQLJobFacet(query=mask_text(model.sql), dialect="spark", producer=PRODUCER)
    return Job(identity.namespace, identity.format_job_name(model.table), facets=facets)


def _build_failure_facet(report: Report) -> dict[str, Any]:
    if not report.error:
        return {}
    return {
        "errorMessage": error_message_run.ErrorMessageRunFacet(
            message=mask_text(report.error), programmingLanguage="python", producer=PRODUCER
        )
    }


def _build_dataset_facets(dataset: Dataset, version: int | None) -> dict[str, Any]:
    fields = [schema_dataset.SchemaDatasetFacetFields(name=column.name, type=column.type) for column in dataset.columns]
    alias = symlinks_dataset.Identifier(namespace=dataset.alias.namespace, name=dataset.alias.name, type="TABLE")
    facets: dict[str, Any] = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[alias], producer=PRODUCER),
    }
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=str(version), producer=PRODUCER
        )
    return facets


def _build_input(source: TableName, dataset: Dataset, report: Report) -> InputDataset:
    consumed = {} if report.done is None else report.done.refreshed.outcome.consumed
    return InputDataset(
        namespace=dataset.name.namespace,
        name=dataset.name.name,
        facets=_build_dataset_facets(dataset, consumed.get(str(source))),
    )


def _build_output(dataset: Dataset, report: Report, lineage: ModelLineage) -> OutputDataset:
    outcome = None if report.done is None else report.done.refreshed.outcome
    facets = _build_dataset_facets(dataset, None if outcome is None else outcome.version)
    if lineage.columns is not None:
        facets["columnLineage"] = _build_column_lineage_facet(lineage.columns, lineage.inputs)
    statistics: dict[str, Any] = {}
    if outcome is not None:
        statistics["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=sum(outcome.rows.values()), producer=PRODUCER
        )
    return OutputDataset(
        namespace=dataset.name.namespace, name=dataset.name.name, facets=facets, outputFacets=statistics
    )


def _build_column_lineage_facet(lineage: ColumnLineage, inputs: Mapping[TableName, Dataset]) -> Any:
    fields = {
        name: column_lineage_dataset.Fields(inputFields=_build_input_fields(uses, inputs))
        for name, uses in lineage.columns.items()
    }
    return column_lineage_dataset.ColumnLineageDatasetFacet(
        fields=fields, dataset=_build_input_fields(lineage.rows, inputs), producer=PRODUCER
    )


def _build_input_fields(uses: Uses, inputs: Mapping[TableName, Dataset]) -> list[Any]:
    return [_build_input_field(origin, sorted(kinds), inputs[origin.table]) for origin, kinds in sorted(uses.items())]


def _build_input_field(origin: SourceColumnRead, kinds: list[Use], dataset: Dataset) -> Any:
    transformations = [
        column_lineage_dataset.Transformation(
            type="DIRECT" if use.is_direct else "INDIRECT", subtype=use.kind, description="", masking=use.is_masking
        )
        for use in kinds
    ]
    return column_lineage_dataset.InputField(
        namespace=dataset.name.namespace, name=dataset.name.name, field=origin.column, transformations=transformations
    )


ObserveLineage = Callable[[FollowedModel], ModelLineage]
"""Function that observes a model's lineage from the catalog; raises ArcticError if that fails."""


class Client(Protocol):
    """The methods of OpenLineageClient that LineageEmitter uses."""

    def emit(self, event: RunEvent) -> None: ...

    def close(self, timeout: float = -1.0) -> bool: ...


class LineageEmitter:
    """Sends a start and an end event for each refresh that a follower reports, in a thread of its own.

    A call returns at once and raises no error. If the receiver is too slow, or does not answer, events are dropped, and
    `warn` is called once until the receiver answers again.
    """

    def __init__(
        self,
        identity: JobIdentity,
        observe: ObserveLineage,
        warn: Callable[[str], None],
        thresholds: LineageThresholds,
        client: Client | None = None,
    ) -> None:
        """Creates an emitter; without `client`, creates one that reads the environment and `openlineage.yml`."""
        self._identity = identity
        self._observe = observe
        self._warn = warn
        self._thresholds = thresholds
        self._client: Client = OpenLineageClient() if client is None else client
        self._reports: Queue[Report | None] = Queue(thresholds.queued_reports)
        self._known: dict[TableName, tuple[FollowedModel, float, ModelLineage]] = {}
        self._is_failing = False
        self._thread = threading.Thread(target=self._send_reports, name="lineage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_emitter()

    def __call__(self, report: Report) -> None:
        """Queues the report of a refresh; reports other than of refreshes that failed or changed rows are ignored."""
        if report.status not in ENDS:
            return
        try:
            self._reports.put_nowait(report)
        except Full:
            self._warn_once(f"{self._thresholds.queued_reports} events wait already, so later ones are left out")

    def close_emitter(self) -> None:
        """Sends the queued reports, for some seconds at most; drops the rest."""
        until = time.monotonic() + self._thresholds.close_seconds
        with suppress(Full):
            self._reports.put(None, timeout=self._thresholds.close_seconds)
            self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            self._warn_once(f"no answer within {self._thresholds.close_seconds:g} seconds at the end")
        else:
            self._client.close(max(0.0, until - time.monotonic()))

    def _send_reports(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                for event in build_refresh_events(self._identity, report, self._get_lineage(report)):
                    self._client.emit(event)
            except Exception as error:
                self._warn_once(f"{type(error).__name__}: {mask_text(str(error))}")
            else:
                self._is_failing = False

    def _get_lineage(self, report: Report) -> ModelLineage:
        """Returns the lineage of a report's model, from a cache unless the model has changed or the entry is old."""
        followed = report.followed
        known = self._known.get(followed.table)
        now = time.monotonic()
        if known is not None and known[0] == followed and now < known[1] + self._thresholds.observed_seconds:
            return known[2]
        observed = self._observe_if_possible(followed)
        if observed.output is not None:
            self._known[followed.table] = (followed, now, observed)
        return observed

    def _observe_if_possible(self, followed: FollowedModel) -> ModelLineage:
        """Observes the lineage of a model; returns empty lineage if the catalog does not answer."""
        try:
            return self._observe(followed)
        except ArcticError:
            return ModelLineage()

    def _warn_once(self, what: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warn(
                f"Lineage of refreshes is not sent.\n  found: {what}\n"
                "  what to do: check the receiver and OpenLineage's configuration; refreshes go on without it"
            )
