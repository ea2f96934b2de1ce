"""Reports for people: every figure is there once, and no value is interpreted by the format."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.audit.report import (
    FORMATS,
    AuditReport,
    Example,
    Group,
    ModelAudit,
    format_html,
    format_markdown,
    format_text,
    shorten,
)

LATE = Group("lost", "late", 2, 2, (Example({"id": "7"}, {}, {}), Example({"id": None}, {}, {})))
STALE = Group("stale", "joined", 1, 1, (Example({"id": "3"}, {"name": "ann"}, {"name": "eve"}),))
PENDING = Group("lost", "pending", 4, 4)
WRONG = ModelAudit(
    "orders", "lake.s.orders", "failed", ("id",), "unique_key", 10, filters=("at > 1",), notes=("not compared: x",)
).with_groups((STALE, PENDING, LATE))
REPORT = AuditReport(
    (
        ModelAudit("customers", "lake.s.customers", "exact", ("id",), "tests", 5),
        WRONG,
        ModelAudit("broken", "lake.s.broken", "failed", error="TABLE_OR_VIEW_NOT_FOUND\nsecond line"),
        ModelAudit("new", "lake.s.new", "not built"),
    ),
    "2024-01-01T00:00:00+00:00",
)
TEXT = """\
model      verdict       wrong  lost  left over  stale  doubled  pending  likely cause
customers  exact
orders     wrong             3     2                 1                 4  late event
broken     not compared
new        not built

orders (lake.s.orders)
  rows are compared by id (unique_key)
  filter: at > 1
  2 rows lost: likely late event: the event time is not above the newest row that the table had when the event came
    id=7
    id=null
  1 row stale: likely changed side of a join: only columns of a joined table differ, which is not filtered
    id=3: name: ann instead of eve
  4 rows lost: not run yet: the next incremental run brings these rows
  note: not compared: x

broken (lake.s.broken)
  not compared: TABLE_OR_VIEW_NOT_FOUND
    second line

1 of 3 models is exact; 3 wrong rows in 1 model; 1 model could not be compared; 1 model is not built"""


def test_the_report_for_a_terminal_says_what_is_wrong_and_why() -> None:
    assert format_text(REPORT) == TEXT


def test_wrong_rows_are_those_that_no_run_brings() -> None:
    assert (WRONG.status, WRONG.wrong_rows, WRONG.pending_rows) == ("differs", 3, 4)
    pending = WRONG.with_groups((PENDING,))
    assert (pending.status, pending.wrong_rows, pending.pending_rows) == ("exact", 0, 4)


@pytest.mark.parametrize(
    ("models", "is_exact", "summary"),
    [
        ((REPORT.models[0],), True, "1 of 1 model is exact"),
        ((REPORT.models[0], REPORT.models[3]), True, "1 of 1 model is exact; 1 model is not built"),
        ((REPORT.models[2],), False, "0 of 1 model are exact; 1 model could not be compared"),
        ((WRONG, WRONG), False, "0 of 2 models are exact; 6 wrong rows in 2 models"),
    ],
)
def test_the_summary_counts_models_and_rows(models: tuple[ModelAudit, ...], is_exact: bool, summary: str) -> None:
    report = AuditReport(models)
    assert (report.is_exact, report.summary) == (is_exact, summary)


def test_data_for_programs_have_all_differences() -> None:
    data = REPORT.to_json()
    assert data["summary"] == REPORT.summary
    differences = data["models"][1]["differences"]
    assert [(one["kind"], one["cause"], one["rows"], one["is_proven"]) for one in differences] == [
        ("lost", "late", 2, False),
        ("stale", "joined", 1, False),
        ("lost", "pending", 4, True),
    ]


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@settings(max_examples=40)
@given(st.text(max_size=40))
def test_no_value_becomes_markup(value: str) -> None:
    group = Group("stale", "late", 1, 1, (Example({value: value}, {"a": value}, {"a": "<script>x</script>"}),))
    model = ModelAudit(value, value, "failed", (value,), error=value, filters=(value,), notes=(value,))
    page = Page()
    page.feed(format_html(AuditReport((model.with_groups((group,)),), value)))
    assert page.tags.isdisjoint({"script", "img", "link", "a", "iframe"})
    assert page.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert "<script>x</script>" in page.text
    assert "<script" not in format_markdown(AuditReport((model.with_groups((group,)),), value))


def test_a_page_loads_nothing() -> None:
    page = format_html(REPORT)
    assert not re.search(r"src=|href=|url\(|@import|https?:", page)
    assert "3 wrong rows in 1 model" in page


def test_markdown_has_a_row_for_each_model() -> None:
    lines = format_markdown(REPORT).splitlines()
    assert sum(line.startswith("| ") for line in lines) == 2 + len(REPORT.models)
    assert "**1 of 3 models is exact; 3 wrong rows in 1 model; 1 model could not be compared" in lines[2]


def test_every_format_is_one_text() -> None:
    assert all(isinstance(write(REPORT), str) for write in FORMATS.values())


@pytest.mark.parametrize(("value", "shown"), [(None, "null"), ("a\n b", "a b"), ("x" * 70, "x" * 59 + "…")])
def test_values_are_shown_in_one_short_line(value: str | None, shown: str) -> None:
    assert shorten(value) == shown
