"""Imports the modules that several threads use before these threads start.

If two threads import a package with circular imports at the same time, as pyspark is one, Python gives one of them a
module that is not complete, and the import fails.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Iterable
from contextlib import suppress

from arctic_runtime.profile import Profile

_ROOMS = ("arctic_runtime.catalog", "arctic_runtime.operations", "arctic_runtime.query", "arctic_runtime.spark")
"""Packages that functions import, or whose functions import Spark; by name, since some stand above this one."""

_LIBRARIES = (
    "pyspark",
    "pyspark.sql.functions",
    "pyspark.sql.classic.dataframe",
    "pyspark.sql.pandas.types",
    "py4j.protocol",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyiceberg.avro.file",
    "pyiceberg.catalog.sql",
    "pyiceberg.expressions.visitors",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table.deletion_vector",
    "pyiceberg.table.puffin",
    "pyiceberg.view.metadata",
    "requests",
    "sqlalchemy.dialects.sqlite",
)
"""Modules that functions import; a package stands before its modules, so that nothing loads these while it loads."""

_CONNECT = ("pyspark.sql.connect.session", "pyspark.sql.connect.functions", "pyspark.sql.connect.client.retries")
"""Modules for sessions on a server. They take as long to import as the rest of pyspark."""

_lock = threading.Lock()
_imported: set[str] = set()
"""Modules and packages that need no second look, since each use of a pool asks for them."""


def preload_modules(profile: Profile, rooms: Iterable[str] = ()) -> None:
    """Imports what refreshes and operations of a profile use, and all modules in the packages `rooms`.

    It is called before threads start that use Spark. Modules of an extra that is not installed are left out; their
    users report them.
    """
    has_server = profile.method == "connect" or profile.keeps_warm
    with _lock:
        _load_modules([*_LIBRARIES, *(_CONNECT if has_server else ())])
        for room in (*_ROOMS, *rooms):
            if room not in _imported:
                paths = importlib.import_module(room).__path__
                _load_modules([module.name for module in pkgutil.walk_packages(paths, f"{room}.")])
                _imported.add(room)


def _load_modules(names: Iterable[str]) -> None:
    for name in names:
        if name not in _imported:
            with suppress(ImportError):
                importlib.import_module(name)
            _imported.add(name)
