package io.sparkpgoutput.lake.job

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{AnswerTable, JobAnswer, StateTable}
import io.sparkpgoutput.lake.target.Targets
import io.sparkpgoutput.lake.verify.VerifiedTable

/** Asks the job of a target to compare tables with the server. */
object VerifyCommand {

  /**
   * Writes the request.
   *
   * @param format null if the catalog decides
   * @param tables names of tables at the server as [[ResyncCommand]] takes them; empty for all
   * @throws LakeException if the target has no job or no tables, or the job does not know a table
   */
  def ask(
      session: SparkSession,
      target: String,
      format: String,
      tables: java.util.List[String]
  ): AskedVerification = ClonedSession.run(session) { own =>
    val found = Targets.of(own, target, Option(format))
    val store = new StateTable(own, found)
    val wanted = known(store, target, tables.asScala.toSeq)
    val answers = new AnswerTable(own, found)
    new AskedVerification(session, own, answers, store.request(wanted, StateTable.Verify))
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
    val wanted = ClonedSession.run(session) { own =>
      val store = new StateTable(own, Targets.of(own, parsed.target, parsed.format))
      known(store, parsed.target, tables.asScala.toSeq)
    }
    Replication.start(session, parsed, wanted)
  }

  private def known(store: StateTable, target: String, tables: Seq[String]): Seq[String] = {
    val (_, states) = store.read().getOrElse(throw LakeError.noJob(target))
    if (states.isEmpty) throw LakeError.noTables(target)
    val names = states.map(_.table.source.name)
    if (tables.isEmpty) names.map(_.toString) else ResyncCommand.named(tables, names)
  }
}

/**
 * A request for a verification, which a job answers.
 *
 * @param session the user's session, which gets the result
 * @param own the session that reads the answers
 */
final class AskedVerification(
    session: SparkSession,
    own: SparkSession,
    answers: AnswerTable,
    id: Long
) {
  private var lastVersion = ""
  private var read = 0
  private var found = Option.empty[String]

  /**
   * Looks for answers.
   *
   * @return what delays the verification, since the last call
   * @throws LakeException if the job cannot verify the tables
   */
  def poll(): java.util.List[String] = ClonedSession.within(own) {
    val version = answers.version
    val added = if (version == lastVersion) Nil else answers.of(id).drop(read)
    lastVersion = version
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
