package io.sparkpgoutput.errors

import java.util.regex.{Matcher, Pattern}

import org.apache.spark.{ErrorClassesJsonReader, SparkThrowable}

/**
 * An error of this library that reaches the user. Its text and its SQLSTATE are in
 * `error-conditions.json`.
 *
 * It is an `IllegalArgumentException`, because PySpark turns that into an exception of its own that
 * carries the condition. A `RuntimeException` arrives as a bare `Py4JJavaError`. Spark looks up only
 * its own conditions, so the condition and the SQLSTATE are given here.
 *
 * @param name
 *   the condition, and after a dot its case, if it has several: `PGOUTPUT_SLOT_NOT_FOUND.OF_JOB`
 * @param sqlState the SQLSTATE of the condition, or the one that the server gives
 * @param parameters the values of the text. They may hold data: [[ErrorText]] escapes them.
 */
class PgOutputException private[errors] (
    name: String,
    sqlState: String,
    parameters: Seq[(String, Any)]
) extends IllegalArgumentException(ErrorConditions.message(name, sqlState, parameters))
    with SparkThrowable {

  def this(name: String, parameters: (String, Any)*) =
    this(name, ErrorConditions.sqlState(name), parameters)

  private val condition = ErrorConditions.condition(name)

  override def getCondition: String = condition
  override def getSqlState: String = sqlState
  override def isInternalError: Boolean = false

  /** The text without the condition and the SQLSTATE, for another text that quotes it. */
  def sentences: String =
    getMessage.stripPrefix(s"[$condition] ").stripSuffix(s" SQLSTATE: $sqlState")
}

/** The slot cannot be read, or cannot be read without a gap. */
final class SourceException(name: String, sqlState: String, parameters: Seq[(String, Any)])
    extends PgOutputException(name, sqlState, parameters) {
  def this(name: String, parameters: (String, Any)*) =
    this(name, ErrorConditions.sqlState(name), parameters)
}

/** The tables cannot be kept equal, or cannot be kept equal without a gap. */
final class LakeException(name: String, parameters: (String, Any)*)
    extends PgOutputException(name, parameters: _*)

/** The conditions of `error-conditions.json`, which has the form of Spark's own file of this name. */
private[errors] object ErrorConditions {
  private lazy val reader =
    new ErrorClassesJsonReader(Seq(getClass.getResource("error-conditions.json")))

  def condition(name: String): String = name.takeWhile(_ != '.')

  def sqlState(name: String): String = reader.getSqlState(name)

  def message(name: String, sqlState: String, parameters: Seq[(String, Any)]): String = {
    val values = parameters.map { case (key, value) =>
      key -> ErrorText.escape(String.valueOf(value))
    }
    // Each sentence is a line of the file. A condition with several cases has no text of its own.
    val text = reader.getErrorMessage(name, values.toMap).replace('\n', ' ').stripPrefix(" ")
    s"[${condition(name)}] ${ErrorText.sentence(text)} SQLSTATE: $sqlState"
  }
}

/**
 * The text of an error message. It escapes control characters, because names and values in it come
 * from data. Otherwise a value could write its own log line, or show its text in a false order.
 */
object ErrorText {

  /** The text with a full stop at its end. A statement of SQL is complete as it is. */
  def sentence(text: String): String =
    if (text.endsWith(".") || text.endsWith(";")) text else s"$text."

  /**
   * Writes control characters, line separators, unpaired surrogates and invisible format characters
   * as escapes such as `\n` or `\u001b`. Characters that change the direction of text are format
   * characters.
   */
  def escape(text: String): String =
    Unsafe.matcher(text).replaceAll(found => Matcher.quoteReplacement(escaped(found.group)))

  /** A character of the Unicode categories that [[escape]] names. */
  private val Unsafe = Pattern.compile("[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]")

  private def escaped(unsafe: String): String = unsafe match {
    case "\n"  => "\\n"
    case "\r"  => "\\r"
    case "\t"  => "\\t"
    case other => other.map(char => f"\\u${char.toInt}%04x").mkString
  }
}

/** An error and its causes, for a caller that looks for one of them. */
object ErrorCauses {

  // Causes can form a circle.
  final private val Most = 20

  /** Returns an error and its causes, the outermost first. */
  def of(error: Throwable): Iterator[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(Most)
}
