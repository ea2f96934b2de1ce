"""The server that stands for AWS in these suites."""

from __future__ import annotations

from tests.open.moto_server import MotoServer


def test_objects_of_a_bucket_are_kept_and_listed(moto: MotoServer, bucket: str) -> None:
    moto.build_client("s3").put_object(Bucket=bucket, Key="a/b", Body=b"text")
    assert moto.list_keys(bucket) == ["a/b"]
    assert moto.list_keys(bucket, "c/") == []


def test_databases_of_glue_are_kept_and_listed(moto: MotoServer) -> None:
    glue = moto.build_client("glue")
    glue.create_database(DatabaseInput={"Name": "dwd"})
    assert [database["Name"] for database in glue.get_databases()["DatabaseList"]] == ["dwd"]
