"""Hooks of models, seeds, snapshots and runs."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.hooks.test_model_hooks import (
    MODEL_POST_HOOK,
    MODEL_PRE_HOOK,
    BaseDuplicateHooksInConfigs,
    BaseHookRefs,
    BaseHooksRefsOnSeeds,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
    BasePrePostModelHooksInConfigWithCount,
    BasePrePostModelHooksOnSeeds,
    BasePrePostModelHooksOnSeedsPlusPrefixed,
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace,
    BasePrePostModelHooksOnSnapshots,
    BasePrePostSnapshotHooksInConfigKwargs,
)
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks, BasePrePostRunHooks
from dbt.tests.util import run_dbt

SCHEMAS_TABLE = "create table {{ target.schema }}.schemas ( schema string )"
INSERT_SCHEMAS = (
    "insert into {{ target.schema }}.schemas (schema) values "
    "{% for schema in schemas %}( '{{ schema }}' ){% if not loop.last %},{% endif %}{% endfor %}"
)
INSERT_DB_SCHEMAS = (
    "insert into {{ target.schema }}.db_schemas (db, schema) values "
    "{% for db, schema in database_schemas %}('{{ db }}', '{{ schema }}' )"
    "{% if not loop.last %},{% endif %}{% endfor %}"
)


def check(context: dict[str, Any], state: str, project: Any) -> None:
    assert context["test_state"] == state
    assert context["target_name"] == "default"
    assert context["target_schema"] == project.test_schema
    assert context["target_threads"] == 2
    assert context["target_type"] == "arctic"
    assert context["run_started_at"]
    assert context["invocation_id"]
    assert context["thread_id"].startswith(("Thread-", "MainThread"))


class ModelHooks:
    def check_hooks(self, state: str, project: Any, host: str | None, count: int = 1) -> None:
        for context in self.get_ctx_vars(state, count=count, project=project):  # type: ignore[attr-defined]
            check(context, state, project)


OUTSIDE = {"sql": "/* outside; */ select 1; -- two\n;", "transaction": False}


class HooksOfProject(ModelHooks):
    """Hooks inside and outside of what other warehouses call a transaction; theirs outside is a `vacuum`."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        hooks = {"pre-hook": [MODEL_PRE_HOOK, OUTSIDE], "post-hook": [OUTSIDE, MODEL_POST_HOOK]}
        return {"models": {"test": hooks}}


@pytest.mark.slow
class TestPrePostModelHooks(HooksOfProject, BasePrePostModelHooks):
    pass


@pytest.mark.slow
class TestPrePostModelHooksUnderscores(ModelHooks, BasePrePostModelHooks):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        hooks = {"pre_hook": [MODEL_PRE_HOOK, OUTSIDE], "post_hook": [OUTSIDE, MODEL_POST_HOOK]}
        return {"models": {"test": hooks}}


@pytest.mark.slow
class TestPrePostModelHooksInConfigWithCount(HooksOfProject, BasePrePostModelHooksInConfigWithCount):
    pass


@pytest.mark.slow
class TestHookRefs(ModelHooks, BaseHookRefs):
    pass


@pytest.mark.slow
class TestPrePostModelHooksInConfig(ModelHooks, BasePrePostModelHooksInConfig):
    pass


@pytest.mark.slow
class TestPrePostModelHooksInConfigKwargs(ModelHooks, BasePrePostModelHooksInConfigKwargs):
    pass


@pytest.mark.slow
class TestPrePostModelHooksOnSeeds(BasePrePostModelHooksOnSeeds):
    pass


@pytest.mark.slow
class TestPrePostModelHooksOnSeedsPlusPrefixed(BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


@pytest.mark.slow
class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace):
    pass


@pytest.mark.slow
class TestHooksRefsOnSeeds(BaseHooksRefsOnSeeds):
    pass


@pytest.mark.slow
class TestPrePostModelHooksOnSnapshots(BasePrePostModelHooksOnSnapshots):
    pass


@pytest.mark.slow
class TestPrePostSnapshotHooksInConfigKwargs(BasePrePostSnapshotHooksInConfigKwargs):
    pass


@pytest.mark.slow
class TestDuplicateHooksInConfigs(BaseDuplicateHooksInConfigs):
    pass


class TestAfterRunHooks(BaseAfterRunHooks):
    pass


class TestPrePostRunHooks(BasePrePostRunHooks):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "on-run-start": [
                "{{ custom_run_hook('start', target, run_started_at, invocation_id) }}",
                "create table {{ target.schema }}.start_hook_order_test ( id int )",
                "drop table {{ target.schema }}.start_hook_order_test",
                "{{ log(env_var('TERM_TEST'), info=True) }}",
            ],
            "on-run-end": [
                "{{ custom_run_hook('end', target, run_started_at, invocation_id) }}",
                "create table {{ target.schema }}.end_hook_order_test ( id int )",
                "drop table {{ target.schema }}.end_hook_order_test",
                SCHEMAS_TABLE + "; " + INSERT_SCHEMAS + ";",
                "create table {{ target.schema }}.db_schemas ( db string, schema string )",
                INSERT_DB_SCHEMAS,
            ],
            "seeds": {"quote_columns": False},
        }

    def check_hooks(self, state: str, project: Any, host: str | None) -> None:
        check(self.get_ctx_vars(state, project), state, project)


class TestAHookThatFails:
    """A hook may be there for its error alone, also where nobody fetches its rows."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        hook = "select raise_error('not today')"
        return {"m.sql": '{{ config(pre_hook="' + hook + '") }} select 1 as id'}

    def test_a_query_in_a_hook_is_run(self, project: Any) -> None:
        result = run_dbt(["run"], expect_pass=False).results[0]
        assert "not today" in result.message
        assert "\tat " not in result.message
