package io.sparkpgoutput.errors

/** A value does not fit the type that it is read as. 22018 is also the SQLSTATE of Spark's casts. */
final class InvalidValueException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_VALUE", "22018", text)
