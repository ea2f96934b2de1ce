"""A folder of SQL files as a manifest: keys in comments, schemas from folders, and errors with file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.manifest_models import ManifestModels
from arctic_runtime.manifest.manifest_project import ManifestProject
from arctic_runtime.manifest.model_files import SqlFolder
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.manifest.selection import select_models
from arctic_runtime.manifest.sql_files import read_sql_folder
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile
from dbt.adapters.arctic import cli

PAGE = Path(__file__).parents[3] / "docs" / "sql-files.md"
ORDERS = """-- every order with its customer
-- arctic:
--   primary_key: order_id
--   partition_by: [days(ordered_at)]
--   merge: on_read
-- names are those of today
with names as (select customer_id, name from ods.customers)
select o.order_id, o.ordered_at, n.name, 'ods.orders' as origin from ods.orders o left join names n using (customer_id)
"""
EVENTS = "-- arctic: {primary_key: order_id, input: changes, sequence_by: lsn}\nselect * from Changes( ods.events ) e\n"
TOTALS = "-- arctic: {primary_key: name}\n\nselect name, count(*) as n from dwd.Orders group by name;\n"
SHOP = {"dwd/orders.sql": ORDERS, "dwd/events.sql": EVENTS, "dws/totals.sql": TOTALS}


def write_files(tmp_path: Path, files: Mapping[str, str]) -> Path:
    folder = tmp_path / "shop" / "models"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def load(tmp_path: Path, files: Mapping[str, str] = SHOP, **schemas: str) -> ManifestModels:
    target = ManifestTarget(Profile.for_embedded(tmp_path / "warehouse"), schemas=schemas)
    return ManifestModels(read_sql_folder(write_files(tmp_path, files)), target)


def test_the_folder_of_a_file_is_its_schema_and_its_comment_has_the_keys(tmp_path: Path) -> None:
    orders = load(tmp_path).build_model("model.dwd.orders")
    assert orders.table == TableName("lake", "dwd", "orders")
    assert (orders.config.primary_key, orders.config.merge) == (("order_id",), "on_read")
    assert len(orders.config.partition_by) == 1


def test_names_of_tables_get_the_catalog_and_the_mapped_schema_and_texts_and_ctes_stay(tmp_path: Path) -> None:
    orders = load(tmp_path, ods="raw").build_model("model.dwd.orders")
    assert orders.sql == (
        "-- names are those of today\n"
        "with names as (select customer_id, name from `lake`.`raw`.`customers`)\n"
        "select o.order_id, o.ordered_at, n.name, 'ods.orders' as origin "
        "from `lake`.`raw`.`orders` o left join names n using (customer_id)"
    )


def test_tables_of_the_folder_are_models_in_any_case_and_others_are_sources(tmp_path: Path) -> None:
    models = load(tmp_path)
    assert models.manifest.nodes["model.dws.totals"]["depends_on"]["nodes"] == ["model.dwd.orders"]
    assert models.build_model("model.dws.totals").sql == (
        "select name, count(*) as n from `lake`.`dwd`.`orders` group by name"
    )
    sources = sorted(name for name in models.manifest.nodes if name.startswith("source."))
    assert sources == ["source.ods.customers", "source.ods.events", "source.ods.orders"]
    assert models.build_followed("model.dws.totals").declared == {TableName("lake", "dwd", "orders")}


def test_a_call_of_changes_reads_the_new_rows_of_its_table(tmp_path: Path) -> None:
    events = load(tmp_path).build_model("model.dwd.events")
    assert events.sql == "select * from `changes(lake.ods.events)` e"
    assert events.config.input == "changes"


def test_the_files_of_the_documentation_are_models(tmp_path: Path) -> None:
    files = dict(re.findall(r"^`models/(\S+)`\n\n```sql\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    models = load(tmp_path, files)
    orders, customers = sorted(models.manifest.list_managed())
    assert models.build_model(orders).config.merge == "on_read"
    assert models.manifest.nodes[customers]["depends_on"]["nodes"] == [orders]


def test_models_are_selected_by_name_schema_and_graph(tmp_path: Path) -> None:
    manifest = load(tmp_path).manifest
    assert select_models(manifest, ["orders+"], []) == ["model.dwd.orders", "model.dws.totals"]
    assert select_models(manifest, ["dwd"], ["events"]) == ["model.dwd.orders"]


def test_an_edited_file_is_read_again_and_a_broken_one_leaves_the_models(tmp_path: Path) -> None:
    folder, warned = write_files(tmp_path, SHOP), list[str]()
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.sql").write_text("no model")
    target = ManifestTarget(Profile.for_embedded(tmp_path / "warehouse"))
    project = ManifestProject(SqlFolder(folder), target, warn=warned.append)
    assert (project.name, project.has_changed(), warned) == ("shop", False, [])
    before = project.list_followed()
    (folder / "dws" / "totals.sql").write_text(TOTALS + "select 1")
    assert project.has_changed()
    assert project.load_models() is None
    assert project.list_followed() == before
    assert f"{folder}/dws/totals.sql:2" in warned[0]
    (folder / "dws" / "totals.sql").unlink()
    assert project.has_changed()
    assert [model.table.name for model in project.load_models() or ()] == ["events", "orders"]
    (folder / "dwd" / "orders.sql").write_text(EVENTS)
    os.utime(folder / "dwd" / "orders.sql", (1, 1))
    assert project.has_changed()


KEY = "-- arctic: {primary_key: id}\n"


@pytest.mark.parametrize(
    ("files", "place", "message"),
    [
        ({"dwd/a.sql": "-- a table\nselect 1 as id"}, "dwd/a.sql:1", "no keys before its query"),
        ({"dwd/a.sql": "select 1 as id\n" + KEY}, "dwd/a.sql:1", "no keys before its query"),
        ({"dwd/a.sql": "-- arctic:\n--   merge: on_read\n--   primary_kee: id\n"}, "dwd/a.sql:3", "primary_key"),
        ({"dwd/a.sql": "--\n-- arctic: {merge: on_read}\nselect 1"}, "dwd/a.sql:2", "`primary_key` is missing"),
        ({"dwd/a.sql": "-- arctic: {primary_key: id, merge: on_red}\nselect 1"}, "dwd/a.sql:1", "on_read"),
        ({"dwd/a.sql": "-- arctic:\n--   primary_key: [id\nselect 1"}, "dwd/a.sql:2", "no YAML"),
        ({"dwd/a.sql": "-- arctic: id\nselect 1"}, "dwd/a.sql:1", "no mapping"),
        ({"dwd/a.sql": KEY + "\nselect id\nfrom (select"}, "dwd/a.sql:4", "can't be parsed"),
        ({"dwd/a.sql": KEY + "select 1; select 2"}, "dwd/a.sql:2", "no single query"),
        ({"dwd/a.sql": KEY + "drop table ods.b"}, "dwd/a.sql:2", "no single query"),
        ({"dwd/a.sql": KEY}, "dwd/a.sql:2", "no single query"),
        ({"dwd/a.sql": KEY + "select id\nfrom orders"}, "dwd/a.sql:3", "`orders` has no schema"),
        ({"dwd/a.sql": KEY + "select id\nfrom changes('ods.b')"}, "dwd/a.sql:2", "call of `changes`"),
        ({"dwd/a.sql": KEY + "select id\nfrom dwd.a"}, "dwd/a.sql:3", "in a circle"),
        (
            {"dwd/a.sql": KEY + "select id from dwd.b", "dwd/b.sql": KEY + "select id\nfrom DWD.A"},
            "dwd/b.sql:3",
            "in a circle",
        ),
        ({"dwd/a.sql": KEY + "select 1", "dwd/A.sql": KEY + "select 1"}, "dwd/a.sql", "Two files are the table"),
        ({"a.sql": KEY + "select 1"}, "a.sql", "in no folder of a schema"),
        ({"dwd/x/a.sql": KEY + "select 1"}, "dwd/x/a.sql", "in no folder of a schema"),
        ({"dwd/a.txt": KEY}, "models", "There is no model"),
    ],
)
def test_a_file_that_can_not_be_used_is_an_error_with_its_place(
    files: Mapping[str, str], place: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        read_sql_folder(write_files(tmp_path, files))
    assert message in str(raised.value)
    assert str(tmp_path / "shop" / "models" / place).removesuffix("models/models") in str(raised.value.where)


def test_operations_work_on_the_files_and_a_state_and_a_target_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(tmp_path, SHOP)
    monkeypatch.chdir(folder.parent)
    Path("profile.yml").write_text("warehouse: ./warehouse\nkeep_alive: 0\n")
    Path("warehouse").mkdir()
    assert cli.main(["status", "--sql", "models"]) == 0
    assert "lake.dws.totals" in capsys.readouterr().out
    assert cli.main(["status", "--sql", "models", "--target", "prod"]) == 2
    assert cli.main(["preview", "--sql", "models", "--state", "."]) == 2
    errors = capsys.readouterr().err
    assert "--target means nothing with --sql" in errors
    assert "--state needs manifests" in errors
