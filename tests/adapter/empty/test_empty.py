"""Runs with `--empty`."""

from __future__ import annotations

import pytest
from dbt.cli.main import seed
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmpty,
    BaseTestEmptyInlineSourceRef,
    BaseTestEmptySeedFlag,
    MetadataWithEmptyFlag,
)

has_empty_seeds = any(parameter.name == "empty" for parameter in seed.params)


class TestEmptyRun(BaseTestEmpty):
    pass


@pytest.mark.slow
class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


@pytest.mark.skipif(not has_empty_seeds, reason="`dbt seed --empty` came with dbt 1.12")
class TestEmptySeedFlag(BaseTestEmptySeedFlag):
    pass


@pytest.mark.slow
class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    pass
