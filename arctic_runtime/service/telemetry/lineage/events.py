"""OpenLineage events of a refresh, built from its report and the lineage of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    schema_dataset,
    sql_job,
    symlinks_dataset,
)
from openlineage.client.uuid import generate_static_uuid

from arctic_runtime.model.names import TableName
from arctic_runtime.profile import mask_text
from arctic_runtime.service.refreshing.refresh_task import Report, Status
from arctic_runtime.service.telemetry.lineage.columns import ColumnLineage, SourceColumnRead, Use, Uses
from arctic_runtime.service.telemetry.lineage.observed import Dataset, ModelLineage

PRODUCER = "urn:dbt-arctic"
ENDS: Mapping[Status, RunState] = {"refreshed": RunState.COMPLETE, "failed": RunState.FAIL}
"""Report statuses that are sent as OpenLineage runs, with the run state.

Unchanged models are not sent, and neither are refreshes that lost a commit race, since they are repeated.
"""


@dataclass(frozen=True)
class JobIdentity:
    """Identity of jobs: the OpenLineage namespace, and the project whose name is the prefix of job names."""

    namespace: str
    project: str

    def format_job_name(self, table: TableName) -> str:
        return f"{self.project}.{table.schema}.{table.name}"


def build_refresh_events(identity: JobIdentity, report: Report, lineage: ModelLineage) -> tuple[RunEvent, RunEvent]:
    """Builds the start and end events of a refresh; the run id depends only on the model and the start time."""
    job = _build_job(identity, report)
    instant = report.began.astimezone(timezone.utc)
    run_id = str(generate_static_uuid(instant, f"{job.namespace}/{job.name}".encode()))
    inputs = [_build_input(source, dataset, report) for source, dataset in sorted(lineage.inputs.items())]
    outputs = [] if lineage.output is None else [_build_output(lineage.output, report, lineage)]
    started = RunEvent(
        eventTime=_format_time(instant),
        eventType=RunState.START,
        run=Run(run_id),
        job=job,
        inputs=inputs,
        outputs=[],
        producer=PRODUCER,
    )
    ended = RunEvent(
        eventTime=_format_time(instant + timedelta(seconds=report.seconds)),
        eventType=ENDS[report.status],
        run=Run(run_id, facets=_build_failure_facet(report)),
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
        facets["sql"] = sql_job.SQLJobFacet(query=model.sql, dialect="spark", producer=PRODUCER)
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
