"""`dbt debug` and `dbt init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.adapter.dbt_debug.test_dbt_debug import (
    BaseDebug,
    BaseDebugInvalidProjectPostgres,
    BaseDebugPostgres,
    BaseDebugProfileVariable,
)
from dbt.tests.util import run_dbt, run_dbt_and_capture


@pytest.mark.slow
class TestDebugTargets(BaseDebugPostgres):
    pass


class TestDebug(BaseDebug):
    def test_it_names_what_does_the_work_and_tries_a_write(self, project: Any, warehouse: Path) -> None:
        _, output = run_dbt_and_capture(["debug"])
        for sign in ("spark: 4.1", "iceberg: ", "java: ", "has the recorded hash", "warehouse: /", "All checks passed"):
            assert sign in output, output
        assert "catalog has table branches: yes (for arctic models" in output, output
        assert "catalog has views: yes (for `merge: on_read` and `current_view`)" in output, output
        assert "catalog has transactions over tables: yes (for `publish: build`" in output, output
        assert "unknown" not in output.partition("catalog has")[2], output
        assert f"a table was created and dropped in {warehouse}/" in output
        assert not list(warehouse.rglob("arctic_*_*"))
        assert not [name for name in project.adapter.list_schemas("lake") if name.startswith("arctic_debug")]

    def test_a_profile_that_can_not_work_is_named(self, project: Any) -> None:
        path = Path(project.profiles_dir) / "profiles.yml"
        profile = yaml.safe_load(path.read_text())
        profile["test"]["outputs"]["default"]["warehose"] = "x"
        path.write_text(yaml.safe_dump(profile))
        _, output = run_dbt_and_capture(["debug"], expect_pass=False)
        assert "did you mean 'warehouse'" in output


@pytest.mark.slow
class TestDebugProfileVariable(BaseDebugProfileVariable):
    def test_ok(self, project: Any) -> None:
        run_dbt(["debug"])


@pytest.mark.slow
class TestDebugInvalidProject(BaseDebugInvalidProjectPostgres):
    pass


def test_init_asks_for_the_least() -> None:
    from dbt.include import arctic

    template = yaml.safe_load((Path(arctic.PACKAGE_PATH) / "profile_template.yml").read_text())
    assert list(template["prompts"]) == ["warehouse", "schema", "threads"]
    assert template["fixed"] == {"type": "arctic"}
