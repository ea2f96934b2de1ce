"""Python models: what their function may return, and how an error in it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.arctic.materialize.python_models import query, rows_of, view_name

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
        assert rows_of(code, "m", session(up=frame)) is frame


def test_a_frame_of_pandas_becomes_one_of_spark() -> None:
    for module in ("pandas", "pandas.core.frame"):
        frame = kind(module, __len__=lambda _: 1)
        code = "def model(dbt, session):\n    return dbt.ref('up')\n" + POSTFIX
        assert rows_of(code, "m", session(up=frame)) == ("made of", frame)


def test_a_frame_of_pandas_on_spark_is_one_of_spark_already() -> None:
    frame = kind("pyspark.pandas.frame", to_spark=lambda _: "rows")
    code = "def model(dbt, session):\n    return dbt.ref('up')\n" + POSTFIX
    assert rows_of(code, "m", session(up=frame)) == "rows"


def test_the_session_is_an_argument_and_known_by_name() -> None:
    frame = kind("pyspark.sql.classic.dataframe", createOrReplaceTempView=None)
    code = "def model(dbt, session):\n    assert session is spark\n    return spark.table('up')\n" + POSTFIX
    assert rows_of(code, "m", session(up=frame)) is frame


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
        rows_of(f"def model(dbt, session):\n{body}\n{POSTFIX}", "m", session())
    assert said in raised.value.msg


def test_the_view_of_a_model_is_quoted() -> None:
    assert query(view_name("it`s")) == "SELECT * FROM `python(it``s)`"
