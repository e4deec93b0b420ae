package io.sparkpgoutput.source.stream

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.source.connection.ServerAddress

class StreamLimitSuite extends AnyFunSuite {
  private val address = ServerAddress("jdbc:postgresql://host/shop", None, None)

  test("a stream that is held plans nothing, and then ends at a limit until it is released") {
    val limit = new StreamLimit
    assert(limit.endOf(10, 20) == 20 && !limit.isHeld)
    limit.hold()
    assert(limit.endOf(10, 20) == 10 && limit.isHeld)
    limit.endAt(15)
    assert(limit.endOf(10, 12) == 12 && limit.endOf(12, 20) == 15 && !limit.isHeld)
    assert(limit.endOf(15, 20) == 15)
    // A batch that was planned before can end above the limit.
    assert(limit.endOf(18, 20) == 18)
    limit.release()
    assert(limit.endOf(15, 20) == 20)
  }

  test("a slot has one limit, whoever asks for it") {
    val limit = StreamLimit.of(address, "a")
    assert(StreamLimit.of(address.copy(user = Some("lake")), "a") eq limit)
    assert(StreamLimit.of(address, "b") ne limit)
  }
}
