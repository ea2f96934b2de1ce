"""Tables of sources that do not exist yet are observed as soon as they wait for their first load."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.heads import SharedHeads
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import ChangeSource, Failure, Progress
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.service.project import ProjectSource
from arctic_runtime.service.view.overviews import ObservedTables, OverviewInputs, build_overviews

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
BAD, LATER, DEAD = (TableName("lake", "dwd", name) for name in ("bad", "later", "shop__dead_letters"))
SHOP = ProjectSource("shop", "postgresql", (BAD, LATER), {BAD: "public.bad", LATER: "public.later"}, DEAD)


def test_a_table_that_was_never_loaded_is_shown_as_held_with_the_reason(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    observed = ObservedTables(warehouse.reader, SharedHeads(warehouse.reader))
    observed.observe_moved({}, SHOP.tables)
    assert observed.list_held([SHOP]) == frozenset()
    waits = {"public.bad": Failure("a column can't be read.\n  what to do: leave it out", NOW)}
    properties = Progress("{}", tables=frozenset(), waits=waits).encode()
    warehouse.create(DEAD.name, **{key.replace("arctic.", "arctic_", 1): text for key, text in properties.items()})
    assert observed.list_held([SHOP]) == {BAD}
    bad = Model(BAD, "", ModelConfig(()), ingested_from="public.bad", source=ChangeSource("shop", DEAD))
    observed.observe_moved({BAD: bad}, (LATER,))
    shown = OverviewInputs(NOW, {}, {BAD: bad}, observed.tables, sources=[SHOP])
    overview, later = build_overviews(shown)
    assert (overview.table, overview.state, overview.source, overview.version) == (BAD, "held", "shop", "")
    assert overview.freshness is not None
    assert (overview.freshness.since, overview.freshness.action) == (NOW, "leave it out")
    assert overview.freshness.reason == "lake.dwd.bad waits: a column can't be read"
    assert (later.table, later.state) == (LATER, "missing")
