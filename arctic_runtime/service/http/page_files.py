"""The static files of the page, cached in memory: they are part of the package, and the same for everybody."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from arctic_runtime.service import page
from arctic_runtime.service.http.cached import CachedBody, answer_request

FOLDER = Path(page.__file__).parent

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


@cache
def list_page_paths() -> Mapping[str, Path]:
    """Maps the URL path under which each file of the page is served to the file.

    `/` is the page itself, and `/diff` opens it at its view of differences.
    """
    files = {
        f"/page/{file.relative_to(FOLDER).as_posix()}": file for file in FOLDER.rglob("*") if file.suffix in _TYPES
    }
    return {"/": FOLDER / "index.html", "/diff": FOLDER / "index.html", **files}


@cache
def _read_page_file(file: Path) -> CachedBody:
    body = file.read_bytes()
    return CachedBody(body, gzip.compress(body, mtime=0), f'"{hashlib.sha256(body).hexdigest()[:16]}"')


async def serve_page(request: Request) -> Response:
    """Serves the file of the page at the request's path, which has to be one of `list_page_paths`."""
    file = list_page_paths()[request.url.path]
    return answer_request(request, _read_page_file(file), _TYPES[file.suffix])
