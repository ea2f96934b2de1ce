"""Kinds of columns as dbt's tests tell them apart; the suite's own class is about Postgres' types."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.column_types.test_column_types import BaseColumnTypes

MODEL = """
select cast(1 as smallint) as smallint_col, 2 as int_col, cast(3 as bigint) as bigint_col,
  cast(4.0 as float) as real_col, cast(5.0 as double) as double_col, cast(6.0 as decimal(10,2)) as numeric_col,
  '7' as text_col, cast('20' as varchar(20)) as varchar_col
"""
PROPERTIES = """
models:
  - name: model
    data_tests:
      - is_type:
          arguments:
            column_map:
              smallint_col: ['integer', 'number']
              int_col: ['integer', 'number']
              bigint_col: ['integer', 'number']
              real_col: ['float', 'number']
              double_col: ['float', 'number']
              numeric_col: ['numeric', 'number']
              text_col: ['string', 'not number']
              varchar_col: ['string', 'not number']
"""


class TestColumnTypes(BaseColumnTypes):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"model.sql": MODEL, "schema.yml": PROPERTIES}

    def test_types_are_distinguished(self, project: Any) -> None:
        self.run_and_test()
