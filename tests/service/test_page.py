"""The page in Chromium: what it shows, what can be done with it, and that it is safe and open to everybody."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.query.refusal import NotAnswered
from arctic_runtime.service.http.encoding import encode_json
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.live_data import Job, SourceOverview
from tests.service.fake import FLIGHTS, HOSTILE, FakeService, overviews
from tests.service.shown import Shown
from tests.unit.service.http.test_users import TOKENS, USERS
from tests.unit.service.late_sources import NOW as LATE
from tests.unit.service.late_sources import TROUBLES

Show = Callable[..., Shown]


def view_of(table: str) -> str:
    return f"table/{quote(table, safe='')}"


def test_the_graph_shows_each_table_in_its_layer_and_what_flows(page: Shown, fake: FakeService) -> None:
    shown = page.open()
    heads = shown.locator(".layer strong")
    expect(heads).to_have_text(["Sources", "ODS", "DWD", "DWS"])
    source = next(table for table in fake.list_tables() if table.reads == () and table.readers)
    fake.show(replace(source, recent_rows=4321))
    expect(page.card(source.table.name)).to_contain_text("+4,321/min")
    expect(shown.locator(".pulse").first).to_be_attached()


def test_each_layer_says_as_of_when_it_shows_the_source_and_what_it_is_late_for(show: Show) -> None:
    with HttpServer(fake := FakeService(TROUBLES["the lag grows"].overviews(LATE)), HttpSettings(port=0)) as server:
        page = show(server.url)
        for trouble in TROUBLES.values():
            seen = trouble.overviews(datetime.now(timezone.utc))
            for table in seen:
                fake.show(table)
            for table in seen:
                shown = page.open(view_of(str(table.table)))
                expect(shown.locator(".page-head .state")).to_contain_text(table.state)
                assert table.freshness is not None
                why = shown.locator(".why").last
                is_known = table.freshness.as_of is not None
                expect(why).to_contain_text("It shows the source as of" if is_known else "The time as of which")
                if not table.error:
                    expect(why).to_contain_text(f"{table.freshness.reason}.")
                    expect(why).to_contain_text(table.freshness.action)
            page.open()
            expect(page.card("orders").last).to_contain_text(seen[-1].state)


def test_the_header_tells_the_connection_of_the_page_apart_from_the_worst_state_of_the_tables(
    page: Shown, fake: FakeService
) -> None:
    for table in fake.list_tables():
        fake.show(replace(table, state="fresh"))
    shown, tables = page.open(), fake.list_tables()
    pills = shown.locator("header .pill")
    expect(pills).to_have_text(["connected", "up to date"])
    for number, state in enumerate(("loading", "behind", "held", "missing", "failed")):
        fake.show(replace(tables[-1 - number], state=state))
        expect(pills).to_have_text(["connected", f"1 of {len(tables)} {state}"])
    source = next(table for table in tables if table.ingestion)
    assert source.ingestion is not None
    fake.show(replace(source, ingestion=replace(source.ingestion, is_running=False)))
    expect(pills).to_have_text(["connected", "shop not ingested"])
    fake.fail("catalog", "no answer")
    expect(pills).to_have_text(["connected", "1 part not working", "shop not ingested"])


def test_each_source_is_shown_with_its_process_its_position_its_lag_and_its_error_once(
    page: Shown, fake: FakeService
) -> None:
    error = "no such host db2.\n  what to do: correct `host`"
    loading = SourceOverview("clicks", "kafka broker:9092", True, "this service", tables=3, loaded_tables=1)
    bank = SourceOverview("bank", "mysql db2:3306/bank", False, "process 9 on old", error=error)
    fake.more_sources = [bank, loading, replace(bank, source="till", error="")]
    fake.fail("ingest bank", error)
    shown = page.open("service")
    rows = shown.get_by_role("region", name="Sources").locator("tbody tr")
    expect(rows).to_have_count(4)
    for row, texts in zip(
        rows.all(),
        (
            ("shop", "postgresql db1:5432/shop", "running", "process 7 on etl", "LSN 0/16B3748", "1 s behind"),
            ("bank", "mysql db2:3306/bank", "failing"),
            ("clicks", "kafka broker:9092", "loading", "this service", "1 of 3"),
            ("till", "not running", "process 9 on old"),
        ),
        strict=True,
    ):
        for text in texts:
            expect(row).to_contain_text(text)
    expect(shown.get_by_text("no such host db2")).to_have_count(1)
    assert page.broken_rules() == []


def test_the_error_of_an_ingested_table_is_shown_once_and_its_source_is_named(page: Shown, fake: FakeService) -> None:
    table = next(table for table in fake.list_tables() if table.ingestion)
    assert table.ingestion is not None
    error = "no such host db1.\n  what to do: correct `host`"
    late = Freshness("behind", LATE, "shop", LATE, "ingestion of source shop fails: no such host db1", "correct `host`")
    ingestion = replace(table.ingestion, error=error)
    fake.show(replace(table, state="failed", error=error, freshness=late, ingestion=ingestion))
    shown = page.open(view_of(str(table.table)))
    expect(shown.get_by_text("no such host db1")).to_have_count(1)
    expect(shown.locator(".path")).to_contain_text(
        f"ingested from {table.ingestion.table} of shop (postgresql db1:5432/shop)"
    )


def test_a_quarantine_has_an_edge_from_its_table_and_names_it(show: Show) -> None:
    made = overviews(20)
    tested = made[-1]
    quarantine = tested.table.quarantine
    made.append(replace(tested, table=quarantine, tested_table=tested.table, layer=tested.layer + 1, readers=()))
    with HttpServer(FakeService(made), HttpSettings(port=0)) as server:
        page = show(server.url)
        shown = page.open()
        expect(page.card(quarantine.name)).to_be_attached()
        expect(shown.locator(".edge.quarantine")).to_have_count(1)
        page.open(view_of(str(quarantine)))
        expect(shown.locator(".path a")).to_contain_text(tested.table.name)


@pytest.mark.slow
def test_what_happens_is_shown_as_it_happens(page: Shown, fake: FakeService) -> None:
    page.open()
    table = fake.find_table(FLIGHTS)
    assert table is not None
    fake.show(replace(table, state="failed", error="two rows have the key 4711"))
    card = page.card("ods_flights")
    expect(card).to_contain_text("failed")
    card.click()
    expect(page.page.locator(".failure")).to_contain_text("two rows have the key 4711")
    fake.show(replace(table, state="fresh", error="", freshness=Freshness("fresh", datetime.now(timezone.utc))))
    expect(page.page.get_by_text("It shows its sources as they are, through all layers.")).to_be_visible()
    ingested = next(table for table in fake.list_tables() if table.ingestion)
    page.open(view_of(str(ingested.table)))
    expect(page.page.get_by_text("none since this page was opened")).to_be_visible()
    fake.move(random.Random(1), 40)
    expect(page.page.get_by_text("events in 0.8 s")).to_be_visible()


def test_names_of_tables_stay_text(page: Shown, fake: FakeService) -> None:
    hostile = [str(table.table) for table in fake.list_tables()][-len(HOSTILE) :]
    shown = page.open()
    for view in ("tables", *(view_of(name) for name in hostile), "jobs", "service"):
        page.open(view)
        expect(shown.locator("h1, .list")).not_to_have_count(0)
        expect(shown.locator("img:not([src='/page/icon.svg']), main script")).to_have_count(0)
        assert shown.title().endswith("– dbt-arctic")
    page.open(view_of(hostile[0]))
    expect(shown.get_by_role("heading", level=1)).to_have_text(hostile[0].split(".", 2)[2])


@pytest.mark.parametrize(
    ("scheme", "views"),
    [
        ("light", ("", view_of(FLIGHTS))),
        pytest.param("light", ("tables", "jobs", "service"), marks=pytest.mark.slow),
        pytest.param("dark", ("", "tables", view_of(FLIGHTS), "jobs", "service"), marks=pytest.mark.slow),
    ],
)
def test_no_rule_of_accessibility_is_broken(
    show: Show, fake: FakeService, shop: tuple[FakeService, str], scheme: str, views: tuple[str, ...]
) -> None:
    page = show(shop[1], color_scheme=scheme, reduced_motion="reduce")
    broken: dict[str, list[str]] = {}
    for view in views:
        page.open(view)
        page.page.locator("main :is(h1, h2, .card, tbody tr)").first.wait_for()
        broken[view] = page.broken_rules()
    page.open(view_of(FLIGHTS)).get_by_role("button", name="Compact…").click()
    page.page.locator("dialog pre").wait_for()
    broken["dialog"] = page.broken_rules()
    page.open().get_by_role("searchbox").fill("ods_flights")
    page.page.locator(".match").first.wait_for()
    broken["search"] = page.broken_rules()
    assert {view: rules for view, rules in broken.items() if rules} == {}


def test_a_change_shows_its_plan_first(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    shown.get_by_role("button", name="Compact…").click()
    expect(shown.locator("dialog pre")).to_contain_text("would compact")
    shown.get_by_label("Mode").select_option("full")
    expect(shown.get_by_role("button", name="Do it")).to_be_enabled()
    assert not [asked for asked in fake.asked if asked[0] == "submit"]
    shown.get_by_role("button", name="Close").click()
    expect(shown.locator("dialog")).to_have_count(0)
    shown.get_by_role("button", name="Compact…").click()
    shown.get_by_role("button", name="Do it").click()
    expect(shown.locator("dialog")).to_have_count(0)
    assert ("submit", "compact", (FLIGHTS,), {"mode": "auto"}) in fake.asked


def test_what_replaces_rows_is_confirmed_and_asked_for_with_what_was_filled_in(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    dialog = shown.get_by_role("dialog")
    shown.get_by_role("button", name="Change…").click()
    dialog.get_by_label("Operation").select_option("Restore")
    button = dialog.get_by_role("button", name="Restore")
    expect(button).to_be_disabled()
    expect(shown.locator("datalist option[value='before-migration']")).to_be_attached()
    dialog.get_by_label("version").fill("before-migration")
    expect(button).to_be_disabled()
    dialog.get_by_label(f"Do this to {FLIGHTS}").check()
    assert page.broken_rules() == []
    assert not [asked for asked in fake.asked if asked[0] == "submit"]
    button.click()
    expect(shown.locator("dialog")).to_have_count(0)
    assert ("submit", "restore", (FLIGHTS,), {"version": "before-migration"}) in fake.asked


@pytest.mark.slow
def test_savepoints_overwrites_and_resets_are_asked_for_as_the_registry_has_them(
    page: Shown, fake: FakeService
) -> None:
    shown = page.open(view_of(FLIGHTS))
    dialog = shown.get_by_role("dialog")

    def choose(title: str) -> None:
        shown.get_by_role("button", name="Change…").click()
        dialog.get_by_label("Operation").select_option(title)

    choose("Savepoint")
    dialog.get_by_label("name").fill("before <b>")
    dialog.get_by_role("button", name="Savepoint").click()
    expect(shown.locator("dialog")).to_have_count(0)
    choose("Savepoint")
    dialog.get_by_label("name").fill("old")
    dialog.get_by_label("drop").check()
    dialog.get_by_role("button", name="Savepoint").click()
    expect(shown.locator("dialog")).to_have_count(0)
    choose("Overwrite")
    dialog.get_by_label("source").fill("ods.extract")
    dialog.get_by_label("as of").fill("4711")
    dialog.get_by_label("partition").fill("day")
    dialog.get_by_label(f"Do this to {FLIGHTS}").check()
    dialog.get_by_role("button", name="Overwrite").click()
    expect(shown.get_by_role("alert")).to_contain_text("each line must be COLUMN=VALUE")
    dialog.get_by_label("partition").fill("day=2013-01-01\nregion=a=b")
    dialog.get_by_role("button", name="Overwrite").click()
    expect(shown.locator("dialog")).to_have_count(0)
    choose("Reset")
    expect(shown.locator("dialog pre")).to_contain_text("would reset")
    dialog.get_by_label(f"Do this to {FLIGHTS}").check()
    dialog.get_by_role("button", name="Reset").click()
    expect(shown.locator("dialog")).to_have_count(0)
    partition = {"day": "2013-01-01", "region": "a=b"}
    assert [asked[1:] for asked in fake.asked if asked[0] == "submit"] == [
        ("savepoint", (FLIGHTS,), {"name": "before <b>"}),
        ("savepoint", (FLIGHTS,), {"name": "old", "drop": True}),
        ("overwrite", (FLIGHTS,), {"source": "ods.extract", "as_of": "4711", "partition": partition}),
        ("reset", (FLIGHTS,), {}),
    ]


@pytest.mark.slow
def test_a_refusal_of_the_service_stays_below_what_was_filled_in(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    dialog = shown.get_by_role("dialog")
    fake.failure = ConfigError("no version is named 12", fix="give a savepoint")
    shown.get_by_role("button", name="Change…").click()
    dialog.get_by_label("Operation").select_option("Restore")
    dialog.get_by_label("version").fill("12")
    dialog.get_by_label(f"Do this to {FLIGHTS}").check()
    dialog.get_by_role("button", name="Restore").click()
    expect(dialog.get_by_role("alert").locator("pre")).to_have_text("no version is named 12")
    expect(dialog.get_by_role("alert").locator("p")).to_have_text("What to do: give a savepoint")
    expect(dialog.get_by_label("version")).to_have_value("12")


@pytest.mark.slow
def test_failing_tests_of_a_table_are_shown_on_its_page_until_they_pass(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    fake.fail(f"tests of {FLIGHTS}", "1 of 2 tests failed\n  FAIL unique: Got 3 results")
    expect(shown.get_by_role("alert")).to_contain_text("FAIL unique: Got 3 results")
    expect(shown.get_by_text("1 part not working")).to_be_visible()
    shown.get_by_role("link", name="Service").click()
    expect(shown.get_by_role("alert")).to_contain_text(f"tests of {FLIGHTS}: 1 of 2 tests failed")
    shown.go_back()
    fake.fail(f"tests of {FLIGHTS}", "")
    expect(shown.get_by_role("alert")).to_have_count(0)


@pytest.mark.slow
def test_a_table_is_paused_and_resumed(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    shown.get_by_role("button", name="Pause", exact=True).click()
    shown.get_by_role("button", name="Resume").click()
    expect(shown.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert [asked for asked in fake.asked if asked[0] in ("pause", "resume")] == [
        ("pause", (FLIGHTS,), False),
        ("resume", (FLIGHTS,)),
    ]


@pytest.mark.slow
def test_two_versions_are_compared_row_by_row(page: Shown) -> None:
    shown = page.open(view_of(FLIGHTS))
    shown.get_by_role("button", name="Compare the two").click()
    rows = shown.locator("table.diff tbody tr")
    expect(rows).to_have_count(4)
    # A number that JavaScript can't hold stays what it is.
    expect(rows.nth(0)).to_contain_text("9007199254740993")


@pytest.mark.slow
def test_a_batch_under_way_is_a_job_that_nobody_cancels(page: Shown, fake: FakeService) -> None:
    tables, began = (TableName("lake", "ods", "ods_flights"),), datetime.now(timezone.utc)
    reason = "8,192 events of a load, piece 3: table 2 of 8, 157,000 rows so far from postgresql db1:5432/shop"
    job = Job("900", "ingest", "ingest shop", tables, "running", began, began, reason=reason)
    fake.events.append_event("job", job)
    shown = page.open("jobs")
    fake.events.append_event("job", job)
    batch = shown.locator(".job", has_text="ingest shop")
    expect(batch).to_contain_text(reason)
    expect(batch.get_by_role("button")).to_have_count(0)
    fake.events.append_event(
        "job", replace(job, state="done", rows={"upsert": 12, "delete": 1}, lines=("shop: 13 events",))
    )
    expect(batch).to_contain_text("+12 ~0 −1")
    assert page.broken_rules() == []


def test_a_job_is_cancelled(page: Shown, fake: FakeService) -> None:
    shown = page.open("jobs")
    running = shown.locator(".job-running")
    expect(running).to_have_count(1)
    running.get_by_role("button").click()
    expect(running).to_have_count(0)
    expect(shown.locator(".job-cancelled")).to_have_count(1)


def test_jobs_are_found_by_text_kind_and_state_and_their_durations_are_drawn(page: Shown, fake: FakeService) -> None:
    shown = page.open("jobs")
    jobs = shown.locator(".job")
    expect(jobs).to_have_count(8)
    expect(shown.get_by_role("img", name="6 ended jobs took")).to_be_visible()
    expect(shown.locator(".job-done .time").first).to_contain_text("ended")
    full = "in full: so many rows have changed that a full computation is cheaper"
    expect(shown.get_by_text(full)).to_be_visible()
    shown.get_by_role("searchbox").fill("a full computation")
    expect(jobs).to_have_count(1)
    shown.get_by_role("searchbox").fill("")
    shown.get_by_label("Kind").select_option("Upkeep")
    expect(jobs).to_have_count(2)
    shown.get_by_role("button", name="waiting 1").click()
    expect(jobs).to_have_count(1)
    expect(jobs).to_contain_text("212 snapshots are older than 5 days")
    shown.get_by_label("Kind").select_option("Refreshes")
    expect(shown.get_by_text("No job has this text, kind and state.")).to_be_visible()
    assert page.broken_rules() == []


def test_what_rewrites_or_alters_a_table_is_apart_from_its_refresh(page: Shown) -> None:
    shown = page.open(view_of(FLIGHTS))
    head = shown.locator(".page-head .actions button")
    expect(head).to_have_text(["Refresh now", "Pause", "Pause upkeep"])
    far = shown.get_by_role("region", name="Files, rows and versions")
    expect(far.get_by_role("button")).to_have_text(["Compact…", "Expire…", "Split nodes…", "Change…"])


def test_a_table_has_its_query_columns_with_origins_and_tests_with_results(page: Shown) -> None:
    shown = page.open(view_of(FLIGHTS))
    columns = shown.get_by_role("region", name="Columns", exact=True)
    rows = columns.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("key")
    # A description is text, whatever it says.
    expect(rows.last).to_contain_text("Minutes, <b>late</b> is positive")
    expect(rows.last).to_contain_text(".delay aggregation")
    columns.get_by_text("SQL", exact=True).click()
    expect(columns.locator("pre")).to_contain_text("sum(delay) as delay")
    tests = shown.get_by_role("region", name="Tests", exact=True)
    expect(tests).to_contain_text("1 of 3 fail.")
    expect(tests.locator("li").first).to_contain_text("Got 3 results")
    expect(tests.locator("li").nth(1)).to_contain_text("no result yet")
    assert page.broken_rules() == []


def test_a_table_has_its_freshness_and_its_rows_over_days(page: Shown) -> None:
    shown = page.open(view_of(FLIGHTS))
    history = shown.get_by_role("region", name="History", exact=True)
    expect(history).to_contain_text("It was late or failing for 2 h")
    expect(history.get_by_role("img", name="Age over time, at most 2 h")).to_be_visible()
    expect(history.get_by_role("img", name="Rows over time")).to_be_visible()


def test_the_cost_of_the_next_refresh_is_estimated_on_request(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    panel = shown.get_by_role("region", name="Cost of the next refresh, and of all below")
    assert not any(asked[:2] == ("ask", "preview") for asked in fake.asked)
    panel.get_by_role("button", name="Estimate").click()
    rows = panel.get_by_role("region", name="Estimated refreshes").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("the <b>query</b> changed")
    for text in ("2.9 MiB (1.9 MiB to 3.8 MiB)", "10 (0 to 20)", "3 s (2 s to 4 s)", "8%"):
        expect(rows.first).to_contain_text(text)
    expect(rows.last).to_contain_text("nothing to do")
    assert page.broken_rules() == []


def test_differences_are_shown_by_table_by_column_and_by_row(page: Shown, fake: FakeService) -> None:
    shown = page.page
    shown.goto(f"{page.url}/diff")
    expect(shown.get_by_role("heading", level=1)).to_have_text("Differences")
    shown.get_by_label("Other schema").fill("prod")
    shown.get_by_role("button", name="Compare").click()
    expect(shown.get_by_text("23 of 45 tables differ.")).to_be_visible()
    rows = shown.get_by_role("region", name="Compared tables").locator("tbody tr")
    expect(rows).to_have_count(23)
    shown.get_by_label("Show those that are the same").check()
    expect(rows).to_have_count(45)
    rows.first.get_by_role("button").click()
    examples = shown.get_by_role("region", name="Example rows")
    expect(examples.locator("tbody tr")).to_have_count(4)
    expect(examples).to_contain_text("<b>new</b>")
    expect(examples.get_by_role("columnheader", name="email masked")).to_be_visible()
    compared = "Only rows that changed since the two were one table were compared in 0.4 s, from files of 4.0 KiB."
    expect(shown.get_by_text(f"of 12,345. {compared}")).to_be_visible()
    assert page.broken_rules() == []
    shown.get_by_role("button", name="delay 31").click()
    changed = shown.get_by_role("region", name="Rows in which delay changed")
    expect(changed.locator("tbody tr")).to_have_count(1)
    expect(changed).to_contain_text("<i>5</i>")
    shown.get_by_role("button", name="note 2").click()
    expect(shown.get_by_role("region", name="Rows in which note changed")).to_contain_text("id=8")
    assert page.broken_rules() == []
    assert ("submit", "diff", (), {"other_schema": "prod"}) in fake.asked
    assert shown.url.endswith("/#/diff")


WHY = {
    "name": "why",
    "description": "the changes of one row",
    "tables": "one",
    "changes": False,
    "needs_confirmation": False,
    "has_plan": False,
    "is_answered_at_once": False,
    "arguments": [{"name": "key", "type": "array", "description": "", "default": None, "is_required": True}],
}


def test_the_way_of_a_row_is_followed_by_its_key_where_the_service_can(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    box = shown.get_by_role("search", name="Row by its key")
    operations = shown.evaluate("fetch('/api/operations').then((answer) => answer.json())")
    has_why = any(operation["name"] == "why" for operation in operations)
    expect(shown.get_by_role("region", name="Columns", exact=True)).to_be_visible()
    if not has_why:
        expect(box).to_have_count(0)
        operations.append(WHY)
    shown.route("**/api/operations", lambda route: route.fulfill(json=operations))
    shown.route(
        "**/api/operations/why", lambda route: route.fulfill(json=_answer_why(fake, route.request.post_data_json))
    )
    page.open("tables")
    page.open(view_of(FLIGHTS))
    box.get_by_label("flight_id").fill("<7>")
    box.get_by_role("button").click()
    tree = shown.locator(".json")
    expect(tree).to_contain_text("<7>")
    expect(tree.get_by_role("button", name="10 more")).to_be_visible()
    tree.locator("summary", has_text="update").first.click()
    expect(tree.locator("summary", has_text="upstreams")).to_have_count(1)
    assert page.broken_rules() == []
    assert fake.asked[-1] == ("submit", "why", (FLIGHTS,), {"key": ["<7>"]})


def _answer_why(fake: FakeService, body: Any) -> Any:
    """The job that a service with the operation would start."""
    operation = replace(OPERATIONS[0], name="why")
    return json.loads(encode_json(fake.submit_operation(operation, body["tables"], body["arguments"])))


def test_a_thousand_tables_are_a_few_rows_and_found_by_name_and_state(show: Show) -> None:
    fake = FakeService(overviews(1000))
    with HttpServer(fake, HttpSettings(port=0)) as server:
        page = show(server.url)
        shown = page.open("tables")
        rows = shown.locator("tbody tr:not([aria-hidden])")
        assert 10 < rows.count() < 60
        shown.locator(".list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
        expect(shown.locator("tr[aria-rowindex='1001']")).to_be_visible()
        shown.keyboard.press("/")
        shown.keyboard.type("dws_seats_by_hour_7")
        expect(rows).to_have_count(1)
        shown.keyboard.press("Escape")
        failed = sum(table.state == "failed" for table in fake.list_tables())
        shown.get_by_role("button", name=f"failed {failed}").click()
        expect(shown.get_by_text(f"{failed} tables", exact=True)).to_be_attached()
        page.open("")
        expect(shown.locator(".note")).to_contain_text(f"{failed} of 1,000 tables")
        shown.keyboard.press("Escape")
        shown.get_by_role("button", name="Show all tables").click()
        expect(shown.locator(".cell")).to_have_count(1000)


def test_the_keyboard_reaches_everything(page: Shown) -> None:
    shown = page.open()
    shown.keyboard.press("Tab")
    expect(shown.get_by_text("Skip to the content")).to_be_focused()
    shown.keyboard.press("/")
    expect(shown.get_by_role("searchbox")).to_be_focused()
    shown.keyboard.type("ods_flights")
    page.card("ods_flights").focus()
    shown.keyboard.press("Enter")
    expect(shown.get_by_role("heading", level=1)).to_contain_text("ods_flights")
    shown.keyboard.press("Escape")
    expect(shown.get_by_role("searchbox")).to_have_value("ods_flights")
    shown.keyboard.press("Escape")
    expect(shown.get_by_role("searchbox")).to_have_value("")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_every_view_fits_its_window_with_a_failing_source_a_lag_and_a_long_list(
    show: Show, scheme: str, width: int
) -> None:
    fake = FakeService(overviews(1000))
    source = next(table for table in fake.list_tables() if table.ingestion)
    below = next(table for table in fake.list_tables() if source.table in table.reads)
    assert source.ingestion is not None
    error = "source shop: " + "db1-with-a-long-name-" * 12 + "\n  what to do: start it"
    fake.show(replace(source, state="failed", error=error, ingestion=replace(source.ingestion, error=error)))
    late = Freshness(
        "behind", LATE, "lake.ods." + "x" * 120, LATE, "it has 3 commits more", action="wait", allowed_lag_seconds=60.0
    )
    fake.show(replace(below, state="behind", freshness=late))
    fake.fail("ingest shop", error)
    with HttpServer(fake, HttpSettings(port=0)) as server:
        page = show(server.url, viewport={"width": width, "height": 844}, color_scheme=scheme)
        shown = page.page
        for view in (
            "",
            "tables",
            view_of(str(source.table)),
            view_of(str(below.table)),
            "jobs",
            "diff",
            "query",
            "service",
        ):
            shown.goto(f"{page.url}/#/{view}")
            shown.get_by_text("1 part not working").wait_for()
            shown.locator("main :is(h1, .card, tbody tr)").first.wait_for()
            if view == "diff":
                shown.get_by_role("button", name="Compare").click()
                shown.get_by_role("region", name="Compared tables").get_by_role("button").first.click()
                shown.get_by_role("button", name="delay 31").click()
            assert shown.evaluate("document.documentElement.scrollWidth") <= width, view
            assert shown.evaluate(FIND_WIDE) == [], view
        assert page.broken_rules() == []


FIND_WIDE = """
[...document.querySelectorAll(".page, .panel:not(:has(table)), .job, .failure, .why, form")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1)
  .map((element) => `${element.tagName}.${element.className} ${element.id}`)
"""
"""What is wider than its place, where nothing may be scrolled sideways."""


def test_a_token_is_asked_for_and_kept_in_the_tab_alone(show: Show) -> None:
    token = "a-token-that-nobody-guesses"
    with HttpServer(FakeService(overviews(20)), HttpSettings(port=0, token=token)) as server:
        page = show(server.url)
        shown = page.page
        shown.goto(server.url)
        field = shown.get_by_label("Token of the service")
        field.fill("not-the-token-at-all")
        shown.keyboard.press("Enter")
        expect(shown.get_by_role("alert")).to_contain_text("does not accept")
        assert page.broken_rules() == []
        field.fill(token)
        shown.keyboard.press("Enter")
        expect(shown.get_by_text("connected", exact=True)).to_be_visible()
        page.open(view_of(FLIGHTS))
        shown.get_by_role("button", name="Show 20 rows").click()
        rows = shown.get_by_role("region", name="Sample rows of the table")
        expect(rows.locator("tbody tr")).to_have_count(5)
        expect(rows.locator("tbody tr").first).to_contain_text("<b>0</b>")
        expect(rows).not_to_contain_text("0@x")
        assert page.broken_rules() == []
        assert shown.evaluate("({...localStorage})") == {}
        assert shown.evaluate("document.cookie") == ""
        assert token not in shown.url


@pytest.fixture
def asking(show: Show) -> Iterator[tuple[Shown, FakeService]]:
    """The view of queries of a service that needs a token, after a reader has entered one."""
    with HttpServer(fake := FakeService(overviews(20)), HttpSettings(port=0, users=USERS)) as server:
        page = show(server.url)
        page.page.goto(f"{server.url}/#/query")
        page.page.get_by_label("Token of the service").fill(TOKENS["reader"])
        page.page.keyboard.press("Enter")
        page.page.get_by_role("heading", name="Query").wait_for()
        yield page, fake


def test_a_query_is_run_by_the_keyboard_and_its_values_stay_text(asking: tuple[Shown, FakeService]) -> None:
    page, fake = asking
    shown = page.page
    expect(shown.get_by_role("button", name="Run")).to_be_disabled()
    shown.get_by_role("textbox", name="Text of the query").fill("select * from flights")
    shown.keyboard.press("Control+Enter")
    rows = shown.get_by_role("region", name="Rows of the query")
    expect(rows.get_by_role("columnheader")).to_have_text(
        ["id bigint", "<i>note</i> string", "parts map<string,bigint>"]
    )
    cells = [row.get_by_role("cell").all_text_contents() for row in rows.locator("tbody tr").all()]
    assert cells == [
        ["1", HOSTILE[0], '{"a":1}'],
        [str(2**60), HOSTILE[1], "{}"],
        ["3", "null", "null"],
    ]
    expect(shown.get_by_role("status").last).to_have_text("3 rows in 0.3 s.")
    expect(shown.locator("main :is(img, script)")).to_have_count(0)
    assert fake.asked == [("sql", "select * from flights", 200)]
    assert page.broken_rules() == []


def test_a_refused_query_shows_its_reason_and_what_to_do_and_stays_where_it_was_typed(
    asking: tuple[Shown, FakeService],
) -> None:
    page, fake = asking
    shown, text = page.page, "select avg(amount)\nfrom orders"
    fake.failure = NotAnswered("`AVG(<b>amount</b>)` of decimal(10,2)")
    shown.get_by_role("textbox", name="Text of the query").fill(text)
    shown.get_by_role("button", name="Run").click()
    failure = shown.get_by_role("alert")
    expect(failure).to_contain_text("otherwise than Spark: `AVG(<b>amount</b>)` of decimal(10,2)")
    expect(failure).to_contain_text("What to do: write it in another way, or run it by Spark")
    assert page.broken_rules() == []
    shown.get_by_role("link", name="Jobs").click()
    shown.get_by_role("heading", name="Jobs").wait_for()
    shown.get_by_role("link", name="Query").click()
    expect(shown.get_by_role("textbox", name="Text of the query")).to_have_value(text)
    fake.failure = None
    shown.get_by_role("button", name="Run").click()
    expect(shown.get_by_text("3 rows in 0.3 s.")).to_be_visible()
    assert {"local": shown.evaluate("({...localStorage})"), "url": "select" in shown.url} == {"local": {}, "url": False}


def test_a_service_without_a_token_answers_no_query_and_says_how_it_would(page: Shown, fake: FakeService) -> None:
    shown = page.open("query")
    shown.get_by_role("textbox", name="Text of the query").fill("select 1")
    shown.get_by_role("button", name="Run").click()
    expect(shown.get_by_role("alert")).to_contain_text("Rows are only shown by a service that needs a token.")
    assert not [asked for asked in fake.asked if asked[0] == "sql"]


def test_a_service_without_a_token_shows_no_rows_and_says_how_it_would(page: Shown, fake: FakeService) -> None:
    shown = page.open(view_of(FLIGHTS))
    shown.get_by_role("button", name="Show 20 rows").click()
    expect(shown.get_by_role("alert")).to_contain_text("Rows are only shown by a service that needs a token.")
    assert not [asked for asked in fake.asked if asked[0] == "rows"]


@pytest.mark.slow
def test_a_service_that_comes_back_is_shown_again(show: Show) -> None:
    fake = FakeService(overviews(20))
    server = HttpServer(fake, HttpSettings(port=0))
    server.start_server()
    page = show(server.url)
    shown = page.open()
    port = int(server.url.rsplit(":", 1)[1])
    server.stop_server()
    expect(shown.get_by_text("not connected")).to_be_visible()
    moved = replace(fake.list_tables()[0], recent_rows=777)
    with HttpServer(FakeService([moved, *fake.list_tables()[1:]]), HttpSettings(port=port)):
        expect(shown.get_by_text("connected", exact=True)).to_be_visible()
        expect(page.card(moved.table.name)).to_contain_text("+777/min")
    page.errors.clear()
