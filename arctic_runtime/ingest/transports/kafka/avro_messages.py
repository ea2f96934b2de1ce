"""Decodes messages in Confluent's wire format to JSON, by Spark: a byte 0, four bytes of a schema's id, Avro binary.

Source: the documentation of Confluent's Schema Registry, "wire format".

The schemas of all ids among the messages are read before, by this process; Spark gets them as constants, so its
machines need no access to the registry. Logical types are not decoded: a table's columns say how values are written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.avro_events import check_record
from arctic_runtime.ingest.formats.avro_schema import SCHEMA_ID, AvroSchema
from arctic_runtime.ingest.transports.kafka.schema_registry import SchemaRegistry
from arctic_runtime.ingest.transports.transport import FAULT, MESSAGE, PAYLOAD
from arctic_runtime.profile import JARS_SETTING
from arctic_runtime.spark.engine.java.jars import GROUPS

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def explain_missing_jars(part: str, *groups: str) -> Iterator[None]:
    """Raises ConfigError if Spark cannot analyse the statement in the block, since it lacks the JARs for it.

    `part` names the part of Spark that is missing. `groups` are the groups of JARs that a Kafka source needs for the
    statement; those of the last one are missing.
    """
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ConfigError(
            f"Spark was started without its {part}.",
            expected=", ".join(jar.coordinates for jar in GROUPS[groups[-1]]),
            actual=str(error),
            fix=(
                f"set `{JARS_SETTING}: {','.join(groups)}` in server_side_parameters of the profile and restart Spark, "
                "or install these packages on the Spark Connect server"
            ),
        ) from error


_MAGIC, _NEGATIVE = b"\x00", b"\x80"
_HEAD_BYTES = 5
_MOST_BYTES = 2**31 - 1

_NO_HEAD = (
    "no Avro message: it does not begin with the byte 0 and the four bytes of a schema's id, as the serializers of a "
    "schema registry write"
)


class AvroMessages:
    """Decodes messages of Kafka by the schemas of a registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def check_source(self, spark: SparkSession) -> None:
        """Raises SourceError if the registry doesn't answer, ConfigError if Spark lacks its JAR for Avro."""
        self._registry.check_registry()
        check_avro_jar(spark)

    def find_ids(self, messages: DataFrame) -> frozenset[int]:
        """Finds the ids of the schemas of messages, whose bytes are in PAYLOAD, and reads these schemas.

        Raises SourceError if the registry doesn't answer, or if a schema can't be used.
        """
        from pyspark.sql import functions as F

        rows = messages.select(build_schema_id(F.col(PAYLOAD))).distinct().collect()
        ids = frozenset(int(row[0]) for row in rows if row[0] is not None)
        for schema_id in sorted(ids):
            check_record(self._registry.get_schema(schema_id))
        return ids

    def decode_messages(self, messages: DataFrame, ids: Collection[int]) -> DataFrame:
        """Moves the bytes in PAYLOAD to MESSAGE, and adds their JSON as PAYLOAD, and FAULT.

        `ids` are those that `find_ids` found. PAYLOAD is null for messages without such an id.
        """
        from pyspark.sql import functions as F

        schemas = [self._registry.get_schema(schema_id) for schema_id in sorted(ids)]
        kept = [name for name in messages.columns if name != PAYLOAD]
        message = F.col(PAYLOAD)
        schema_id = build_schema_id(message)
        text = F.concat(F.lit("no record of the Avro schema "), schema_id, F.lit(": the bytes do not fit it"))
        fault = F.when(message.isNull(), "no value").otherwise(F.coalesce(text, F.lit(_NO_HEAD)))
        return messages.select(
            *kept, message.alias(MESSAGE), _build_json(message, schemas).alias(PAYLOAD), fault.alias(FAULT)
        )

    def read_messages(self, messages: DataFrame) -> DataFrame:
        """Reads the schemas of messages and decodes them, like `find_ids` and `decode_messages`."""
        return self.decode_messages(messages, self.find_ids(messages))


def build_schema_id(message: Expression) -> Expression:
    """Builds the expression for the id of a message's schema, as a text of digits.

    Null for a message that does not begin with an id. Registries give no negative ones.
    """
    from pyspark.sql import functions as F

    is_marked = (F.substring(message, 1, 1) == F.lit(_MAGIC)) & (F.substring(message, 2, 1) < F.lit(_NEGATIVE))
    has_head = (F.length(message) >= _HEAD_BYTES) & is_marked
    return F.when(has_head, F.conv(F.hex(F.substring(message, 2, _HEAD_BYTES - 1)), 16, 10))


def build_schema_mark(message: Expression) -> Expression:
    """Builds the expression for a JSON object with nothing but the id of a message's schema; null without an id."""
    from pyspark.sql import functions as F

    return F.concat(F.lit(f'{{"{SCHEMA_ID}":'), build_schema_id(message), F.lit("}"))


def check_avro_jar(spark: SparkSession) -> None:
    """Raises ConfigError if Spark was started without its JAR for Avro."""
    from pyspark.sql import functions as F

    empty = AvroSchema(0, {}, *[f'{{"type":"record","name":"r","fields":[{field}]}}' for field in ("", _EXAMPLE)])
    with explain_missing_jars("JAR for Avro", "kafka", "avro"):
        _ = spark.range(0).select(_decode_record(F.lit(b""), empty)).schema


_EXAMPLE = f'{{"name":"{SCHEMA_ID}","type":"int","default":0}}'


def _build_json(message: Expression, schemas: Collection[AvroSchema]) -> Expression:
    """Builds the expression for the JSON of a message, by the one of `schemas` with its id; null for other messages.

    Only the field SCHEMA_ID of the JSON says whether the bytes fit the schema: if not, all fields are null.
    """
    from pyspark.sql import functions as F

    body, schema_id = F.substring(message, _HEAD_BYTES + 1, _MOST_BYTES), build_schema_id(message)
    texts = {schema.id: F.to_json(_decode_record(body, schema), {"ignoreNullFields": "false"}) for schema in schemas}
    nothing = F.lit(None).cast("string")
    return reduce(lambda rest, own: F.when(schema_id == str(own), texts[own]).otherwise(rest), texts, nothing)


def _decode_record(body: Expression, schema: AvroSchema) -> Expression:
    """Builds the expression for a record; a struct of nulls if the bytes do not fit the schema.

    The options are parsed from JSON, since the functions that build maps are not safe for threads: if two threads plan
    the same rows, Spark finds duplicate keys, and if the rows are cached, so does each later statement of the session.
    """
    from pyspark.sql import functions as F

    options = {
        "mode": "PERMISSIVE",
        "avroSchema": schema.reader,
        "enableStableIdentifiersForUnionType": "true",
    }
    parsed = F.from_json(F.lit(json.dumps(options)), "map<string,string>")
    return F.call_function("from_avro", body, F.lit(schema.writer), parsed)
