package io.sparkpgoutput.errors

import org.apache.spark.SparkThrowable

/**
 * An error of this library that reaches the user.
 *
 * It is an `IllegalArgumentException`, because PySpark turns that into an exception of its own that
 * carries the condition. A `RuntimeException` arrives as a bare `Py4JJavaError`. Spark looks up only
 * its own conditions, so the condition and the SQLSTATE are given here.
 *
 * @param text what happened, where, and what to do. It may hold data: [[ErrorText]] escapes it.
 */
abstract class PgOutputException(condition: String, sqlState: String, text: String)
    extends IllegalArgumentException(
      s"[$condition] ${ErrorText.sentence(text)} SQLSTATE: $sqlState"
    )
    with SparkThrowable {
  override def getCondition: String = condition
  override def getSqlState: String = sqlState
  override def isInternalError: Boolean = false

  /** The text without the condition and the SQLSTATE, for another text that quotes it. */
  def sentences: String = ErrorText.sentence(text)
}

/** pgoutput cannot have written the message. 08P01 is PostgreSQL's protocol_violation. */
final class MalformedMessageException(text: String)
    extends PgOutputException("PGOUTPUT_MALFORMED_MESSAGE", "08P01", text)

/** The order of the messages is not known. 22023 is PostgreSQL's invalid_parameter_value. */
final class MessageOrderException(text: String)
    extends PgOutputException("PGOUTPUT_MESSAGE_ORDER", "22023", text)

/** A change belongs to a table that no Relation message has described. */
final class UnknownRelationException(text: String)
    extends PgOutputException("PGOUTPUT_UNKNOWN_RELATION", "08P01", text)

/** A committed change belongs to a transaction that began before the first message. */
final class IncompleteTransactionException(text: String)
    extends PgOutputException("PGOUTPUT_INCOMPLETE_TRANSACTION", "08P01", text)

/** A commit has a lower LSN than an earlier one, and it is not a resend. */
final class CommitWentBackException(text: String)
    extends PgOutputException("PGOUTPUT_COMMIT_WENT_BACK", "08P01", text)

/** The input returned other messages when it was read again. */
final class InputChangedException(text: String)
    extends PgOutputException("PGOUTPUT_INPUT_CHANGED", "55000", text)

/** A value does not fit the type that it is read as. 22018 is also the SQLSTATE of Spark's casts. */
final class InvalidValueException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_VALUE", "22018", text)

/** Columns, types and schema do not match. 42804 is PostgreSQL's datatype_mismatch. */
final class SchemaMismatchException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_MISMATCH", "42804", text)

/** A table has columns that do not fit the schema that the user asked for. */
final class SchemaEvolutionException(text: String)
    extends PgOutputException("PGOUTPUT_SCHEMA_EVOLUTION", "42804", text)

/** The text is not an LSN. 22P02 is PostgreSQL's invalid_text_representation. */
final class InvalidLsnException(text: String)
    extends PgOutputException("PGOUTPUT_INVALID_LSN", "22P02", text)

/** A checkpoint has the streaming state of version 0.1.0. */
final class OldCheckpointException(text: String)
    extends PgOutputException("PGOUTPUT_OLD_CHECKPOINT", "0A000", text)

/**
 * A checkpoint has streaming state in a version that this library does not know. 0A000 is
 * PostgreSQL's feature_not_supported.
 */
final class CheckpointVersionException(text: String)
    extends PgOutputException("PGOUTPUT_CHECKPOINT_VERSION", "0A000", text)

/**
 * The text of an error message. It escapes control characters, because names and values in it come
 * from data. Otherwise a value could write its own log line, or show its text in a false order.
 */
object ErrorText {

  /** The text with its control characters escaped, and with a full stop at the end of a sentence. */
  def sentence(text: String): String = {
    val escaped = escape(text)
    // A statement of SQL is complete as it is.
    if (escaped.endsWith(".") || escaped.endsWith(";")) escaped else s"$escaped."
  }

  /**
   * Writes control characters, line separators, unpaired surrogates and invisible format characters
   * as escapes such as `\n` or `\u001b`. Characters that change the direction of text are format
   * characters.
   */
  def escape(text: String): String =
    if (text.codePoints().noneMatch(isUnsafe(_))) text
    else {
      val escaped = new StringBuilder
      text.codePoints().forEach {
        case '\n'                       => escaped ++= "\\n"
        case '\r'                       => escaped ++= "\\r"
        case '\t'                       => escaped ++= "\\t"
        case unsafe if isUnsafe(unsafe) => hex(unsafe, escaped)
        case safe                       => escaped ++= Character.toString(safe)
      }
      escaped.toString
    }

  private def isUnsafe(codePoint: Int): Boolean = Character.getType(codePoint).toByte match {
    case Character.CONTROL | Character.FORMAT | Character.SURROGATE => true
    case Character.LINE_SEPARATOR | Character.PARAGRAPH_SEPARATOR   => true
    case _                                                          => false
  }

  private def hex(codePoint: Int, escaped: StringBuilder): Unit =
    Character.toChars(codePoint).foreach(char => escaped ++= f"\\u${char.toInt}%04x")
}

/** An error and its causes, for a caller that looks for one of them. */
object ErrorCauses {

  // Causes can form a circle.
  final private val Most = 20

  /** Returns an error and its causes, the outermost first. */
  def of(error: Throwable): Iterator[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(Most)
}
