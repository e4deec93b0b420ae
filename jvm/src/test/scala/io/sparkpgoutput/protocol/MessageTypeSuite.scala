package io.sparkpgoutput.protocol

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages._

class MessageTypeSuite extends AnyFunSuite {

  test("the types are the 19 messages of the PostgreSQL documentation, in its order") {
    assert(MessageType.all.map(_.tag).mkString == "BMCORYIUDTSEcAbPKrp")
  }

  test("a message can be in a stream if the documentation gives it an xid there") {
    assert(MessageType.all.filter(_.inStream).map(_.tag).mkString == "MRYIUDT")
  }

  test("each message has a name of its own") {
    val names = MessageType.all.map(_.name)
    assert(names.distinct == names)
    assert(names.forall(_.matches("[A-Z]+(_[A-Z]+)?")))
  }

  test("a message is found by its first byte, and by no other") {
    (Byte.MinValue to Byte.MaxValue).foreach { byte =>
      val found = Option(MessageType.of(byte.toByte))
      assert(found == MessageType.all.find(_.tag == (byte & 0xff)))
    }
  }
}

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
