package io.sparkpgoutput.lake.schema

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{col, max}

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.table.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.target.{OwnTables, TablePlace}
import io.sparkpgoutput.protocol.Lsn

/**
 * The order of a history is that of its LSNs. The WAL of a restored server, or of another one, can be below
 * what a history has, so a copy would come before changes that it replaces.
 */
object HistoryOrder {

  /**
   * Checks that a copy comes behind all that its history has.
   *
   * @param lsn the LSN of the copy, or a lower one
   */
  def check(session: SparkSession, own: OwnTables, table: MirroredTable, lsn: Long): Unit =
    ahead(session, own, table, lsn).foreach(end =>
      throw LakeError.historyAhead(
        own.target.sqlName(table.target),
        table.source.name.toString,
        end,
        lsn
      )
    )

  /** Returns where a history ends, if it has changes above an LSN. */
  private def ahead(
      session: SparkSession,
      own: OwnTables,
      table: MirroredTable,
      lsn: Long
  ): Option[Long] = table.mode match {
    case TableMode.History(prefix) if own.target.exists(table.target) =>
      // A table of which an older state was restored has no valid mark.
      own.newest(table.target).filter(_ != 0)
        .orElse(last(session, own, table, s"${prefix}commit_version").map(_ + 1))
        .filter(Lsn.isBelow(lsn, _))
    case _ => None
  }

  private def last(
      session: SparkSession,
      own: OwnTables,
      table: MirroredTable,
      version: String
  ): Option[Long] = {
    val rows = own.target.read(session, table.target)
    if (!rows.columns.contains(version)) None
    else rows.select(max(col(TablePlace.quoted(version)))).collect().headOption
      .filterNot(_.isNullAt(0)).map(_.getLong(0))
  }
}
