"""The shared state of a service whose catalog is never reached."""

from __future__ import annotations

from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.thresholds import Thresholds
from tests.thresholds import changed


def unreached_state(**service: Any) -> SharedState:
    """A state under these thresholds of a service."""
    return SharedState(
        CatalogReader(Profile.for_embedded("/nowhere", thresholds=changed(Thresholds(), service=service)))
    )
