"""What people are told of forgetting: what is left is never passed over."""

from __future__ import annotations

from arctic_runtime.model.forgetting import (
    Certificate,
    CloneToForget,
    ForgetPlan,
    TableForgotten,
    TableToForget,
    describe_certificate,
    describe_forget_plan,
    join_certificates,
    join_plans,
)
from arctic_runtime.model.names import TableName

M = TableName("lake", "dwd", "m")


def test_a_plan_names_tables_savepoints_and_what_is_not_looked_at() -> None:
    plan = ForgetPlan((TableToForget(M, 1200, 3600, 3, 4096, 7, ("good",)),), 2, ("s is not looked at",))
    assert describe_forget_plan(plan) == [
        "to forget: 1,200 key(s) of lake.dwd.m with 3,600 change row(s); 3 file(s), 4,096 bytes, to rewrite; "
        "7 snapshot(s) to expire",
        "to forget: 2 dead letter(s)",
        "held by a savepoint: good of lake.dwd.m; it goes with --drop-savepoints, and without nothing is done",
        "note: s is not looked at",
    ]
    assert describe_forget_plan(ForgetPlan(())) == ["nothing to forget"]


def test_a_plan_begins_with_clones_and_a_certificate_with_those_that_were_dropped() -> None:
    clone = TableName("lake", "dev", "m")
    made, run = "2026-11-01T00:00:00+00:00", "2026-11-20T00:00:00+00:00"
    unused = CloneToForget(clone, M, made, None, "drop", "it was not run for 15 days")
    used = CloneToForget(clone.with_name("n"), M, made, run, "none", "it goes with --drop-clones")
    plan = ForgetPlan((TableToForget(M, 1, 1, 1, 10, 1),), clones=(unused, used))
    assert describe_forget_plan(plan)[:2] == [
        f"to drop: clone lake.dev.m of lake.dwd.m, made {made}, not run since: it was not run for 15 days",
        f"held by: clone lake.dev.n of lake.dwd.m, made {made}, last run {run}: it goes with --drop-clones",
    ]
    assert describe_forget_plan(plan)[2].startswith("to forget: 1 key(s)")
    certificate = Certificate(M, "", (), dropped_clones=("lake.dev.m",))
    assert describe_certificate(certificate) == ["dropped: clone lake.dev.m with its files"]
    assert join_plans((plan, ForgetPlan(()))).clones == plan.clones
    assert join_certificates((certificate, Certificate(M, "", ()))).dropped_clones == ("lake.dev.m",)


def test_a_certificate_is_clean_only_where_nothing_is_left_anywhere() -> None:
    done = TableForgotten(M, 1, rewritten_files=2, expired_snapshots=3, scanned_files=4)
    clean = Certificate(M, "2026-11-26T00:00:00+00:00", (done,), 1)
    assert clean.is_clean
    assert describe_certificate(clean) == [
        "forgotten: 1 key(s) of lake.dwd.m; 2 file(s) rewritten, 3 snapshot(s) expired, 4 file(s) read afterwards",
        "forgotten: 1 dead letter(s)",
    ]
    held = TableForgotten(M, 1, left=("snapshot 1 of lake.dwd.m is kept by a tag or a branch",))
    for left in (Certificate(M, "", (held,)), Certificate(M, "", (), left=("2 dead letter(s) are no JSON",))):
        assert not left.is_clean
        assert any(line.startswith("LEFT: ") for line in describe_certificate(left))


def test_a_quarantine_is_forgotten_with_its_table() -> None:
    """What is left in either is left, and a note about both is one note."""
    own, failed = TableToForget(M, 1, 2, 1, 10, 1), TableToForget(M.quarantine, 2, 2, 1, 10, 1)
    plans = (ForgetPlan((failed,), 2, ("s is not looked at",)), ForgetPlan((own,), 2, ("s is not looked at",)))
    assert join_plans(plans) == ForgetPlan((failed, own), 2, ("s is not looked at",))
    held = TableForgotten(M.quarantine, 1, left=("a snapshot",))
    done = (Certificate(M.quarantine, "", (held,), 2), Certificate(M, "", (TableForgotten(M, 1),), 0, ("a letter",)))
    joined = join_certificates(done)
    assert joined == Certificate(M, "", (held, TableForgotten(M, 1)), 2, ("a letter",))
    assert not joined.is_clean
