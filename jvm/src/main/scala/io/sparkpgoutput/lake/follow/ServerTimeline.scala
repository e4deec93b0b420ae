package io.sparkpgoutput.lake.follow

import io.sparkpgoutput.lake.state.{KeptState, TableState, TargetMarks}
import io.sparkpgoutput.lake.target.Target
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks}

/**
 * The timeline of the server, which the state keeps, and the end of its WAL. After a failover or a restore,
 * the server can have everything that the stream has committed, and still lack changes that are in the
 * tables: a copy is newer than the stream, and a micro-batch is in the tables before Spark commits it.
 */
final private[follow] class ServerTimeline(client: ServerClient, target: Target) {
  private var checked = 0

  /** Checks that the server has all that the tables have, if the connection to it is a new one. */
  def check(state: KeptState): Unit = synchronized {
    client.query(_.query("SELECT 1")(_ => ())) // finds out if the connection was lost
    if (client.connections != checked) {
      val now = client.replication { connection =>
        val server = Server.of(connection)
        val has =
          (state.tables.flatMap(table => table.mark ++ waiting(table, state)) ++ state.job.end)
            .reduceOption(Lsn.max(_, _))
        has.foreach { lsn =>
          state.job.timeline.foreach(kept =>
            SlotChecks.timeline(connection, server, Seq(kept), lsn)
          )
          // A standby that has started again can still replay what it had replayed before.
          if (!server.inRecovery)
            SlotChecks.walEnd(state.job.slot, lsn, Server.flushLsn(connection))
        }
        server.timeline
      }
      if (!state.job.timeline.contains(now)) {
        state.updateJob(_.copy(timeline = Some(now)))
        state.save()
      }
      checked = client.connections
    }
  }

  /** Returns what the stream has appended to the changes that wait for a copy of the table. */
  private def waiting(table: TableState, state: KeptState): Option[Long] =
    if (!table.isWaiting || !target.exists(table.waitingName)) None
    else TargetMarks.waiting(target, state.job, table)
}
