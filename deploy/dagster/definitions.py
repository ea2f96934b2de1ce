"""The models of a dbt-arctic project as assets of Dagster, and a sensor on the tables that `arctic serve` keeps fresh.

Copy this folder, change the constants, and run `dagster dev -f definitions.py`. The asset of each model says how its
run went. Where a service refreshes the models, do not schedule `arctic_models`: the sensor tells Dagster of each new
version, and starts what reads the tables.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DbtCliInvocation, DbtCliResource, dbt_assets

PROJECT = Path("/srv/shop")
BIN = Path("/opt/arctic/bin")
"""The programs of the project's own environment."""

DBT = "/opt/arctic/dbt"
"""The program beside this file, which starts the dbt of the project's environment."""

SERVICE = "http://127.0.0.1:8470"
TOKEN = os.environ.get("ARCTIC_TOKEN", "")
MANIFEST = json.loads((PROJECT / "target" / "manifest.json").read_text())
"""What `dbt parse` wrote when the project was deployed."""

SHOWN = ("mode", "reason", "because", "inserted", "updated", "deleted", "upserted", "quarantined", "version")
TRANSLATOR = DagsterDbtTranslator()


# Runs of dbt


@dbt_assets(manifest=MANIFEST, dagster_dbt_translator=TRANSLATOR, pool="arctic")
def arctic_models(context: dg.AssetExecutionContext, dbt: DbtCliResource) -> Iterator[Any]:
    """Runs `dbt build` for the chosen assets; fails with the errors of models and tests."""
    invocation = dbt.cli(["build"], context=context, raise_on_error=False)
    yield from describe_events(invocation, context)
    if not invocation.is_successful():
        raise dg.Failure(read_errors(invocation))


def describe_events(invocation: DbtCliInvocation, context: dg.AssetExecutionContext) -> Iterator[Any]:
    """Yields the events of Dagster, those of models with what their runs did, soon after each has ended."""
    waiting: dict[str, dg.Output] = {}
    responses: dict[str, Any] = {}
    log: TextIO | None = None
    for event in invocation.stream_raw_events():
        for made in event.to_default_asset_events(MANIFEST, TRANSLATOR, context, invocation.target_path):
            if isinstance(made, dg.Output):
                waiting[event.raw_event["data"]["node_info"]["unique_id"]] = made
            else:
                yield made
        if waiting:
            log = log or (invocation.target_path / "dbt.log").open()
            responses |= read_responses(log)
            for node in [node for node in waiting if node in responses]:
                yield add_metadata(waiting.pop(node), node, responses[node])
    for node, output in waiting.items():
        yield add_metadata(output, node, find_response(invocation, node))


def read_responses(log: TextIO) -> dict[str, Any]:
    """Returns what dbt has written to its log since the last call about runs that ended, by node."""
    ended = [json.loads(line) for line in log if '"NodeFinished"' in line and line.endswith("}\n")]
    return {
        event["data"]["node_info"]["unique_id"]: event["data"]["run_result"].get("adapter_response", {})
        for event in ended
    }


def find_response(invocation: DbtCliInvocation, node: str) -> Mapping[str, Any]:
    """Returns what `run_results.json` says of a run; empty if it says nothing."""
    results = invocation.get_artifact("run_results.json")["results"]
    return next((result["adapter_response"] for result in results if result["unique_id"] == node), {})


def add_metadata(output: dg.Output, node: str, response: Mapping[str, Any]) -> dg.Output:
    """Returns the output with mode, reason and rows of the run, seconds by step, and the table's freshness."""
    if not response.get("mode"):
        return output
    described = {f"arctic/{name}": to_value(response[name]) for name in SHOWN if response.get(name) not in (None, "")}
    described["arctic/seconds"] = dg.MetadataValue.json(dict(response.get("timings") or {}))
    described |= read_freshness(MANIFEST["nodes"][node]["name"])
    return output.with_metadata({**output.metadata, **described})


def to_value(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def read_freshness(model: str) -> dict[str, Any]:
    """Returns the freshness of a model's table, by `arctic status`; nothing if that can't say it."""
    done = subprocess.run(
        [BIN / "arctic", "status", model, "--json"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {}
    (status,) = json.loads(done.stdout)
    return describe_freshness(status["freshness"] or {})


def describe_freshness(freshness: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the freshness as metadata: its state, the time as of which the table shows its sources, and the cause."""
    parts = {name: freshness.get(name) for name in ("state", "as_of", "reason", "action")}
    return {f"arctic/freshness_{name}": value for name, value in parts.items() if value}


def read_errors(invocation: DbtCliInvocation) -> str:
    """Returns the errors of models and tests, or dbt's own if it ended before it ran one."""
    try:
        results = invocation.get_artifact("run_results.json")["results"]
    except FileNotFoundError:
        return str(invocation.get_error())
    failed = [result for result in results if result["status"] in ("error", "fail", "runtime error")]
    return "\n".join(f"{result['unique_id']}: {(result['message'] or '').strip()}" for result in failed)


# Tables that a service keeps fresh


class ServiceError(Exception):
    """An error in the words of the service."""


def read_tables() -> list[dict[str, Any]]:
    """Returns the tables that the service shows. Raises ServiceError with what to do."""
    request = Request(f"{SERVICE}/api/tables", headers={"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    try:
        with urlopen(request, timeout=30) as response:
            tables: list[dict[str, Any]] = json.load(response)["tables"]
            return tables
    except HTTPError as error:
        raise ServiceError(read_problem(error)) from None
    except (URLError, OSError) as error:
        raise ServiceError(f"{SERVICE} does not answer: {error}\n  what to do: start `arctic serve`") from None


def read_problem(error: HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError):
        return f"{SERVICE} answers with status {error.code}."


def map_tables() -> dict[str, dg.AssetKey]:
    """Returns the asset of each table of the project."""
    return {
        f"{node['database']}.{node['schema']}.{node['alias']}": TRANSLATOR.get_asset_key(node)
        for node in MANIFEST["nodes"].values()
        if node["resource_type"] == "model"
    }


@dg.asset(deps=[TRANSLATOR.get_asset_key(node) for node in MANIFEST["nodes"].values() if node["name"] == "dws_spend"])
def export() -> None:
    """Replace this by what reads the tables."""


@dg.sensor(target=[export], minimum_interval_seconds=30)
def fresh_tables(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Reports each new version of a table that is fresh, and starts what reads it."""
    try:
        tables = read_tables()
    except ServiceError as error:
        return dg.SkipReason(str(error))
    assets, known = map_tables(), json.loads(context.cursor or "{}")
    moved = [table for table in tables if table["table"] in assets and is_news(table, known)]
    if not moved:
        late = [describe_table(table) for table in tables if not is_fresh(table)]
        return dg.SkipReason("\n".join(late) or "No table has a new version.")
    versions = known | {table["table"]: table["version"] for table in moved}
    return dg.SensorResult(
        asset_events=[
            dg.AssetMaterialization(assets[table["table"]], metadata=describe_overview(table)) for table in moved
        ],
        run_requests=[dg.RunRequest(run_key="-".join(sorted(table["version"] for table in moved)))],
        cursor=json.dumps(versions),
    )


def is_fresh(table: Mapping[str, Any]) -> bool:
    return table["freshness"] is None or table["freshness"]["state"] in ("fresh", "delayed")


def is_news(table: Mapping[str, Any], known: Mapping[str, str]) -> bool:
    return is_fresh(table) and bool(table["version"]) and known.get(table["table"]) != table["version"]


def describe_overview(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata of a table's new version: rows and freshness."""
    return {
        "dagster/row_count": table["rows"],
        "arctic/version": table["version"],
        "arctic/changed_at": table["changed_at"] or "",
        **describe_freshness(table["freshness"] or {}),
    }


def describe_table(table: Mapping[str, Any]) -> str:
    """Returns a line on a table that is late, with the reason and what to do."""
    freshness = table["freshness"] or {}
    reason, action = table["error"] or freshness.get("reason", ""), freshness.get("action", "")
    return f"{table['table']} is {table['state']}: {reason}" + (f"\n  what to do: {action}" if action else "")


definitions = dg.Definitions(
    assets=[arctic_models, export],
    sensors=[fresh_tables],
    resources={"dbt": DbtCliResource(project_dir=str(PROJECT), dbt_executable=DBT)},
)
