"""`arctic apply` on a manifest, without Java: proposals are beside it, and are planned again for its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.proposals import FOLDER, ProposalStore, get_time
from dbt.adapters.arctic import cli
from tests.manifest_project import write_manifest


def test_a_proposal_of_a_service_for_a_manifest_is_found_and_planned_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, profile = write_manifest(tmp_path, "duckdb"), tmp_path / "profile.yml"
    profile.write_text("warehouse: ./warehouse\nkeep_alive: 0\n")
    (tmp_path / "warehouse").mkdir()
    store = ProposalStore(manifest.parent / FOLDER, 3600)
    arguments = {"mode": "auto", "all": False}
    made = store.add_proposal("compact", ["lake.dwd.dwd_orders"], arguments, Answer(3, ()), "ana", get_time())
    where = ["--manifest", str(manifest), "--profile", str(profile)]
    assert cli.main(["apply", *where]) == cli.DONE
    assert f"{made.id}: compact lake.dwd.dwd_orders" in capsys.readouterr().out
    assert cli.main(["apply", made.id, *where]) == cli.WRONG_USE
    assert "lake.dwd.dwd_orders has not been built yet" in capsys.readouterr().err
