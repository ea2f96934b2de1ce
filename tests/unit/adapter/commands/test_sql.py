"""`arctic sql` on the command line: names of the project, formats, limits, and what Spark is not asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from arctic_runtime.manifest.project_graph import ProjectGraph, ProjectNode
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from dbt.adapters.arctic import cli
from dbt.adapters.arctic.project.cache import known_project
from dbt.adapters.arctic.project.project_tables import CompiledProject

FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "note", StringType()),
    NestedField(3, "amount", DecimalType(6, 2)),
)
TABLE = TableName("lake", "dwd", "orders_v1")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, writing, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = writing.warehouse(tmp_path)
    for name in ("orders_v1", "orders_v1__changes", "orders_v1__totals", "secrets", "secrets__snapshot"):
        table = warehouse.create(name, FIELDS)
        rows = [{"id": i, "note": "a\x1b[2Jb" if i == 1 else None, "amount": i} for i in range(150)]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    nodes = [
        ProjectNode("model.shop.orders", TABLE),
        ProjectNode("source.shop.raw.secrets", TableName("lake", "dwd", "secrets"), masks={"note": True}),
    ]
    models = (Model(TABLE, "", ModelConfig(("id",), hash_key="id")),)
    project = CompiledProject(warehouse.profile, models, graph=ProjectGraph(nodes))
    monkeypatch.setattr(known_project, "load_known_project", lambda *_: project)


def test_a_model_is_named_by_its_name_or_its_table_and_a_table_by_its_schema(capsys) -> None:
    for name in ("orders", "orders_v1", "orders_v1__changes", "dwd.orders_v1", "lake.dwd.orders_v1"):
        assert cli.main(["sql", f"select id, note, amount from {name} where id = 1"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "id  note       amount",
            "--  ---------  ------",
            " 1  a\\x1b[2Jb    1.00",
        ]


def test_a_name_that_the_project_does_not_have_is_an_error_with_the_nearest_one(capsys) -> None:
    assert cli.main(["sql", "select * from ordres"]) == 2
    assert "did you mean 'orders'" in capsys.readouterr().err


def test_a_table_for_people_has_a_hundred_rows_and_says_that_there_are_more(capsys) -> None:
    assert cli.main(["sql", "select id from orders order by id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 103
    assert lines[-1] == "(100 rows shown, and there are more: --limit N)"
    assert cli.main(["sql", "select id from orders", "--limit", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert cli.main(["sql", "select id from orders limit 100"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 102


def test_rows_are_written_in_each_format(capsys, tmp_path: Path) -> None:
    query = "select id, amount from orders where id < 2 order by id"
    assert cli.main(["sql", query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == '"id","amount"\n0,0.00\n1,1.00\n'
    assert cli.main(["sql", query, "--format", "json"]) == 0
    assert capsys.readouterr().out == '{"id":0,"amount":"0.00"}\n{"id":1,"amount":"1.00"}\n'
    assert cli.main(["sql", query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"id": 0, "amount": "0.00"}, {"id": 1, "amount": "1.00"}]
    for name, read in (("parquet", pq.read_table), ("arrow", lambda file: pa.ipc.open_stream(file).read_all())):
        file = tmp_path / f"rows.{name}"
        assert cli.main(["sql", query, "--format", name, "--output", str(file)]) == 0
        assert read(str(file) if name == "parquet" else file.read_bytes()).column("id").to_pylist() == [0, 1]


def test_a_query_that_fails_leaves_no_file(capsys, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for divisor in (1, 149):
        query = f"select a.id div (a.id - {divisor}) v from orders a cross join orders b cross join orders c"
        assert cli.main(["sql", query, "--format", "csv", "--output", str(file)]) == 2
        assert "division by zero" in capsys.readouterr().err
    assert not list(tmp_path.glob("*rows*"))


def test_a_file_needs_a_format_and_two_formats_exclude_each_other(capsys) -> None:
    assert cli.main(["sql", "select 1", "--output", "rows.csv"]) == 2
    assert "needs a format" in capsys.readouterr().err
    assert cli.main(["sql", "select 1", "--json", "--format", "csv"]) == 2


def test_masks_of_the_project_hide_values_and_spark_is_not_asked_for_them(capsys) -> None:
    assert cli.main(["sql", "select count(distinct note) n, min(note) m from dwd.secrets", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["n"] == 1
    assert row["m"].startswith("masked:")
    assert cli.main(["sql", "select min(note) m from dwd.secrets__snapshot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"m": row["m"]}]
    assert cli.main(["sql", "select note, id from orders_v1__totals where note is not null", "--json"]) == 0
    assert [value.partition(":")[0] for value in json.loads(capsys.readouterr().out)[0].values()] == ["masked"] * 2
    assert cli.main(["sql", "select note from dwd.secrets", "--engine", "spark"]) == 2
    assert "does not mask columns" in capsys.readouterr().err
