"""One row by its key, read without Spark from tables that Spark has written, merged and deleted from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.lookup import lookup
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, region string, v int"


def put(lake: Warehouse, model: Model, rows: dict[int, tuple[int, str, int]]) -> None:
    lake.load("s", list(rows.values()), COLUMNS)
    lake.run(model)


def test_a_lookup_finds_every_row_as_the_table_has_it_and_opens_one_file_per_merge(lake: Warehouse) -> None:
    """The base has deletion vectors, of which two stand in one file."""
    model = lake.model("m", "select id, region, v from {s}", primary_key="id", partition_by=["region"])
    rows = {i: (i, "eu" if i % 2 else "us", i) for i in range(40)}
    put(lake, model, rows)
    rows |= {3: (3, "eu", 300), 4: (4, "eu", 4)}
    del rows[7]
    put(lake, model, rows)
    rows |= {3: (3, "us", 301), 50: (50, "eu", 50)}
    del rows[8]
    put(lake, model, rows)
    for key in (0, 3, 4, 7, 8, 39, 50, 99):
        found = lookup(lake.reader, model, [str(key)])
        expected = dict(zip(("id", "region", "v"), rows[key], strict=True)) if key in rows else None
        assert found.row == expected, key
        assert found.files_opened <= 2 * 3
    assert lookup(lake.reader, model, ["99"]).files_opened == 0
    assert lookup(lake.reader, model, ["39"]).files_opened == 1


@pytest.mark.slow
def test_a_lookup_reads_keys_whose_type_has_grown_since(lake: Warehouse) -> None:
    lake.append("s", [(1, 1), (2, 2)], "id int, v int")
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read")
    lake.run(model)
    lake.append("s", [(2, 20), (3, 30)], "id int, v int")
    wide = lake.model(
        "m",
        "select cast(id as bigint) as id, cast(max(v) as bigint) as v from {s} group by id",
        primary_key="id",
        merge="on_read",
    )
    lake.run(wide)
    assert lookup(lake.reader, wide, ["1"]).row == {"id": 1, "v": 1}
    assert lookup(lake.reader, wide, ["2"]).row == {"id": 2, "v": 20}
    assert lookup(lake.reader, wide, [str(2**40)]).row is None
