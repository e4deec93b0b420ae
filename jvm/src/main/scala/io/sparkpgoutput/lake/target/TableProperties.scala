package io.sparkpgoutput.lake.target

import scala.util.Try

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser

/** The properties of tables, as SQL. */
object TableProperties {

  /** Delta forgets the mark of a table when it is older than this duration. */
  final val MarkExpiry = "delta.setTransactionRetentionDuration"

  /** The setting that gives new tables this property. */
  final val MarkExpiryDefault =
    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration"

  /** Returns what stands between the parentheses of TBLPROPERTIES. */
  def sql(properties: Map[String, String]): String = properties.toSeq.sorted
    .map { case (name, value) => s"${text(name)} = ${text(value)}" }.mkString(", ")

  /** Tells whether Spark keeps a property for itself, such as the owner. Its parser decides that. */
  def isReserved(name: String): Boolean =
    Try(CatalystSqlParser.parsePlan(s"CREATE TABLE t TBLPROPERTIES (${sql(Map(name -> ""))})"))
      .isFailure

  private def text(value: String) = s"'${value.replace("\\", "\\\\").replace("'", "\\'")}'"
}
