package io.sparkpgoutput.decode

import java.lang.management.ManagementFactory

import com.sun.management.ThreadMXBean
import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.{Fields, Message, MessageType, Messages, TextEncoding}

/** For any bytes, the result is a row or the error of a malformed message, and takes little memory. */
class MalformedMessagesSuite extends PropertySuite {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)
  private val messages = new Messages()

  private val anyBytes: Gen[Array[Byte]] = {
    val bytes = Gen.listOf(Gen.choose(Byte.MinValue, Byte.MaxValue)).map(_.toArray)
    val tags = Gen.oneOf(MessageType.all).map(_.tag.toByte)
    Gen.oneOf(bytes, tags.flatMap(tag => bytes.map(tag +: _)), Mutations.of(messages.any))
  }

  /** Stream Abort without and with the fields of `streaming = parallel`. One is a prefix of the other. */
  private val streamAbortSizes = Set(9, 25)

  private def isStreamAbort(bytes: Array[Byte]) =
    bytes(0) == 'A' && streamAbortSizes(bytes.length)

  test("every beginning of a message is malformed") {
    forAll(messages.any, Gen.choose(0.0, 1.0)) { (message, part) =>
      val cut = message.bytes.take(1 + (part * (message.bytes.length - 1)).toInt)
      whenever(cut.length < message.bytes.length && !isStreamAbort(cut)) {
        assert(decoder.errorOrNull(cut, message.context) != null, Fields.hex(cut))
      }
    }
  }

  test("every message with something after it is malformed") {
    forAll(messages.any, Gen.nonEmptyListOf(Gen.oneOf("00", "4e", "ff"))) { (message, more) =>
      val extended = message.bytes ++ Fields.unhex(more.mkString)
      whenever(!isStreamAbort(extended)) {
        assert(decoder.errorOrNull(extended, message.context) != null, Fields.hex(extended))
      }
    }
  }

  test("decode and errorOrNull agree on what is malformed") {
    forAll(anyBytes, Gen.oneOf(Message.contexts), minSuccessful(5000)) { (bytes, context) =>
      withClue(s"${Fields.hex(bytes)}: ") {
        val error = decoder.errorOrNull(bytes, context)
        if (error == null) {
          assert(decoder.decode(bytes, context) == decoder.decode(bytes, context, failFast = false))
          assert((decoder.decode(bytes, context) == null) == bytes.isEmpty)
        } else {
          val thrown = raised("PGOUTPUT_MALFORMED_MESSAGE")(decoder.decode(bytes, context))
          assert(thrown.getMessage == s"[PGOUTPUT_MALFORMED_MESSAGE] $error. SQLSTATE: 08P01")
          assert(decoder.decode(bytes, context, failFast = false) == null)
        }
      }
    }
  }

  test("the place of an error is in the message, or just after it") {
    val place = "(?s).* at byte (\\d+).*".r
    forAll(anyBytes, Gen.oneOf(Message.contexts), minSuccessful(2000)) { (bytes, context) =>
      decoder.errorOrNull(bytes, context) match {
        case null => succeed
        case error =>
          val place(at) = error.toString: @unchecked
          assert(at.toInt <= bytes.length)
      }
    }
  }

  test("a malformed length or count does not allocate more than the message has") {
    val threads = ManagementFactory.getThreadMXBean.asInstanceOf[ThreadMXBean]
    forAll(anyBytes, Gen.oneOf(Message.contexts), minSuccessful(2000)) { (bytes, context) =>
      val fresh = new MessageDecoder(TextEncoding.Utf8)
      val before = threads.getCurrentThreadAllocatedBytes
      fresh.decode(bytes, context, failFast = false)
      val used = threads.getCurrentThreadAllocatedBytes - before
      assert(used < 20000 + 100L * bytes.length, Fields.hex(bytes))
    }
  }

  test("text is checked in every encoding") {
    Seq("EUC_JP", "GB18030", "WIN1252").foreach { name =>
      val encoding = TextEncoding.of(name).get
      val decoderOfIt = new MessageDecoder(encoding)
      forAll(Mutations.of(new Messages(encoding.charset).any)) { bytes =>
        Message.contexts.foreach { context =>
          val malformed = decoderOfIt.errorOrNull(bytes, context) != null || bytes.isEmpty
          assert((decoderOfIt.decode(bytes, context, failFast = false) == null) == malformed)
        }
      }
    }
  }
}
