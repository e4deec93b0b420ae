package io.sparkpgoutput.source.connection

import java.nio.ByteBuffer
import java.time.Instant

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.protocol.PostgresEpoch

class ReplicationProtocolSuite extends AnyFunSuite {
  import ReplicationProtocol._

  test("a status update has the bytes of the documentation") {
    val update = ByteBuffer.wrap(statusUpdate(3, 2, 1, askReply = true))
    assert(update.get() == 'r')
    assert(Seq.fill(3)(update.getLong()) == Seq(3L, 2L, 1L))
    val clock = update.getLong() + PostgresEpoch.Micros
    assert(math.abs(clock / 1000000 - Instant.now.getEpochSecond) < 60)
    assert(update.get() == 1)
    assert(!update.hasRemaining)
    assert(statusUpdate(3, 0, 0, askReply = false).last == 0)
  }

  test("XLogData and a keepalive are read") {
    val data = ByteBuffer.allocate(28).put('w'.toByte).putLong(1).putLong(2).putLong(3)
    data.put(Array[Byte](7, 8, 9))
    assert(walData(data.array).toSeq == Seq(7, 8, 9))
    val keepalive = ByteBuffer.allocate(18).put('k'.toByte).putLong(5).putLong(6).put(1.toByte)
    assert(keepaliveLsn(keepalive.array) == 5)
    assert(wantsReply(keepalive.array))
    assert(!wantsReply(keepalive.array.updated(17, 0.toByte)))
  }
}
