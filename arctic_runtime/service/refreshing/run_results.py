"""The results of a command that refreshes models once, by model."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.service.refreshing.refresh_task import Report, Status

RUN_STATUS: Mapping[Status, str] = {
    "refreshed": "success",
    "unchanged": "success",
    "failed": "error",
    "conflict": "error",
    "skipped": "skipped",
}
"""What dbt's `run_results.json` calls the status of a refresh."""


class Results:
    """The last result of each model, except that `unchanged` does not replace `refreshed`."""

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def add_report(self, report: Report) -> None:
        before = self._reports.get(report.followed.name)
        if before is None or before.status != "refreshed" or report.status != "unchanged":
            self._reports[report.followed.name] = report

    @property
    def reports(self) -> list[Report]:
        return [report for _, report in sorted(self._reports.items())]

    @property
    def have_failed(self) -> bool:
        return any(report.status in ("failed", "conflict") for report in self.reports)

    def describe_failures(self) -> str:
        """Describes for people which models failed; without any, that some were not run."""
        failed = [report.followed.table.name for report in self.reports if report.status in ("failed", "conflict")]
        return f"failed: {', '.join(failed)}" if failed else "some models were not run"
