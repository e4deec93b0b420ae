package io.sparkpgoutput.lake.job

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.StateTable
import io.sparkpgoutput.lake.table.{PublishedTables, ServerReadiness, TableError}
import io.sparkpgoutput.lake.target.{Target, TargetError, TargetNames, Targets}
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.Server

/** Checks what a job lacks at its first start, at the server and in the lake. */
private object FirstStart {
  private val Attempt = s"${TargetNames.Reserved}_attempt"

  /**
   * Returns the target of a job.
   *
   * @throws LakeException
   *   if the target cannot be used, the role lacks rights, or the publications leave out changes. One
   *   error names everything that is missing, also that the target cannot be written.
   */
  def target(session: SparkSession, options: ReplicateOptions, client: ServerClient): Target = {
    val target = Try(Targets.of(session, options.target, options.format))
    if (!target.toOption.exists(_.exists(StateTable.Name))) {
      val ofServer = missing(client, options)
      if (ofServer.nonEmpty) throw TableError.notReady(ofServer ++ problem(target))
    }
    target.get
  }

  private def missing(client: ServerClient, options: ReplicateOptions): Seq[String] =
    client.query { connection =>
      val version = Server.majorVersion(connection)
      if (version < Server.OldestVersion) Nil // which is an error of its own
      else {
        val tables = PublishedTables.read(connection, options.publications, version)
        ServerReadiness.missing(connection, tables, options.publications)
      }
    }

  /** Why a table cannot be made, which [[write]] finds out only if nothing else is missing. */
  private def problem(target: Try[Target]): Option[String] = target.flatMap { found =>
    Try(writing(found) {
      found.drop(Attempt)
      found.create(Attempt, StateTable.schema, Nil, Map.empty)
      found.drop(Attempt)
    })
  }.failed.toOption.map {
    case known: LakeException => known.sentences
    case other                => String.valueOf(other.getMessage)
  }

  /** Makes the table of the job's state, and shows by that that the target can be written. */
  def write(target: Target, store: StateTable): Unit = writing(target)(store.make())

  private def writing(target: Target)(body: => Unit): Unit =
    try body
    catch {
      case known: LakeException => throw known
      case NonFatal(problem) =>
        throw TargetError.notWritable(target.sqlName(StateTable.Name), problem)
    }
}
