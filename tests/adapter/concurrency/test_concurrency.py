"""Models side by side, and one of them that fails."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency


@pytest.mark.slow
class TestConcurrency(BaseConcurrency):
    pass
