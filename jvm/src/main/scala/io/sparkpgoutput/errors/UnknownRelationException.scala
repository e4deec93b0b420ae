package io.sparkpgoutput.errors

/** A change belongs to a table that no Relation message has described. */
final class UnknownRelationException(text: String)
    extends PgOutputException("PGOUTPUT_UNKNOWN_RELATION", "08P01", text)
