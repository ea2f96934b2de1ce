"""Alert rules fire for what a service really tells, and not while all is well; the dashboard asks for what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.service.telemetry.declared_metrics import METRICS, Histogram
from arctic_runtime.service.telemetry.metrics import Metrics
from arctic_runtime.service.view.live_data import IngestionState, TableOverview
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.late_sources import TROUBLES
from tests.unit.service.promtool import needs_promtool, promtool
from tests.unit.service.still_service import NOW, ORDERS, SALES, StillService, ago

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
MINUTES = 300
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to each series."""

_NAME = re.compile(r"\b(?P<name>(?:arctic|process)_\w+|up)\b(?:\{(?P<labels>[^}]*)\})?")

BY_PROCESS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Metrics that come from Prometheus and from its client."""


def healthy(**changes: Any) -> list[TableOverview]:
    """Tables without anything to tell; `changes` are of the model."""
    events, orders, sales = StillService().shown
    ingestion = IngestionState("shop", "shop.orders", "0/16", ago(1), 1.0, 3, True)
    fresh = replace(sales, state="fresh", freshness=Freshness("fresh", ago(1), allowed_lag_seconds=30.0), error="")
    return [events, replace(orders, ingestion=ingestion), replace(fresh, **changes)]


def ingested(**changes: Any) -> list[TableOverview]:
    events, orders, sales = healthy()
    assert orders.ingestion is not None
    error = changes.get("error", "")
    return [events, replace(orders, error=error, ingestion=replace(orders.ingestion, **changes)), sales]


Series = dict[str, float]


def series(service: StillService | None, now: datetime = NOW, instance: str = "a") -> Series:
    """What one scrape of a service brings; None for one that does not answer."""
    names = f'job="arctic",instance="{instance}"'
    if service is None:
        return {f"up{{{names}}}": 0.0}
    text = Metrics(service, ServiceThresholds(), lambda: now).format_metrics()[0].decode()
    series = {f"up{{{names}}}": 1.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join([names, *(f"{name}={json.dumps(value)}" for name, value in sample.labels.items())])
            series[f"{sample.name}{{{labels}}}"] = sample.value
    return series


@dataclass(frozen=True)
class Case:
    """An alert, what Prometheus scrapes before and while it is to fire, and what it then says."""

    alert: str
    then: Series
    labels: dict[str, str]
    summary: str
    first: Series = field(default_factory=dict)


LEADER = {"job": "arctic", "instance": "a"}
TABLE = {**LEADER, "table": str(SALES), "layer": "1"}
SOURCE = {**LEADER, "table": str(ORDERS), "layer": "0", "source": "shop"}

CASES = (
    Case("ArcticServiceDown", series(None), LEADER, "a gives no metrics"),
    Case(
        "ArcticNoLeader",
        series(StillService(role="stands_by", shown=healthy())),
        {"job": "arctic"},
        "No service leads: no table is refreshed",
    ),
    Case("ArcticNoLeader", series(None), {"job": "arctic"}, "No service leads: no table is refreshed"),
    Case(
        "ArcticPartFailing",
        series(StillService(shown=healthy(), errors={"catalog": "no answer"})),
        {**LEADER, "part": "catalog"},
        "The part catalog of a does not work",
    ),
    Case(
        "ArcticNotLooking",
        series(StillService(shown=healthy(), looked_at=EPOCH)),
        LEADER,
        "a leads, but has not looked at the tables for 4h 59m 0s",
    ),
    Case(
        "ArcticPausedForLong",
        series(StillService(shown=healthy(), is_paused=True)),
        LEADER,
        "All work has been paused for four hours",
    ),
    Case(
        "ArcticTableStale",
        series(
            StillService(
                shown=healthy(state="behind", freshness=Freshness("behind", ago(3630), allowed_lag_seconds=30))
            )
        ),
        TABLE,
        f"{SALES} is 1h 0m 0s later than its target_lag allows",
    ),
    Case(
        "ArcticModelFailing",
        series(StillService(shown=healthy(state="failed"))),
        {**TABLE, "state": "failed"},
        f"{SALES} can't be refreshed, and models below it wait",
    ),
    Case(
        "ArcticUpkeepBehind",
        series(StillService(shown=healthy(bytes=4 * 1024**3, waste_bytes=3 * 1024**3))),
        TABLE,
        f"Readers of {SALES} read 3GiB in vain",
    ),
    Case(
        "ArcticIngestionLag",
        series(StillService(shown=ingested(as_of=ago(420)))),
        SOURCE,
        f"{ORDERS} is 7m 0s behind shop",
    ),
    Case(
        "ArcticIngestionFailing",
        series(StillService(shown=ingested(error="no connection"))),
        SOURCE,
        f"The ingestion of {ORDERS} from shop fails",
    ),
    Case(
        "ArcticSourceNotIngested",
        series(StillService(shown=ingested(is_running=False))),
        {**LEADER, "source": "shop"},
        "No process ingests shop",
    ),
    Case(
        "ArcticTableMissing",
        series(StillService(shown=healthy(state="missing"))),
        {**TABLE, "state": "missing"},
        f"{SALES} does not exist",
    ),
    Case(
        "ArcticDeadLettersGrow",
        series(StillService(shown=ingested(dead_letters=4))),
        {**LEADER, "source": "shop"},
        "Events of shop can't be applied",
        first=series(StillService(shown=ingested())),
    ),
)


def rules() -> dict[str, Any]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def checked(first: Series, then: Series, alerts: Iterable[tuple[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """A test of promtool: `first` for all but the last ten minutes if there is any, and `then`."""
    before = MINUTES - 10 if first else 0

    def values(name: str) -> str:
        parts = ((first.get(name), before), (then.get(name), MINUTES - before))
        return " ".join(
            f"_x{count}" if value is None else f"{value:.17g}+0x{count - 1}" for value, count in parts if count
        )

    read = {match["name"] for rule in rules().values() for match in _NAME.finditer(rule["expr"])}
    names = [name for name in {**first, **then} if name.partition("{")[0] in read]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values(name)} for name in names],
        "alert_rule_test": [
            {"eval_time": f"{MINUTES - 1}m", "alertname": name, "exp_alerts": expected} for name, expected in alerts
        ],
    }


def fires(case: Case) -> dict[str, Any]:
    rule = rules()[case.alert]
    annotations = {**rule["annotations"], "summary": case.summary}
    expected = {"exp_labels": {**case.labels, **rule["labels"]}, "exp_annotations": annotations}
    return checked(case.first, case.then, [(case.alert, [expected])])


def run(folder: Path, tests: list[dict[str, Any]]) -> None:
    file = folder / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


@needs_promtool
def test_alerts_fire_for_what_a_service_really_tells(tmp_path: Path) -> None:
    run(tmp_path, [fires(case) for case in CASES])


@needs_promtool
def test_no_alert_fires_while_all_is_well(tmp_path: Path) -> None:
    """One replica leads and another one, which knows nothing of the tables, stands by."""
    leads = series(StillService(shown=healthy(), looked_at=ago(0)))
    stands_by = series(StillService(role="stands_by", shown=StillService().shown), instance="b")
    run(tmp_path, [checked({}, {**leads, **stands_by}, [(name, []) for name in rules()])])


@needs_promtool
def test_alerts_fire_for_each_trouble_of_a_source_and_for_no_other(tmp_path: Path) -> None:
    """What a trouble tells goes on for hours."""
    tests = []
    for trouble in TROUBLES.values():
        seen = series(StillService(shown=trouble.overviews(NOW)))
        names = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(trouble.alerts)]
        firing = 'group by (alertname) (ALERTS{alertstate="firing"})'
        question = {"expr": firing, "eval_time": f"{MINUTES - 1}m", "exp_samples": names}
        tests.append({**checked({}, seen, ()), "promql_expr_test": [question]})
    run(tmp_path, tests)


@pytest.mark.parametrize("name", rules())
def test_an_alert_leads_to_a_heading_of_a_page(name: str) -> None:
    address, anchor = rules()[name]["annotations"]["runbook_url"].split("#")
    folder, page = address.rsplit("/", 1)
    assert f'Documentation = "{folder.replace("/blob/", "/tree/")}"' in (DEPLOY.parent / "pyproject.toml").read_text()
    headings = re.findall(r"^#+ (.+)$", (DEPLOY.parent / "docs" / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_an_alert_that_the_runbooks_name_leads_to_them() -> None:
    text = (DEPLOY.parent / "docs" / "runbooks.md").read_text()
    leading = {name for name, rule in rules().items() if "/runbooks.md#" in rule["annotations"]["runbook_url"]}
    assert leading == set(re.findall(r"\bArctic[A-Z]\w+", text))


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == set(rules())


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    promtool("check", "rules", RULES)


# What rules and dashboard ask for


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield panel
        yield from panel.get("panels", [])


def dashboard_expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", [])]


def expressions() -> list[str]:
    return [*dashboard_expressions(), *(rule["expr"] for rule in rules().values())]


def exported() -> dict[str, frozenset[str]]:
    """The name of each sample, and its labels."""
    metrics_by_process = {name: frozenset[str]() for name in BY_PROCESS}
    for metric in METRICS:
        if isinstance(metric, Histogram):
            metrics_by_process |= {f"{metric.name}_{part}": frozenset(metric.labels) for part in ("count", "sum")}
            metrics_by_process[f"{metric.name}_bucket"] = frozenset({*metric.labels, "le"})
        else:
            metrics_by_process[metric.name] = frozenset(metric.labels)
    return metrics_by_process


_GROUPED = re.compile(r"\b(?:by|on|without|group_left|ignoring) \((?P<labels>[^)]*)\)")


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    known = exported()
    named = list(_NAME.finditer(expression))
    assert named
    for match in named:
        labels = set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", match["labels"] or ""))
        assert labels <= known[match["name"]] | OF_PROMETHEUS, match[0]
    everywhere = OF_PROMETHEUS.union(*(known[match["name"]] for match in named))
    for grouped in _GROUPED.finditer(expression):
        assert {name.strip() for name in grouped["labels"].split(",") if name.strip()} <= everywhere


@pytest.mark.parametrize(
    "panel", [panel for panel in panels() if panel.get("targets")], ids=lambda panel: panel["title"]
)
def test_a_legend_names_labels_that_its_expression_has(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        names = [match["name"] for match in _NAME.finditer(target["expr"])]
        labels = OF_PROMETHEUS.union(*(exported()[name] for name in names))
        assert set(re.findall(r"{{ *(\w+) *}}", target.get("legendFormat", ""))) <= labels


@needs_promtool
def test_expressions_of_the_dashboard_are_ones_that_prometheus_takes(tmp_path: Path) -> None:
    filled = [
        re.sub(r"\$__rate_interval", "5m", expression).replace("$job", "arctic")
        for expression in dashboard_expressions()
    ]
    queries = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(filled)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}))
    promtool("check", "rules", file)


def test_the_dashboard_shows_most_of_the_metrics() -> None:
    """What a dashboard leaves out is of little use to anybody, or there would be a panel."""
    text = " ".join(expressions())
    left_out = {metric.name for metric in METRICS if metric.name not in text}
    assert left_out == {
        "arctic_service_start_time_seconds",
        "arctic_table_last_commit_timestamp_seconds",
        "arctic_table_last_refresh_timestamp_seconds",
        "arctic_table_hash_nodes",
    }


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
