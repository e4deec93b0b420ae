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

  test("a batch ends where a session begins anew, and the LSN must not be passed already") {
    val limit = new StreamLimit
    limit.renewAt(Seq(30L, 12L))
    assert(Seq(5L, 11L, 12L, 29L).map(limit.renewedAt) == Seq(0, 0, 12, 12))
    assert(limit.endOf(5, 40) == 12 && limit.endOf(12, 25) == 25)
    assert(!limit.renewAt(24) && limit.renewAt(25) && limit.renewAt(28))
    assert(limit.endOf(25, 40) == 28 && limit.endOf(28, 40) == 30 && limit.endOf(30, 40) == 40)
    assert(limit.renewedAt(40) == 30)
    limit.forget()
    assert(limit.endOf(5, 40) == 40 && limit.renewedAt(40) == 0)
  }

  test("a slot has one limit, whoever asks for it") {
    val limit = StreamLimit.of(address, "a")
    assert(StreamLimit.of(address.copy(user = Some("lake")), "a") eq limit)
    assert(StreamLimit.of(address, "b") ne limit)
  }
}
