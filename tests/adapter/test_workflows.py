"""The commands of the workflows in docs/ci.md, on a branch of the sample project."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.factory import reset_adapters
from dbt.cli.main import dbtRunner

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from dbt.adapters.arctic import cli
from sample_project.loader import FIRST_DAY, load_days
from tests.workflows import copy_sample, list_github_commands

NAME = "a.name as carrier_name"


@pytest.fixture
def project(
    tmp_path: Path,
    warehouse: Path,
    spark_settings: dict[str, str],
    method: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A copy of the sample with both targets on this test's own warehouse, as the current folder."""
    folder = copy_sample(tmp_path, method, spark_settings)
    monkeypatch.chdir(folder)
    yield folder
    reset_adapters()


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a command of a workflow in this process, with the redirection and the exit codes that it allows."""
    written, _, rest = command.partition(">")
    words = shlex.split(written)
    if words[0] == "dbt":
        outcome = dbtRunner().invoke(["--quiet", *words[1:]])
        assert outcome.success, outcome.exception or [r.message for r in outcome.result if r.status == "error"]
        return
    capsys.readouterr()
    code = cli.main(words[1:])
    file, _, allowed = rest.partition("||")
    said = capsys.readouterr()
    Path(file.strip() or f"{words[1]}.txt").write_text(said.out, encoding="utf-8")
    assert code == 0 or f"test $? -eq {code}" in allowed, said.err


@pytest.mark.slow
def test_a_branch_is_built_compared_and_taken_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_days(project.parent / "warehouse", [FIRST_DAY])
    for command in ("dbt seed", "dbt run"):
        run_command(command, capsys)
    shutil.copytree("target", "state/prod")
    model = project / "models" / "dwd" / "dwd_flights.sql"
    text = model.read_text(encoding="utf-8")
    assert NAME in text
    model.write_text(text.replace(NAME, "if(f.carrier = 'UA', 'United', a.name) as carrier_name"), encoding="utf-8")
    reader = CatalogReader(Profile.for_embedded(project.parent / "warehouse"))
    before = set(reader.list_namespaces())
    for command in list_github_commands("review"):
        run_command(command, capsys)
    assert set(reader.list_namespaces()) - before >= {"pr_12_dwd", "pr_12_dws"}
    lines = Path("diff.md").read_text(encoding="utf-8").splitlines()
    changed = [line.split("|")[1].strip() for line in lines if line.startswith("| dw")]
    assert changed == ["dwd\\_flights", "dws\\_delay\\_by\\_carrier\\_day"]
    assert any("carrier\\_name" in line and "→ United" in line for line in lines)
    assert lines[-1].startswith("No differences: dws")
    *commands, last = list_github_commands("production")
    for command in commands:
        run_command(command, capsys)
    promoted = Path("promote.txt").read_text(encoding="utf-8")
    for table in ("lake.dwd.dwd_flights", "lake.dws.dws_delay_by_carrier_day"):
        assert f"{table}: took over lake.pr_12" in promoted
    results = json.loads(Path("target", "run_results.json").read_text(encoding="utf-8"))["results"]
    reasons = {result["unique_id"]: result["adapter_response"].get("reason") for result in results}
    for model in ("dwd_flights", "dws_delay_by_carrier_day"):
        assert reasons[f"model.nyc_flights.{model}"] in ("CHANGES", "NOTHING_NEW"), "seeds are loaded again"
    run_command(last, capsys)
    assert set(reader.list_namespaces()) == before
    assert reader.list_relations("dwd")
