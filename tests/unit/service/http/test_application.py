"""The files of the page: what they are, that they are those of their authors, and that nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from arctic_runtime.model.step import Reason
from arctic_runtime.service.http.application import FOLDER, list_page_paths
from tests.unit.service.http.client import Client

VENDOR = FOLDER / "vendor"
OWN = sorted(path for path in FOLDER.glob("*") if path.suffix in (".js", ".css", ".html", ".svg"))
FOREIGN = re.compile(r"https?://(?!www\.w3\.org/2000/svg)")
UNSAFE = re.compile(r"innerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")


def test_vendored_files_are_those_that_were_checked() -> None:
    packages = json.loads((VENDOR / "vendor.json").read_text())
    listed = {path: digest for package in packages for path, digest in package["files"].items()}
    present = {
        file.relative_to(VENDOR).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.rglob("*")
        if file.is_file() and file.name != "vendor.json"
    }
    assert present == listed


def test_every_vendored_package_has_its_licence() -> None:
    for package in json.loads((VENDOR / "vendor.json").read_text()):
        assert package["version"]
        assert package["licence"]
        assert any("LICENSE" in path for path in package["files"])


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.name)
def test_own_files_load_nothing_from_elsewhere_and_set_no_html(file: Path) -> None:
    text = file.read_text()
    assert FOREIGN.findall(text) == []
    assert UNSAFE.findall(text) == []


def test_the_page_has_no_script_or_style_inside() -> None:
    text = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)[^>]*>|<style|\son\w+=|style=", text) == []


def test_imports_and_links_lead_to_files_that_are_there() -> None:
    for file in OWN:
        text = file.read_text()
        names = re.findall(r"""(?:from|import\()\s*"\./([^"]+)\"""", text)
        names += [path.removeprefix("/page/") for path in re.findall(r'"(/page/[^"]+)"', text)]
        for name in names:
            assert f"/page/{name}" in list_page_paths(), (file.name, name)


def test_files_are_compressed_and_kept_by_browsers_until_they_change(client: Client) -> None:
    first = client.get("/page/app.js", Accept_Encoding="gzip")
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert client.get("/page/app.js", If_None_Match=first.headers["etag"]).status == 304
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"


def test_every_reason_of_a_run_is_explained_in_words() -> None:
    explained = set(re.findall(r"^  ([A-Z_]+): \"", (FOLDER / "reasons.js").read_text(), re.MULTILINE))
    assert explained == set(get_args(Reason))
