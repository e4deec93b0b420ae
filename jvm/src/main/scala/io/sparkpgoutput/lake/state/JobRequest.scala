package io.sparkpgoutput.lake.state

/** A request of a user to a job. */
sealed trait JobRequest {

  /** A negative number, which the tables of one command share. */
  def id: Long
}

/**
 * A request to copy a table again.
 *
 * @param table the name of the table at the server, as the state has it
 */
final case class ResyncRequest(id: Long, table: String) extends JobRequest

/** A request to copy all tables again, with a new slot and a new checkpoint. */
final case class ResyncAllRequest(id: Long) extends JobRequest

/**
 * A request to compare a table with the server.
 *
 * @param table as in [[ResyncRequest]]
 */
final case class VerifyRequest(id: Long, table: String) extends JobRequest

/**
 * An answer of the job to a request.
 *
 * @param text a sentence, or the result if it was asked for one
 */
final case class JobAnswer(kind: JobAnswer.Kind, text: String)

object JobAnswer {

  /** The name of the kind is in the state. */
  sealed abstract class Kind(val name: String)

  /** The request is not done yet. */
  case object Waits extends Kind("waits")

  /** The request is done. */
  case object Done extends Kind("done")

  /** The request cannot be done. */
  case object Failed extends Kind("failed")

  private[state] def of(name: String, text: String): Option[JobAnswer] =
    Seq(Waits, Done, Failed).find(_.name == name).map(JobAnswer(_, text))
}
