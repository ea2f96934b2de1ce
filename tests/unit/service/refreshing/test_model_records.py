"""Pauses between checks of tables, and before retries."""

from __future__ import annotations

import pytest

from arctic_runtime.service.refreshing.model_records import compute_look_pause
from arctic_runtime.thresholds import SHIPPED


@pytest.mark.parametrize(("took", "pause"), [(0.0, 0.0), (1.0, 4.0), (1200.0, 60.0)])
def test_a_check_during_which_the_machine_slept_does_not_delay_the_next_one(took: float, pause: float) -> None:
    assert compute_look_pause(took, SHIPPED.service) == pause
