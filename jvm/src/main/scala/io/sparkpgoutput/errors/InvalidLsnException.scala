package io.sparkpgoutput.errors

/** The text is not an LSN. 22P02 is PostgreSQL's invalid_text_representation. */
final class InvalidLsnException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_LSN", "22P02", text)
