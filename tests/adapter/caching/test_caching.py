"""What dbt keeps of the relations that it has listed."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)


@pytest.mark.slow
class TestCachingLowercaseModel(BaseCachingLowercaseModel):
    pass


@pytest.mark.slow
class TestCachingUppercaseModel(BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(BaseCachingSelectedSchemaOnly):
    pass


@pytest.mark.slow
class TestNoPopulateCache(BaseNoPopulateCache):
    pass
