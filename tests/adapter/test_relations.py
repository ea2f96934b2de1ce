"""Names, kinds and caching of relations.

| left out | because |
|---|---|
| CatalogRelationTypes, SimpleCopyBase's second test | they want materialized views |
| BaseSimpleCopyUppercase | it is about a Postgres profile |
| BaseCatalogIntegrationValidation | the catalog is the profile's; there is no `catalogs.yml` |
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.aliases import fixtures as alias_fixtures
from dbt.tests.adapter.aliases.test_aliases import (
    BaseAliasErrors,
    BaseAliases,
    BaseSameAliasDifferentDatabases,
    BaseSameAliasDifferentSchemas,
)
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)
from dbt.tests.adapter.column_types.test_column_types import BaseColumnTypes
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.relations.test_dropping_schema_named import BaseDropSchemaNamed
from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase


class PlainLiterals:
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {
            "cast.sql": alias_fixtures.MACROS__CAST_SQL.replace("::text", ""),
            "expect_value.sql": alias_fixtures.MACROS__EXPECT_VALUE_SQL,
        }


class TestAliases(PlainLiterals, BaseAliases):
    pass


class TestAliasErrors(PlainLiterals, BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(PlainLiterals, BaseSameAliasDifferentSchemas):
    pass


@pytest.mark.slow
class TestSameAliasDifferentDatabases(PlainLiterals, BaseSameAliasDifferentDatabases):
    pass


class TestCachingLowercaseModel(BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(BaseNoPopulateCache):
    pass


@pytest.mark.slow
class TestConcurrency(BaseConcurrency):
    pass


class TestChangeRelationType(BaseChangeRelationTypeValidator):
    pass


class TestDropSchemaNamed(BaseDropSchemaNamed):
    pass


class TestEmptyRun(BaseTestEmpty):
    pass


@pytest.mark.slow
class TestSampleMode(BaseSampleModeTest):
    pass


@pytest.mark.slow
class TestSimpleCopy(SimpleCopyBase):
    test_simple_copy_with_materialized_views = None


@pytest.mark.slow
class TestEmptyModelsArentRun(EmptyModelsArentRunBase):
    pass


COLUMN_TYPES_MODEL = """
select cast(1 as smallint) as smallint_col, 2 as int_col, cast(3 as bigint) as bigint_col,
  cast(4.0 as float) as real_col, cast(5.0 as double) as double_col, cast(6.0 as decimal(10,2)) as numeric_col,
  '7' as text_col, cast('20' as varchar(20)) as varchar_col
"""
COLUMN_TYPES_YML = """
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
        return {"model.sql": COLUMN_TYPES_MODEL, "schema.yml": COLUMN_TYPES_YML}

    def test_types_are_told_apart(self, project: Any) -> None:
        self.run_and_test()
