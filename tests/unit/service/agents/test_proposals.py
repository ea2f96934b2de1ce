"""Plans that agents propose: kept for a time, carried out once, and only while the tables still have that plan."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError, PlanError
from arctic_runtime.operations.operation import Answer
from arctic_runtime.service.agents.proposals import Proposal, ProposalStore

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
PLAN = Answer({"files": 3}, ("puts 3 files together",))


def propose(store: ProposalStore, now: datetime = NOW) -> Proposal:
    return store.add_proposal("compact", ["lake.dwd.m"], {"mode": "auto", "all": False}, PLAN, "ana", now)


@pytest.fixture
def store(tmp_path: Path) -> ProposalStore:
    return ProposalStore(tmp_path / "proposals", 60)


def test_a_proposal_is_kept_as_it_was_made_for_its_user_alone(store: ProposalStore, tmp_path: Path) -> None:
    made = propose(store)
    (file,) = (tmp_path / "proposals").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert store.get_proposal(made.id, NOW) == made
    assert store.list_proposals(NOW) == [made]
    assert made.describe_call() == 'compact lake.dwd.m mode="auto" all=false'


def test_a_proposal_that_is_too_old_is_refused_and_dropped_by_the_next_one(
    store: ProposalStore, tmp_path: Path
) -> None:
    old, later = propose(store), NOW + timedelta(seconds=60)
    assert store.list_proposals(later) == []
    with pytest.raises(ConfigError, match=r"no proposed plan[^$]*found: one that is too old"):
        store.get_proposal(old.id, later)
    new = propose(store, later)
    assert [file.stem for file in (tmp_path / "proposals").iterdir()] == [new.id]


def test_a_proposal_is_taken_once(store: ProposalStore) -> None:
    made = propose(store)
    store.take_proposal(made)
    with pytest.raises(ConfigError, match="carried out meanwhile"):
        store.take_proposal(made)
    with pytest.raises(ConfigError, match="none of this id"):
        store.get_proposal(made.id, NOW)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", "0" * 13, "ABCDEF012345", "%2e%2e"])
def test_an_id_that_is_a_path_is_no_proposal(store: ProposalStore, tmp_path: Path, name: str) -> None:
    made = propose(store)
    (tmp_path / "outside.json").write_text((tmp_path / "proposals" / f"{made.id}.json").read_text())
    with pytest.raises(ConfigError, match=made.id):
        store.get_proposal(name, NOW)


def test_a_file_that_is_damaged_is_no_proposal(store: ProposalStore, tmp_path: Path) -> None:
    made = propose(store)
    for text in ("", "{}", "[]", '{"id": 1}'):
        (tmp_path / "proposals" / f"{'0' * 12}.json").write_text(text)
        assert store.list_proposals(NOW) == [made]


def test_a_plan_that_is_not_the_proposed_one_is_refused_with_both(store: ProposalStore) -> None:
    made = propose(store)
    made.check_plan(Answer({"files": 3}, ("in other words",)))
    with pytest.raises(PlanError, match=r"nothing was changed[^$]*puts 3 files together[^$]*puts 4 files together"):
        made.check_plan(Answer({"files": 4}, ("puts 4 files together",)))


def test_a_folder_that_cant_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"can't be kept[^$]*where: .*file/below"):
        propose(ProposalStore(tmp_path / "file" / "below", 60))
