package io.sparkpgoutput.errors

/** A committed change belongs to a transaction that began before the first message. */
final class IncompleteTransactionException(text: String)
    extends PgOutputException("PGOUTPUT_INCOMPLETE_TRANSACTION", "08P01", text)
