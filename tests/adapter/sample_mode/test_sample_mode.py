"""Runs with `--sample`."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest


@pytest.mark.slow
class TestSampleMode(BaseSampleModeTest):
    pass
