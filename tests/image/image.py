"""Builds the image of `deploy/docker` by its own Dockerfile, with buildah, on a base of Debian's packages.

`python -m tests.image.image` builds it. The base stands for the official image of Python, which a registry of images
has; all else is what the Dockerfile says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE = ROOT / "build" / "image"
"""The folder of images and their layers."""
NAME = "localhost/dbt-arctic"
BASE = "python:3.11-slim-bookworm"
_PACKAGES = "ca-certificates,python3,python3-venv"
_CERTIFICATES = "/usr/local/share/ca-certificates"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def list_storage_variables() -> dict[str, str]:
    """Environment variables by which buildah and podman keep their files in `STORE`."""
    settings = STORE / "storage.conf"
    STORE.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[storage]\ndriver = "overlay"\nrunroot = "{STORE}/run"\ngraphroot = "{STORE}/layers"\n')
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)}


def run_tool(*command: str) -> str:
    """Runs a command of buildah or podman, and returns what it prints; its messages go to those of this process."""
    done = subprocess.run(
        command, env=list_storage_variables(), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


def has_image(name: str) -> bool:
    command = ["buildah", "inspect", "--type", "image", name]
    return subprocess.run(command, env=list_storage_variables(), capture_output=True, check=False).returncode == 0


def build_base() -> None:
    """Builds an image of Debian with its Python, which trusts whom this machine trusts."""
    container = run_tool("buildah", "from", "scratch")
    with tempfile.TemporaryDirectory() as folder:
        files, pip = Path(folder) / "files.tar", Path(folder) / "pip.conf"
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", files], check=True
        )
        pip.write_text(f"[global]\ncert = {_BUNDLE}\n")
        run_tool("buildah", "add", "--quiet", container, str(files), "/")
        run_tool("buildah", "copy", "--quiet", container, _CERTIFICATES, _CERTIFICATES)
        run_tool("buildah", "copy", "--quiet", container, str(pip), "/etc/pip.conf")
    for command in (["update-ca-certificates"], ["ln", "-sf", "python3", "/usr/bin/python"]):
        run_tool("buildah", "run", "--isolation", "chroot", container, "--", *command)
    run_tool("buildah", "config", "--env", f"SSL_CERT_FILE={_BUNDLE}", container)
    run_tool("buildah", "commit", "--quiet", "--rm", container, BASE)


def build_image(extras: str, jars: str) -> None:
    """Builds the image with these extras of the package, and these groups of JARs."""
    if not has_image(BASE):
        build_base()
    arguments = {"PYTHON": BASE.removeprefix("python:"), "EXTRAS": extras, "JARS": jars}
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    docker = ROOT / "deploy" / "docker"
    # --layers keeps steps whose files are the same; chroot and the host's network need no other namespaces.
    options = ["--quiet", "--layers", "--isolation", "chroot", "--network", "host"]
    files = ["--file", str(docker / "Dockerfile"), "--ignorefile", str(docker / "Dockerfile.dockerignore")]
    run_tool("buildah", "build", *options, *files, *given, "--tag", NAME, str(ROOT))


if __name__ == "__main__":
    build_image(*(sys.argv[1:] or ["serve,lineage,cdc,postgresql", "postgresql"]))
