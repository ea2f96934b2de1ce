"""What was declared of a table's rows: read as it was written, and never older after newer."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.declared import WHOLE, Declared, Part, describe_part, read_part
from arctic_runtime.model.table import Model, ModelConfig, Transform

EU: Part = (("region", "eu"), ("day", "2026-01-02"))
US: Part = (("region", "us"), ("day", "2026-01-02"))
PARTITIONED = (Transform("identity", "region"), Transform("months", "e"), Transform("identity", "day"))


def a_model(*partition_by: Transform) -> Model:
    return Model(TableName("lake", "ods", "orders"), "", ModelConfig(("id",), partition_by=partition_by))


def test_a_declaration_of_all_rows_replaces_those_of_partitions() -> None:
    both = Declared().add_declaration(EU, "10").add_declaration(US, "5")
    assert both.points == {EU: "10", US: "5"}
    assert (both.list_earlier_positions(EU), both.list_earlier_positions(US)) == (("10",), ("5",))
    assert sorted(both.list_earlier_positions(WHOLE)) == ["10", "5"]
    again = both.add_declaration(EU, "20")
    assert again.points == {EU: "20", US: "5"}
    whole = again.add_declaration(WHOLE, "30")
    assert whole.points == {WHOLE: "30"}
    assert whole.list_earlier_positions(EU) == ("30",)
    assert whole.add_declaration(EU, "31").points == {WHOLE: "30", EU: "31"}
    assert sorted(whole.add_declaration(EU, "31").list_earlier_positions(EU)) == ["30", "31"]


def test_it_is_described_in_words() -> None:
    assert Declared({WHOLE: "3"}).describe_declarations() == "all rows as of 3"
    assert Declared({EU: "3"}).describe_declarations() == "region = eu and day = 2026-01-02 as of 3"
    assert describe_part(US) == "region = us and day = 2026-01-02"


def test_a_partition_is_named_by_all_columns_that_stand_by_themselves() -> None:
    model = a_model(*PARTITIONED)
    assert read_part(model, {"DAY": "2026-01-02", "region": "eu"}) == EU
    assert read_part(model, {}) == WHOLE
    for values in ({"region": "eu"}, {"region": "eu", "e": "1"}, {"region": "eu", "day": "x", "v": "1"}):
        with pytest.raises(ConfigError, match="expected: a value for each of region, day"):
            read_part(model, values)
    with pytest.raises(ConfigError, match="expected: a value for each of no column"):
        read_part(a_model(Transform("months", "e")), {"e": "1"})
