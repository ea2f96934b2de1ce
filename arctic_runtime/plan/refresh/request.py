"""Requests for runs of models."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.ivm.algebra.refusal import Refusal
from arctic_runtime.model.clone import ObservedClone
from arctic_runtime.plan.refresh.session_changes import SessionState


@dataclass(frozen=True)
class Request:
    """Request for a run, with facts from earlier tries of the same run, by which it is decided again."""

    full_refresh: bool = False
    """Whether the user asked for a full refresh."""

    with_frozen: bool = False
    """Whether a full refresh also computes the rows that `frozen_where` selects."""

    schema_only: bool = False
    """Whether the run only creates an empty table."""

    given_up: Refusal | None = None
    """Reason for which an earlier try abandoned its incremental plan."""

    session: SessionState | None = None
    """Version and settings of the Spark session; None before Spark is started."""

    was_overtaken: bool = False
    """True if an upstream changed during a full computation, which must read the newest versions.

    The run is then incremental at any cost, because an incremental run reads fixed versions.
    """

    refused_state: str | None = None
    """Hash of the aggregate state that an earlier try could not keep."""

    clone: ObservedClone | None = None
    """The clone whose rows the run takes over, if it has computed the model's query; None for none."""
