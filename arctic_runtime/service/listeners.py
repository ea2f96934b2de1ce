"""Callbacks that observe the work of a service or of a follower, which refreshes models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arctic_runtime.service.refreshing.refresh_task import RefreshModel, Report


def _keep_untraced(refresh: RefreshModel) -> RefreshModel:
    return refresh


@dataclass(frozen=True)
class RefreshListeners:
    """Callbacks that a follower, which refreshes models, calls.

    `say` is called with lines for people, and `report` with the result of each model in a pass over models. `end` gets
    the result of a refresh too, before that and in the thread of the refresh, which may begin another one before the
    result is reported. `trace` gets the function that refreshes a model, and returns the function to call instead, such
    as one that adds a tracing span.
    """

    say: Callable[[str], None] = lambda _: None
    report: Callable[[Report], None] = lambda _: None
    end: Callable[[Report], None] = lambda _: None
    trace: Callable[[RefreshModel], RefreshModel] = _keep_untraced
