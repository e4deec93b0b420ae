package io.sparkpgoutput.lake.job

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.core.TableStatus.Dropped
import io.sparkpgoutput.lake.core.{JobState, TableState}
import io.sparkpgoutput.lake.folder._

/**
 * Takes what users ask of a job that runs. Each request is a file in the checkpoint folder, which is removed
 * when the request is done, or when the state has it.
 *
 * @param look looks at the server's catalog
 */
final private[job] class Requests(job: JobParts, verifications: Verifications, look: () => Unit) {
  import job.{core, folder, log}

  /** Those that are being done. */
  private val underWay = ConcurrentHashMap.newKeySet[String]

  def isBusy: Boolean = !underWay.isEmpty || verifications.isBusy

  /** Whether the requests that were there at the start are taken. */
  @volatile var wereTaken = false

  /** Takes the requests that are there. */
  def take(): Unit =
    try {
      folder.requests().filter(request => underWay.add(request.id)).foreach(take(_))
      wereTaken = true
    } catch {
      case error: StartOver => job.end(error)
      case NonFatal(_)      => () // the folder is away, which the state's writer tells
    }

  private def take(request: JobRequest): Unit = request match {
    case _: ResyncAllRequest       => throw new StartOver
    case ResyncRequest(id, tables) => resync(id, tables)
    case VerifyRequest(id, tables) => verifications.ask(id, tables)(underWay.remove(id): Unit)
    case UnreadableRequest(id, problem) =>
      log.warn(s"A request cannot be read. $problem")
      folder.answer(id, JobAnswer(JobAnswer.Failed, problem))
      folder.handled(id)
      underWay.remove(id): Unit
  }

  private def resync(id: String, tables: Seq[TableName]): Unit = {
    look()
    val revisions = tables.flatMap { name =>
      val found = Requests.table(job.state, name)
        .flatMap(table =>
          core(_.resync(table.oid, "A resync was requested.", System.currentTimeMillis))
        )
      if (found.isEmpty) log.warn(s"The table $name is not published, so it is not copied.")
      found
    }
    while (!job.isEnding && !revisions.forall(number => core.look(_.isWritten(number))))
      Thread.sleep(Requests.PauseMillis)
    if (!job.isEnding) {
      folder.handled(id)
      underWay.remove(id): Unit
    }
  }
}

private[job] object Requests {
  final private val PauseMillis = 20L

  /** The table of a name. The job also knows tables of this name that the server has dropped. */
  def table(state: JobState, name: TableName): Option[TableState] =
    state.tables.values.filter(_.name == name).toSeq
      .sortBy(table => (table.status == Dropped, -table.oid)).headOption
}

/** Ends a job that runs, because a user has asked it to begin again with copies of all tables. */
final private[job] class StartOver extends RuntimeException("A copy of all tables was requested.")
