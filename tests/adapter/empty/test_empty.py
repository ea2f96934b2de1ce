"""Runs with `--empty`."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty, BaseTestEmptyInlineSourceRef, MetadataWithEmptyFlag


class TestEmptyRun(BaseTestEmpty):
    pass


@pytest.mark.slow
class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


@pytest.mark.slow
class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    pass
