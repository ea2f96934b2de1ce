"""The sample's models: Spark reads them, their YAML is true, and their figures are those of the data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
import sqlglot
import yaml
from jinja2 import Environment, StrictUndefined
from sqlglot import exp

from arctic_runtime.ivm.algebra.tree import list_scans
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.strategies.maintain import plan_maintenance
from arctic_runtime.model.columns import Column
from sample_project.loader import FIRST_DAY, events_of, opening_of
from sample_project.loader.original import original

PROJECT = Path(__file__).parents[3] / "sample_project"
ODS = ("ods_flights", "ods_planes", "ods_airports", "ods_weather")
ABOVE = (
    "dwd_flights",
    "dws_delay_by_carrier_day",
    "dws_plane_use_by_route_month",
    "dws_airport_hour_weather",
)
MODELS = (*ODS, *ABOVE)
COMPLETE_DAYS = 4  # of the seven that are loaded: the last news of a flight may be of the third day after


@cache
def rendered(name: str) -> tuple[str, dict[str, Any]]:
    """A model's SQL, sources and refs by their plain names, and its configuration."""
    (file,) = (PROJECT / "models").rglob(f"{name}.sql")
    settings: dict[str, Any] = {}
    context = {
        "config": lambda **values: settings.update(values) or "",
        "ref": lambda model: model,
        "source": lambda schema, table: f"{schema}.{table}",
        "changes": lambda relation: relation,
    }
    return Environment(undefined=StrictUndefined).from_string(file.read_text()).render(context), settings


def select_of(name: str) -> exp.Select:
    tree = sqlglot.parse_one(rendered(name)[0], dialect="spark")
    assert isinstance(tree, exp.Select)
    return tree


def key_of(name: str) -> list[str]:
    key = rendered(name)[1]["primary_key"]
    return [key] if isinstance(key, str) else list(key)


@pytest.fixture(scope="module")
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """The layers over seven days, in DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("create schema landing")
        for name, opening in _events().items():
            connection.register("incoming", opening)
            connection.execute(f"create table landing.{name} as from incoming")
        connection.register("airlines", pa.csv.read_csv(PROJECT / "seeds" / "airlines.csv"))
        connection.register("original", original().flights)
        for name in MODELS:
            connection.execute(f"create table {name} as {_in_duckdb(name)}")
        yield connection


def _events() -> dict[str, pa.Table]:
    parts = [opening_of(FIRST_DAY), *(events_of(FIRST_DAY + timedelta(days=n)) for n in range(7))]
    names = ("flight_events", "plane_events", "airport_events", "weather_events")
    return {name: pa.concat_tables([part[name] for part in parts if name in part]) for name in names}


def _in_duckdb(name: str) -> str:
    sql = select_of(name).sql(dialect="duckdb")
    if name not in ODS:
        return sql
    newest = f"row_number() over (partition by {', '.join(key_of(name))} order by lsn desc) = 1"
    return f"select * exclude (op, lsn) from (from ({sql}) qualify {newest}) where op <> 'd'"


@pytest.mark.parametrize("name", MODELS)
def test_keys_are_unique_and_never_null(name: str, warehouse: duckdb.DuckDBPyConnection) -> None:
    key = ", ".join(key_of(name))
    nulls = " or ".join(f"{column} is null" for column in key_of(name))
    row = warehouse.execute(
        f"select count(*), count(distinct ({key})), count(*) filter ({nulls}) from {name}"
    ).fetchone()
    assert row is not None
    assert row[0] == row[1] > 0
    assert row[2] == 0


@pytest.mark.parametrize("name", MODELS)
def test_keys_and_layout_are_columns_of_the_query(name: str) -> None:
    settings = rendered(name)[1]
    layout = [*key_of(name), *settings.get("sort_key", []), *settings.get("exclude_columns", [])]
    transforms = [sqlglot.parse_one(text).find(exp.Column) for text in settings.get("partition_by", [])]
    assert {*layout, *(column.name for column in transforms if column)} <= set(select_of(name).named_selects)


def test_all_models_and_their_columns_are_described() -> None:
    described = {}
    for file in (PROJECT / "models").rglob("*.yml"):
        for model in yaml.safe_load(file.read_text()).get("models", []):
            assert model["description"]
            assert all(column["description"] for column in model["columns"])
            described[model["name"]] = {column["name"] for column in model["columns"]}
    assert sorted(described) == sorted(MODELS)
    for name, columns in described.items():
        assert columns <= set(select_of(name).named_selects), name


def test_ods_models_take_the_newest_image_of_each_row() -> None:
    for name in ODS:
        settings = rendered(name)[1]
        assert (settings["input"], settings["sequence_by"], settings["merge"]) == (
            "changes",
            "lsn",
            "on_read",
        )
        assert settings["delete_when"] == "op = 'd'"


@pytest.mark.parametrize("name", ABOVE)
def test_models_above_the_events_follow_any_change(name: str, warehouse: duckdb.DuckDBPyConnection) -> None:
    relations = {f"lake.shop.{read}": _relation(read, warehouse) for read in ("airlines", *MODELS)}
    analysed = analyse_query(rendered(name)[0], relations, {}, "lake", "shop")
    made = dict(analysed.outputs)
    key = tuple(made[column] for column in key_of(name))
    sources = {scan.source for scan in list_scans(analysed.tree)}
    assert sources
    for changed in (*(frozenset({source}) for source in sources), frozenset(sources)):
        trees = vars(plan_maintenance(analysed.tree, key, changed)).values()
        assert changed <= {scan.source for tree in trees for scan in list_scans(tree)} <= sources


def _relation(name: str, warehouse: duckdb.DuckDBPyConnection) -> Relation:
    described = warehouse.execute(f"describe {name}").fetchall()
    columns = (Column(row[0], exp.DataType.build(row[1], dialect="duckdb").sql("spark")) for row in described)
    return Relation(tuple(columns), tuple(key_of(name)) if name in MODELS else None)


def test_a_flight_finds_its_plane_airports_and_weather(warehouse: duckdb.DuckDBPyConnection) -> None:
    row = warehouse.execute(
        """select count(*) = (select count(*) from ods_flights), count(carrier_name) = count(*),
                  count(origin_name) = count(*), count(plane_owner) / count(*) > 0.8,
                  count(dest_name) / count(*) > 0.9, count(temp_f) / count(*) > 0.9 from dwd_flights"""
    ).fetchone()
    assert row == (True,) * 6


def test_delays_by_carrier_and_day_are_those_of_the_data(warehouse: duckdb.DuckDBPyConnection) -> None:
    last = FIRST_DAY + timedelta(days=COMPLETE_DAYS - 1)
    ours = """select carrier, flight_date, flights, departures, arrivals, late_arrivals::bigint,
                     dep_delay_minutes::bigint, arr_delay_minutes::bigint, average_arr_delay_minutes
              from dws_delay_by_carrier_day where flight_date <= $last"""
    real = """select carrier, make_date(year, month, day) as d, count(*), count(dep_time), count(arr_time),
                     count(*) filter (arr_delay > 15), coalesce(sum(dep_delay), 0)::bigint,
                     coalesce(sum(arr_delay), 0)::bigint, avg(arr_delay)
              from original where d <= $last and dep_time is not null group by carrier, d"""
    assert _sorted(warehouse, ours, last) == _sorted(warehouse, real, last)


def test_plane_use_counts_each_departure_with_a_known_plane_once(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    row = warehouse.execute(
        """with flown as (from dwd_flights where departed_at is not null and tailnum is not null)
           select sum(departures), sum(distance_miles),
                  (select count(*) from flown), (select sum(distance_miles) from flown)
           from dws_plane_use_by_route_month"""
    ).fetchone()
    assert row is not None
    assert row[:2] == row[2:]


def test_each_observed_hour_has_its_departures(warehouse: duckdb.DuckDBPyConnection) -> None:
    last = FIRST_DAY + timedelta(days=COMPLETE_DAYS - 1)
    ours = """select h.origin, h.observed_hour, h.departures, h.dep_delay_minutes::bigint
              from dws_airport_hour_weather h join ods_weather using (origin, observed_hour)
              where h.flights > 0 and h.observed_hour < $last"""
    real = """select origin, time_hour, count(*), sum(dep_delay)::bigint from original o
              where dep_time is not null and time_hour < $last
                and exists (from ods_weather w where w.origin = o.origin and w.observed_hour = o.time_hour)
              group by origin, time_hour"""
    assert _sorted(warehouse, ours, last) == _sorted(warehouse, real, last)


def _sorted(connection: duckdb.DuckDBPyConnection, query: str, last: date) -> list[tuple[Any, ...]]:
    rows = sorted(connection.execute(query, {"last": last}).fetchall(), key=lambda row: row[:2])
    assert rows
    return rows


@pytest.mark.parametrize("file", sorted((PROJECT / "tests").glob("*.sql")), ids=lambda file: file.stem)
def test_singular_tests_find_nothing(file: Path, warehouse: duckdb.DuckDBPyConnection) -> None:
    sql = Environment().from_string(file.read_text()).render(ref=lambda model: model)
    query = sqlglot.parse_one(sql, dialect="spark").sql(dialect="duckdb")
    assert warehouse.execute(query).fetchall() == []


def test_the_seed_is_the_original_table() -> None:
    airlines = pa.csv.read_csv(PROJECT / "seeds" / "airlines.csv")
    assert set(original().flights["carrier"].unique().to_pylist()) == set(airlines["carrier"].to_pylist())
