"""Checks that the object store of a warehouse answers, before work begins that would wait for the store for minutes."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from arctic_runtime.catalog.libraries import check_libraries
from arctic_runtime.catalog_kinds.missing_rights import find_missing_right
from arctic_runtime.catalog_kinds.object_stores import (
    ARROW_FILE_IO,
    PYTHON_FILE_IO,
    STORE_SCHEMES,
    build_python_store_properties,
    describe_store,
)
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile, mask_text

_NO_ACCESS = ("ACCESS_DENIED", "HTTP response code: 403", "HTTP response code: 401", "code 15")
"""Parts of error messages which show that the store has answered and refuses access to this user."""


_NO_CONNECTION = "NETWORK_CONNECTION"
"""Part of error messages which shows that the store could not be reached."""


def check_store(profile: Profile) -> None:
    """Checks that the bucket of the profile's warehouse exists; does nothing if the warehouse is in no object store.

    Raises CatalogError if the store does not answer within `store_probe_seconds`, refuses access to this user, or has
    no such bucket; raises ConfigError if a library is missing. With a catalog whose server may provide credentials for
    the store, such as a REST catalog, only a missing bucket and a store that can't be reached are errors.
    """
    properties = profile.build_pyiceberg_properties()
    address = urlsplit(profile.catalog_properties.get("warehouse", ""))
    if properties is None or address.scheme.lower() not in STORE_SCHEMES:
        return
    check_libraries(profile)
    if properties.get(PYTHON_FILE_IO) != ARROW_FILE_IO:
        return
    answer = _ask_with_limit(profile, properties, address.scheme, address.netloc)
    if answer == "no bucket":
        raise _build_store_error(profile, "has no such bucket", f"no bucket {address.netloc}", "create it")
    if not answer or (profile.catalog_kind.may_give_credentials and _NO_CONNECTION not in answer):
        return
    if any(sign in answer for sign in _NO_ACCESS):
        right = find_missing_right(answer)
        advice = "check credentials and rights: environment, profile files or keys"
        raise _build_store_error(
            profile, "refuses this user", answer, f"{advice}; {right.fix}" if right is not None else advice
        )
    raise _build_store_error(
        profile, "does not answer", answer, "check that it is up, and that endpoint, region and network are right"
    )


def _ask_with_limit(profile: Profile, properties: dict[str, str], scheme: str, bucket: str) -> str:
    """Returns an empty text if the bucket exists, `no bucket` if it does not, or else why this is not known.

    Asks in a thread of its own, since libraries may repeat a request for longer than their timeouts say.
    """
    import pyiceberg.io.pyarrow  # noqa: F401  (loading it takes seconds on a busy machine, and no store is waited for)

    limits = profile.thresholds.engine
    answers: list[str] = []

    def ask() -> None:
        answers.append(_ask_for_bucket(properties, scheme, bucket))

    waits = build_python_store_properties(
        profile.catalog_properties, limits.store_connect_seconds, limits.store_probe_request_seconds
    )
    properties = {**properties, **{key: waits[key] for key in waits if key.endswith("-timeout")}}
    thread = threading.Thread(target=ask, daemon=True, name="arctic-store-check")
    thread.start()
    thread.join(limits.store_probe_seconds)
    return answers[0] if answers else f"no answer within {limits.store_probe_seconds:g} s"


def _ask_for_bucket(properties: dict[str, str], scheme: str, bucket: str) -> str:
    from pyarrow.fs import FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    try:
        files = PyArrowFileIO(properties).fs_by_scheme(scheme, bucket)
        place = bucket.partition("@")[0]
        return "no bucket" if files.get_file_info(place).type == FileType.NotFound else ""
    except (OSError, ValueError, ImportError) as error:
        return str(error)


def _build_store_error(profile: Profile, what: str, actual: str, fix: str) -> CatalogError:
    return CatalogError(
        f"The object store of the warehouse {what}.",
        where=mask_text(describe_store(profile.catalog_properties)),
        expected="an answer for its bucket",
        actual=mask_text(" ".join(actual.split())),
        fix=fix,
    )
