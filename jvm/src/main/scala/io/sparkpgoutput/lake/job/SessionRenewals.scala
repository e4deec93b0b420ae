package io.sparkpgoutput.lake.job

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.CopyError
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.TableState
import io.sparkpgoutput.source.slot.Server
import io.sparkpgoutput.source.stream.StreamLimit

/**
 * The LSNs from which on a new session reads the slot. A session of a server before version 15 keeps how it
 * publishes a table, also when the table becomes a partition or stops to be one. It then leaves out the
 * changes of a partition, or sends those of a table that is no partition any more. From version 15 on,
 * `rel_sync_cache_relation_cb` in `pgoutput.c` makes it look again. So the changes behind a copy are read by
 * a session that begins at the LSN of the copy.
 */
final private[job] class SessionRenewals(options: ReplicateOptions, server: Server) {
  import SessionRenewals._

  private val limit = StreamLimit.of(options.address, options.slot)
  private val isNeeded = server.majorVersion < FirstThatLooksAgain
  limit.forget()

  /** Lets the stream that begins next renew its session at the copies of tables. */
  def begin(tables: Seq[TableState]): Unit = {
    val copies = tables.flatMap { table =>
      table.copied ++ (if (table.table.source.isPartitioned) table.mark else None)
    }
    if (isNeeded) limit.renewAt(copies)
  }

  /**
   * Lets the stream renew its session at the LSN of a copy.
   *
   * @throws io.sparkpgoutput.lake.LakeException if the stream passes the LSN, so the copy needs a newer snapshot
   */
  def copiedAsOf(table: TableName, lsn: Long): Unit =
    if (isNeeded && !limit.renewAt(lsn)) throw CopyError.passed(table)
}

private object SessionRenewals {
  final private val FirstThatLooksAgain = 15
}
