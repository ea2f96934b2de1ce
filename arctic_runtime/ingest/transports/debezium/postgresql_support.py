"""Adapts Debezium's connector for PostgreSQL to types that it does not read.

For all other types, the changed methods behave as before.
"""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.java_methods import InsertedCode

_PACKAGE = "io.debezium.connector.postgresql"
POSTGRESQL_SUPPORT = (
    # The connector reads all types of the database, and ends at an enum that has no labels of its own: a domain over an
    # enum, or an enum without any.
    InsertedCode(
        f"{_PACKAGE}.TypeRegistry",
        f"{_PACKAGE}.PgOid",
        "createTypeBuilderFromResultSet",
        f"""{{
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
        opened=f"{_PACKAGE}.TypeRegistry$TypeBuilderWithSchema",
    ),
    # The schemas of lists of some types, such as enums, allow no nulls in the lists.
    InsertedCode(
        f"{_PACKAGE}.PostgresValueConverter",
        f"{_PACKAGE}.PgOid",
        "schemaBuilder",
        """{
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
        "end",
    ),
)
