package io.sparkpgoutput.lake.verify

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Encoders, Row, SparkSession}

import io.sparkpgoutput.lake.copy.{CopySource, SlotSnapshot, TableCopy}
import io.sparkpgoutput.lake.core.TableState
import io.sparkpgoutput.lake.target.{TablePlace, Target}
import io.sparkpgoutput.protocol.Lsn

/** Compares tables of a target with those of the server. */
final class TableVerifier(
    session: SparkSession,
    source: CopySource,
    target: Target
) {

  /**
   * Compares a table. The rows of the server are read as a copy reads them, so a value is the same on both
   * sides if a copy would write it. It uses at most half of the cores, so that the stream has the
   * other half.
   *
   * @throws LakeException if the table was truncated, rewritten or altered since the snapshot
   */
  def compare(pinned: PinnedTable, snapshot: SlotSnapshot): TableDifference = {
    val own = ClonedSession.of(session)
    val table = pinned.state.table
    Using.resource(TableCopy.join(snapshot, source, table)) { copy =>
      own.sparkContext.setJobDescription(s"verification of ${table.source.name}")
      val tasks = math.max(1, own.sparkContext.defaultParallelism / 2)
      new RowComparison(table.schema, table.source.key, tasks)
        .compare(copy.rows(own), pinned.rows(own, target))
    }
  }
}

/**
 * A table at a version of the target that has all transactions below an LSN, and no others.
 *
 * @param version the result of [[Target.version]] at that time
 */
final case class PinnedTable(state: TableState, version: String) {

  /**
   * Returns the rows of the version, in the columns and types that a copy has now. Columns that users
   * have added, or that the server does not have any more, are left out, and so are rows that are marked as deleted,
   * and versions that are not current.
   */
  def rows(session: SparkSession, target: Target): DataFrame = {
    val all = target.readVersion(session, state.target, version)
    val found = state.table.endLsn.fold(all)(name => all.where(col(name).isNull))
    found.select(state.table.schema.map { field =>
      // Iceberg has the columns of the version, which can have other names and narrower types.
      val names = field.name +: state.formerNames.collect { case (former, field.name) =>
        former
      }.toSeq
      val column: Column = names.flatMap(name =>
        found.schema.fieldNames.find(_.equalsIgnoreCase(name))
      ).headOption.fold(lit(null))(name => col(TablePlace.quoted(name)))
      column.cast(field.dataType).as(field.name)
    }: _*)
  }
}

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
