package io.sparkpgoutput.errors

/** A table has columns that do not fit the schema that the user asked for. */
final class SchemaEvolutionException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_EVOLUTION", "42804", text)
