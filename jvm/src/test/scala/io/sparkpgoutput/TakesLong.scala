package io.sparkpgoutput

import org.scalatest.Tag

/**
 * Marks a test that `make test` leaves out. CI, `make test-all` and sbt run it. Another test of the suite covers what
 * most changes could break.
 */
object TakesLong extends Tag("TakesLong")
