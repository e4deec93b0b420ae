package io.sparkpgoutput

import org.scalatest.Tag

/**
 * Marks a test that `make test` and CI leave out. `make test-lake`, `make test-all` and sbt run it. Other tests find
 * most of the faults that it would find.
 */
object TakesLong extends Tag("TakesLong") {

  /** The tags of a test that takes long only in some cases. */
  def when(isSlow: Boolean): Seq[Tag] = Option.when(isSlow)(TakesLong).toSeq
}
