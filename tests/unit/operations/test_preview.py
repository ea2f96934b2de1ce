"""`arctic preview` on a warehouse of three models, one below the other; nothing here starts Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.types import LongType, NestedField, StringType

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.model.version import Version
from arctic_runtime.operations.operation import Answer, OperationContext
from arctic_runtime.operations.preview import PREVIEW
from arctic_runtime.operations.preview_report import format_bytes
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.refresh import decide
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.refresh_planner import RefreshPlanner

ROWS = 400
COUNTED = (NestedField(1, "note", StringType(), required=False), NestedField(2, "n", LongType(), required=False))


def table(name: str, schema: str = "dwd") -> TableName:
    return TableName("lake", schema, name)


def a_model(name: str, sql: str, key: str = "id", **config: Any) -> Model:
    return Model(table(name), sql, read_configuration({"primary_key": key, **config}, name))


ORDERS = a_model("orders", "select id, note from `lake`.`dwd`.`landed`")
COPIES = a_model("copies", "select id, note from `lake`.`dwd`.`orders`")
NOTES = a_model("notes", "select note, count(*) as n from `lake`.`dwd`.`copies` group by note", key="note")
OTHER = a_model("other", "select id, note from `lake`.`dwd`.`landed` where id > 5")
MODELS = (ORDERS, COPIES, NOTES, OTHER)
EDITED = replace(ORDERS, sql="select id, upper(note) as note from `lake`.`dwd`.`landed`")
REFUSED = replace(ORDERS, config=read_configuration({"primary_key": "note"}, "orders"), sql=EDITED.sql)


@pytest.fixture(scope="module")
def made(writing: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All models are up to date. The runs took as long as was estimated, but for one of `orders`."""
    warehouse = writing.warehouse(tmp_path_factory.mktemp("preview"))
    warehouse.create("landed")
    landed = warehouse.append("landed", [(number, f"n{number % 10}") for number in range(ROWS)])
    versions = {"landed": landed}
    for model, up in ((ORDERS, "landed"), (COPIES, "orders"), (NOTES, "copies"), (OTHER, "landed")):
        versions[model.table.name] = build(writing, warehouse, model, {str(table(up)): versions[up]})
    return warehouse


def build(writing: Any, warehouse: Any, model: Model, read: Mapping[str, Version]) -> Version:
    name = model.table.name
    is_counted = model is NOTES
    key = model.config.primary_key[0]
    fields = [*COUNTED, *writing.changes[2:4]] if is_counted else writing.changes
    rows = [(f"n{n}", 40) for n in range(10)] if is_counted else [(n, f"n{n % 10}") for n in range(ROWS)]
    if is_counted:
        fields = [*COUNTED, *(replace_id(field, 10 + place) for place, field in enumerate(writing.changes[2:4]))]
    warehouse.create(f"{name}__changes", fields, arctic_kind="changes", arctic_primary_key=key)
    query = compute_fingerprint(model, RefreshPlanner(model, warehouse.reader).observe_upstreams())
    summary = {**writing.ran(read, "create", "FIRST_RUN"), "arctic_query": query}
    version: Version = warehouse.append(f"{name}__changes", [(*row, "insert") for row in rows], **summary)
    warehouse.create(name, COUNTED if is_counted else writing.changes[:2], arctic_kind="base", arctic_primary_key=key)
    warehouse.append(name, rows, **writing.merged_to(version))
    return version


def replace_id(field: NestedField, number: int) -> NestedField:
    return NestedField(number, field.name, field.field_type, required=False)


class Project:
    """Runs `arctic preview` on models; the fields are those of its context."""

    def __init__(self, warehouse: Any, models: Sequence[Model] = MODELS, **context: Any) -> None:
        self.context = OperationContext(warehouse.reader, refuse_spark, tuple(models), **context)

    def preview(self, *names: str, **given: Any) -> Answer:
        models = [model for model in self.context.models if not names or model.table.name in names]
        return PREVIEW.run_operation(self.context, models, PREVIEW.read_values(given))


def refuse_spark() -> Any:
    raise AssertionError("a preview starts no Spark")


def with_edit(edited: Model) -> tuple[Model, ...]:
    return tuple(edited if model.table == edited.table else model for model in MODELS)


def show_ways(answer: Answer) -> dict[str, tuple[str, str]]:
    return {model["table"].rpartition(".")[2]: (model["way"], model["reason"]) for model in answer.data["models"]}


def test_nothing_is_touched_without_an_edit(made: Any) -> None:
    answer = Project(made).preview()
    assert answer.lines == ("not touched: 4 models",)
    assert not answer.differs
    assert list(Project(made).preview(markdown=True).lines) == ["Not touched: 4 models."]


def test_an_edit_touches_its_model_and_all_that_read_it(made: Any) -> None:
    answer = Project(made, with_edit(EDITED)).preview()
    assert show_ways(answer) == {
        "orders": ("full", "QUERY_CHANGED"),
        "copies": ("incremental", "CHANGES"),
        "notes": ("incremental", "CHANGES"),
    }
    assert [model["is_edited"] for model in answer.data["models"]] == [True, False, False]
    assert [model["tables_below"] for model in answer.data["models"]] == [2, 1, 0]
    assert (answer.data["untouched"], answer.data["tables_below"], answer.data["total"]["models"]) == (1, 2, 3)
    assert json.loads(json.dumps(answer.data)) == answer.data


def test_an_edit_publishes_at_most_all_rows_and_groups_below_fewer(made: Any) -> None:
    rows = {
        model["table"].rpartition(".")[2]: [model["rows_written"][part] for part in ("low", "expected", "high")]
        for model in Project(made, with_edit(EDITED)).preview().data["models"]
    }
    assert rows["orders"] == [0, ROWS, ROWS]
    assert rows["copies"] == [0, ROWS, ROWS]
    assert rows["notes"][:2] == [0, pytest.approx(10)]


def test_rows_that_stay_as_they_are_are_named(made: Any) -> None:
    frozen = replace(EDITED, config=replace(EDITED.config, frozen_where="id = 7"))
    project = Project(made, with_edit(frozen))
    assert project.preview().lines[3] == "  keeps rows as they are where id = 7"
    assert "- **orders**: keeps rows as they are where id = 7" in project.preview(markdown=True).lines


def test_only_named_models_and_those_below_are_shown(made: Any) -> None:
    answer = Project(made, with_edit(EDITED)).preview("copies")
    assert show_ways(answer) == {"copies": ("nothing", "NOTHING_NEW")}
    assert set(show_ways(Project(made, with_edit(EDITED)).preview("orders"))) == {"orders", "copies", "notes"}


def test_many_changes_below_are_computed_in_full_as_the_planner_decides(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds = made.reader.thresholds
    few = replace(thresholds, incremental=replace(thresholds.incremental, always_incremental_rows=10))
    monkeypatch.setattr(type(made.reader), "thresholds", property(lambda _: few))
    ways = show_ways(Project(made, with_edit(EDITED)).preview())
    assert ways["copies"] == ("full", "COST")


def test_a_run_from_the_own_result_reads_no_source(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide_mode(planner: Any, state: Any, upstreams: Any, request: Any) -> Any:
        decision = decide.decide_refresh(planner.model, state, upstreams, request)
        is_own = decision.reason == "QUERY_CHANGED"
        return replace(decision, mode="incremental", reason="EDITED") if is_own else decision

    in_full = Project(made, with_edit(EDITED)).preview("orders").data["models"][0]
    monkeypatch.setattr(RefreshPlanner, "decide_mode", decide_mode)
    answer = Project(made, with_edit(EDITED)).preview("orders")
    own = answer.data["models"][0]
    assert own["way"] == "own result"
    assert own["bytes_read"]["expected"] < in_full["bytes_read"]["expected"]
    assert answer.lines[0] == "lake.dwd.orders: edited, from its own result (EDITED: the model's query, or a view " \
        "that it reads, changed)"  # fmt: skip


def test_a_run_that_will_be_refused_is_shown_with_the_error(made: Any) -> None:
    answer = Project(made, with_edit(REFUSED)).preview("orders")
    assert show_ways(answer)["orders"] == ("refused", "")
    assert answer.differs
    assert "its primary key can't be changed in place" in answer.lines[0]


def test_limits_that_are_exceeded_are_named_and_end_with_another_exit_code(made: Any) -> None:
    project = Project(made, with_edit(EDITED))
    over = project.preview(fail_on="models>2,rows>1e9".replace("1e9", "1000000"))
    assert over.differs
    assert over.data["breaches"] == ["models>2"]
    assert over.lines[-1] == "more than allowed: models>2"
    assert not project.preview(fail_on="bytes>1GB").differs


def test_an_edit_is_priced_by_the_tables_of_another_environment(made: Any) -> None:
    own = {model.table: table(model.table.name, "dev") for model in MODELS}
    names = {str(old): str(new) for old, new in own.items()}

    def move(model: Model) -> Model:
        sql = re.sub(
            r"`lake`\.`dwd`\.`(\w+)`",
            lambda found: found[0].replace("dwd", "dev") if f"lake.dwd.{found[1]}" in names else found[0],
            model.sql,
        )
        return replace(model, table=own[model.table], sql=sql)

    new = Model(table("fresh", "dev"), "select id from `lake`.`dev`.`orders`", ORDERS.config)
    models = [*map(move, with_edit(EDITED)), new]
    asked = []

    def find(state: str | None, target: str | None) -> Mapping[TableName, Counterpart]:
        asked.append((state, target))
        return {theirs: Counterpart(mine) for mine, theirs in own.items()}

    project = Project(made, models, find_counterparts=find)
    answer = project.preview(state="prod")
    assert asked == [("prod", None)]
    assert show_ways(answer) == {
        "orders": ("full", "QUERY_CHANGED"),
        "copies": ("incremental", "CHANGES"),
        "notes": ("incremental", "CHANGES"),
        "fresh": ("full", "FIRST_RUN"),
    }
    assert {model["table"].split(".")[1] for model in answer.data["models"]} == {"dwd", "dev"}
    same = Project(made, list(map(move, MODELS)), find_counterparts=find).preview(state="prod")
    assert same.lines == ("not touched: 4 models",)


def test_models_of_other_projects_are_readers(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from arctic_runtime.operations import preview_walk

    version = Version("uuid", 1, 1)
    monkeypatch.setattr(
        preview_walk, "list_foreign_offsets", lambda *_: {TableName("lake", "theirs", "m"): (version, 0)}
    )
    answer = Project(made, with_edit(EDITED)).preview()
    assert answer.data["readers_below"] == 1
    assert "changes may reach 2 tables and 1 model of other projects" in answer.lines


def test_an_ingested_table_has_no_run_to_preview(made: Any) -> None:
    ingested = Model(table("raw"), "", ORDERS.config, ingested_from="shop.raw")
    with pytest.raises(ConfigError, match=re.escape("lake.dwd.raw has no query")):
        Project(made, [*MODELS, ingested]).preview("raw")
    assert Project(made, [*MODELS, ingested]).preview().lines == ("not touched: 4 models",)


def test_markdown_has_a_row_for_each_touched_model_and_the_sums(made: Any) -> None:
    lines = Project(made, with_edit(EDITED)).preview(markdown=True).lines
    assert lines[0].startswith("| model | next run |")
    assert [line.split("|")[1:3] for line in lines[2:5]] == [
        [" **orders** ", " in full (QUERY\\_CHANGED) "],
        [" copies ", " incremental (CHANGES) "],
        [" notes ", " incremental (CHANGES) "],
    ]
    assert all(line.count("|") == lines[0].count("|") for line in lines[1:5])
    assert lines[6] == "- **orders**: the model's query, or a view that it reads, changed"
    assert lines[-1] == "Not touched: 1 model."


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 KB"),
        (1_234_000, "1.23 MB"),
        (56_780_000_000, "56.8 GB"),
        (9e17, "900 PB"),
    ],
)
def test_bytes_are_shown_with_three_digits(size: float, text: str) -> None:
    assert format_bytes(size) == text
