"""Compares the pinned packages with the database of known weaknesses: `python -m release.audit`.

Ends with 0 if none is known, with 1 if some are, and with 3 if the database can't be reached, so that nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PINS = Path(__file__).parents[1] / "constraints.txt"
COMMAND = (
    *(sys.executable, "-m", "pip_audit", "--requirement", str(PINS)),
    *("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"),
)
UNKNOWN = 3

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(run: Run = run_command) -> int:
    ended = run(COMMAND)
    packages = read_packages(ended.stdout)
    if packages is None:
        last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"Nothing was audited: the database of pip-audit can't be reached, or it failed. It said: {last[:300]}")
        return UNKNOWN
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        reason = skipped[0]["skip_reason"] if skipped else "there are no packages"
        print(f"Nothing was audited: the database of pip-audit has none of the packages, as behind a mirror. {reason}")
        return UNKNOWN
    weak = [package for package in packages if package.get("vulns")]
    for package in weak:
        for weakness in package["vulns"]:
            fixed = ", ".join(weakness.get("fix_versions") or ()) or "no version"
            print(f"{package['name']} {package['version']}: {weakness['id']}; mended in {fixed}")
    print(f"{len(packages) - len(skipped)} packages were audited, {len(skipped)} are not in the database")
    print(f"{len(weak)} have known weaknesses")
    return 1 if weak else 0


def read_packages(text: str) -> list[Mapping[str, Any]] | None:
    """Reads the packages in the report of pip-audit; None if it made none."""
    try:
        packages: list[Mapping[str, Any]] = json.loads(text)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return packages


if __name__ == "__main__":
    sys.exit(main())
