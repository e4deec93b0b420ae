package io.sparkpgoutput.decode

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.protocol.{
  Fields,
  Message,
  MessageEncoder,
  MessageType,
  StreamContext,
  TextEncoding
}

class MessageDecoderSuite extends AnyFunSuite {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)

  private def check(golden: Golden, context: Int): Unit =
    withClue(s"${Fields.hex(golden.data)}: ") {
      assert(Fields.of(decoder.decode(golden.data, context)) == golden.decoded)
    }

  MessageType.all.foreach { messageType =>
    val messages = Golden.all.filter(_.decoded("type") == messageType.name)

    test(s"${messageType.name}: messages of real servers are decoded in a given context") {
      assert(messages.nonEmpty)
      messages.foreach(golden => check(golden, StreamContext.of(golden.inStream)))
    }

    test(s"${messageType.name}: the context of messages of real servers is inferred") {
      messages.foreach(check(_, StreamContext.UNKNOWN))
    }
  }

  test("a message that cannot carry an xid reads the same in every context") {
    Golden.all
      .filterNot(golden => MessageType.of(golden.data.head).inStream)
      .foreach { golden =>
        check(golden, StreamContext.OUTSIDE)
        check(golden, StreamContext.INSIDE)
      }
  }

  test("a message of zero bytes, which PostgreSQL 13 and older send, gives null and no error") {
    Message.contexts.foreach { context =>
      assert(decoder.decode(Array.emptyByteArray, context) == null)
      assert(decoder.decode(Array.emptyByteArray, context, failFast = false) == null)
      assert(decoder.errorOrNull(Array.emptyByteArray, context) == null)
    }
  }

  test("the tests' encoder writes what real servers write") {
    Golden.all.foreach { golden =>
      val encoded = MessageEncoder.encode(golden.decoded, golden.inStream)
      assert(Fields.hex(encoded) == Fields.hex(golden.data))
    }
  }
}
