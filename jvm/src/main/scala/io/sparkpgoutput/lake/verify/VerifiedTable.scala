package io.sparkpgoutput.lake.verify

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Encoders, Row, SparkSession}

import io.sparkpgoutput.protocol.Lsn

/**
 * What a verification has found out about a table.
 *
 * @param table the name at the server
 * @param lsn both sides have the transactions with lower commit LSNs, and no others
 * @param found the difference, or why the table was not compared, a sentence
 */
final case class VerifiedTable(
    table: String,
    target: String,
    lsn: Long,
    found: Either[String, TableDifference]
) {

  /** The result in one word. */
  def result: String = found match {
    case Right(difference) if difference.isNone => VerifiedTable.Equal
    case Right(_)                               => VerifiedTable.Different
    case Left(_)                                => VerifiedTable.Skipped
  }
}

object VerifiedTable {
  final private val Equal = "equal"
  final private val Different = "different"
  final private val Skipped = "skipped"

  private val keys = ArrayType(
    StructType(Seq(StructField("kind", StringType), StructField("key", StringType)))
  )

  private val schema = StructType(
    Seq(
      StructField("table", StringType),
      StructField("target", StringType),
      StructField("result", StringType),
      StructField("reason", StringType),
      StructField("lsn", StringType),
      StructField("server_rows", LongType),
      StructField("target_rows", LongType),
      StructField("only_at_server", LongType),
      StructField("only_in_target", LongType),
      StructField("different", LongType),
      StructField("keys", keys)
    )
  )

  /** Returns a row for each table. */
  def toDataFrame(session: SparkSession, tables: Seq[VerifiedTable]): DataFrame =
    session.createDataFrame(tables.map(row).asJava, schema)

  /** Writes tables as text, a line for each. */
  def toText(session: SparkSession, tables: Seq[VerifiedTable]): String =
    toDataFrame(session, tables).toJSON.collect().mkString("\n")

  /** Reads what [[toText]] has written, as [[toDataFrame]] gives it. */
  def fromText(session: SparkSession, text: String): DataFrame = session.read.schema(schema)
    .json(session.createDataset(text.linesIterator.toSeq)(Encoders.STRING))

  private def row(table: VerifiedTable): Row = {
    val name = Seq[Any](table.table, table.target, table.result)
    val lsn = Lsn.format(table.lsn)
    Row.fromSeq(name ++ (table.found match {
      case Left(reason) => Seq[Any](reason, lsn, null, null, null, null, null, null)
      case Right(found) =>
        val keys = found.keys.map(key => Row(key.kind, key.key))
        import found._
        Seq[Any](null, lsn, serverRows, targetRows, onlyServer, onlyTarget, different, keys)
    }))
  }
}
