"""Trails of rows as people and programs read them."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_trail import CommittedRun, RowChange, RowTrail, Transaction, UpstreamChanges
from arctic_runtime.operations.why import build_trail_json, describe_trail

ODS = TableName("lake", "ods", "orders")
DWD = TableName("lake", "dwd", "paid")
DWS = TableName("lake", "dws", "totals")
AT = datetime(2026, 11, 21, 4, 10, 7, tzinfo=timezone.utc)
RUN = CommittedRun(12, 3, AT, "incremental", "CHANGES", "a1b2")

ORDER = RowChange(
    ODS,
    {"id": 2},
    "update",
    {"id": 2, "amount": Decimal("5.00")},
    {"id": 2, "amount": Decimal("6.00")},
    at="2026-11-21T04:10:01.000000Z",
    run=RUN,
    transaction=Transaction("shop.orders", "update", "0/1A2B3C8", "2026-11-21T04:10:01.000000Z"),
)
TOTAL = RowChange(
    DWS,
    {"customer": 7},
    "update",
    {"customer": 7, "total": 15, "day": date(2026, 11, 20)},
    {"customer": 7, "total": 16, "day": date(2026, 11, 20)},
    run=RUN,
    upstreams=(
        UpstreamChanges(
            DWD,
            10,
            11,
            (
                RowChange(DWD, {"id": 2}, "insert", None, {"id": 2, "amount": 6}, run=RUN, ends="its version expired"),
                ORDER,
            ),
            without_effect=2,
            left_out=1,
        ),
        UpstreamChanges(ODS, None, 9, among=1_240),
    ),
)


def test_a_trail_is_drawn_as_a_tree() -> None:
    lines = list(describe_trail(RowTrail(DWS, {"customer": "7"}, (TOTAL,), left_out=3, ends="older ones are gone"), 40))
    assert lines == [
        "lake.dws.totals: customer=7",
        "customer=7: update total 15 → 16 (incremental, version 12, 2026-11-21 04:10:07)",
        "├─ not proven: computed again from these changes alone, the row has other values",
        "├─ dwd.paid",
        "│  ├─ id=2: insert amount=6 (incremental, version 12, 2026-11-21 04:10:07)",
        "│  │  └─ the trail ends here: its version expired",
        "│  ├─ id=2: update amount 5.00 → 6.00 (incremental, version 12, 2026-11-21 04:10:07)",
        "│  │  └─ source shop.orders: update at 0/1A2B3C8, 2026-11-21T04:10:01.000000Z",
        "│  ├─ and 1 more",
        "│  └─ 2 other changed rows have no effect",
        "└─ ods.orders: may be among 1,240 change rows",
        "3 older changes are not shown; `--version` shows those of one version",
        "older ones are gone",
    ]


def test_a_row_without_changes_says_so() -> None:
    assert list(describe_trail(RowTrail(DWS, {"customer": "8"}), 40)) == [
        "lake.dws.totals: customer=8",
        "  no change row has this key",
    ]


def test_json_has_all_parts_of_a_trail() -> None:
    data = json.loads(json.dumps(build_trail_json(RowTrail(DWS, {"customer": "7"}, (TOTAL,)))))
    (change,) = data["changes"]
    assert (change["action"], change["changed_columns"], change["is_proven"]) == ("update", ["total"], False)
    assert change["after"] == {"customer": 7, "total": 16, "day": "2026-11-20"}
    assert change["run"] == {
        "version": "12",
        "sequence": 3,
        "at": "2026-11-21T04:10:07+00:00",
        "mode": "incremental",
        "reason": "CHANGES",
        "token": "a1b2",
    }
    paid, orders = change["upstreams"]
    assert (paid["table"], paid["from"], paid["to"], paid["without_effect"], paid["left_out"]) == (
        "lake.dwd.paid",
        "10",
        "11",
        2,
        1,
    )
    assert (orders["from"], orders["among"], orders["changes"]) == (None, 1_240, [])
    order = paid["changes"][1]
    assert order["before"] == {"id": 2, "amount": "5.00"}
    assert order["transaction"]["position"] == "0/1A2B3C8"


def test_masked_values_are_hashes_in_all_layers_of_a_trail() -> None:
    masks = {DWS: Mask(b"k", {"customer": True, "total": True}), ODS: Mask(b"k", {"amount": True})}
    trail = RowTrail(DWS, {"customer": "7"}, (TOTAL,)).mask_values(lambda table: masks.get(table, Mask(b"k", {})))
    text = "\n".join(describe_trail(trail, 40))
    shown = build_trail_json(trail)
    assert all(value not in text for value in ("customer=7", "15", "16", "5.00", "6.00"))
    assert "id=2: insert amount=6" in text, "each table has masks of its own"
    (change,) = shown["changes"]
    assert change["changed_columns"] == ["total"]
    assert change["before"]["day"] == "2026-11-20"
    assert shown["key"] == change["key"] == {"customer": masks[DWS].hide_value("customer", 7)}
    order = change["upstreams"][0]["changes"][1]
    assert order["after"] == {"id": 2, "amount": masks[ODS].hide_value("amount", Decimal("6.00"))}
    assert order["before"]["amount"] != order["after"]["amount"]
