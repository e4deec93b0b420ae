package io.sparkpgoutput.source.stream

import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

class BatchPaceSuite extends AnyFunSuite {
  private val long = Duration.ofHours(1)

  test("the first batch is due at once") {
    assert(new BatchPace(long).isDue(hadRows = false))
  }

  test("a batch without rows is followed by the interval, one with rows is not") {
    val pace = new BatchPace(long)
    pace.asked(isBehind = false)
    assert(!pace.isDue(hadRows = false))
    assert(pace.isDue(hadRows = true))
  }

  test("a batch at the limit of bytes is followed by the next at once") {
    val pace = new BatchPace(long)
    pace.asked(isBehind = true)
    assert(pace.isDue(hadRows = false))
    pace.asked(isBehind = false)
    assert(!pace.isDue(hadRows = false))
  }

  test("the interval ends") {
    val pace = new BatchPace(Duration.ZERO)
    pace.asked(isBehind = false)
    assert(pace.isDue(hadRows = false))
  }
}
