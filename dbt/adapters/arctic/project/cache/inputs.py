"""Everything on which a compiled project depends: files, as dbt reports them, environment, options and versions."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dbt.adapters.arctic.__version__ import version

_YAML = (".yml", ".yaml", ".dbtignore")
_PREFIX = "DBT_"
"""Begin of the names of all variables that dbt reads by itself, as options of its commands."""

_DISTRIBUTION = re.compile(r"dbt.*\.(?:dist-info|egg-info|egg-link)")
_MENTION = re.compile(rb"\benv_var\b")
_READ = re.compile(rb"""\benv_var\s*\(\s*\\?(['"]{1,2})(\w+)\\?\1\s*[,)]""")


@dataclass(frozen=True)
class ProjectRequest:
    """The options by which a project is asked for."""

    project_dir: Path
    profiles_dir: Path | None
    target: str | None


@dataclass(frozen=True)
class WatchedFiles:
    """The files that dbt reads for a project: absolute paths, each sorted."""

    profiles_file: str
    roots: tuple[str, ...]
    """Folders of the project and its packages, of which the YAML files are read."""

    folders: tuple[str, ...]
    """Folders of models, macros and so on, of which all files are read."""

    packages_folder: str
    """Folder to which packages are installed, each in a folder of its own."""


def has_dotenv_file(start: Path) -> bool:
    """Whether a folder or one above it has a file `.env`, from which dbt adds variables to its environment."""
    return any(os.path.lexists(folder / ".env") for folder in (start, *start.parents))


def describe_request(request: ProjectRequest) -> list[str | None]:
    """Returns options, places and versions from which dbt starts; compared as a whole."""
    cwd = Path.cwd()
    return [
        version,
        sys.version,
        json.dumps(sorted(_list_distributions())),
        str(cwd),
        str((cwd / "profiles.yml").exists()),
        str(request.project_dir.absolute()),
        None if request.profiles_dir is None else str(request.profiles_dir.absolute()),
        request.target,
    ]


def _list_distributions() -> Iterator[str]:
    """Yields the names of modules in which dbt looks for plugins, and of dbt's installed packages with versions."""
    yield from (module.name for module in pkgutil.iter_modules() if module.name.startswith("dbt_"))
    for folder in sys.path:
        yield from (file.name for file in _list_folder(Path(folder)) if _DISTRIBUTION.fullmatch(file.name.lower()))


def walk_files(watched: WatchedFiles) -> Iterator[tuple[Path, bytes | None]]:
    """Yields path and content of all watched files in a fixed order; content is None for what is no file.

    Raises OSError if a file or a folder can't be read.
    """
    profiles = Path(watched.profiles_file)
    yield profiles, _read_file(profiles)
    for root in watched.roots:
        yield from ((file, _read_file(file)) for file in _list_folder(Path(root)) if file.name.endswith(_YAML))
    for folder in watched.folders:
        if Path(folder).is_dir():
            yield from _walk_folder(folder)
    yield from ((package, None) for package in _list_folder(Path(watched.packages_folder)))


def _walk_folder(top: str) -> Iterator[tuple[Path, bytes | None]]:
    for folder, folders, names in os.walk(top, onerror=_raise_error, followlinks=True):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            yield file, _read_file(file)


def _raise_error(error: OSError) -> None:
    raise error


def _list_folder(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _read_file(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def find_variables(contents: Iterable[bytes]) -> tuple[str, ...] | None:
    """Returns the names that files give to `env_var`, sorted; None if a file may read variables by other names."""
    names: set[bytes] = set()
    for content in contents:
        reads = _READ.findall(content)
        if len(reads) != len(_MENTION.findall(content)):
            return None
        names |= {name for _, name in reads}
    return tuple(sorted(name.decode() for name in names))


def digest_files(files: Iterable[tuple[Path, bytes | None]]) -> str:
    """Returns a digest of paths and contents."""
    digest = hashlib.blake2b()
    for path, content in files:
        name, part = os.fsencode(path), b"" if content is None else hashlib.blake2b(content).digest()
        digest.update(b"%d %d %s%s" % (len(name), len(part), name, part))
    return digest.hexdigest()


def select_environment(environment: Mapping[str, str], variables: Iterable[str]) -> list[tuple[str, str | None]]:
    """Returns names and values of the variables that dbt reads by itself, and of `variables`; sorted."""
    names = {"HOME", *variables, *(name for name in environment if name.upper().startswith(_PREFIX))}
    return [(name, environment.get(name)) for name in sorted(names)]


@dataclass(frozen=True)
class DbtInputs:
    """The files that dbt reads for a project, and the names of its profile and target."""

    watched: WatchedFiles
    profile: str
    target: str


def read_dbt_inputs(request: ProjectRequest) -> DbtInputs | None:
    """Reads the configuration of a project; None if dbt can't, or if its result may depend on more than files."""
    from dbt.cli.flags import Flags
    from dbt.cli.types import Command
    from dbt.config.runtime import RuntimeConfig
    from dbt.flags import set_flags
    from dbt.plugins import get_plugin_manager
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    options = {"project_dir": request.project_dir, "profiles_dir": request.profiles_dir, "target": request.target}
    try:
        flags: Any = Flags.from_dict(Command.PARSE, {key: str(value) for key, value in options.items() if value})
        set_flags(flags)
        set_invocation_context(os.environ)
        config: Any = RuntimeConfig.from_args(flags)
        packages = tuple(config.load_dependencies().values())
        plugins = get_plugin_manager(config.project_name)
    except (DbtBaseException, OSError, ValueError):
        return None
    # Without partial parsing, users expect that Jinja which reads the clock is computed by every command.
    if not flags.PARTIAL_PARSE or plugins.hooks.get("get_nodes"):
        return None
    watched = WatchedFiles(
        str(Path(flags.PROFILES_DIR, "profiles.yml").absolute()),
        tuple(sorted({str(Path(package.project_root).absolute()) for package in packages})),
        tuple(sorted({folder for package in packages for folder in _list_folders(package)})),
        str(Path(config.project_root, config.packages_install_path).absolute()),
    )
    return DbtInputs(watched, str(config.profile_name), str(config.target_name))


def _list_folders(package: Any) -> Iterator[str]:
    """Yields all folders of a package with models, macros and whatever else a version of dbt has folders for."""
    for described in fields(package):
        if described.name.endswith("_paths"):
            for folder in getattr(package, described.name):
                yield str(Path(package.project_root).absolute() / folder)
