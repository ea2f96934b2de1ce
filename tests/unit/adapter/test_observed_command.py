"""How a command of dbt is observed: from when to when, which of its failures, and never twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.flags import get_flags, set_flags
from dbt_common.events.event_manager_client import cleanup_event_logger

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.telemetry.command_metrics import Series
from arctic_runtime.service.telemetry.metrics_file import parse_series
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.materialize.maintain import perform_unobserved, use_pinned_snapshots
from dbt.adapters.arctic.materialize.observed_command import ObservedCommand
from tests.receivers import OUTSIDE

MODEL = Model(TableName("lake", "dws", "sales"), "select 1 as id", ModelConfig(("id",)))
NODE = {"unique_id": "model.shop.sales"}
DONE = Refreshed(Outcome("incremental", "CHANGES", rows={"insert": 3}))
MANIFEST = SimpleNamespace(nodes={}, sources={})
COMMAND = ("shop", "prod", "dbt build")


@pytest.fixture(autouse=True)
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The command is `dbt build`."""
    for name in [name for name in os.environ if name.startswith(OUTSIDE)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = get_flags()
    set_flags(SimpleNamespace(WHICH="build"))
    yield
    set_flags(before)
    cleanup_event_logger()


def command(tmp_path: Path, publish: str = "model", **telemetry: Any) -> ObservedCommand:
    credentials = ArcticCredentials(
        database="lake", schema="dws", warehouse=str(tmp_path / "warehouse"), publish=publish, telemetry=telemetry
    )
    config = SimpleNamespace(
        credentials=credentials, project_root=str(tmp_path), project_name="shop", target_name="prod"
    )
    return ObservedCommand(config)


def read_file(tmp_path: Path) -> dict[Series, float]:
    return parse_series((tmp_path / "arctic.prom").read_text())


def finish(node: str, status: str, message: str = "") -> Any:
    """An event of dbt: a node has ended."""
    result = SimpleNamespace(status=status, message=message, execution_time=0.5)
    data = SimpleNamespace(node_info=SimpleNamespace(unique_id=node), run_result=result)
    return SimpleNamespace(info=SimpleNamespace(name="NodeFinished"), data=data)


def fail() -> Refreshed:
    raise CatalogError("no answer")


def test_a_command_without_configuration_is_not_observed(tmp_path: Path) -> None:
    observed = command(tmp_path)
    observed.begin_command(MANIFEST)
    assert observed.observe_node(NODE, MANIFEST) is perform_unobserved
    with observed.end_command():
        pass


def test_a_refresh_gives_its_result_and_is_in_the_file_at_the_end(tmp_path: Path) -> None:
    observed = command(tmp_path, metrics_file="arctic.prom")
    assert observed.observe_node(NODE, MANIFEST)(MODEL, lambda: DONE) is DONE
    with observed.end_command():
        assert not (tmp_path / "arctic.prom").exists()

    series = read_file(tmp_path)
    assert series["arctic_model_rows_total", ("shop", "prod", "lake.dws.sales", "insert")] == 3
    assert series["arctic_command_last_run_failed", COMMAND] == 0


def test_a_part_of_a_refresh_by_arctic_is_not_observed_again(tmp_path: Path) -> None:
    observed = command(tmp_path, metrics_file="arctic.prom")
    with use_pinned_snapshots(PinnedSnapshots()):
        assert observed.observe_node(NODE, MANIFEST) is perform_unobserved
    with observed.end_command():
        pass
    assert not (tmp_path / "arctic.prom").exists()


def test_models_that_begin_at_the_same_time_are_all_observed(tmp_path: Path) -> None:
    observed = command(tmp_path, metrics_file="arctic.prom")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: observed.observe_node(NODE, MANIFEST)(MODEL, lambda: DONE), range(8)))
    with observed.end_command():
        pass
    assert read_file(tmp_path)["arctic_model_rows_total", ("shop", "prod", "lake.dws.sales", "insert")] == 24


def test_the_error_of_a_refresh_is_raised_and_counted_once(tmp_path: Path) -> None:
    observed = command(tmp_path, metrics_file="arctic.prom")
    with pytest.raises(CatalogError, match="no answer"):
        observed.observe_node(NODE, MANIFEST)(MODEL, fail)
    observed._note_event(finish("model.shop.sales", "error", "no answer"))
    with observed.end_command():
        pass

    series = read_file(tmp_path)
    assert series["arctic_model_runs_total", ("shop", "prod", "lake.dws.sales", "failed")] == 1
    assert series["arctic_command_last_run_failed", COMMAND] == 1


@pytest.mark.parametrize(("status", "has_failed"), [("pass", 0), ("warn", 0), ("fail", 1), ("error", 1)])
def test_a_command_fails_with_its_tests(tmp_path: Path, status: str, has_failed: int) -> None:
    observed = command(tmp_path, metrics_file="arctic.prom")
    observed.begin_command(MANIFEST)
    observed._note_event(finish("test.shop.unique_sales.1", status))
    with observed.end_command():
        pass
    assert read_file(tmp_path)["arctic_command_last_run_failed", COMMAND] == has_failed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("the catalog does not answer")])
def test_a_command_that_ends_by_an_error_has_failed_even_before_its_first_model(
    tmp_path: Path, error: BaseException
) -> None:
    """dbt closes connections twice then; the command counts once."""
    observed = command(tmp_path, metrics_file="arctic.prom")
    for _ in range(2):
        try:
            raise error
        except BaseException:
            with observed.end_command():
                pass
    assert read_file(tmp_path)["arctic_command_runs_total", (*COMMAND, "failed")] == 1


def test_a_publication_that_fails_raises_its_error_and_leaves_no_success(tmp_path: Path) -> None:
    observed = command(tmp_path, "build", metrics_file="arctic.prom")
    observed.observe_node(NODE, MANIFEST)(MODEL, lambda: DONE)
    with pytest.raises(CatalogError), observed.end_command():
        raise CatalogError("another writer was first")
    series = read_file(tmp_path)
    assert series["arctic_model_last_run_failed", ("shop", "prod", "lake.dws.sales")] == 1
    assert series["arctic_command_last_run_failed", COMMAND] == 1


@pytest.mark.parametrize("reason", ["", "a test failed"])
def test_a_model_of_a_build_has_succeeded_if_it_is_published(tmp_path: Path, reason: str) -> None:
    observed = command(tmp_path, "build", metrics_file="arctic.prom")
    observed.observe_node(NODE, MANIFEST)(MODEL, lambda: DONE)
    with observed.end_command() as unpublished:
        unpublished.update({"model.shop.sales": reason} if reason else {})
    assert read_file(tmp_path)["arctic_model_last_run_failed", ("shop", "prod", "lake.dws.sales")] == bool(reason)


def test_commands_that_run_no_models_are_not_observed(tmp_path: Path) -> None:
    set_flags(SimpleNamespace(WHICH="test"))
    observed = command(tmp_path, metrics_file="arctic.prom")
    observed.begin_command(MANIFEST)
    with observed.end_command():
        pass
    assert not (tmp_path / "arctic.prom").exists()


def test_a_key_that_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"`telemetry` has no key `metric_file` \(did you mean 'metrics_file'"):
        command(tmp_path, metric_file="a")
    with pytest.raises(Exception, match=r"`telemetry\.metrics_file` must be the path of a file"):
        command(tmp_path, metrics_file=3)
