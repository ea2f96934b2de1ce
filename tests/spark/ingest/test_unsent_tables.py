"""A table whose changes the source does not send is loaded again, or waits alone, while the others go on."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.source import IngestSource, TablesWait
from arctic_runtime.ingest.transports.transport import TableGone
from arctic_runtime.model.sources.ingestion import Progress
from tests.spark.ingest.test_batches import FIRST, read, rows
from tests.spark.replay import ITEMS, ORDERS, Loading, Part, event, ingest, source_of
from tests.spark.warehouse import Warehouse

ITEM_ROWS = {"public.items": Part("public.items", ITEMS, [read("a", 2), read("b", 1)])}
LATER = [Part("public.orders", ORDERS, [event("c", None, {"id": 2, "item": "b", "n": 2})])]
REFUSED = SourceError("the publication lacks public.items.", fix="`alter publication`")


def progress_of(lake: Warehouse, source: IngestSource) -> Progress:
    known = observe_progress(lake.reader, source.dead_letter_table)
    assert known is not None
    return known.progress


@pytest.mark.in_turn
@pytest.mark.parametrize("error", [REFUSED, TableGone("there is no table public.items.")])
def test_a_new_table_that_is_not_sent_waits_alone_until_it_is(lake: Warehouse, error: SourceError) -> None:
    ingest(lake, source_of(lake, "orders"), first := Loading([FIRST]))
    assert first.loaded == []
    both = source_of(lake, "orders", "items")
    waiting = Loading([FIRST, LATER], unsent={"public.items": error})
    with pytest.raises(TablesWait, match=r"public\.items waits: "):
        ingest(lake, both, waiting)
    assert waiting.loaded == []
    assert len(rows(lake, "orders")) == 2
    since = progress_of(lake, both).waits["public.items"]
    assert since.message == str(error)
    with pytest.raises(TablesWait):
        ingest(lake, both, waiting)
    assert progress_of(lake, both).waits["public.items"] == since
    sent = Loading([FIRST, LATER], rows=ITEM_ROWS, at="2")
    ingest(lake, both, sent)
    assert sent.loaded == ["public.items"]
    assert len(rows(lake, "items")) == 2
    assert progress_of(lake, both).waits == {}


@pytest.mark.in_turn
def test_a_table_that_is_not_sent_any_more_is_loaded_again(lake: Warehouse) -> None:
    """As one that was dropped and created again, whose rows from before are deleted."""
    both = source_of(lake, "orders", "items")
    items = Part("public.items", ITEMS, [event("c", None, {"name": "old", "price": 1})])
    ingest(lake, both, Loading([[*FIRST, items]]))
    again = Loading([[*FIRST, items], LATER], rows=ITEM_ROWS, at="2", unsent={"public.items": None})
    ingest(lake, both, again)
    assert again.loaded == ["public.items"]
    assert {name for name, _ in rows(lake, "items")} == {"a", "b"}
    assert len(rows(lake, "orders")) == 2


def test_events_of_a_table_that_is_loaded_again_are_left_to_its_load(lake: Warehouse) -> None:
    """Also those that a running stream still has of it."""
    source = source_of(lake, "orders", "items")
    items = Part("public.items", ITEMS, [event("c", None, {"name": "old", "price": 1})])
    ingest(lake, source, Loading([[*FIRST, items]]))
    known = progress_of(lake, source)
    gone = TableGone("there is no table public.orders.")
    with pytest.raises(TablesWait):
        ingest(lake, source, Loading([[*FIRST, items]], unsent={"public.orders": gone}))
    assert progress_of(lake, source).tables == frozenset({"public.items"})
    assert progress_of(lake, source).get_table_progress("public.orders").as_of == known.as_of
