"""`publish: build` in a REST catalog: tables become visible by one transaction of the server, then views."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from tests.adapter.test_publish_build import BY_CUSTOMER, ORDERS, OTHER, YAML
from tests.rest_catalog import Catalog, serve


@pytest.mark.in_turn
class TestPublishBuildRest:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"orders.sql": ORDERS, "by_customer.sql": BY_CUSTOMER, "other.sql": OTHER, "schema.yml": YAML}

    @pytest.fixture(scope="class")
    def server(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Catalog, Path]]:
        folder = tmp_path_factory.mktemp("rest")
        with serve(folder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            catalog: Catalog = server.RequestHandlerClass.catalog  # type: ignore[attr-defined]
            yield f"http://127.0.0.1:{server.server_address[1]}", catalog, folder
            server.shutdown()

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any], server: tuple[str, Catalog, Path]) -> dict[str, Any]:
        kept = {key: value for key, value in profile_target.items() if key != "warehouse"}
        uri, _, folder = server
        config = {"type": "rest", "uri": uri, "warehouse": str(folder)}
        return {**kept, "catalog_config": config, "publish": "build"}

    def sql(self, project: Any, text: str) -> Any:
        return project.run_sql(text.format(schema=project.test_schema), fetch="all")

    def rows(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.sql(project, f"select * from lake.{{schema}}.{name}")))

    def test_published_in_a_server(self, project: Any, server: tuple[str, Catalog, Path]) -> None:
        _, catalog, _ = server
        self.sql(project, "create table lake.{schema}.raw_orders (id int, customer string, amount int)")
        self.sql(project, "insert into lake.{schema}.raw_orders values (1, 'a', 10), (2, 'b', 20)")
        before = set(catalog.tables) | set(catalog.views)
        seen: list[set[Any]] = []

        def look(name: str, action: Callable[[], Any]) -> Any:
            if name != "build.publish" and not seen_publication:
                seen.append(set(catalog.tables) | set(catalog.views))
            else:
                seen_publication.append(name)
            return action()

        seen_publication: list[str] = []
        with set_failpoint(look):
            run_dbt(["build"])
        assert len(seen) > 5
        assert all(relations == before for relations in seen)
        assert len(seen_publication) > 1, "the tables, and the view"
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert self.rows(project, "other") == [(2,)]

        self.sql(project, "insert into lake.{schema}.raw_orders values (3, 'a', null)")
        run_dbt(["build"], expect_pass=False)
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)]
        assert self.rows(project, "other") == [(3,)]

        self.sql(project, "update lake.{schema}.raw_orders set amount = 5 where id = 3")
        with set_failpoint(die_at_the_view), pytest.raises(Died):
            run_dbt(["build"])
        assert self.rows(project, "orders") == [(1, "a", 10), (2, "b", 20), (3, "a", 5)]
        assert self.rows(project, "by_customer") == [("a", 10), ("b", 20)], "the view pins what it read"
        results = run_dbt(["build"])
        assert self.rows(project, "by_customer") == [("a", 15), ("b", 20)]
        messages = {result.node.name: result.message for result in results}
        assert messages["orders"].startswith("unchanged")
        reader = CatalogReader(project.adapter.profile)
        properties = reader.load_namespace_properties(project.test_schema)
        assert [key for key in properties if key.startswith("arctic.")] == []
        cuts = self.sql(project, "select name from lake.{schema}.orders.refs where name like 'build%'")
        assert len(cuts) == 3


class Died(BaseException):
    """The process is no more."""


_PUBLISHED: list[str] = []


def die_at_the_view(name: str, action: Callable[[], Any]) -> Any:
    """The process dies after the transaction over the tables."""
    if _PUBLISHED:
        raise Died
    answer = action()
    if name == "build.publish":
        _PUBLISHED.append(name)
    return answer
