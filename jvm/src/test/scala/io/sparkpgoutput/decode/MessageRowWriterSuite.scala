package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.{
  Fields,
  Message,
  MessageSchema,
  Messages,
  StreamContext,
  TextEncoding
}

/** The rows are in Spark's format, and are valid until the next message is decoded. */
class MessageRowWriterSuite extends PropertySuite {
  private val messages = new Messages()
  private val decoder = new MessageDecoder(TextEncoding.Utf8)

  private def decode(message: Message): UnsafeRow = decoder.decode(message.bytes, message.context)

  private def insert(size: Int, letter: String) = Message.outsideOfStream(
    Fields(
      "type" -> "INSERT",
      "relation_id" -> 1L,
      "new" -> Messages.tupleOf(Seq(("t", letter * size, null), ("t", letter, null)))
    )
  )

  test("a row has the same bytes as Spark's own writer gives it") {
    // Grouping, joins and distinct compare and hash these bytes, padding included.
    val schema = MessageSchema.schema
    val writer = UnsafeProjection.create(schema)
    forAll(messages.any) { message =>
      val row = decode(message)
      assert(row == writer(Rows.all(row, schema)))
    }
  }

  test("a row does not show what was in the buffer before") {
    forAll(messages.any, messages.any) { (before, message) =>
      val fresh = new MessageDecoder(TextEncoding.Utf8).decode(message.bytes, message.context)
      decode(before)
      assert(decode(message) == fresh)
    }
  }

  test("a row does not show what a malformed message left in the buffer") {
    forAll(messages.any, messages.any, Gen.choose(0.0, 1.0)) { (before, message, part) =>
      val fresh = new MessageDecoder(TextEncoding.Utf8).decode(message.bytes, message.context)
      val cut = before.bytes.take((before.bytes.length * part).toInt)
      decoder.decode(cut, before.context, failFast = false)
      assert(decode(message) == fresh)
    }
  }

  test("rows of all sizes can follow each other") {
    val sizes = Seq(10, 5000, 1 << 20, 3, (1 << 24) + 9, 0, 100)
    sizes.foreach { size =>
      val message = insert(size, "a")
      val row = decode(message)
      assert(row.getSizeInBytes % 8 == 0)
      assert(Fields.of(row) == message.fields)
    }
  }

  test("the decoder releases the memory of a very large row") {
    def held = decoder.decode(insert(1, "a").bytes, StreamContext.UNKNOWN).getBaseObject
    decode(insert((1 << 24) + 1, "a"))
    assert(held.asInstanceOf[Array[Byte]].length < (1 << 24))
  }

  test("a copy of a row equals it") {
    forAll(messages.any) { message =>
      val row = decode(message)
      assert(row.copy() == row)
      assert(row.copy().hashCode == row.hashCode)
    }
  }

  test("an array that is too large for a row is refused") {
    // A message of 1 GiB can be a TRUNCATE of 268,435,456 relations, each with a slot of 8 bytes.
    val row = new MessageRowWriter(new StructLayout(MessageSchema.schema, FieldSelection.All))
    Seq(1 << 28, 300000000, Int.MaxValue / 4).foreach { elements =>
      withClue(elements) {
        intercept[UnsupportedOperationException](row.openArray(0, elements))
      }
    }
  }
}
