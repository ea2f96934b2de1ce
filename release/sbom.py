"""Writes the software bill of materials of a release: `python -m release.sbom FILE`, in the format CycloneDX 1.6.

It lists the Python packages that the wheel needs with all of its extras, in the versions of `constraints.txt`, and the
JARs that Spark gets, with their SHA-256.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from arctic_runtime.spark.engine.java.jars import GROUPS, JARS, Jar

ROOT = Path(__file__).parents[1]
NAME = "dbt-arctic"
LEFT_OUT = ("dev", "open", "trust")
"""Extras that no release needs."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m release.sbom", description=__doc__)
    parser.add_argument("file", type=Path, help="file to write")
    file = parser.parse_args(arguments).file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(format_bom(build_bom()), encoding="utf-8")
    return 0


def build_bom() -> Bom:
    """Builds the bill of materials from what is installed; its main component is the wheel."""
    bom = Bom()
    own = Component(name=NAME, version=version(NAME), type=ComponentType.LIBRARY, bom_ref=NAME)
    bom.metadata.component = own
    packages = [_build_package(name) for name in list_packages(NAME, list_extras())]
    jars = [_build_jar(jar) for jar in (*JARS, *(jar for group in GROUPS.values() for jar in group))]
    for component in (*packages, *jars):
        bom.components.add(component)
    bom.register_dependency(own, [*packages, *jars])
    return bom


def format_bom(bom: Bom) -> str:
    """Formats a bill of materials as JSON, sorted, and without the time and the number that each one gets."""
    content = json.loads(JsonV1Dot6(bom).output_as_string())
    content.pop("serialNumber", None)
    content["metadata"].pop("timestamp", None)
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def list_extras() -> tuple[str, ...]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]", 1)[1]
    names = re.findall(r"^([a-z0-9]+) = \[", text.split("\n[", 1)[0], re.MULTILINE)
    return tuple(name for name in names if name not in LEFT_OUT)


def list_packages(name: str, extras: Iterable[str]) -> Iterator[str]:
    """Yields the names of all installed packages that a package needs with some extras, directly or not."""
    seen, waiting = {name}, [(name, frozenset(extras))]
    while waiting:
        owner, chosen = waiting.pop()
        for requirement in map(Requirement, _list_requirements(owner)):
            needed = canonicalize_name(requirement.name)
            if needed not in seen and _applies(requirement, chosen):
                seen.add(needed)
                waiting.append((needed, frozenset(requirement.extras)))
                yield needed


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _list_requirements(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def _build_package(name: str) -> Component:
    try:
        found = version(name)
    except PackageNotFoundError:
        found = _find_pin(name)
    url = PackageURL("pypi", None, name, found)
    return Component(name=name, version=found, type=ComponentType.LIBRARY, purl=url, bom_ref=f"pypi:{name}")


def _find_pin(name: str) -> str | None:
    """Returns the version in `constraints.txt` of a package of an extra that is not installed; None without one."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(pinned): found for pinned, found in pins}.get(canonicalize_name(name))


def _build_jar(jar: Jar) -> Component:
    return Component(
        name=jar.artifact,
        group=jar.group,
        version=jar.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("maven", jar.group, jar.artifact, jar.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)],
        bom_ref=f"maven:{jar.coordinates}",
    )


if __name__ == "__main__":
    sys.exit(main())
