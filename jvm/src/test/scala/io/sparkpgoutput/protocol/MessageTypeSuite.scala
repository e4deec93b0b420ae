package io.sparkpgoutput.protocol

import org.scalatest.funsuite.AnyFunSuite

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
