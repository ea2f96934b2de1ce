"""Adapts Debezium's connector for PostgreSQL to types that it does not read.

Two methods get code before Java loads their classes; for all other types they behave as before.
"""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.adapted_classes import AdaptedMethod, adapt_methods

_PACKAGE = "io.debezium.connector.postgresql"
_METHODS = (
    # The connector reads all types of the database, and ends at an enum that has no labels of its own: a domain over an
    # enum, or an enum without any.
    AdaptedMethod(
        f"{_PACKAGE}.TypeRegistry",
        "createTypeBuilderFromResultSet",
        f"{_PACKAGE}.PgOid",
        opened=f"{_PACKAGE}.TypeRegistry$TypeBuilderWithSchema",
        first=f"""{{
            if ("E".equals($1.getString("category")) && $1.getArray("enum_values") == null) {{
                {_PACKAGE}.PostgresType.Builder builder = new {_PACKAGE}.PostgresType.Builder(
                    this, $1.getString("name"), (int) $1.getLong("oid"),
                    this.sqlTypeMapper.getSqlType($1.getString("name")), (int) $1.getLong("modifiers"),
                    getTypeInfo(this.connection));
                builder = builder.enumValues(java.util.Collections.emptyList());
                builder = builder.parentType((int) $1.getLong("parentoid"));
                return new {_PACKAGE}.TypeRegistry.TypeBuilderWithSchema(builder, $1.getString("schema_name"));
            }}
        }}""",
    ),
    # The schemas of lists of some types, such as enums, allow no nulls in the lists.
    AdaptedMethod(
        f"{_PACKAGE}.PostgresValueConverter",
        "schemaBuilder",
        f"{_PACKAGE}.PgOid",
        last="""{
            if ($_ != null && $_.type() == org.apache.kafka.connect.data.Schema.Type.ARRAY
                    && !$_.valueSchema().isOptional()) {
                org.apache.kafka.connect.data.Schema element = $_.valueSchema();
                org.apache.kafka.connect.data.SchemaBuilder builder =
                    new org.apache.kafka.connect.data.SchemaBuilder(element.type()).optional();
                if (element.name() != null) { builder.name(element.name()); }
                if (element.version() != null) { builder.version(element.version()); }
                if (element.parameters() != null) { builder.parameters(element.parameters()); }
                $_ = org.apache.kafka.connect.data.SchemaBuilder.array(builder.build());
            }
        }""",
    ),
)


def prepare_postgresql_classes() -> None:
    """Adapts the Java classes; has to be called before the first connector for PostgreSQL starts."""
    adapt_methods(_METHODS)
