"""The command `arctic`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from arctic_runtime.catalog.change_rows.log_files import LogReader
from arctic_runtime.catalog.change_rows.projection import UnreadableColumn
from arctic_runtime.errors import CommitConflict, ConfigError, CorruptState
from arctic_runtime.manifest.project_graph import ProjectGraph
from arctic_runtime.model.files.compaction import CompactionPlan, MergeUnmerged
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.operations import inspect, looking
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.server import Server
from arctic_runtime.spark.maintenance import compaction, window_changes
from arctic_runtime.spark.maintenance.compaction import Compacted
from dbt.adapters.arctic import cli
from dbt.adapters.arctic.commands import audit

Arctic = Callable[..., tuple[int, str, str]]
PROJECT = "dbt.adapters.arctic.project.compiled_project"


def a_model(name: str, merge: Any = "on_write", **config: Any) -> Model:
    return Model(TableName("lake", "dwd", name), "select 1", ModelConfig(("id",), hash_key="id", merge=merge, **config))


@dataclass(frozen=True)
class Project:
    """A project as the adapter loads it, already compiled."""

    profile: Any
    models: tuple[Model, ...] = (
        a_model("dwd", "on_read", retention=Retention()),
        a_model("nothing"),
        a_model("ods", retention=Retention(86_400)),
    )
    graph: ProjectGraph = field(default_factory=ProjectGraph)

    def with_ingested(self, reader: Any) -> Project:
        return self

    def with_landing(self) -> Project:
        return self

    def select_models(self, names: Sequence[str]) -> tuple[Model, ...]:
        return tuple(self.get_model(name) for name in names) if names else self.models

    def get_model(self, name: str) -> Model:
        models = [model for model in self.models if model.table.name == name]
        if not models:
            raise ConfigError(f"no arctic model is named {name}; did you mean ods?")
        return models[0]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, shop) -> list[tuple[Any, ...]]:
    """Stands in for dbt, which would compile a project; holds what it was asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_project(*options: Any) -> Project:
        asked.append(options)
        return Project(shop[0].profile)

    module = types.ModuleType(PROJECT)
    module.load_project = load_project  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return asked


@pytest.fixture
def arctic(loaded, capsys: pytest.CaptureFixture[str]) -> Arctic:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["explain"],
        ["history"],
        ["lookup", "ods"],
        ["changes"],
        ["why", "ods"],
        ["changes", "ods", "--from", "x", "--to", "2", "--limit", "few"],
        ["status", "--nonsense"],
        ["explain", "ods", "dwd"],
        ["compact"],
        ["compact", "ods", "--all"],
        ["restore", "ods", "--version"],
        ["savepoint", "ods"],
        ["overwrite", "ods", "--from", "t"],
        ["savepoint", "ods", "good", "--drop", "--version", "1"],
        ["compact", "ods", "--mode", "hard"],
        ["expire", "ods", "--mode", "full"],
    ],
)
def test_wrong_use_exits_with_2_and_loads_nothing(
    loaded, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2
    assert "usage: arctic" in capsys.readouterr().err
    assert loaded == []


def test_an_error_of_spark_is_its_message_and_one_of_ours_in_the_code_is_a_trace(
    arctic: Arctic, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Exception] = [
        SparkConnectGrpcException("[OPERATION_CANCELED] Operation has been canceled."),
        KeyError("a fault of the code"),
    ]

    def fail(*_: object) -> None:
        raise raised.pop(0)

    monkeypatch.setattr(audit, "perform_command", fail)
    code, _, error = arctic("audit")
    assert (code, error.splitlines()[0]) == (1, "arctic audit: [OPERATION_CANCELED] Operation has been canceled.")
    assert "what to do: run again" in error
    with pytest.raises(KeyError):
        arctic("audit")


@pytest.mark.parametrize("command", cli.list_command_names())
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main([command, "--help"])
    assert raised.value.code == 0
    shared = {"--json"} if command in cli.WITHOUT_PROJECT else {"--json", "--project-dir", "--profiles-dir", "--target"}
    assert shared <= set(capsys.readouterr().out.replace("]", " ").split())


@pytest.mark.parametrize(
    "arguments", [["status", "odz"], ["history", "odz"], ["lookup", "odz", "1"], ["explain", "odz"]]
)
def test_an_unknown_model_exits_with_2_and_says_so_on_the_error_stream(arctic: Arctic, arguments: list[str]) -> None:
    code, out, err = arctic(*arguments)
    assert (code, out) == (2, "")
    assert err == f"arctic {arguments[0]}: no arctic model is named odz; did you mean ods?\n"


def test_a_reset_that_is_not_confirmed_says_what_would_go_and_who_reads_it(arctic: Arctic) -> None:
    code, out, _ = arctic("reset", "ods")
    assert code == 0
    assert "to drop: table lake.dwd.ods__changes" in out
    assert "read by lake.dwd.dwd: its next run computes everything once" in out
    assert out.endswith("add --yes to do it\n")
    assert arctic("reset", "ods")[1] == out
    assert arctic("reset", "nothing")[:2] == (0, "lake.dwd.nothing: nothing was built\n")


def test_tables_that_contradict_one_another_exit_with_1(arctic: Arctic, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise CorruptState("the base is ahead")

    monkeypatch.setattr(inspect, "read_history", broken)
    assert arctic("history", "ods") == (1, "", "arctic history: the base is ahead\n")


def test_the_options_of_dbt_are_passed_on(arctic: Arctic, loaded: list[Any]) -> None:
    arctic("status", "ods", "--project-dir", "p", "--profiles-dir", "q", "--target", "prod")
    arctic("status", "ods")
    assert [tuple(map(str, options)) for options in loaded] == [("p", "q", "prod"), (".", "None", "None")]


def test_status_is_for_people_or_for_programs(arctic: Arctic, shop) -> None:
    code, out, _ = arctic("status")
    assert code == 0
    assert "lake.dwd.nothing: not built yet" in out
    assert f"lake.dwd.ods: version {shop[1]['ods'][3].snapshot} of " in out
    assert "  read by lake.dwd.dwd: 1 commits behind, 2 rows" in out
    assert "  not merged: 2 commits, 3 rows" in out
    code, out, _ = arctic("status", "ods", "--json")
    (document,) = json.loads(out)
    assert (code, document["model"], document["rows"], document["nodes"]) == (0, "lake.dwd.ods", 6, 4)
    assert document["consumers"] == [{"model": "lake.dwd.dwd", "behind_commits": 1, "behind_rows": 2, "noted_at": ""}]


def test_status_draws_the_nodes_of_a_table_when_asked_to(arctic: Arctic, shop) -> None:
    code, out, _ = arctic("status", "ods", "nothing", "--tree")
    assert code == 0
    assert "  nodes of all rows: 0 level(s) below the root\n  0/1: " in out
    code, out, _ = arctic("status", "ods", "--partition", "all rows", "--json")
    (document,) = json.loads(out)
    assert (code, document["tree"]["partition"], len(document["tree"]["nodes"])) == (0, "all rows", 1)
    code, _, err = arctic("status", "ods", "--partition", "day = 1")
    assert (code, "has no partition 'day = 1'" in err) == (2, True)


def test_the_plan_of_a_split_is_reported_without_spark(arctic: Arctic) -> None:
    code, out, _ = arctic("split", "ods", "--plan")
    assert code == 0
    assert out.startswith("left alone: lake.dwd.ods, all rows: its files are not in buckets yet")
    code, out, err = arctic("split", "nothing", "--plan")
    assert (code, out, "has not been built yet" in err) == (2, "", True)


def test_history_is_for_people_or_for_programs(arctic: Arctic, shop) -> None:
    versions = [str(version.snapshot) for version in reversed(shop[1]["dwd"])]
    _, out, _ = arctic("history", "dwd")
    assert [line.split()[0] for line in out.splitlines()] == versions
    _, out, _ = arctic("history", "dwd", "--json")
    assert [entry["version"] for entry in json.loads(out)] == versions
    assert arctic("history", "nothing") == (0, "no versions yet\n", "")
    assert json.loads(arctic("history", "nothing", "--json")[1]) == []


def test_changes_are_shown_without_spark_unless_only_spark_reads_a_column(
    arctic: Arctic, shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_, last = (str(version.snapshot) for version in shop[1]["dwd"])
    window = ("dwd", "--from", first, "--to", last)
    rows = json.loads(arctic("changes", *window, "--json")[1])
    assert [(row["id"], row["_action"]) for row in rows] == [(1, "update"), (2, "delete"), (4, "insert"), (4, "update")]
    assert list(rows[1]) == ["id", "note", "_action", "_seq", "_before"]
    assert arctic("changes", *window, "--limit", "1")[1].splitlines() == [str(rows[0])]
    assert arctic("changes", "dwd", "--from", last, "--to", last)[1] == "no changes between these versions\n"

    def refuse(*_: Any) -> Any:
        raise UnreadableColumn("v")

    asked: list[Any] = []
    monkeypatch.setattr(looking, "read_change_rows", refuse)
    monkeypatch.setattr(window_changes, "read_changes_between", lambda _, *limits: asked.append(limits) or rows[:2])
    assert json.loads(arctic("changes", *window, "--json")[1]) == rows[:2]
    assert asked == [(first, last, 1000)]


def test_changes_are_exported_without_spark_in_a_format_for_programs(arctic: Arctic, shop, tmp_path: Path) -> None:
    first, *_, last = (str(version.snapshot) for version in shop[1]["dwd"])
    window = ("dwd", "--from", first, "--to", last)
    _, out, err = arctic("changes", *window, "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["_action"]) for row in rows] == [(1, "update"), (2, "delete"), (4, "insert"), (4, "update")]
    assert (rows[1]["_before"], err) == ({"note": "b"}, "")
    _, out, _ = arctic("changes", *window, "--format", "csv", "--limit", "1")
    assert out.splitlines()[1:] == [f'1,"a2","update",0,,{rows[0]["_commit_version"]}']
    file = tmp_path / "changes.arrow"
    assert arctic("changes", *window, "--format", "arrow", "--output", str(file)) == (0, "", "")
    with pa.ipc.open_stream(file) as stream:
        assert stream.read_all().to_pylist() == rows
    assert list(tmp_path.iterdir()) == [file]


def test_changes_without_bounds_are_all_that_are_kept_up_to_the_newest(arctic: Arctic, shop) -> None:
    first, last = (str(shop[1]["dwd"][place].snapshot) for place in (0, -1))
    _, every, err = arctic("changes", "dwd", "--format", "json")
    _, later, _ = arctic("changes", "dwd", "--from", first, "--format", "json")
    _, until, _ = arctic("changes", "dwd", "--to", first, "--format", "json")
    assert (every, err) == (until + later, "")
    assert later == arctic("changes", "dwd", "--from", first, "--to", last, "--format", "json")[1] != ""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--format", "csv", "--json"), "exclude each other"),
        (("--output", "f"), "needs a format"),
        (("--format", "csv", "--output", "no/such/folder/f"), "can't be written"),
        (("--format", "csv", "--output", "/"), "it is a folder"),
        (("--format", "json", "--to", "7"), "has no version 7"),
    ],
)
def test_an_export_that_is_refused_writes_nothing(arctic: Arctic, shop, options: Sequence[str], text: str) -> None:
    version = str(shop[1]["dwd"][0].snapshot)
    code, out, err = arctic("changes", "dwd", "--from", version, "--to", version, *options)
    assert (code, out) == (2, "")
    assert text in err


def test_an_export_that_fails_leaves_the_file_that_was_there(
    arctic: Arctic, shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise CorruptState("a file is gone")

    monkeypatch.setattr(LogReader, "read_rows", fail)
    file = tmp_path / "changes.csv"
    file.write_text("before")
    first, *_, last = (str(version.snapshot) for version in shop[1]["dwd"])
    window = ("dwd", "--from", first, "--to", last)
    assert arctic("changes", *window, "--format", "csv", "--output", str(file))[0] == 1
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]


def test_lookup_exits_with_1_where_there_is_no_row(arctic: Arctic) -> None:
    code, out, _ = arctic("lookup", "dwd", "4")
    assert (code, out.splitlines()[:2]) == (0, ["id: 4", "note: d2"])
    code, out, _ = arctic("lookup", "dwd", "2")
    assert (code, out.splitlines()[0]) == (1, "no such row")
    code, out, _ = arctic("lookup", "dwd", "2", "--json")
    assert (code, json.loads(out)["row"]) == (1, None)
    code, out, err = arctic("lookup", "dwd", "1", "2")
    assert (code, out) == (2, "")
    assert "expected: one value for each of id" in err


def test_a_plan_of_compaction_tells_what_is_left_alone_and_why_without_spark(arctic: Arctic) -> None:
    code, out, _ = arctic("compact", "dwd", "--plan")
    assert code == 0
    assert "left alone: lake.dwd.dwd__base, all rows: 1 files, 1 of them small, 0% deleted: up to 16 small" in out
    code, out, _ = arctic("compact", "dwd", "--plan", "--mode", "full", "--json")
    plan = json.loads(out)
    assert (code, [(step["table"]["name"], step["reason"]) for step in plan["steps"]]) == (
        0,
        [
            ("dwd__base", "every reader has to lay them over the base"),
            ("dwd__changes", "up to 4 small files in a node, more than 1"),
        ],
    )
    code, _, err = arctic("compact", "nothing", "--plan")
    assert (code, err) == (2, "arctic compact: lake.dwd.nothing has not been built yet; run the model first\n")


def test_several_models_are_compacted_by_what_their_readers_lose_and_one_lost_race_stops_none(
    arctic: Arctic, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def compact(run: Any, mode: str, tell: Callable[[str], None], most_bytes: float) -> Compacted:
        begun.append(run.model.table.name)
        tell(f"at work on {run.model.table.name}, {mode}")
        if run.model.table.name == "dwd" and most_bytes == math.inf:
            raise CommitConflict("others were faster")
        if most_bytes == math.inf:
            return Compacted((), CompactionPlan((), ()))
        step = MergeUnmerged(run.model.base, 1, 1, 3 * 1024, "it is asked for")
        is_too_much = step.bytes > most_bytes
        return Compacted(() if is_too_much else (step,), CompactionPlan((), ()), step if is_too_much else None)

    monkeypatch.setattr(compaction, "compact_table", compact)
    code, out, _ = arctic("compact", "ods", "dwd", "--mode", "full")
    assert (code, begun) == (1, ["dwd", "ods"])
    assert out == (
        "at work on dwd, full\nat work on ods, full\n"
        "lake.dwd.dwd:\n  others were faster\n"
        "  what to do: run again; if another writer is faster each time, let it pause meanwhile\n"
        "lake.dwd.ods:\n  lake.dwd.ods: nothing to compact\n"
    )
    code, out, _ = arctic("compact", "--all", "--plan", "--json")
    assert code == 0
    assert sorted(json.loads(out)) == ["lake.dwd.dwd", "lake.dwd.ods"]
    assert arctic("compact", "ods", "nothing")[0] == 2
    _, out, _ = arctic("compact", "ods", "dwd", "--most", "5 KiB")
    assert out.count("  done: merge 1 commit(s)") == 1
    assert out.count("  left for another time, over --most: merge 1 commit(s)") == 1
    code, _, err = arctic("compact", "ods", "--most", "much")
    assert code == 2
    assert "`--most` must be a number of bytes, or a text such as 64 MiB" in err


def test_a_plan_of_expiry_tells_what_is_kept_for_whom_without_spark(arctic: Arctic) -> None:
    code, out, _ = arctic("expire", "ods", "--plan")
    assert code == 0
    assert "and newer: lake.dwd.dwd has read up to it" in out
    code, out, _ = arctic("expire", "ods", "--plan", "--json")
    assert (code, json.loads(out)["steps"]) == (0, [])
    code, _, err = arctic("expire", "dwd", "--plan")
    assert code == 2
    assert "retention: {changes: '7d', versions: '5d'}" in err


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, loaded, shop) -> list[str]:
    """Stands in for the server that a target keeps; holds what was asked of it."""
    asked: list[str] = []
    here = Server(7, 15002, "hush", "today", "spark.log", {}, "")
    for action, server_found in (("ensure_server", here), ("stop_server", here), ("find_server", None)):
        monkeypatch.setattr(
            server, action, lambda profile, action=action, address=server_found: asked.append(action) or address
        )
    profile = Profile.for_embedded(shop[0].directory, method="connect", url="local")
    monkeypatch.setattr(sys.modules[PROJECT], "load_profile", lambda *_: profile, raising=False)
    return asked


@pytest.mark.parametrize(
    ("action", "code", "said", "does"),
    [
        ("start", 0, "running: process 7, port 15002, since today\n", "ensure_server"),
        ("stop", 0, "stopped: process 7, port 15002, since today\n", "stop_server"),
        ("status", 1, "not running\n", "find_server"),
    ],
)
def test_the_kept_server_is_started_stopped_and_shown_without_a_look_at_models(
    arctic: Arctic, loaded, kept: list[str], action: str, code: int, said: str, does: str
) -> None:
    assert arctic("spark", action) == (code, said, "")
    assert (kept, loaded) == ([does], [])


def test_the_kept_servers_token_is_not_shown(arctic: Arctic, kept: list[str]) -> None:
    shown = arctic("spark", "start", "--json")[1]
    assert json.loads(shown) == {"running": True, "pid": 7, "port": 15002, "since": "today", "log": "spark.log"}


def test_a_target_that_keeps_no_server_says_what_to_write(arctic: Arctic, kept, shop, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[PROJECT], "load_profile", lambda *_: shop[0].profile)
    code, _, said = arctic("spark", "start")
    assert code == 2
    assert "method: connect and url: local" in said
    assert kept == []
