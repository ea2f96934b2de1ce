"""The databases of a soak, which transactions change at random: money moves between accounts, and none is made."""

from __future__ import annotations

import bisect
import math
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.ingest.servers import MariaDBServer, PostgreSQLServer, ServerError

ACCOUNTS, ORDERS, REGIONS, CITIES = 20_000, 5_000, 8, 40
"""Rows at the beginning, and numbers of different values."""

_CREATE = (
    "create table accounts (id int primary key, region text not null, balance bigint not null)",
    "create table orders (id bigint primary key, account int not null, amount int, state text not null)",
    f"insert into accounts select g, 'r' || g % {REGIONS}, 0 from generate_series(1, {ACCOUNTS}) g",
    f"insert into orders select g, 1 + g % {ACCOUNTS}, g % 100, 'open' from generate_series(1, {ORDERS}) g",
)
_CREATE_CUSTOMERS = (
    "create table customers (account int primary key, city varchar(20) not null)",
    f"insert into customers select seq, concat('c', seq % {CITIES}) from seq_1_to_{ACCOUNTS}",
)

_KEEPING = {"innodb-flush-log-at-trx-commit": "1", "sync-binlog": "1"}
"""Settings by which a MariaDB that is killed has all transactions that its log has; else it may lose the last ones."""

Row = tuple[str, ...]


class Databases:
    """Two servers, and the transactions that they have taken; `rows` is how many rows a second change, about."""

    def __init__(self, seed: int, rows: int) -> None:
        self.postgresql = PostgreSQLServer()
        self.mariadb = MariaDBServer(**_KEEPING)
        self.changed_rows = 0
        self._random = random.Random(seed)
        self._rows = rows
        self._next_order = ORDERS + 1
        self._ordered: list[tuple[int, float]] = []
        self.postgresql.sql(*_CREATE)
        self.mariadb.sql(*_CREATE_CUSTOMERS)

    def build_connections(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Builds the settings of connections to both."""
        postgresql = {"host": "127.0.0.1", "port": self.postgresql.port, "database": "shop", "user": "postgres"}
        mariadb = {"host": "127.0.0.1", "port": self.mariadb.port, "database": "shop", "user": "root"}
        return postgresql, mariadb

    def change_rows(self) -> None:
        """Changes rows of all tables for one second's worth; what a server does not take is left out."""
        moved, ordered = self._rows // 2 // 2 * 2, self._rows // 6
        first, amount = self._random.randrange(1, ACCOUNTS - moved), self._random.randrange(1, 100)
        new, self._next_order = self._next_order, self._next_order + ordered
        old = self._random.randrange(1, new)
        transaction = [
            # Half of the accounts pay what the other half gets.
            f"update accounts set balance = balance + (id % 2 * 2 - 1) * {amount} "
            f"where id > {first} and id <= {first + moved}",
            f"insert into orders select g, 1 + g * 7 % {ACCOUNTS}, g % 100, 'open' "
            f"from generate_series({new}, {new + ordered - 1}) g",
            f"update orders set amount = amount + 1, state = case when id % 5 = 0 then 'closed' else state end "
            f"where id > {old} and id <= {old + ordered}",
            f"delete from orders where id > {old + ordered} and id <= {old + 2 * ordered} and id % 2 = 0",
        ]
        with suppress(ServerError):
            self.postgresql.sql("; ".join(transaction))
            self._ordered.append((new, time.monotonic()))
            self.changed_rows += moved + 5 * ordered // 2
        with suppress(ServerError):
            place, city = self._random.randrange(1, ACCOUNTS), self._random.randrange(CITIES)
            self.mariadb.sql(f"update customers set city = 'c{city}' where account between {place} and {place + 19}")
            self.changed_rows += 20

    def compute_age(self, newest_order: int) -> float:
        """Seconds since the first order was committed that comes after the newest one of a table; 0.0 for none."""
        place = bisect.bisect_right(self._ordered, (newest_order, math.inf))
        return time.monotonic() - self._ordered[place][1] if place < len(self._ordered) else 0.0

    def read_rows(self) -> dict[str, list[Row]]:
        """Reads what each table has, and what each model must have, as sorted rows of texts."""
        accounts = _split(self.postgresql.sql("select id, region, balance from accounts"))
        orders = _split(self.postgresql.sql("select id, account, amount, state from orders"))
        customers = _split(self.mariadb.sql("select concat_ws('|', account, city) from customers"))
        regions = {row[0]: row[1] for row in accounts}
        cities = {row[0]: row[1] for row in customers}
        is_open = [row for row in orders if row[3] != "closed"]
        counts, balances = Counter(row[1] for row in accounts), Counter[str]()
        for _, region, balance in accounts:
            balances[region] += int(balance)
        placed, amounts = Counter(cities[row[1]] for row in is_open), Counter[str]()
        for row in is_open:
            amounts[cities[row[1]]] += int(row[2])
        tables: dict[str, list[Row]] = {
            "ods.accounts": accounts,
            "ods.orders": orders,
            "ods.customers": customers,
            "dwd.accounts": accounts,
            "dwd.open_orders": [(row[0], row[1], row[2], regions[row[1]]) for row in is_open],
            "dwd.regions": [(region, str(counts[region]), str(balances[region])) for region in counts],
            "dwd.cities": [(city, str(placed[city]), str(amounts[city])) for city in placed],
        }
        return {name: sorted(rows) for name, rows in tables.items()}

    def remove(self) -> None:
        self.postgresql.remove()
        self.mariadb.remove()


def _split(text: str) -> list[Row]:
    return [tuple(line.split("|")) for line in text.splitlines()]
