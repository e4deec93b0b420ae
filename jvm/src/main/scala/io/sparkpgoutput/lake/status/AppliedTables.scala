package io.sparkpgoutput.lake.status

import java.sql.Timestamp

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import io.sparkpgoutput.lake.state.{JobState, StateTable, TableState}
import io.sparkpgoutput.lake.target.{Target, Targets}
import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{ServerAddress, ServerClient}
import io.sparkpgoutput.source.slot.{SlotHealth, SlotMetrics, SlotState}

/**
 * Finds out which changes the tables of a target have. It asks only the target: the job can run
 * elsewhere, or not at all.
 */
object AppliedTables {
  private val schema = StructType(
    JobStatus.columns ++ Seq(StructField("rows", LongType), StructField("written", TimestampType))
  )

  /**
   * Returns a row for each table. The LSN is the mark in the table itself: all transactions with a lower
   * commit LSN are in it, and it has no changes up to the LSN of the job either.
   *
   * @param format null if the catalog decides
   */
  def of(session: SparkSession, name: String, format: String): DataFrame = {
    val rows = ClonedSession.run(session) { own =>
      val target = Targets.of(own, name, Option(format))
      val store = new StateTable(own, target)
      val (job, tables) = read(store, name)
      val written = store.written()
      tables.map(row(own, target, job, _, written))
    }
    session.createDataFrame(rows.asJava, schema)
  }

  private def read(store: StateTable, name: String) =
    store.read().getOrElse(throw LakeError.noJob(name))

  private def row(
      session: SparkSession,
      target: Target,
      job: JobState,
      table: TableState,
      written: Timestamp
  ): Row = {
    // A table that was refused can have the name of another one.
    val isThere = table.generation > 0 && target.exists(table.target)
    val rows = if (isThere) target.read(session, table.target).count() else null
    // A table that was restored still has a state, which says why its mark does not hold.
    val (mark, reason) =
      try (if (isThere) target.mark(table.target, table.markName(job)) else None, None)
      catch { case lost: LakeException => (None, Some(lost.getMessage)) }
    val known = if (isThere) mark.orElse(table.mark) else None
    Row.fromSeq(JobStatus.values(table, known, reason) ++ Seq(rows, written))
  }

  /**
   * Asks the server for the slot of a target.
   *
   * @return the metrics of the source, the LSN of the job, and what is wrong with the slot
   */
  def slot(
      session: SparkSession,
      name: String,
      format: String,
      url: String,
      user: String,
      password: String,
      slot: String
  ): java.util.Map[String, String] = {
    val (job, tables) = ClonedSession.run(session) { own =>
      read(new StateTable(own, Targets.of(own, name, Option(format))), name)
    }
    val address = ServerAddress(url, Option(user), Option(password))
    address.check()
    val client = new ServerClient(address, s"spark-pgoutput status (slot $slot)")
    try {
      val found = client.query(SlotState.read(_, slot)).getOrElse(throw LakeError.noSlot(slot))
      val position =
        (found.confirmedFlush ++ job.end).reduceOption((a, b) => Lsn.max(a, b)).getOrElse(
          job.firstLsn
        )
      val warnings = SlotHealth.warnings(found).map(_.text)
      // The job writes its state every 30 seconds if anything changes, so it can have newer data.
      val newest = (job.appliedUpTo ++ tables.flatMap(_.lastChange)).maxOption
      val seconds =
        SlotHealth.secondsBehind(Lsn.isBelow(position, found.flushLsn), newest).map(_.toString)
      val metrics = SlotHealth.metrics(found, position) ++
        SlotMetrics.of(SlotMetrics.SECONDS_BEHIND -> seconds)
      (metrics ++ Map(
        "lsn" -> Lsn.format(position),
        "active" -> found.holder.nonEmpty.toString,
        "warnings" -> warnings.mkString("\n")
      )).asJava
    } finally client.close()
  }
}
