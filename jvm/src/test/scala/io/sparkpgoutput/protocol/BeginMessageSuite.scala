package io.sparkpgoutput.protocol

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages._

class BeginMessageSuite extends AnyFunSuite {

  test("a Begin message has the LSN and the time of its commit, and an unsigned xid") {
    val message = ByteBuffer.allocate(BeginMessage.Size).put('B'.toByte)
      .putLong(100).putLong(-PostgresEpoch.Micros + 7).putInt(-1).array
    assert(BeginMessage.is(message))
    assert(BeginMessage.lsn(message) == 100)
    assert(BeginMessage.timestamp(message) == 7)
    assert(BeginMessage.xid(message) == 4294967295L)
  }

  test("no other message is a Begin message") {
    assert(BeginMessage.is(begin(7, 100)))
    Seq(commit(100), insert("a"), Array.emptyByteArray, begin(7, 100).init)
      .foreach(message => assert(!BeginMessage.is(message)))
  }
}
