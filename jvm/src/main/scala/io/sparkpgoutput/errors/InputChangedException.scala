package io.sparkpgoutput.errors

/** The input returned other messages when it was read again. */
final class InputChangedException(text: String)
    extends PgOutputException("PGOUTPUT_INPUT_CHANGED", "55000", text)
