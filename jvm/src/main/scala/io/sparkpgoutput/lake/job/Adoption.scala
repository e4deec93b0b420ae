package io.sparkpgoutput.lake.job

import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.errors.{LakeException, SourceException}
import io.sparkpgoutput.lake.catalog.{PublishedTables, SourceTable, TableComparison}
import io.sparkpgoutput.lake.core.TableStatus.Live
import io.sparkpgoutput.lake.core.{JobState, TableState}
import io.sparkpgoutput.lake.folder.JobFolder
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState, UpgradedSlot}

/**
 * Lets a job continue after `pg_upgrade` has upgraded its server and kept its slot. The new server has
 * another system identifier, and its WAL begins above that of the old one. These facts together
 * prove that nothing is missing:
 *
 *   - The position of each live table is at or above the last write at the old server.
 *   - The tables are the same, by their oids and definitions.
 *   - The slot is as `pg_upgrade` made it: see [[UpgradedSlot]].
 *
 * The job then continues where the slot begins.
 */
object Adoption {

  /**
   * Writes the new server into the state. It can be repeated after an interruption.
   *
   * @param options the options of `replicate` that name the server and the checkpoint folder
   * @param lastLsn an LSN of the old server after its last write
   * @return the LSN at which the job continues
   * @throws LakeException if it is not proved that nothing is missing
   */
  def adopt(
      session: SparkSession,
      options: java.util.Map[String, String],
      lastLsn: String
  ): String = ClonedSession.run(session) { clone =>
    val last = Lsn.parse(lastLsn)
      .getOrElse(throw new LakeException("PGOUTPUT_REPLICATE_OPTION.LSN", "text" -> lastLsn))
    val parsed = ReplicateOptions.ofServer(options)
    val folder = JobFolder.of(clone, parsed.checkpoint)
    val kept @ (_, state) = folder.state()
    Using.resource(new ServerClient(parsed.address, parsed.applicationName)) { client =>
      val server = client.replication(Server.of)
      checkJob(state, server, parsed.slot, last)
      val sources =
        try client.query(connection =>
            connection.inSnapshot(
              PublishedTables.read(connection, parsed.publications, waitsForLocks = true)
            )
          )
        catch {
          case error: SourceException if isWithoutPublication(error) => throw noUpgrade(parsed)
        }
      val same = sameTables(state, sources)
      val found = client.query(SlotState.read(_, parsed.slot))
      val slot = SlotChecks.readable(found, server, parsed.slot)
      slot.holder.foreach(holder => throw refused(s"The process ${holder.pid} reads the slot."))
      UpgradedSlot.problem(parsed.address, server, slot).foreach(why => throw refused(why))
      val begin = slot.confirmedFlush.get
      // The new WAL is above the old one, so each change that comes is above the mark of its table.
      if (Lsn.isBelow(begin, state.walEnd))
        throw refused(
          s"The slot begins at ${Lsn.format(begin)}, below ${Lsn.format(state.walEnd)}, so the server is not an " +
            "upgrade of the job's."
        )
      val now = same.copy(
        systemIdentifier = server.systemIdentifier,
        timeline = server.timeline,
        serverStarted = Some(server.started),
        confirmed = begin
      )
      if (!folder.takeAfter(Some(kept), now))
        throw refused("A process of the job has started in the meantime. Stop it.")
      Lsn.format(begin)
    }
  }

  /** @param reason why the job does not go on with the server, a sentence */
  private def refused(reason: String) =
    new LakeException("PGOUTPUT_NOT_ADOPTED", "reason" -> reason)

  private def isWithoutPublication(error: SourceException) =
    error.getCondition == "PGOUTPUT_PUBLICATION_NOT_FOUND"

  /**
   * To make the publication does not help: a publication that pg_upgrade did not keep says that it is another server.
   */
  private def noUpgrade(options: ReplicateOptions) = refused(
    s"The server lacks a publication of the job (${options.publications.mkString(", ")}), and pg_upgrade keeps " +
      "publications. Check --url and --publication. If the server has the tables by another way, such as a dump, run " +
      "resync --all."
  )

  private def checkJob(state: JobState, server: Server, slot: String, last: Long): Unit = {
    val kept = state.source
    val now = state.copy(
      systemIdentifier = server.systemIdentifier,
      database = server.database,
      slot = slot
    ).source
    val behind = state.tables.values.find(table => table.status != Live && table.isFollowed)
    val problem =
      if (kept == now) Some("The job knows this server already. Start the job.")
      else if (state.database != server.database || state.slot != slot)
        Some(s"The job reads $kept, and not $now.")
      else if (behind.nonEmpty)
        Some(s"The table ${behind.get.name} is ${behind.get.status.name}.")
      else if (Lsn.isBelow(state.confirmed, last))
        Some(
          s"The job has everything below ${Lsn.format(state.confirmed)}, and the last write of the old server is " +
            s"below ${Lsn.format(last)}. If you can, start the old server again, and run replicate --once."
        )
      else None
    problem.foreach(problem => throw refused(problem))
  }

  /** The tables with the definitions of the new server. */
  private def sameTables(state: JobState, sources: Seq[SourceTable]): JobState = {
    val published = sources.map(source => source.oid -> source).toMap
    state.tables.values.filter(_.status == Live).map(same(_, published)).foldLeft(state)(_ put _)
  }

  private def same(table: TableState, published: Map[Long, SourceTable]): TableState = {
    val kept = table.table.source
    val now = published.get(table.oid).filter(_.name == kept.name).map(_.hidingAs(kept)).getOrElse(
      throw refused(
        s"The table ${kept.name} is not published under its oid ${table.oid}."
      )
    )
    // pg_upgrade makes publications again, so their rows have other oids and other transactions.
    // So have the rows of pg_inherits.
    val links = now.leaves.map(leaf => leaf.oid -> leaf.links).toMap
    val same = kept.copy(
      memberships = now.memberships,
      publications = now.publications,
      leaves = kept.leaves.map(leaf => leaf.copy(links = links.getOrElse(leaf.oid, leaf.links)))
    )
    TableComparison.compare(same, now, Set.empty) match {
      case Right(Nil) => table.copy(table = table.table.copy(source = now))
      case Right(_)   => throw refused(s"The table ${kept.name} was altered.")
      case Left(why)  => throw refused(s"The table ${kept.name} was altered. $why")
    }
  }
}
