package io.sparkpgoutput.errors

import org.apache.spark.SparkThrowable

/**
 * An error of this library that reaches the user.
 *
 * It is an `IllegalArgumentException`, because PySpark turns that into an exception of its own that
 * carries the condition. A `RuntimeException` arrives as a bare `Py4JJavaError`. Spark looks up only
 * its own conditions, so the condition and the SQLSTATE are given here.
 *
 * @param text
 *   what happened, where, and what to do. It may hold data: [[ErrorText]] escapes it.
 */
abstract class PgOutputException(condition: String, sqlState: String, text: String)
    extends IllegalArgumentException(
      s"[$condition] ${ErrorText.sentence(text)} SQLSTATE: $sqlState"
    )
    with SparkThrowable {
  override def getCondition: String = condition
  override def getSqlState: String = sqlState
  override def isInternalError: Boolean = false
}
