"""Reads which run of a scheduler has started this process, for the facet `parent` of OpenLineage's runs.

The variables are those that Airflow sets for `dbt-ol`, and that OpenLineage's other integrations read.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from openlineage.client.facet_v2 import parent_run

from arctic_runtime.errors import ConfigError

PARENT_VARIABLE = "OPENLINEAGE_PARENT_ID"
ROOT_VARIABLE = "OPENLINEAGE_ROOT_PARENT_ID"


def read_parent_run(environment: Mapping[str, str], producer: str) -> parent_run.ParentRunFacet | None:
    """Reads the parent run, and the root of all runs; None if no parent is set. A parent without a root is the root.

    Raises ConfigError for a variable that is no `NAMESPACE/JOB/RUN_ID`.
    """
    if not environment.get(PARENT_VARIABLE):
        return None
    namespace, job, run_id = _split_id(environment, PARENT_VARIABLE)
    root = _split_id(environment, ROOT_VARIABLE if environment.get(ROOT_VARIABLE) else PARENT_VARIABLE)
    return parent_run.ParentRunFacet(
        run=parent_run.Run(runId=run_id),
        job=parent_run.Job(namespace=namespace, name=job),
        root=parent_run.Root(
            run=parent_run.RootRun(runId=root[2]), job=parent_run.RootJob(namespace=root[0], name=root[1])
        ),
        producer=producer,
    )


def _split_id(environment: Mapping[str, str], variable: str) -> tuple[str, str, str]:
    try:
        # Namespaces may be addresses with slashes.
        namespace, job, run_id = environment[variable].rsplit("/", 2)
        if not (namespace and job):
            raise ValueError
        return namespace, job, str(UUID(run_id))
    except ValueError:
        raise ConfigError(
            f"The variable {variable} can't be used.",
            expected="NAMESPACE/JOB/RUN_ID with a UUID at the end, as Airflow's macro `lineage_parent_id` writes it",
            actual=environment[variable],
            fix="correct it, or leave it out",
        ) from None
