"""Messages by which servers refuse a user, and the rights that they are about."""

from __future__ import annotations

import pytest

from arctic_runtime.catalog_kinds.missing_rights import find_missing_right, to_rights_error

NOT_ALLOWED = "User: arn:aws:iam::123456789012:user/me is not authorized to perform:"


@pytest.mark.parametrize(
    ("reason", "name", "advice"),
    [
        (
            f'{NOT_ALLOWED} s3:PutObject on resource: "arn:aws:s3:::lake/a" because',
            "s3:PutObject on arn",
            "s3:PutObject",
        ),
        (f"{NOT_ALLOWED} glue:UpdateTable", "glue:UpdateTable", "allow glue:UpdateTable"),
        ("AWS Error ACCESS_DENIED during HeadBucket operation: No response body.", "s3:ListBucket", "s3:ListBucket"),
        ("AWS Error ACCESS_DENIED during UploadPart operation: Access Denied", "s3:PutObject", "s3:PutObject"),
        ("AWS Error ACCESS_DENIED during GetObjectTagging operation: x", "s3:GetObjectTagging", "allow"),
        ("Forbidden (Service: S3, Status Code: 403, Request ID: null)", "s3:ListBucket on the bucket", "compare"),
        (
            "ERROR: permission denied for table iceberg_tables",
            "delete on iceberg_tables",
            "`grant select, insert, update",
        ),
        (
            "permission denied for relation iceberg_namespace_properties",
            "iceberg_namespace",
            "`grant select, insert, delete",
        ),
        ("permission denied for schema public", "usage on schema public", "`grant usage on schema public to me`"),
        ("no schema has been selected to create in", "usage on schema public", "`grant usage"),
        (
            'FATAL:  permission denied for database "lake"',
            "connect on database lake",
            "`grant connect on database lake to me`",
        ),
        ('column "iceberg_type" does not exist', "the column iceberg_type", "`alter table iceberg_tables"),
        ("ERROR: must be owner of table iceberg_tables", "the column iceberg_type", "`alter table iceberg_tables"),
    ],
)
def test_a_refusal_names_the_right_and_how_it_is_given(reason: str, name: str, advice: str) -> None:
    right = find_missing_right(reason, "me")
    assert right is not None
    assert name in right.name
    assert advice in right.fix
    assert "docs/stores.md" in right.fix
    error = str(to_rights_error(reason, "create x"))
    assert error.startswith("A right is missing: ")
    assert "while: create x" in error


@pytest.mark.parametrize(
    "reason",
    [
        "Permission denied: '/warehouse'",
        "could not connect to server: Connection refused",
        'password authentication failed for user "me"',
        "AWS Error NETWORK_CONNECTION during HeadBucket operation: timeout",
        "(Service: S3, Status Code: 404, Request ID: null)",
        'column "amount" does not exist',
    ],
)
def test_other_errors_name_no_right(reason: str) -> None:
    assert find_missing_right(reason) is None
    assert to_rights_error(reason, "x") is None
