"""The response of a run as `run_results.json` stores it: the mode, its reason, rows, versions and seconds."""

from __future__ import annotations

from typing import Any

from arctic_runtime.model.run_summary import describe_frozen
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome


def describe_response(refreshed: Refreshed) -> dict[str, Any]:
    """Returns the fields of a run's response by name; snapshot ids are texts, as JSON numbers would lose digits."""
    outcome, failures = refreshed.outcome, refreshed.failures
    rows = outcome.rows
    return {
        "code": "OK",
        "rows_affected": sum(rows.values()),
        "mode": outcome.mode,
        "reason": outcome.reason,
        "because": outcome.because,
        "inserted": rows["insert"],
        "updated": rows["update"],
        "deleted": rows["delete"],
        "frozen": outcome.frozen,
        "quarantined": refreshed.quarantined,
        "upserted": rows["upsert"],
        "version": "" if outcome.version is None else str(outcome.version),
        "consumed": {upstream: str(snapshot) for upstream, snapshot in outcome.consumed.items()},
        "timings": dict(outcome.timings),
        "estimates": dict(outcome.estimates),
        "failures": dict(failures),
    }


def format_response(refreshed: Refreshed) -> str:
    """Formats a run's result for people, such as `incremental +820 ~1604 -12`."""
    quarantined = refreshed.quarantined
    notes = [
        *filter(None, [describe_frozen(refreshed.outcome.frozen)]),
        *([f"{quarantined:,} in quarantine"] if quarantined else []),
        *(f"{part} failed" for part in refreshed.failures),
    ]
    return "; ".join([_format_outcome(refreshed.outcome), *notes])


def _format_outcome(outcome: Outcome) -> str:
    rows = outcome.rows
    if outcome.reason == "WAITS_FOR_RESTORED_QUERY":
        return f"unchanged: {outcome.because}"
    if outcome.mode == "unchanged":
        return "unchanged"
    upserts = f" ^{rows['upsert']}" if rows["upsert"] else ""
    return f"{outcome.mode} +{rows['insert']} ~{rows['update']} -{rows['delete']}{upserts}"
