"""The cache of JARs, and the search for a Java: nothing here starts one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog_kinds.object_stores import OBJECT_STORES
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.jars import Jar
from arctic_runtime.spark.engine.session import SparkEnvironment

CONTENT = b"what the JAR must contain"
JAR = Jar("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


@pytest.fixture
def resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes | None], list[Path]]:
    """Chooses what a resolution will deliver; returns the list of resolutions that have been run."""
    monkeypatch.setenv("DBT_ARCTIC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jars, "JARS", (JAR,))

    def deliver(content: bytes | None) -> list[Path]:
        runs: list[Path] = []

        def run(scratch: Path, wanted: Sequence[Jar]) -> str:
            assert wanted == (JAR,)
            runs.append(scratch)
            (scratch / "jars").mkdir()
            if content is not None:
                (scratch / "jars" / JAR.file_name).write_bytes(content)
            return "unresolved dependency"

        monkeypatch.setattr(jars, "run_resolution", run)
        return runs

    return deliver


def test_jars_are_resolved_once(resolve: Callable[[bytes | None], list[Path]]) -> None:
    runs = resolve(CONTENT)
    first = jars.resolve_jar_paths()
    assert jars.resolve_jar_paths() == first
    assert first[0].read_bytes() == CONTENT
    assert len(runs) == 1
    assert not runs[0].exists()


def test_a_truncated_jar_is_resolved_again(resolve: Callable[[bytes | None], list[Path]]) -> None:
    runs = resolve(CONTENT)
    (path,) = jars.resolve_jar_paths()
    path.write_bytes(CONTENT[:-1])
    assert jars.resolve_jar_paths()[0].read_bytes() == CONTENT
    assert len(runs) == 2


def test_a_jar_whose_bytes_were_changed_is_resolved_again(resolve: Callable[[bytes | None], list[Path]]) -> None:
    """Its size is as before, so that only its SHA-256 tells; a file that nobody wrote to is read once."""
    resolve(CONTENT)
    (path,) = jars.resolve_jar_paths()
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(1, 1))
    assert jars.resolve_jar_paths() == (path,)
    assert path.read_bytes() == CONTENT
    assert jars.resolve_jar_paths() == (path,)
    assert path.with_suffix(".verified").exists()


def test_a_jar_with_other_contents_is_refused_and_not_kept(
    resolve: Callable[[bytes | None], list[Path]],
) -> None:
    resolve(CONTENT.swapcase())
    with pytest.raises(ConfigError, match=f"in place of {JAR.sha256}"):
        jars.resolve_jar_paths()
    assert not (jars.get_cache_directory() / "jars" / JAR.file_name).exists()


def test_an_unresolved_jar_comes_with_what_spark_said(resolve: Callable[[bytes | None], list[Path]]) -> None:
    resolve(None)
    with pytest.raises(ConfigError, match=r"(?s)org\.example:thing:1\.0.*unresolved dependency"):
        jars.resolve_jar_paths()


def test_verifying_compares_contents_and_resolves_nothing(
    resolve: Callable[[bytes | None], list[Path]],
) -> None:
    runs = resolve(CONTENT)
    assert [(check.ok, check.actual) for check in jars.verify_jars()] == [(False, None)]
    assert runs == []
    (path,) = jars.resolve_jar_paths()
    assert [check.ok for check in jars.verify_jars()] == [True]
    path.write_bytes(CONTENT.swapcase())
    (check,) = jars.verify_jars()
    assert not check.ok
    assert check.expected == JAR.sha256


def test_groups_are_resolved_where_settings_choose_them(
    resolve: Callable[[bytes | None], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = resolve(CONTENT)
    monkeypatch.setattr(jars, "GROUPS", {"things": (JAR,), "others": ()})
    assert jars.group_paths({}) == ()
    assert runs == []
    assert jars.group_paths({JARS_SETTING: " things, others"}) == jars.resolve_jar_paths()
    assert len(runs) == 1
    with pytest.raises(ConfigError, match="names stuff; expected some of things, others"):
        jars.group_paths({JARS_SETTING: "stuff"})


@pytest.mark.parametrize(("group", "bundle"), [("gcs", "iceberg-gcp-bundle"), ("azure", "iceberg-azure-bundle")])
def test_a_jar_without_a_recorded_hash_is_left_to_its_user(group: str, bundle: str) -> None:
    with pytest.raises(ConfigError, match=f"download org.apache.iceberg:{bundle}:") as refused:
        jars.group_paths({JARS_SETTING: f"kafka,{group}"})
    assert "spark.driver.extraClassPath" in str(refused.value)


def test_a_group_that_can_not_be_resolved_is_named_in_the_command(
    resolve: Callable[[bytes | None], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(None)
    monkeypatch.setattr(jars, "GROUPS", {"things": (JAR,)})
    with pytest.raises(ConfigError, match=r"python -m arctic_runtime\.spark\.jars things"):
        jars.group_paths({JARS_SETTING: "things"})


def test_a_library_of_the_store_is_asked_for_before_spark_starts(
    resolve: Callable[[bytes | None], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(CONTENT)
    monkeypatch.setattr(jars, "GROUPS", {"aws": (replace(JAR, version="2.0"),)})
    monkeypatch.setattr(jars, "run_resolution", lambda scratch, wanted: (scratch / "jars").mkdir() or "no network")
    (jars.get_cache_directory() / "jars").mkdir(parents=True)
    (jars.get_cache_directory() / "jars" / JAR.file_name).write_bytes(CONTENT)
    SparkEnvironment(Profile("lake", {"type": "rest", "uri": "http://catalog"})).ensure_jars()
    profile = Profile("lake", {"type": "rest", "uri": "http://catalog", "warehouse": "s3://lake/warehouse"})
    with pytest.raises(ConfigError, match=r"python -m arctic_runtime\.spark\.jars aws"):
        SparkEnvironment(profile).ensure_jars()


def test_every_store_has_a_group_with_its_bundle() -> None:
    groups = {name: [jar.artifact for jar in group] for name, group in jars.GROUPS.items()}
    groups |= {name: [coordinates.split(":")[1]] for name, coordinates in jars.UNRECORDED.items()}
    assert {store.jar_group: [store.bundle] for store in OBJECT_STORES}.items() <= groups.items()


def test_a_jar_is_in_one_group_alone() -> None:
    listed = [jar.coordinates for jar in (*jars.JARS, *(jar for group in jars.GROUPS.values() for jar in group))]
    assert len(set(listed)) == len(listed)


def java_home(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine with Javas of these versions, in JAVA_HOME, in the PATH and in the folder of its packages."""

    def install(home: str = "", path: Sequence[str] = (), packages: Sequence[str] = ()) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", home)) if home else "")
        folders = [java_home(tmp_path / f"path-{version}", version) / "bin" for version in path]
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, [tmp_path / "none", *folders])))
        for version in packages:
            java_home(tmp_path / "jvm" / f"java-{version}", version)
        monkeypatch.setattr(jars, "JAVA_PLACES", (str(tmp_path / "jvm" / "*" / "bin"),))

    return install


@pytest.mark.parametrize(
    ("installed", "version", "place"),
    [
        ({"home": "17"}, "17", "home"),
        ({"home": "21.0.2", "path": ["17.0.15"]}, "21.0.2", "home"),
        ({"home": "25.0.1", "path": ["11.0.21", "17.0.15"]}, "17.0.15", "path-17.0.15"),
        ({"path": ["25", "21.0.2"], "packages": ["17"]}, "21.0.2", "path-21.0.2"),
        ({"path": ["24.0.1"], "packages": ["1.8.0_392", "21"]}, "21", "jvm/java-21"),
        ({"path": ["19"], "packages": ["17"]}, "17", "jvm/java-17"),
        ({"path": ["22.0.1", "19"], "packages": ["23"]}, "22.0.1", "path-22.0.1"),
    ],
)
def test_a_java_that_spark_is_made_for_is_found_without_starting_it(
    tmp_path: Path, machine: Callable[..., None], installed: dict[str, Any], version: str, place: str
) -> None:
    machine(**installed)
    assert jars.find_java() == jars.Java((tmp_path / place / "bin" / "java").resolve(), version)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "23.0.2", "24", "25.0.1"])
def test_a_java_that_spark_does_not_start_with_is_refused_with_the_command_that_installs_one(
    machine: Callable[..., None], version: str
) -> None:
    machine(home=version, path=["16"])
    with pytest.raises(ConfigError, match=r"(?s)No installed Java can run Spark.*Java 17 or 21") as refused:
        jars.find_java()
    assert version in str(refused.value)
    assert "16 at" in str(refused.value)
    assert jars.format_install_command() in str(refused.value)


def test_a_missing_java_is_refused(machine: Callable[..., None]) -> None:
    machine()
    with pytest.raises(ConfigError, match="Java is missing"):
        jars.find_java()


def test_pruning_keeps_the_newest(tmp_path: Path) -> None:
    for age, name in enumerate(["c", "a", "b"]):
        (tmp_path / f"{name}.log").touch()
        os.utime(tmp_path / f"{name}.log", (1000 - age, 1000 - age))
    jars.prune_files(tmp_path, "*.log", keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "c.log"]


def test_a_start_marks_the_archive_that_it_uses_so_that_pruning_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_ARCTIC_HOME", str(tmp_path))
    java = jars.Java(tmp_path / "java", "17.0.1")
    mine, other = (jars.get_archive_path(java, [name]) for name in ("mine", "other"))
    mine.parent.mkdir()
    for age, file in enumerate([other, mine]):
        file.touch()
        os.utime(file, (1000 - age, 1000 - age))
    assert jars.find_archive(java, ["mine"]) == mine
    jars.prune_files(mine.parent, "*.jsa", keep=1)
    assert mine.exists()
    assert not other.exists()


def test_without_an_archive_a_start_uses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_ARCTIC_HOME", str(tmp_path))
    assert jars.find_archive(jars.Java(tmp_path / "java", "17.0.1"), []) is None
