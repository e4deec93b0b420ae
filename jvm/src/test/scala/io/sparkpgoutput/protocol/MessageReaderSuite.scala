package io.sparkpgoutput.protocol

import java.nio.ByteBuffer

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite

class MessageReaderSuite extends PropertySuite {
  private val bytes = Gen.listOfN(9, Gen.choose(Byte.MinValue, Byte.MaxValue)).map(_.toArray)
  private val field = MessageSchema.LSN

  private def reader(message: Array[Byte]) = {
    val reader = new MessageReader
    reader.start(message)
    reader
  }

  test("integers are big-endian, and unsigned unless said otherwise") {
    forAll(bytes) { message =>
      val expected = ByteBuffer.wrap(message, 1, 8)
      assert(reader(message).uint8(field) == (expected.get(1) & 0xff))
      assert(reader(message).uint16(field) == (expected.getShort(1) & 0xffff))
      assert(reader(message).int32(field) == expected.getInt(1))
      assert(reader(message).uint32(field) == (expected.getInt(1) & 0xffffffffL))
      assert(reader(message).int64(field) == expected.getLong(1))
    }
  }

  test("each read begins where the last one ended") {
    forAll(bytes) { message =>
      val in = reader(message)
      val halves = (in.uint32(field) << 32) | in.uint32(field)
      assert(halves == reader(message).int64(field))
      assert(in.left == 0)
      assert(in.ok)
    }
  }

  test("after the first failure nothing is left, and later failures do not replace it") {
    val in = reader(Fields.unhex("45 0102"))
    assert(in.int32(field) == 0)
    val failure = in.failure
    assert(!in.ok)
    assert(in.left == 0)
    assert(in.uint8(field) == 0)
    in.skip(1)
    in.moveTo(1)
    in.finish()
    assert(in.position == 1)
    assert(in.failure eq failure)
  }

  test("the next message begins without a failure") {
    val in = reader(Fields.unhex("45"))
    in.int64(field)
    in.start(Fields.unhex("45 01"))
    assert(in.ok)
    assert(in.uint8(field) == 1)
  }
}
