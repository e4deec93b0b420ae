package io.sparkpgoutput.errors

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

/** A committed change whose transaction began before the messages that there are. */
final class IncompleteTransactionException(text: String)
    extends PgOutputException("PGOUTPUT_INCOMPLETE_TRANSACTION", "08P01", text)

/** A commit that is not above the one before it, and none that is sent again. */
final class CommitWentBackException(text: String)
    extends PgOutputException("PGOUTPUT_COMMIT_WENT_BACK", "08P01", text)

/** A change of a table of which no Relation message was sent. */
final class UnknownRelationException(text: String)
    extends PgOutputException("PGOUTPUT_UNKNOWN_RELATION", "08P01", text)

/** A table has columns that the schema asked for does not take. */
final class SchemaEvolutionException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_EVOLUTION", "42804", text)

/** Messages whose order is not known; 22023 is PostgreSQL's invalid_parameter_value. */
final class MessageOrderException(text: String)
    extends PgOutputException("PGOUTPUT_MESSAGE_ORDER", "22023", text)

object MessageOrderException {
  def nullPosition: MessageOrderException =
    new MessageOrderException("a message's position is NULL: it cannot be put in order.")
}

/** Messages that were others when they were read again. */
final class InputChangedException(text: String)
    extends PgOutputException("PGOUTPUT_INPUT_CHANGED", "55000", text)
