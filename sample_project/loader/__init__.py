"""Turns days of real flights into the change events of an airline's database, and lands them in Iceberg.

``events_of(day)`` is what one day delivers, as data. ``append(catalog, day)`` lands it exactly once, and
``load_days(warehouse, days)`` does so for many days. Nothing here depends on the clock or on a global seed.
"""

from __future__ import annotations

from sample_project.loader.deliveries import FIRST_DAY, LAST_DAY, events_of, log_of, opening_of
from sample_project.loader.landing import append, lake, load_days, loaded_days
from sample_project.loader.original import MissingDataError

__all__ = [
    "FIRST_DAY",
    "LAST_DAY",
    "MissingDataError",
    "append",
    "events_of",
    "lake",
    "load_days",
    "loaded_days",
    "log_of",
    "opening_of",
]
