"""An increment may fail, a model may not: what cannot be followed after all is computed in full in the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import ArithmeticException, NumberFormatException
from pyspark.sql import functions as F

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.errors import DataError, PlanError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.properties import GIVEN_UP
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.refresh.attempt import Computed
from arctic_runtime.spark.refresh.compute import QueryComputation
from arctic_runtime.spark.refresh.run import Refresh
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

LANDED = "id int, city string"
SLOW = pytest.mark.slow
Fault = Callable[[QueryComputation], Computed]


def raising(error: Exception) -> Fault:
    def fail(_: QueryComputation) -> Computed:
        raise error

    return fail


def in_a_task(expression: str) -> Fault:
    """Fails while the change rows are written to their branch."""

    def fail(computation: QueryComputation) -> Computed:
        rows = computation.attempt.query.withColumn("city", F.expr(expression))
        return Computed(diff_states(rows, None, computation.attempt.shape))

    return fail


def failing(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> list[QueryComputation]:
    """Lets increments fail from now on; returns those that were tried."""
    tried: list[QueryComputation] = []

    def followed(self: QueryComputation, _: object) -> Computed:
        tried.append(self)
        return fault(self)

    monkeypatch.setattr(QueryComputation, "follow", followed)
    return tried


@pytest.fixture
def grouped(lake: Warehouse) -> Callable[..., Model]:
    """A model that was built over two rows, of which a third one is new."""

    def build(**config: Any) -> Model:
        lake.append("landed", [(1, "a"), (2, "b")], LANDED)
        model = lake.model(
            "grouped", "select city, count(*) as n from {landed} group by city", primary_key="city", **config
        )
        lake.run(model)
        lake.append("landed", [(3, "b")], LANDED)
        return model

    return build


def given_up(lake: Warehouse, model: Model) -> str | None:
    changes = lake.state(model).changes
    assert changes is not None
    return changes.commits[-1].summary.get(GIVEN_UP)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("fault", "reason", "because"),
    [
        pytest.param(raising(KeyError("lake.dwd.gone")), "INCREMENT_FAILED", "KeyError: 'lake.dwd.gone'", marks=SLOW),
        (raising(NotMaintained("UNSUPPORTED", "it is not the same")), "UNSUPPORTED", "it is not the same"),
        pytest.param(
            lambda it: it.spark.sql("select nothing").collect(), "INCREMENT_FAILED", "[UNRESOLVED_COLUMN", marks=SLOW
        ),
        (in_a_task("cast(cast(city || 'x' as int) as string)"), "INCREMENT_FAILED", "[CAST_INVALID_INPUT]"),
        pytest.param(in_a_task("cast(1 / (n - n) as string)"), "INCREMENT_FAILED", "[DIVIDE_BY_ZERO]", marks=SLOW),
    ],
    ids=["planner", "refusal", "analysis", "cast", "arithmetic"],
)  # fmt: skip
def test_an_increment_that_fails_is_computed_in_full_and_not_tried_again(
    lake: Warehouse, grouped: Callable[..., Model], monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str,
    because: str,
) -> None:  # fmt: skip
    model = grouped()
    tried = failing(monkeypatch, fault)
    outcome = lake.run(model, may_fail=True)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("full", reason, (0, 1, 0))
    assert outcome.because.startswith(because)
    assert "\n" not in outcome.because
    assert given_up(lake, model) == f"{reason} {outcome.because}"
    assert lake.branches(model) == set()
    lake.append("landed", [(4, "c")], LANDED)
    explained = lake.refresh_of(model).planner.explain_refresh().decision
    again = lake.run(model, may_fail=True)
    assert (again.mode, again.reason, again.because) == ("full", reason, outcome.because)
    assert (explained.mode, explained.reason, explained.because) == ("full", reason, outcome.because)
    assert len(tried) == 1
    assert lake.rows(model) == [("a", 1), ("b", 2), ("c", 1)]
    assert lake.broken(model) == []


def test_a_failure_of_the_moment_is_tried_again_by_the_next_run(
    lake: Warehouse, grouped: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's errors have no condition of Spark's: a snapshot that expired meanwhile is one."""
    model = grouped()
    with monkeypatch.context() as patched:
        failing(patched, in_a_task("java_method('java.lang.Integer', 'parseInt', 'n/a')"))
        outcome = lake.run(model, may_fail=True)
    assert (outcome.mode, outcome.reason) == ("full", "INCREMENT_FAILED")
    lake.append("landed", [(4, "c")], LANDED)
    assert lake.run(model).mode == "incremental"
    assert given_up(lake, model) is None


@pytest.mark.parametrize("request_", [pytest.param({"full_refresh": True}, marks=SLOW), {}], ids=["refresh", "query"])
def test_changes_are_followed_again_once_somebody_asked_for_it(
    lake: Warehouse, grouped: Callable[..., Model], monkeypatch: pytest.MonkeyPatch, request_: dict[str, bool]
) -> None:
    model = grouped()
    with monkeypatch.context() as patched:
        failing(patched, raising(KeyError("gone")))
        lake.run(model, may_fail=True)
    if not request_:
        model = lake.model("grouped", "select city, count(id) as n from {landed} group by city", primary_key="city")
    assert lake.run(model, **request_).mode == "full"
    lake.append("landed", [(4, "c")], LANDED)
    assert lake.run(model).mode == "incremental"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("refresh", "fault", "error", "message"),
    [
        ("auto", raising(DataError("keys twice")), DataError, "keys twice"),
        ("auto", raising(Py4JNetworkError("gone")), Py4JNetworkError, "gone"),
        ("strict", in_a_task("cast(cast(city || 'x' as int) as string)"), NumberFormatException, "CAST_INVALID"),
        ("strict", raising(NotMaintained("UNSUPPORTED", "not the same")), PlanError, "not the same (UNSUPPORTED)"),
    ],
    ids=["promise", "Spark is gone", "strict", "strict refusal"],
)  # fmt: skip
def test_an_error_that_a_full_refresh_would_not_repair_fails_the_run(
    lake: Warehouse, grouped: Callable[..., Model], monkeypatch: pytest.MonkeyPatch, refresh: str, fault: Fault,
    error: type[Exception], message: str,
) -> None:  # fmt: skip
    model = grouped(refresh=refresh)
    failing(monkeypatch, fault)
    head = lake.head(model)
    with pytest.raises(error, match=message.replace("(", r"\(").replace(")", r"\)")):
        lake.run(model)
    assert (lake.head(model), lake.branches(model)) == (head, set())


def test_where_computing_in_full_fails_too_that_error_is_shown(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("landed", [(1, "a")], LANDED)
    model = lake.model("shares", "select id, 1 / (id - 2) as share from {landed}", primary_key="id")
    lake.run(model)
    lake.append("landed", [(2, "b")], LANDED)
    failing(monkeypatch, raising(KeyError("gone")))
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        lake.run(model)
    assert lake.branches(model) == set()


@pytest.mark.slow
def test_a_run_that_gives_up_reads_its_upstreams_as_they_are_and_says_so(
    lake: Warehouse, grouped: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an invocation has pinned is what increments read; a query reads the newest rows."""
    model = grouped()
    pins = PinnedSnapshots()
    planned = RefreshPlanner(model, lake.reader, pins=pins).plan_refresh()
    lake.append("landed", [(4, "c")], LANDED)
    failing(monkeypatch, raising(NotMaintained("COST", "most of the table")))
    outcome = Refresh(RefreshPlanner(model, lake.reader, pins=pins), lambda: lake.spark).run_refresh()
    assert (outcome.mode, outcome.reason, outcome.because) == ("full", "COST", "most of the table")
    assert lake.rows(model) == [("a", 1), ("b", 2), ("c", 1)]
    assert outcome.consumed != {name: end.snapshot for name, end in planned.decision.consumed.items()}
    assert lake.run(model).mode == "unchanged"
    lake.append("landed", [(5, "c")], LANDED)
    monkeypatch.undo()
    assert lake.run(model).mode == "incremental"
    assert lake.broken(model) == []
