package io.sparkpgoutput.lake.job

import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{JobState, SlotIdentity, StateTable, TableState, TargetMarks}
import io.sparkpgoutput.lake.table.{SourceTable, TableComparison}
import io.sparkpgoutput.lake.target.{Target, Targets}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState, UpgradedSlot}

/**
 * Lets a job go on after `pg_upgrade` has upgraded its server and kept its slot. The new server has
 * another system identifier, and its WAL begins above that of the old one. These facts together
 * prove that nothing is missing:
 *
 *   - The job had applied everything up to the last write at the old server.
 *   - The tables are the same, by their oids and definitions.
 *   - The slot is as `pg_upgrade` made it: see [[UpgradedSlot]].
 *
 * The job then has a new checkpoint, which begins where the slot begins.
 */
object Adoption {

  /**
   * Writes the new server into the state and the tables. It can be repeated after an interruption.
   *
   * @param options the options of `replicate` that tell the server and the target
   * @param lastLsn an LSN of the old server behind its last write
   * @return where the job goes on
   * @throws LakeException if it is not proved that nothing is missing
   */
  def adopt(
      session: SparkSession,
      options: java.util.Map[String, String],
      lastLsn: String
  ): String = ClonedSession.run(session) { own =>
    val last = Lsn.parse(lastLsn)
      .getOrElse(throw LakeError.option(s"'$lastLsn' is no LSN such as 16/B374D848."))
    val parsed = ReplicateOptions.ofServer(options)
    val target = Targets.of(own, parsed.target, parsed.format)
    val store = new StateTable(own, target)
    val (job, tables) = store.read().getOrElse(throw LakeError.noJob(parsed.target))
    Using.resource(new ServerClient(parsed.address, parsed.applicationName)) { client =>
      val server = client.replication(Server.of)
      val catalog = new SourceCatalog(client, server, parsed, target)
      checkJob(
        job,
        tables,
        SlotIdentity(server.systemIdentifier, server.database, parsed.slot),
        last
      )
      val same = sameTables(tables, catalog.sources())
      val found = client.query(SlotState.read(_, parsed.slot))
      val slot = SlotChecks.readable(found, server, parsed.slot)
      slot.holder.foreach(holder =>
        throw LakeError.notAdopted(s"The process ${holder.pid} reads the slot.")
      )
      UpgradedSlot.problem(parsed.address, server, slot).foreach(why =>
        throw LakeError.notAdopted(why)
      )
      val begin = slot.confirmedFlush.get
      checkMarks(target, job, tables, begin)
      val now = job.copy(
        systemIdentifier = server.systemIdentifier,
        firstLsn = begin,
        end = None,
        generation = job.generation + 1,
        timeline = None
      )
      // The state comes last: until then, the job does not start with the new server.
      same.filter(table =>
        table.generation > 0 && target.exists(table.target) &&
          TargetMarks.isCopyOf(job, target, table)
      ).foreach(table =>
        target.setProperties(table.target, TargetMarks.properties(now, table))
      )
      store.write(now, same)
      Lsn.format(begin)
    }
  }

  private def checkJob(
      job: JobState,
      tables: Seq[TableState],
      source: SlotIdentity,
      last: Long
  ): Unit = {
    val kept = SlotIdentity(job.systemIdentifier, job.database, job.slot)
    val end = job.end.filterNot(_ => job.needsSlot)
    val problem =
      if (kept == source) Some("The job knows this server already. Start the job.")
      else if (kept.copy(systemIdentifier = source.systemIdentifier) != source)
        Some(s"The job reads $kept, and not $source.")
      else if (end.isEmpty) Some("The first copies of the job have not ended.")
      else if (Lsn.isBelow(end.get, last))
        Some(
          s"The job has everything below ${Lsn.format(end.get)}, and the last write of the old server is " +
            s"below ${Lsn.format(last)}. If you can, start the old server again, and run replicate --once."
        )
      else tables.find(_.isWaiting).map(table => s"The table ${table.target} is being copied.")
    problem.foreach(problem => throw LakeError.notAdopted(problem))
  }

  /** The tables with what the new server says of them. A table that is stopped stays as it is. */
  private def sameTables(tables: Seq[TableState], sources: Seq[SourceTable]): Seq[TableState] = {
    val published = sources.map(source => source.oid -> source).toMap
    tables.map { table =>
      if (!table.isLive) table
      else {
        val kept = table.table.source
        val now = published.get(table.oid).filter(_.name == kept.name).getOrElse(
          throw LakeError.notAdopted(
            s"The table ${kept.name} is not published under its oid ${table.oid}."
          )
        )
        // pg_upgrade makes publications anew, so their rows have other oids and other transactions.
        // So have the rows of pg_inherits.
        val links = now.leaves.map(leaf => leaf.oid -> leaf.links).toMap
        val same = kept.copy(
          memberships = now.memberships,
          publications = now.publications,
          leaves = kept.leaves.map(leaf => leaf.copy(links = links.getOrElse(leaf.oid, leaf.links)))
        )
        TableComparison.compare(same, now, Set.empty) match {
          case Right(Nil) => table.copy(table = table.table.copy(source = now))
          case Right(_)   => throw LakeError.notAdopted(s"The table ${kept.name} was altered.")
          case Left(why)  => throw LakeError.notAdopted(s"The table ${kept.name} was altered. $why")
        }
      }
    }
  }

  /** The new WAL is above the old one, so each change that comes is above the mark of its table. */
  private def checkMarks(
      target: Target,
      job: JobState,
      tables: Seq[TableState],
      begin: Long
  ): Unit = tables.filter(_.isLive).foreach { table =>
    val isThere = target.exists(table.target) && TargetMarks.isCopyOf(job, target, table)
    val mark = if (isThere) target.mark(table.target, table.markName(job)) else None
    if (mark.isEmpty) throw LakeError.markLost(table.target)
    (mark ++ job.end).find(Lsn.isBelow(begin, _)).foreach { lsn =>
      throw LakeError.notAdopted(
        s"The slot begins at ${Lsn.format(begin)}, below ${Lsn.format(lsn)}, so the server is not an " +
          "upgrade of the job's."
      )
    }
  }
}
