"""Downloads of files from Maven's repository by the Ivy that Spark has."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from arctic_runtime.spark.engine.java.jars import find_java
from arctic_runtime.spark.engine.java.jvm import find_spark_home
from sample_project.servers import ServerError

CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"
"""The attribute of an artifact with the classifier of its file, such as `tests`."""

ElementTree.register_namespace("m", "http://ant.apache.org/ivy/maven")


def start_module(name: str, configurations: Sequence[str] = ()) -> tuple[ElementTree.Element, ElementTree.Element]:
    """Begins Ivy's description of a module; returns the module, and the element for its dependencies.

    Each of its configurations has dependencies of its own, in versions of its own.
    """
    module = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(module, "info", organisation="tests", module=name)
    if configurations:
        described = ElementTree.SubElement(module, "configurations")
        for configuration in configurations:
            ElementTree.SubElement(described, "conf", name=configuration)
    return module, ElementTree.SubElement(module, "dependencies")


def download_dependencies(module: ElementTree.Element, folder: Path, pattern: str, wanted: str) -> None:
    """Downloads the dependencies of a module to files below `folder`, named by Ivy's `pattern`.

    Raises ServerError if the file `wanted` is not there afterwards.
    """
    settings, described = folder / "settings.xml", folder / "ivy.xml"
    settings.write_bytes(ElementTree.tostring(build_resolver()))
    described.write_bytes(ElementTree.tostring(module))
    (ivy,) = (find_spark_home() / "jars").glob("ivy-[0-9]*.jar")
    arguments = {
        "-settings": settings,
        "-ivy": described,
        "-cache": folder / "cache",
        "-retrieve": folder / pattern,
    }
    options = [str(part) for pair in arguments.items() for part in pair]
    command = [str(find_java().executable), "-cp", str(ivy), "org.apache.ivy.Main", *options, "-warn"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (folder / wanted).exists():
        raise ServerError(f"{wanted} could not be downloaded:\n{done.stdout}{done.stderr}")


def build_resolver() -> ElementTree.Element:
    """Builds Ivy's settings: Maven's repository as Ivy knows it."""
    settings = ElementTree.Element("ivysettings")
    ElementTree.SubElement(settings, "settings", defaultResolver="maven")
    resolvers = ElementTree.SubElement(settings, "resolvers")
    named = {"name": "maven", "m2compatible": "true"}
    ElementTree.SubElement(resolvers, "ibiblio", named)
    return settings
