package io.sparkpgoutput.lake.faults

import java.time.Duration

/**
 * Says how long to wait before a transient error is tried again: 5 times, from a second to a minute. A
 * success begins the count again.
 */
final class Retries {
  @volatile private var failures = 0

  def succeeded(): Unit = failures = 0

  /** Returns how long to wait, or None if it was tried often enough. */
  def next(): Option[Duration] = {
    failures += 1
    Retries.Pauses.lift(failures - 1)
  }
}

private object Retries {
  private val Pauses = Seq(1, 4, 15, 30, 60).map(seconds => Duration.ofSeconds(seconds.toLong))
}
