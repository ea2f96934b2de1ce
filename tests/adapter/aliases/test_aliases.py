"""Aliases: models of one name, and names that are not the file's."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.aliases import fixtures
from dbt.tests.adapter.aliases.test_aliases import (
    BaseAliasErrors,
    BaseAliases,
    BaseSameAliasDifferentDatabases,
    BaseSameAliasDifferentSchemas,
)


class PlainLiterals:
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {
            "cast.sql": fixtures.MACROS__CAST_SQL.replace("::text", ""),
            "expect_value.sql": fixtures.MACROS__EXPECT_VALUE_SQL,
        }


@pytest.mark.slow
class TestAliases(PlainLiterals, BaseAliases):
    pass


@pytest.mark.slow
class TestAliasErrors(PlainLiterals, BaseAliasErrors):
    pass


@pytest.mark.slow
class TestSameAliasDifferentSchemas(PlainLiterals, BaseSameAliasDifferentSchemas):
    pass


@pytest.mark.slow
class TestSameAliasDifferentDatabases(PlainLiterals, BaseSameAliasDifferentDatabases):
    pass
