"""Python models: what their function may return, and how an error in it is told."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.arctic.materialize.pandas_frames import to_arrow, to_storable
from dbt.adapters.arctic.materialize.python_models import name_view, run_python_model, write_view_query

POSTFIX = """
class dbtObj:
    def __init__(self, load):
        self.ref = load
"""


def session(**tables: Any) -> Any:
    return SimpleNamespace(table=tables.__getitem__, createDataFrame=lambda rows: ("made of", rows))


def kind(module: str, **members: Any) -> Any:
    return type("DataFrame", (), {"__module__": module, **members})()


def test_a_frame_of_spark_is_taken_as_it_is() -> None:
    for module in ("pyspark.sql.classic.dataframe", "pyspark.sql.connect.dataframe"):
        frame = kind(module, createOrReplaceTempView=None)
        code = "def model(dbt, session):\n    return dbt.ref('up')\n" + POSTFIX
        assert run_python_model(code, "m", session(up=frame)) is frame


def test_a_frame_of_pandas_becomes_one_of_spark_by_arrow() -> None:
    made = []
    spark = SimpleNamespace(
        table={"up": pd.DataFrame({"id": pd.array([1, None], dtype="Int64")})}.__getitem__,
        createDataFrame=lambda rows, schema: made.append((rows, schema.simpleString())),
    )
    run_python_model("def model(dbt, session):\n    return dbt.ref('up')\n" + POSTFIX, "m", spark)
    ((rows, schema),) = made
    assert (rows.to_pylist(), schema) == ([{"id": 1}, {"id": None}], "struct<id:bigint>")


NESTED = [{"a": 1, "b": None}, None]
FRAMES: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "nullable integer": (pd.array([1, None], dtype="Int64"), pa.int64(), [1, None]),
    "integer objects": (pd.Series([1, None], dtype=object), pa.int64(), [1, None]),
    "objects with NA": (pd.Series([pd.NA, 2**53 + 1], dtype=object), pa.int64(), [None, 2**53 + 1]),
    "floats": ([1.5, float("nan")], pa.float64(), [1.5, None]),
    "infinity": ([float("inf"), -0.0], pa.float64(), [float("inf"), -0.0]),
    "strings": (pd.array(["NaN", None], dtype="string"), pa.large_string(), ["NaN", None]),
    "string objects": (pd.Series(["", float("nan")], dtype=object), pa.string(), ["", None]),
    "booleans": (pd.Series([True, None], dtype=object), pa.bool_(), [True, None]),
    "dates": (pd.Series([dt.date(2024, 2, 29), None], dtype=object), pa.date32(), [dt.date(2024, 2, 29), None]),
    "decimals": (pd.Series([Decimal("1.25"), None], dtype=object), pa.decimal128(38, 18), [Decimal("1.25"), None]),
    "long decimals": (pd.Series([Decimal(10**30), None], dtype=object), pa.decimal128(38, 0), [Decimal(10**30), None]),
    "unsigned": (np.array([1, 2**63], dtype="uint64"), pa.decimal128(20, 0), [Decimal(1), Decimal(2**63)]),
    "categories": (pd.Categorical(["x", None]), pa.string(), ["x", None]),
    "half floats": (np.array([1, 0.5], dtype="float16"), pa.float32(), [1.0, 0.5]),
    "lists": (pd.Series([[1, None], None], dtype=object), pa.list_(pa.int64()), [[1, None], None]),
    "structs": (pd.Series(NESTED, dtype=object), pa.struct([("a", pa.int64()), ("b", pa.string())]), NESTED),
    "only nulls": (pd.Series([None, None], dtype=object), pa.string(), [None, None]),
    "lists of nulls": (pd.Series([[None], []], dtype=object), pa.list_(pa.string()), [[None], []]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_what_is_missing_in_pandas_is_null_and_types_are_those_that_spark_has(name: str) -> None:
    values, kind, expected = FRAMES[name]
    frame = pd.DataFrame({"x": values}).set_axis([7, 8])
    table = to_storable(to_arrow(frame))
    if name == "categories":
        table = table.cast(pa.schema([("x", pa.string())]))
    assert table.schema == pa.schema([("x", kind)])
    assert table.column("x").to_pylist() == expected
    assert to_storable(to_arrow(frame.head(0))).num_rows == 0


def test_values_of_two_types_in_one_column_are_an_error_that_names_it() -> None:
    with pytest.raises(pa.ArrowInvalid, match="Conversion failed for column mixed"):
        to_arrow(pd.DataFrame({"mixed": [1, "a"]}))


def test_a_frame_of_pandas_on_spark_is_one_of_spark_already() -> None:
    frame = kind("pyspark.pandas.frame", to_spark=lambda _: "rows")
    code = "def model(dbt, session):\n    return dbt.ref('up')\n" + POSTFIX
    assert run_python_model(code, "m", session(up=frame)) == "rows"


def test_the_session_is_an_argument_and_known_by_name() -> None:
    frame = kind("pyspark.sql.classic.dataframe", createOrReplaceTempView=None)
    code = "def model(dbt, session):\n    assert session is spark\n    return spark.table('up')\n" + POSTFIX
    assert run_python_model(code, "m", session(up=frame)) is frame


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return None", "expected: a DataFrame"),
        ("    return [1]", "found: builtins.list"),
        ("    one = 1\n    return one / 0", "m: ZeroDivisionError: division by zero\n  line 3: return one / 0"),
        ("    import no_such_package", "line 2: import no_such_package"),
    ],
)
def test_an_error_tells_the_line_of_the_model(body: str, said: str) -> None:
    with pytest.raises(DbtRuntimeError) as raised:
        run_python_model(f"def model(dbt, session):\n{body}\n{POSTFIX}", "m", session())
    assert said in raised.value.msg


def test_the_view_of_a_model_is_quoted() -> None:
    assert write_view_query(name_view("it`s")) == "SELECT * FROM `python(it``s)`"
