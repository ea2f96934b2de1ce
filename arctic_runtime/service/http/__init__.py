"""HTTP interface of a live service, for programs and for the page in the browser: its state, and requests to it.

Importing this package raises ConfigError without the extra `serve`.
"""

from __future__ import annotations

from arctic_runtime.errors import ConfigError

try:
    import fastapi
    import uvicorn
except ImportError as error:
    raise ConfigError(
        f"Serving HTTP needs FastAPI and uvicorn; `import {error.name}` failed.",
        fix="pip install 'dbt-arctic[serve]'",
    ) from error

__all__ = ["fastapi", "uvicorn"]
