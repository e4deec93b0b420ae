package io.sparkpgoutput.lake.job

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.folder.{JobAnswer, JobFolder, JobRequest, VerifyRequest}
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.verify.VerifiedTable

/** Asks a job to compare tables with the server. */
object VerifyCommand {

  /**
   * Writes the request into the checkpoint folder of a job.
   *
   * @param tables names of tables at the server as [[ResyncCommand]] takes them; empty for all
   * @throws LakeException
   *   if the folder has no state of a job, the job has no tables, or it does not know a table
   */
  def ask(
      session: SparkSession,
      checkpoint: String,
      tables: java.util.List[String]
  ): AskedVerification = {
    val folder = ResyncCommand.folderOf(session, checkpoint)
    val wanted = known(folder, checkpoint, tables.asScala.toSeq)
    val id = JobRequest.newId()
    folder.ask(VerifyRequest(id, wanted))
    new AskedVerification(session, folder, id)
  }

  /**
   * Starts a job that applies everything that is there, then verifies tables, and ends.
   *
   * @param options those of the job
   */
  def run(
      session: SparkSession,
      options: java.util.Map[String, String],
      tables: java.util.List[String]
  ): Replication = {
    val parsed = ReplicateOptions.parse(options.asScala.toSeq.sortBy(_._1)).copy(once = true)
    val folder = ResyncCommand.folderOf(session, parsed.checkpoint)
    val wanted = known(folder, parsed.checkpoint, tables.asScala.toSeq)
    Replication.start(session, parsed, wanted.map(_.toString))
  }

  private def known(folder: JobFolder, checkpoint: String, tables: Seq[String]): Seq[TableName] = {
    val (_, state) = folder.read().getOrElse(throw LakeError.noState(checkpoint))
    val names = state.tables.values.map(_.name).toSeq.distinct
    if (names.isEmpty) throw LakeError.noTables(checkpoint)
    if (tables.isEmpty) names else ResyncCommand.named(tables, names)
  }
}

/**
 * A request for a verification, which a job answers.
 *
 * @param session the user's session, which gets the result
 */
final class AskedVerification(session: SparkSession, folder: JobFolder, id: String) {
  private var read = 0
  private var found = Option.empty[String]

  /**
   * Looks for answers.
   *
   * @return what delays the verification, since the last call
   * @throws LakeException if the job cannot verify the tables
   */
  def poll(): java.util.List[String] = {
    val added = folder.answers(id).drop(read)
    read += added.length
    added.foreach {
      case JobAnswer(JobAnswer.Done, text)   => found = Some(text)
      case JobAnswer(JobAnswer.Failed, text) => throw LakeError.verificationFailed(text)
      case _                                 => ()
    }
    added.collect { case JobAnswer(JobAnswer.Waits, text) => text }.asJava
  }

  /** A row for each table; null before the job has answered. */
  def result: DataFrame = found.map(VerifiedTable.fromText(session, _)).orNull
}
