package io.sparkpgoutput.lake.faults

import java.time.Duration

/**
 * Says how long to wait before a transient error is tried again: 5 times, from a second to a minute. A
 * success begins the count again.
 */
final class Retries {
  @volatile private var failures = 0

  def succeeded(): Unit = failures = 0

  /**
   * Runs a step again after an error that can pass by itself.
   *
   * @param isStopping tells if the step is not to be run again
   * @param warn takes what is told before each pause
   */
  def repeat[T](isStopping: () => Boolean, warn: String => Unit)(step: => T): T = {
    var result = Option.empty[T]
    while (result.isEmpty)
      try result = Some(step)
      catch {
        case error @ TransientError(cause) if !isStopping() =>
          val pause = next().getOrElse(throw error)
          warn(s"${firstLine(cause)} The job tries again in ${pause.toSeconds} s.")
          Thread.sleep(pause.toMillis)
      }
    result.get
  }

  private def firstLine(error: Throwable) =
    String.valueOf(error.getMessage).linesIterator.nextOption().getOrElse(error.toString)

  /** Returns how long to wait, or None if it was tried often enough. */
  def next(): Option[Duration] = {
    failures += 1
    Retries.Pauses.lift(failures - 1)
  }
}

private object Retries {
  private val Pauses = Seq(1, 4, 15, 30, 60).map(seconds => Duration.ofSeconds(seconds.toLong))
}
