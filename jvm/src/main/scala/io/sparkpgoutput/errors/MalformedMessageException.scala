package io.sparkpgoutput.errors

/** pgoutput cannot have written the message. 08P01 is PostgreSQL's protocol_violation. */
final class MalformedMessageException(text: String)
    extends PgOutputException("PGOUTPUT_MALFORMED_MESSAGE", "08P01", text)
