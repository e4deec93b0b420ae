package io.sparkpgoutput.lake.folder

import java.util.UUID

import io.sparkpgoutput.changes.TableName

/** A request of a user to a job, `requests/<id>.json` of its checkpoint folder. */
sealed trait JobRequest {

  /** Ids sort in the order in which users have asked. */
  def id: String
}

object JobRequest {

  /** Makes the id of a new request: the time in milliseconds, and random digits. */
  def newId(): String =
    s"${System.currentTimeMillis}-${UUID.randomUUID.toString.take(8)}"

  private val Id = "[0-9A-Za-z-]{1,64}".r

  private[folder] def checkId(id: String): Unit =
    if (!Id.matches(id)) throw new IllegalArgumentException(s"'$id' is not the id of a request.")
}

/** A request to copy tables again. */
final case class ResyncRequest(id: String, tables: Seq[TableName]) extends JobRequest

/** A request to begin anew: with a new slot, and copies of all tables. */
final case class ResyncAllRequest(id: String) extends JobRequest

/** A request to compare tables with the server. */
final case class VerifyRequest(id: String, tables: Seq[TableName]) extends JobRequest

/**
 * A request that the job cannot read. The job answers that it cannot do it, and goes on.
 *
 * @param problem why, sentences
 */
final case class UnreadableRequest(id: String, problem: String) extends JobRequest

/**
 * An answer of a job to a request.
 *
 * @param text a sentence, or the result if the request was for one
 */
final case class JobAnswer(kind: JobAnswer.Kind, text: String)

object JobAnswer {

  /** @param name the name of the kind in files */
  sealed abstract class Kind(val name: String)

  /** The request is not done yet. */
  case object Waits extends Kind("waits")

  /** The request is done. */
  case object Done extends Kind("done")

  /** The request cannot be done. */
  case object Failed extends Kind("failed")

  private[folder] val kinds: Seq[Kind] = Seq(Waits, Done, Failed)
}
