package io.sparkpgoutput.errors

/** Columns, types and schema do not match. 42804 is PostgreSQL's datatype_mismatch. */
final class SchemaMismatchException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_MISMATCH", "42804", text)
