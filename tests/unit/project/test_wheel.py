"""The wheel: both namespaces, typed, with its commands; and what a release says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dbt.adapters
from arctic_runtime.service.agents.pages import PAGES
from dbt.adapters.arctic.__version__ import version

ROOT = Path(__file__).parents[3]
PACKAGES = ("arctic_runtime", "dbt/adapters/arctic", "dbt/include/arctic")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("dist"))


def build(target: str, directory: Path) -> Path:
    """The file that is built of a target, in a directory that is empty."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = directory.iterdir()
    return file


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist())


def test_the_wheel_has_every_file_of_its_packages_and_no_other(wheel: Path) -> None:
    files = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    packed = {name for name in in_wheel(wheel) if ".dist-info/" not in name}
    pages = {f"arctic_runtime/service/agents/docs/{name}.md" for name in PAGES}
    assert packed == files | pages
    assert {f"{package}/py.typed" for package in PACKAGES} <= packed


def test_the_wheel_leaves_the_namespaces_to_dbt(wheel: Path) -> None:
    assert not {"dbt/__init__.py", "dbt/adapters/__init__.py", "dbt/include/__init__.py"} & in_wheel(wheel)


def test_the_wheel_carries_the_licence_of_the_project_and_those_of_its_parts(wheel: Path) -> None:
    carried = {name.split("/licenses/")[1] for name in in_wheel(wheel) if ".dist-info/licenses/" in name}
    vendored = (ROOT / "arctic_runtime" / "service" / "page" / "vendor").glob("*/LICENSE*")
    assert carried == {"LICENSE", *(str(file.relative_to(ROOT)) for file in vendored)}
    with zipfile.ZipFile(wheel) as packed:
        metadata = packed.read(f"dbt_arctic-{version}.dist-info/METADATA").decode()
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_the_version_is_one_and_the_changelog_has_it(wheel: Path) -> None:
    assert wheel.name == f"dbt_arctic-{version}-py3-none-any.whl"
    releases = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version in releases[:2]


def test_the_source_distribution_has_the_licence_and_every_page_for_people(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames()}
    assert {"LICENSE", *(page.name for page in ROOT.glob("*.md"))} <= names


@pytest.mark.slow
def test_an_installed_wheel_parses_a_project_and_has_its_commands(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which finds the libraries that it needs in the one of the tests."""
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "DO_NOT_TRACK": "1"}

    def run(command: str, *arguments: str) -> str:
        done = subprocess.run(
            [fresh / "bin" / command, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    (libraries,) = (fresh / "lib").glob("python*/site-packages")
    shared = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    (libraries / "libraries.pth").write_text("\n".join(shared))
    where = "import arctic_runtime, dbt.adapters.arctic as a, dbt.include.arctic as i"
    output = run("python", "-c", f"{where}; print(arctic_runtime.__file__, a.__file__, i.__file__, sep='\\n')")
    assert [str(Path(line).parent) for line in output.split()] == [str(libraries / package) for package in PACKAGES]
    assert run("arctic", "--help") == run("dbt-arctic", "--help")
    write_project(tmp_path)
    run("python", "-m", "dbt.cli.main", "parse", "--profiles-dir", ".")
    assert (tmp_path / "target" / "manifest.json").exists()


def write_project(directory: Path) -> None:
    """The project that the page on a first project tells to write."""
    text = (ROOT / "docs" / "first-project.md").read_text()
    for name, content in re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)


@pytest.mark.slow
def test_dbt_lists_the_installed_adapter_with_its_version(wheel: Path, tmp_path: Path) -> None:
    """dbt looks for adapters in its own folder alone, so the wheel lies beside dbt's files; nothing is fetched."""
    adapters = tmp_path / "dbt" / "adapters"
    installed = Path(next(iter(dbt.adapters.__path__)))
    assert (installed / "__init__.py").exists()
    adapters.mkdir(parents=True)
    for folder in (installed.parent, installed):
        for part in folder.iterdir():
            link = tmp_path / part.relative_to(installed.parents[1])
            if not link.exists():
                link.symlink_to(part)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path, [name for name in packed.namelist() if name.startswith("dbt/adapters/")])
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=nowhere, check=False)
    assert re.search(rf"^  - arctic: {re.escape(version)} ", done.stdout, re.MULTILINE), done.stdout + done.stderr
