package io.sparkpgoutput.lake.job

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import org.apache.hadoop.fs.Path

import io.sparkpgoutput.lake.state.{JobState, KeptState, StateTable, TableState}
import io.sparkpgoutput.lake.table.{MirroredTable, ServerPermissions}
import io.sparkpgoutput.lake.target.Targets
import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState}

/** Checks everything that a job needs, before it changes anything. */
object JobSetup {

  /**
   * Returns the job.
   *
   * @param verified
   *   the tables that it verifies at its end
   */
  def job(
      session: SparkSession,
      options: ReplicateOptions,
      verified: Seq[String]
  ): ReplicationJob = {
    val own = ClonedSession.of(session)
    val target = Targets.of(own, options.target, options.format)
    val client = new ServerClient(options.address, options.applicationName)
    try {
      val server = client.replication(Server.of)
      val catalog = new SourceCatalog(client, server, options, target)
      val store = new StateTable(own, target)
      val found = store.read()
      found.foreach { case (_, tables) => catalog.checkModes(tables) }
      val tables = neededTables(catalog, found)
      client.query(ServerPermissions.check(_, tables.map(_.source), options.publications))
      val slot = client.query(SlotState.read(_, options.slot))
      slot.foreach(found => SlotChecks.readable(Some(found), server, options.slot))
      val isStarted = hasCheckpoint(own, options.checkpoint)
      val identity = SlotIdentity(server.systemIdentifier, server.database, options.slot)
      val start = JobStart.of(
        FoundState(
          identity,
          isStarted,
          slot.flatMap(_.confirmedFlush),
          found,
          TargetMarks.read(target, identity, tables.map(_.target))
        )
      )
      if (start.job.end.isEmpty && !isStarted)
        slot.flatMap(_.holder).foreach { holder =>
          throw SourceError.slotInUse(options.slot, holder.pid, holder.applicationName)
        }
      val kept =
        new KeptState(
          store,
          start.job,
          start.tables ++ start.lostState.map(SourceCatalog.rebuilt(
            _,
            tables,
            WaitingTables.found(target)
          ))
        )
      catalog.checkModes(kept.tables)
      new ReplicationJob(
        own,
        options,
        target,
        client,
        server,
        catalog,
        kept,
        start.needsSlot,
        verified
      )
    } catch {
      case error: Throwable =>
        client.close()
        throw error
    }
  }

  /** All tables if some are still to be copied, else those that the stream changes. */
  private def neededTables(
      catalog: SourceCatalog,
      kept: Option[(JobState, Seq[TableState])]
  ): Seq[MirroredTable] = kept match {
    case Some((job, tables)) if job.end.nonEmpty =>
      val live = tables.filter(_.isLive).map(_.table)
      catalog.again(live).collect {
        case (source, Right(table)) if live.exists(_.source.oid == source.oid) => table
      }
    case _ => catalog.read()
  }

  /** Tells if a micro-batch was planned. Spark makes the folder before. */
  private def hasCheckpoint(session: SparkSession, checkpoint: String): Boolean = {
    val offsets = new Path(checkpoint, "offsets")
    val files = offsets.getFileSystem(session.sparkContext.hadoopConfiguration)
    files.exists(offsets) && files.listStatus(offsets).exists(_.getPath.getName.forall(_.isDigit))
  }
}
