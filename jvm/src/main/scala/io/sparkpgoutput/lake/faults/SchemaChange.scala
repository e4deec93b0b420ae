package io.sparkpgoutput.lake.faults

import org.apache.spark.SparkThrowable

import io.sparkpgoutput.lake.table.TableError

/** Tells errors of tables that were altered in a way that a new copy mends. */
object SchemaChange {
  private val Conditions = Set(TableError.Changed, "PGOUTPUT_SCHEMA_EVOLUTION")

  private val Text = """(?s)\[\w+\] (.*) SQLSTATE: \w+""".r

  /** Returns what happened to the table, without the condition and the SQLSTATE. */
  def unapply(error: Throwable): Option[String] = TransientError.causes(error).collectFirst {
    case known: SparkThrowable if Conditions(known.getCondition) =>
      String.valueOf(known.getMessage) match {
        case Text(text) => text
        case other      => other
      }
  }
}
