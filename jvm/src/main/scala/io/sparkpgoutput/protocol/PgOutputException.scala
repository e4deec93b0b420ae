package io.sparkpgoutput.protocol

import org.apache.spark.SparkThrowable

/**
 * An error of this library that reaches the user.
 *
 * An `IllegalArgumentException`, because PySpark turns that into an exception of its own that
 * carries the condition, where a `RuntimeException` would arrive as a bare `Py4JJavaError`.
 * Condition and SQLSTATE are given here, for Spark looks up only its own.
 */
sealed abstract class PgOutputException(condition: String, sqlState: String, text: String)
    extends IllegalArgumentException(s"[$condition] $text SQLSTATE: $sqlState")
    with SparkThrowable {
  override def getCondition: String = condition
  override def getSqlState: String = sqlState
  override def isInternalError: Boolean = false
}

/** A message that pgoutput cannot have written; 08P01 is PostgreSQL's protocol_violation. */
final class MalformedMessageException(text: String)
    extends PgOutputException("PGOUTPUT_MALFORMED_MESSAGE", "08P01", text)

/** A text that is no LSN; 22P02 is PostgreSQL's invalid_text_representation. */
final class InvalidLsnException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_LSN", "22P02", text)

/**
 * A value that is none of its type, or does not fit the type asked for; 22018 as in Spark's casts.
 */
final class InvalidValueException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_VALUE", "22018", text)

/** Columns, types and schema do not go together; 42804 is PostgreSQL's datatype_mismatch. */
final class SchemaMismatchException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_MISMATCH", "42804", text)
