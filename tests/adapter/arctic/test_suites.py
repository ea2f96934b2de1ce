"""Classes of dbt's suites with their tables and incremental models as `materialized: arctic`.

Each class's own test beside this one shows what the same models do as plain tables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.basic.test_incremental import BaseIncremental, BaseIncrementalNotSchemaChange
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintsRollback,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseTableConstraintsColumnsEqual,
)
from dbt.tests.adapter.ephemeral.test_ephemeral import BaseEphemeralMulti
from dbt.tests.adapter.hooks.test_model_hooks import (
    MODEL_POST_HOOK,
    MODEL_PRE_HOOK,
    BaseHookRefs,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
)
from dbt.tests.adapter.persist_docs.test_persist_docs import (
    BasePersistDocs,
    BasePersistDocsAllColumnsMissing,
    BasePersistDocsColumnMissing,
    BasePersistDocsCommentOnQuotedColumn,
    BasePersistDocsQuotedColumnCaseSensitive,
)
from dbt.tests.adapter.simple_copy.test_simple_copy import SimpleCopyBase
from dbt.tests.util import check_relations_equal, run_dbt, write_file

pytestmark = pytest.mark.slow

_MATERIALIZED = re.compile(r"""(["']?)materialized\1\s*([=:])\s*["'](?:table|incremental)["']""")
_SORTED = re.compile(r",\s*(sort|sort_type|dist)\s*=\s*(\[[^]]*\]|'[^']*')")


_KEYS = {"my_model_data_type.sql": "wrong_data_type_column_name", "materialized.sql": "id", "quote_model.sql": "2id"}


def as_arctic(name: str, sql: str, key: str) -> str:
    """The same model as an arctic one; sort keys of other warehouses are left out."""
    config = rf"\1materialized\1 \2 'arctic', \1primary_key\1 \2 '{_KEYS.get(name, key)}'"
    return _SORTED.sub("", _MATERIALIZED.sub(config, sql))


class Arctic:
    """The models of a suite, rewritten where the project has them, and where a test writes them."""

    key = "id"

    @pytest.fixture(scope="class", autouse=True)
    def rewritten(self, project: Any) -> Iterator[None]:
        for file in (Path(project.project_root) / "models").glob("*.sql"):
            file.write_text(as_arctic(file.name, file.read_text(), self.key))
        with pytest.MonkeyPatch.context() as patch:
            for module in {base.__module__ for base in type(self).__mro__ if base.__module__.startswith("dbt.tests")}:
                patch.setattr(sys.modules[module], "write_file", self.write_file, raising=False)
            yield

    def write_file(self, contents: str, *path: str) -> None:
        write_file(as_arctic(path[-1], contents, self.key), *path)


def is_arctic(project: Any, name: str) -> bool:
    relation = project.adapter.catalog_reader.describe_relation(project.test_schema, name)
    return relation is not None and relation.properties.get("arctic.kind") == "base"


class TestIncremental(Arctic, BaseIncremental):
    def test_incremental(self, project: Any) -> None:
        """The suite's, and the table is an arctic one."""
        super().test_incremental(project)
        assert is_arctic(project, "incremental")


class TestIncrementalNotSchemaChange(Arctic, BaseIncrementalNotSchemaChange):
    key = "user_id_current_time"


class TestTableMaterialization(Arctic, BaseTableMaterialization):
    pass


class TestConcurrency(Arctic, BaseConcurrency):
    pass


class TestSimpleCopy(Arctic, SimpleCopyBase):
    def test_simple_copy_with_materialized_views(self, project: Any) -> None:
        """Iceberg has no materialized views; that arctic models see none of what else there is, is the test above."""
        assert is_arctic(project, "materialized")


class TestEphemeralMulti(Arctic, BaseEphemeralMulti):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+materialized": "arctic", "+primary_key": "id"}}

    def test_ephemeral_multi(self, project: Any) -> None:
        """Without the comparison of a `create view` with the one that Postgres gets."""
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for model in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", model])
            assert is_arctic(project, model)


# Hooks.


class Hooks:
    @pytest.fixture(scope="class")
    def test_data_dir(self) -> Path:
        return Path(__file__).parents[1] / "hooks" / "data"

    def check_hooks(self, state: str, project: Any, host: str | None, count: int = 1) -> None:
        for context in self.get_ctx_vars(state, count=count, project=project):  # type: ignore[attr-defined]
            assert context["test_state"] == state
            assert context["target_type"] == "arctic"
            assert context["thread_id"].startswith("Thread-")

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"test": {"+materialized": "arctic", "+primary_key": "id"}}}


class TestPrePostModelHooks(Hooks, BasePrePostModelHooks):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        hooks = {"pre-hook": [MODEL_PRE_HOOK], "post-hook": [MODEL_POST_HOOK]}
        return {"models": {"test": {"+materialized": "arctic", "+primary_key": "id", **hooks}}}


class TestPrePostModelHooksInConfig(Hooks, BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigKwargs(Hooks, BasePrePostModelHooksInConfigKwargs):
    pass


class TestHookRefs(Hooks, BaseHookRefs):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        hook = "insert into {{this.schema}}.on_model_hook (test_state, target_type, thread_id) select test_state, "
        hook += "'{{ target.type }}', '{{ thread_id }}' from {{ ref('post') }}"
        hooked = {"+materialized": "arctic", "+primary_key": "id", "post-hook": [hook]}
        return {"models": {"test": {"hooked": hooked}}}


# Documentation.


class TestPersistDocs(Arctic, BasePersistDocs):
    pass


class TestPersistDocsColumnMissing(Arctic, BasePersistDocsColumnMissing):
    pass


class TestPersistDocsAllColumnsMissing(Arctic, BasePersistDocsAllColumnsMissing):
    pass


class TestPersistDocsQuotedColumnCaseSensitive(Arctic, BasePersistDocsQuotedColumnCaseSensitive):
    key = "mycol"


class TestPersistDocsCommentOnQuotedColumn(BasePersistDocsCommentOnQuotedColumn):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        docs = {"relation": True, "columns": True}
        return {"models": {"test": {"+materialized": "arctic", "+primary_key": "2id", "+persist_docs": docs}}}


# Contracts.


class Types(Arctic):
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        """Each wider than the one before, since they follow each other in one table."""
        return [["1", "int", "int"], ["1L", "bigint", "bigint"]]


class TestTableConstraintsColumnsEqual(Types, BaseTableConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(Types, BaseIncrementalConstraintsColumnsEqual):
    pass


class Rollback(Arctic):
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["have a null key", "column: id", "nothing was written"]


class TestConstraintsRollback(Rollback, BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(Rollback, BaseIncrementalConstraintsRollback):
    pass
