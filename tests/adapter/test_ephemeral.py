"""Ephemeral models.

The suite compares the whole `create view` of one model with Postgres' form of it; here only that the views
hold what they must.
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.ephemeral.test_ephemeral import (
    BaseEphemeralErrorHandling,
    BaseEphemeralMulti,
    BaseEphemeralNested,
)
from dbt.tests.util import check_relations_equal, run_dbt


class TestEphemeralMulti(BaseEphemeralMulti):
    def test_ephemeral_multi(self, project: Any) -> None:
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for model in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", model])


@pytest.mark.slow
class TestEphemeralNested(BaseEphemeralNested):
    def test_ephemeral_nested(self, project: Any) -> None:
        assert len(run_dbt(["run"])) == 2
        check_relations_equal(project.adapter, ["source_table", "root_view"])


@pytest.mark.slow
class TestEphemeralErrorHandling(BaseEphemeralErrorHandling):
    pass
