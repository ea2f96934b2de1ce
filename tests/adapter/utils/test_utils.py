"""dbt's functions across databases."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.utils import fixture_get_intervals_between as intervals
from dbt.tests.adapter.utils.data_types.test_type_bigint import BaseTypeBigInt
from dbt.tests.adapter.utils.data_types.test_type_boolean import BaseTypeBoolean
from dbt.tests.adapter.utils.data_types.test_type_float import BaseTypeFloat
from dbt.tests.adapter.utils.data_types.test_type_int import BaseTypeInt
from dbt.tests.adapter.utils.data_types.test_type_numeric import BaseTypeNumeric
from dbt.tests.adapter.utils.data_types.test_type_string import BaseTypeString
from dbt.tests.adapter.utils.data_types.test_type_timestamp import BaseTypeTimestamp
from dbt.tests.adapter.utils.test_any_value import BaseAnyValue
from dbt.tests.adapter.utils.test_array_append import BaseArrayAppend
from dbt.tests.adapter.utils.test_array_concat import BaseArrayConcat
from dbt.tests.adapter.utils.test_array_construct import BaseArrayConstruct
from dbt.tests.adapter.utils.test_bool_or import BaseBoolOr
from dbt.tests.adapter.utils.test_cast import BaseCast
from dbt.tests.adapter.utils.test_cast_bool_to_text import BaseCastBoolToText
from dbt.tests.adapter.utils.test_concat import BaseConcat
from dbt.tests.adapter.utils.test_current_timestamp import BaseCurrentTimestampNaive
from dbt.tests.adapter.utils.test_date import BaseDate
from dbt.tests.adapter.utils.test_date_spine import BaseDateSpine
from dbt.tests.adapter.utils.test_date_trunc import BaseDateTrunc
from dbt.tests.adapter.utils.test_dateadd import BaseDateAdd
from dbt.tests.adapter.utils.test_datediff import BaseDateDiff
from dbt.tests.adapter.utils.test_equals import BaseEquals
from dbt.tests.adapter.utils.test_escape_single_quotes import (
    BaseEscapeSingleQuotesBackslash,
)
from dbt.tests.adapter.utils.test_except import BaseExcept
from dbt.tests.adapter.utils.test_generate_series import BaseGenerateSeries
from dbt.tests.adapter.utils.test_get_intervals_between import BaseGetIntervalsBetween
from dbt.tests.adapter.utils.test_get_powers_of_two import BaseGetPowersOfTwo
from dbt.tests.adapter.utils.test_hash import BaseHash
from dbt.tests.adapter.utils.test_intersect import BaseIntersect
from dbt.tests.adapter.utils.test_last_day import BaseLastDay
from dbt.tests.adapter.utils.test_length import BaseLength
from dbt.tests.adapter.utils.test_listagg import BaseListagg
from dbt.tests.adapter.utils.test_null_compare import BaseMixedNullCompare, BaseNullCompare
from dbt.tests.adapter.utils.test_position import BasePosition
from dbt.tests.adapter.utils.test_replace import BaseReplace
from dbt.tests.adapter.utils.test_right import BaseRight
from dbt.tests.adapter.utils.test_safe_cast import BaseSafeCast
from dbt.tests.adapter.utils.test_source_freshness_custom_info import BaseCalculateFreshnessMethod
from dbt.tests.adapter.utils.test_split_part import BaseSplitPart
from dbt.tests.adapter.utils.test_string_literal import BaseStringLiteral
from dbt.tests.adapter.utils.test_timestamps import BaseCurrentTimestamps
from dbt.tests.adapter.utils.test_validate_sql import BaseValidateSqlMethod


@pytest.mark.slow
class TestAnyValue(BaseAnyValue):
    pass


@pytest.mark.slow
class TestArrayAppend(BaseArrayAppend):
    pass


@pytest.mark.slow
class TestArrayConcat(BaseArrayConcat):
    pass


@pytest.mark.slow
class TestArrayConstruct(BaseArrayConstruct):
    pass


@pytest.mark.slow
class TestBoolOr(BaseBoolOr):
    pass


@pytest.mark.slow
class TestCast(BaseCast):
    pass


@pytest.mark.slow
class TestCastBoolToText(BaseCastBoolToText):
    pass


@pytest.mark.slow
class TestConcat(BaseConcat):
    pass


class TestCurrentTimestampNaive(BaseCurrentTimestampNaive):
    pass


@pytest.mark.slow
class TestDate(BaseDate):
    pass


@pytest.mark.slow
class TestDateSpine(BaseDateSpine):
    pass


@pytest.mark.slow
class TestDateTrunc(BaseDateTrunc):
    pass


class TestDateAdd(BaseDateAdd):
    pass


class TestDateDiff(BaseDateDiff):
    pass


@pytest.mark.slow
class TestEquals(BaseEquals):
    pass


class TestEscapeSingleQuotesBackslash(BaseEscapeSingleQuotesBackslash):
    pass


@pytest.mark.slow
class TestExcept(BaseExcept):
    pass


@pytest.mark.slow
class TestGenerateSeries(BaseGenerateSeries):
    pass


@pytest.mark.slow
class TestGetIntervalsBetween(BaseGetIntervalsBetween):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        call = """get_intervals_between("date '2023-09-01'", "date '2023-09-12'", "day")"""
        return {
            "test_get_intervals_between.yml": intervals.models__test_get_intervals_between_yml,
            "test_get_intervals_between.sql": "select {{ " + call + " }} as intervals, 11 as expected",
        }


@pytest.mark.slow
class TestGetPowersOfTwo(BaseGetPowersOfTwo):
    pass


@pytest.mark.slow
class TestHash(BaseHash):
    pass


@pytest.mark.slow
class TestIntersect(BaseIntersect):
    pass


@pytest.mark.slow
class TestLastDay(BaseLastDay):
    pass


@pytest.mark.slow
class TestLength(BaseLength):
    pass


class TestListagg(BaseListagg):
    pass


@pytest.mark.slow
class TestMixedNullCompare(BaseMixedNullCompare):
    pass


@pytest.mark.slow
class TestNullCompare(BaseNullCompare):
    pass


@pytest.mark.slow
class TestPosition(BasePosition):
    pass


@pytest.mark.slow
class TestReplace(BaseReplace):
    pass


@pytest.mark.slow
class TestRight(BaseRight):
    pass


@pytest.mark.slow
class TestSafeCast(BaseSafeCast):
    pass


class TestCalculateFreshnessMethod(BaseCalculateFreshnessMethod):
    pass


@pytest.mark.slow
class TestSplitPart(BaseSplitPart):
    pass


@pytest.mark.slow
class TestStringLiteral(BaseStringLiteral):
    pass


class TestCurrentTimestamps(BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, str]:
        names = ("current_timestamp", "current_timestamp_in_utc_backcompat", "current_timestamp_backcompat")
        return dict.fromkeys(names, "timestamp")

    @pytest.fixture(scope="class")
    def expected_sql(self) -> None:
        return None


class TestValidateSqlMethod(BaseValidateSqlMethod):
    pass


@pytest.mark.slow
class TestTypeBigInt(BaseTypeBigInt):
    pass


@pytest.mark.slow
class TestTypeBoolean(BaseTypeBoolean):
    pass


@pytest.mark.slow
class TestTypeFloat(BaseTypeFloat):
    pass


@pytest.mark.slow
class TestTypeInt(BaseTypeInt):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"test": {"expected": {"+column_types": {"int_col": "int"}}}}}


@pytest.mark.slow
class TestTypeNumeric(BaseTypeNumeric):
    pass


@pytest.mark.slow
class TestTypeString(BaseTypeString):
    pass


class TestTypeTimestamp(BaseTypeTimestamp):
    pass
