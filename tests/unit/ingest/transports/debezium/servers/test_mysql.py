"""A table that its reader may not see any more is no table that is gone."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.transports.debezium.servers.mysql import may_read

GRANTS = [
    "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `arctic`@`%`",
    r"GRANT INSERT, SELECT ON `web\_shop`.* TO `arctic`@`%`",
    "GRANT SELECT ON `crm`.`customers` TO `arctic`@`%`",
    "GRANT INSERT ON `crm`.`leads` TO `arctic`@`%`",
]


@pytest.mark.parametrize(
    ("table", "is_readable"),
    [("web_shop.orders", True), ("crm.customers", True), ("crm.leads", False), ("shop.orders", False)],
)
def test_a_grant_of_the_table_or_of_its_database_lets_it_be_read(table: str, is_readable: bool) -> None:
    assert may_read(table, GRANTS) is is_readable
    assert may_read(table, ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"])
