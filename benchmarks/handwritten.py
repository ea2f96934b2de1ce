"""A pipeline of models that follow their sources, against the same one written by hand as dbt's incremental models.

Both are dbt projects in `pipelines`: facts and customers as change events tell them, a join of the two, and sums of the
join by few groups. Hand-written models merge what is newer than the newest row that they have. They run on the same
adapter, and Iceberg merges as it is told to: by writing files anew, which is its default, or with deletion vectors.
They never see that a row is gone, so the rows that are wrong after the last batch are counted too, and those that
`arctic audit` names.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arctic_runtime.spark.engine.statement import fill_statement
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.batches import EVENTS, LANDING, land
from benchmarks.dbt_runs import PROJECTS, run_dbt, schema_of, write_profile
from benchmarks.lake import NAMESPACE, Lake, differing, lake
from benchmarks.measure import Measurement, ratio
from benchmarks.upsert import BASELINES
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.commands import audit

OURS = "ours"

_NOW = """select * except (place) from (
    select *, row_number() over (partition by {key} order by lsn desc) as place from {events}
) where place = 1 and op <> 'd'"""
_JOINED = """select f.id, f.customer_id, f.grp, f.amount, f.note, coalesce(c.city, 'unknown') as city, c.grade,
    greatest(f.updated_at, c.updated_at) as updated_at
from facts f left join customers c on c.customer_id = f.customer_id"""
_SUMS = "select city, grp, count(*) as facts, sum(amount) as total from dwd_facts group by city, grp"


@dataclass
class Way:
    """One way to run the pipeline: its project and target, and what was seen of each batch.

    `taken` are the seconds of all models together, and `models` those of each with what was said of it, as dbt tells.
    A hand-written target is called after the write mode that its tables have.
    """

    name: str
    project: Path
    target: str
    taken: list[float] = field(default_factory=list)
    models: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def schema(self) -> str:
        return schema_of(self.target)


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The seconds of each hand-written pipeline divided by ours, the wrong rows after the last batch, and audits.

    An audit is measured by the part of the wrong rows that it names, and by the files that it writes.
    """
    ways = [Way(OURS, PROJECTS / "arctic", "arctic")]
    ways += [Way(name, PROJECTS / "merge", mode) for name, mode in BASELINES.items()]
    with lake(rows) as bench:
        bench.reader.create_namespace(LANDING)
        folder = write_profile(bench, "pipelines", [way.target for way in ways])
        for turn in range(rounds + 2):
            land(bench, turn)
            for way in ways:
                _follow(way, folder, turn)
        wrong = _wrong_rows(bench, ways)
        audits = [_audit_way(bench, way, folder, wrong[way.name]) for way in ways if way.name != OURS]
    return [*_measurements(ways, wrong), *(measurement for measurements in audits for measurement in measurements)]


def _audit_way(bench: Lake, way: Way, folder: Path, wrong: Mapping[str, int]) -> list[Measurement]:
    """The rows that an audit of a hand-written pipeline names; those of a stale key are two, as in the count of all."""
    warehouse = Path(bench.reader.profile.catalog_properties["warehouse"])
    command = ["audit", "--project-dir", str(way.project), "--profiles-dir", str(folder), "--target", way.target]
    options = build_parser().parse_args([*command, "--json", "--exclude-column", "dws_sums.updated_at"])
    before, began = _list_files(warehouse), time.perf_counter()
    answer = audit.perform_command(options)
    taken = time.perf_counter() - began
    written = len(set(_list_files(warehouse).items()) ^ set(before.items()))
    models = {model["name"]: model for model in answer.data["models"]}
    named = {table: sum(map(_named_rows, models[table]["differences"])) for table in wrong}
    detail = {
        "named": named,
        "seconds": round(taken, 1),
        "summary": answer.data["summary"],
        "causes": {
            name: [(one["kind"], one["cause"], one["rows"]) for one in model["differences"]]
            for name, model in models.items()
        },
    }
    print(f"  {way.name}: audit: {taken:.2f} s, {sum(named.values()):,} rows named", flush=True)
    part = sum(named.values()) / max(sum(wrong.values()), 1)
    return [
        Measurement(f"pipeline: rows named / wrong, {way.name}", part, "x", 1.0, True, detail),
        Measurement(f"pipeline: files written by an audit, {way.name}", written, "", 0, False),
    ]


def _named_rows(difference: Mapping[str, Any]) -> int:
    return int(difference["rows"]) * (2 if difference["kind"] == "stale" else 1)


def _list_files(warehouse: Path) -> dict[Path, int]:
    """The files below a warehouse with the times of their last change, without those of an open SQLite database."""
    files = (file for file in warehouse.rglob("*") if file.is_file() and not file.name.endswith(("-wal", "-shm")))
    return {file: file.stat().st_mtime_ns for file in files}


def _follow(way: Way, folder: Path, turn: int) -> None:
    """One `dbt run`; the first builds the tables and the second warms up, and neither is counted."""
    results = run_dbt("run", way.project, folder, way.target)
    taken = sum(result["execution_time"] for result in results)
    title = f"round {turn - 1}" if turn > 1 else ("warm-up" if turn else "first load")
    print(f"  {title}: {way.name}: {taken:.2f} s", flush=True)
    if turn > 1:
        way.taken.append(taken)
        way.models.append({result["unique_id"].rsplit(".", 1)[1]: _shown(result) for result in results})


def _shown(result: Mapping[str, Any]) -> str:
    return f"{result['execution_time']:.2f} s {result['adapter_response'].get('_message', '')}"


def _wrong_rows(bench: Lake, ways: Sequence[Way]) -> dict[str, dict[str, int]]:
    """By way and table, the rows that it has and the query over the newest events has not, and the other way round."""
    _write_truth(bench)
    return {way.name: {table: _wrong(bench, way, table) for table in ("dwd_facts", "dws_sums")} for way in ways}


def _write_truth(bench: Lake) -> None:
    """The two queries in full, over rows that the events alone tell."""
    spark = bench.spark
    for item, key in (("facts", "id"), ("customers", "customer_id")):
        newest = fill_statement(_NOW, key=quoted(key), events=quoted(*EVENTS[item].parts))
        spark.sql(newest).createOrReplaceTempView(item)
    for table, query in (("dwd_facts", _JOINED), ("dws_sums", _SUMS)):
        right = quoted("lake", NAMESPACE, table)
        spark.sql(query).writeTo(right).using("iceberg").create()
        spark.table(right).createOrReplaceTempView(table)


def _wrong(bench: Lake, way: Way, table: str) -> int:
    right = bench.spark.table(quoted("lake", NAMESPACE, table))
    kept = bench.spark.table(quoted("lake", way.schema, table))
    differences = differing(right, kept.select(*right.columns))
    print(f"  {way.name}: {table}: {differences:,} wrong rows", flush=True)
    return differences


def _measurements(ways: Sequence[Way], wrong: Mapping[str, Mapping[str, int]]) -> list[Measurement]:
    times = {way.name: way.taken for way in ways}
    detail = {way.name: {"seconds": [round(one, 2) for one in way.taken], "models": way.models} for way in ways}
    faster = [
        Measurement(f"pipeline: {name} / ours", ratio(times, name, OURS), "x", 1.0, True, detail) for name in BASELINES
    ]
    rows = [
        Measurement(f"pipeline: wrong rows, {name}", sum(value.values()), "", 0 if name == OURS else None, False, value)
        for name, value in wrong.items()
    ]
    return faster + rows
