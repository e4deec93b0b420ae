package io.sparkpgoutput.lake.job

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.folder.{JobFolder, JobRequest, ResyncAllRequest, ResyncRequest}
import io.sparkpgoutput.lake.target.{OwnTables, TargetNames, Targets}

/** Asks a job to copy tables again. The job can run in another process, or not at all. */
object ResyncCommand {

  /**
   * Writes the request into the checkpoint folder of the job.
   *
   * @param tables names of tables at the server: `schema.table`, or `table` for a table of public
   * @return the tables with their schemas
   * @throws LakeException if the folder has no state of a job, or the job does not know a table
   */
  def ask(
      session: SparkSession,
      checkpoint: String,
      tables: java.util.List[String]
  ): java.util.List[String] = {
    val folder = folderOf(session, checkpoint)
    val (_, state) = folder.read().getOrElse(throw LakeError.noState(checkpoint))
    val wanted = named(tables.asScala.toSeq, state.tables.values.map(_.name).toSeq.distinct)
    folder.ask(ResyncRequest(JobRequest.newId(), wanted))
    wanted.map(_.toString).asJava
  }

  /** Finds tables by their names, which can lack the schema public. */
  private[job] def named(tables: Seq[String], known: Seq[TableName]): Seq[TableName] = tables.map {
    table =>
      known.find(_.toString == table).orElse(known.find(TargetNames.isOf(table, _))).getOrElse(
        throw LakeError.unknownTable(table, known.map(_.toString).sorted)
      )
  }.distinct

  /**
   * Asks a job to copy all tables, with a new slot. What the job had at the server can be lost.
   *
   * @param checkpoint the checkpoint folder; null if it is lost
   * @param target the target of a job whose checkpoint folder is lost; null otherwise
   * @param format null if the catalog decides
   * @throws LakeException if there is no job
   */
  def askForAll(session: SparkSession, checkpoint: String, target: String, format: String): Unit =
    if (checkpoint != null) {
      val folder = folderOf(session, checkpoint)
      if (folder.newestEpoch().isEmpty) throw LakeError.noState(checkpoint)
      folder.ask(ResyncAllRequest(JobRequest.newId()))
    } else ClonedSession.run(session) { session =>
      val own = new OwnTables(session, Targets.of(session, target, Option(format)))
      val found = own.found()
      if (found.isEmpty) throw LakeError.noJob(target)
      found.foreach(table => own.askToStartOver(table.target))
    }

  private[job] def folderOf(session: SparkSession, checkpoint: String) =
    new JobFolder(checkpoint, session.sparkContext.hadoopConfiguration)
}
