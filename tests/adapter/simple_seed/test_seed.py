"""Seeds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.simple_seed import fixtures, test_seed
from dbt.tests.adapter.simple_seed import seeds as seed_files
from dbt.tests.adapter.simple_seed.test_seed import (
    BaseBasicSeedTests,
    BaseSeedConfigFullRefreshOff,
    BaseSeedConfigFullRefreshOn,
    BaseSeedCustomSchema,
    BaseSeedParsing,
    BaseSeedSpecificFormats,
    BaseSeedWithEmptyDelimiter,
    BaseSeedWithUniqueDelimiter,
    BaseSeedWithWrongDelimiter,
    BaseSimpleSeedEnabledViaConfig,
    BaseSimpleSeedWithBOM,
    BaseTestEmptySeed,
)
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride
from dbt.tests.util import copy_file, run_dbt


@pytest.mark.slow
class TestBasicSeeds(BaseBasicSeedTests):
    def test_simple_seed_full_refresh_flag(self, project: Any) -> None:
        """Views of a seed stay: it is replaced and never dropped."""
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_dbt(["seed", "--full-refresh"]), project, exists=True)


@pytest.mark.slow
class TestSeedConfigFullRefreshOn(BaseSeedConfigFullRefreshOn):
    def test_simple_seed_full_refresh_config(self, project: Any) -> None:
        """Views of a seed stay: it is replaced and never dropped."""
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_dbt(["seed"]), project, exists=True)


@pytest.mark.slow
class TestSeedConfigFullRefreshOff(BaseSeedConfigFullRefreshOff):
    pass


@pytest.mark.slow
class TestSeedCustomSchema(BaseSeedCustomSchema):
    pass


@pytest.mark.slow
class TestSeedWithUniqueDelimiter(BaseSeedWithUniqueDelimiter):
    pass


@pytest.mark.slow
class TestSeedWithWrongDelimiter(BaseSeedWithWrongDelimiter):
    def test_seed_with_wrong_delimiter(self, project: Any) -> None:
        """The suite names Postgres' message for what becomes of a header that was not cut."""
        seed_result = run_dbt(["seed"], expect_pass=False)
        assert "syntax error" in seed_result.results[0].message.lower()


@pytest.mark.slow
class TestSeedWithEmptyDelimiter(BaseSeedWithEmptyDelimiter):
    pass


@pytest.mark.slow
class TestSeedEnabledViaConfig(BaseSimpleSeedEnabledViaConfig):
    pass


@pytest.mark.slow
class TestSeedParsing(BaseSeedParsing):
    pass


@pytest.mark.slow
class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    @pytest.fixture(scope="class")
    def test_data_dir(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder that the suite may delete when it is done."""
        return tmp_path_factory.mktemp("files") / "data"


@pytest.mark.slow
class TestSeedWithByteOrderMark(BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        project.run_sql(seed_files.seeds__expected_sql)
        folder = Path(test_seed.__file__).parent
        copy_file(folder, "seed_bom.csv", project.project_root / Path("seeds") / "seed_bom.csv", "")


@pytest.mark.slow
class TestEmptySeed(BaseTestEmptySeed):
    pass


@pytest.mark.slow
class TestSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        properties = fixtures.properties__schema_yml
        for theirs, ours in (
            ("text", "string"),
            ("integer", "bigint"),
            ("timestamp without time zone", "timestamp"),
        ):
            properties = properties.replace(f"type: {theirs}", f"type: {ours}")
        return {"schema.yml": properties}


HUGE = "9" * 38
EXACT_CSV = f"""id,big,wide,huge,amount,at,text,flag
1,9223372036854775807,12345678901234567890,{HUGE},1.10,2024-02-29 23:59:59.123456,it's; -- "quoted" `x` ${{y}} \\n,true
2,,,,,,,
"""


class TestSeedsAreExact:
    """Large integers, decimals, timestamps, quotes and nulls arrive as they are written."""

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"exact.csv": EXACT_CSV}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        types = {"huge": "decimal(38,0)", "amount": "decimal(10,2)", "text": "string"}
        return {"seeds": {"test": {"exact": {"+column_types": types}}}}

    def test_values_are_exact(self, project: Any) -> None:
        run_dbt(["seed"])
        query = (
            f"select big, wide, huge, amount, date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), text, flag "
            f"from `lake`.{project.test_schema}.exact order by id"
        )
        first, second = project.run_sql(query, fetch="all")
        assert first == (
            2**63 - 1,
            Decimal(12345678901234567890),
            Decimal(10**38 - 1),
            Decimal("1.10"),
            "2024-02-29 23:59:59.123456",
            'it\'s; -- "quoted" `x` ${y} \\n',
            True,
        )
        assert set(second) == {None}
