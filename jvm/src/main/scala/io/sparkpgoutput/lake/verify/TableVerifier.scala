package io.sparkpgoutput.lake.verify

import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.lake.copy.{CopySource, SlotSnapshot, TableCopy}
import io.sparkpgoutput.lake.target.Target

/** Compares tables of a target with those of the server. */
final class TableVerifier(
    session: SparkSession,
    source: CopySource,
    target: Target
) {

  /**
   * Compares a table. The rows of the server are read as a copy reads them, so a value is the same on both
   * sides if a copy would write it. It uses half of the cores at the most, so that the stream has the
   * others.
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
