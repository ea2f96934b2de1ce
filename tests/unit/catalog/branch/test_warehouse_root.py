"""The folder in which the tables lie that are new on the branch of a catalog outside of a database."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog.branch.warehouse_root import adapt_scheme, choose_root, find_location, get_table_folder
from arctic_runtime.errors import ConfigError


@pytest.mark.parametrize(
    ("locations", "warehouse", "root"),
    [
        ({"dwd": "s3://b/w/dwd", "dws": "s3://b/w/dws/"}, "prod", "s3://b/w"),
        ({"dwd": "s3://b/w/dwd"}, "s3://other/x", "s3://b/w"),
        ({"dwd": "file:/w/dwd.db", "dws": "file:/w/dws.db"}, "file:///w", "file:///w"),
        ({"dwd": "s3://b/one/dwd", "dws": "s3://b/two/dws"}, "s3://b/", "s3://b"),
        ({"dwd": "s3://b/6f2c"}, "prod", "s3://b/6f2c"),
        ({}, "/w", "/w"),
    ],
)
def test_roots(locations: dict[str, str], warehouse: str, root: str) -> None:
    assert choose_root(locations, warehouse) == root


@pytest.mark.parametrize("locations", [{}, {"dwd": "s3://b/one/dwd", "dws": "s3://b/two/dws"}])
def test_no_root(locations: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="where new tables have to lie") as refused:
        choose_root(locations, "prod")
    assert refused.value.fix


@pytest.mark.parametrize(
    ("properties", "tables", "location"),
    [
        ({"location": "s3://b/dwd"}, {"t": "s3://c/x/t"}, "s3://b/dwd"),
        ({}, {"t": "s3://b/dwd/t", "u": "s3://b/dwd/u/"}, "s3://b/dwd"),
        ({}, {"t": "s3://b/dwd/t", "u": "s3://c/dwd/u"}, None),
        ({}, {"t": "s3://b/dwd/6f2c"}, None),
        ({}, {}, None),
    ],
)
def test_location_of_a_schema(properties: dict[str, str], tables: dict[str, str], location: str | None) -> None:
    assert find_location(properties, tables) == location


@pytest.mark.parametrize(
    ("root", "warehouse", "adapted"),
    [
        ("file:///w", "/w", "/w"),
        ("file:/w", "/w", "/w"),
        ("/w", "prod", "file:///w"),
        ("file:/w", "file:///w", "file:///w"),
        ("s3://b/w", "/w", "s3://b/w"),
    ],
)
def test_scheme_of_the_local_disk(root: str, warehouse: str, adapted: str) -> None:
    assert adapt_scheme(root, warehouse) == adapted


def test_folder_of_a_table() -> None:
    assert get_table_folder("s3://b/dwd/t/metadata/00001-a.metadata.json") == "s3://b/dwd/t"
