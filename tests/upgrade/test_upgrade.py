"""A warehouse of each version that wrote something else into tables is read and written by this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WAREHOUSES = sorted((ROOT / "tests" / "data").glob("warehouse-*.zip"))

AS_WRITTEN = {
    "ods_orders": ["1 10 eu 25.00", "2 10 eu 30.00", "4 12 eu 7.50"],
    "dwd_orders": ["1 10 eu 25.00 50.00", "2 10 eu 30.00 60.00", "4 12 eu 7.50 15.00"],
    "dws_spend": ["eu 3 62.50"],
}
AFTER = {
    "ods_orders": ["2 10 eu 30.00", "4 12 None 9.00", "5 11 us 1.00"],
    "dwd_orders": ["2 10 eu 30.00 60.00", "4 12 None 9.00 18.00", "5 11 us 1.00 2.00"],
    "dws_spend": ["eu 1 30.00", "us 1 1.00"],
}


def used(archive: Path, folder: Path) -> dict[str, Any]:
    """What a process found that was started where the archive is unpacked."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.upgrade.shop", "use"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_a_warehouse_is_kept_of_the_first_version() -> None:
    assert WAREHOUSES[0].stem == "warehouse-0.1.0"


@pytest.mark.slow
@pytest.mark.parametrize("archive", WAREHOUSES, ids=lambda file: file.stem)
def test_a_warehouse_of_an_earlier_version_is_read_maintained_and_written(archive: Path, tmp_path: Path) -> None:
    result = used(archive, tmp_path)
    assert result["versions"] == [2, 2, 2]
    assert result["upgraded"] == ["unchanged NOTHING_NEW 0 0 0", *["full QUERY_CHANGED 0 0 0"] * 2]
    assert result["nothing new"] == ["unchanged"] * 3
    assert result["as written"] == {"rows": AS_WRITTEN, "broken": []}
    assert result["later"] == [f"incremental CHANGES {counts}" for counts in ("1 1 1", "1 1 1", "1 1 0")]
    assert result["after"] == {"rows": AFTER, "broken": []}
    assert result["compacted"] == result["after"]
