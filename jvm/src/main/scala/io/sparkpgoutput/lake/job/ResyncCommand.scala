package io.sparkpgoutput.lake.job

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.state.{StateTable, TargetMarks}
import io.sparkpgoutput.lake.target.{TargetNames, Targets}

/** Asks the job of a target to copy tables again. The job can run in another process, or not at all. */
object ResyncCommand {

  /**
   * Writes the request.
   *
   * @param format null if the catalog decides
   * @param tables names of tables at the server: `schema.table`, or `table` for a table of public
   * @return the tables with their schemas
   * @throws LakeException if the target has no job, or the job does not know a table
   */
  def ask(
      session: SparkSession,
      target: String,
      format: String,
      tables: java.util.List[String]
  ): java.util.List[String] = ClonedSession.run(session) { own =>
    val store = new StateTable(own, Targets.of(own, target, Option(format)))
    val (_, known) = store.read().getOrElse(throw LakeError.noJob(target))
    val names = known.map(_.table.source.name)
    val wanted = named(tables.asScala.toSeq, names)
    store.request(wanted)
    wanted.asJava
  }

  /** Finds tables by their names, which can lack the schema public. */
  private[job] def named(tables: Seq[String], known: Seq[TableName]): Seq[String] =
    tables.map(table =>
      known.find(TargetNames.isOf(table, _)).getOrElse(
        throw LakeError.unknownTable(table, known.map(_.toString))
      ).toString
    ).distinct

  /**
   * Writes the request to copy all tables, with a new slot and a new checkpoint. What the job had at the
   * server can be lost, and its state too.
   *
   * @param format null if the catalog decides
   * @throws LakeException if the target has no job
   */
  def askForAll(session: SparkSession, target: String, format: String): Unit =
    ClonedSession.run(session) { own =>
      val place = Targets.of(own, target, Option(format))
      val store = new StateTable(own, place)
      if (store.read().isEmpty && TargetMarks.jobs(place).isEmpty) throw LakeError.noJob(target)
      store.requestAll()
    }
}
