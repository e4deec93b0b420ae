package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  InterpretedUnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.types.StructType

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.{
  Fields,
  Message,
  MessageSchema,
  MessageType,
  Messages,
  StreamContext,
  TextEncoding
}

/** A row with a part of the fields is the same part of the whole row. */
class PrunedDecoderSuite extends PropertySuite {
  private val messages = new Messages()
  private val whole = new MessageDecoder(TextEncoding.Utf8)

  /** The row that Spark's own writer makes from the fields of the whole row. */
  private def expected(message: Message, selection: FieldSelection): UnsafeRow = {
    val row = whole.decode(message.bytes, message.context)
    val fields = selection.members(MessageSchema.schema).zipWithIndex.map {
      case ((field, part), ordinal) =>
        BoundReference(ordinal, part.prune(field.dataType), nullable = true)
    }
    InterpretedUnsafeProjection.createProjection(fields).apply(Selections.part(row, selection))
  }

  private def decoder(selection: FieldSelection) =
    new MessageDecoder(TextEncoding.Utf8, selection)

  /** The row of a decoder, as a row of objects. */
  private def generic(row: UnsafeRow, selection: FieldSelection) =
    Rows.all(row, selection.prune(MessageSchema.schema).asInstanceOf[StructType])

  MessageType.all.foreach { messageType =>
    test(s"${messageType.name}: a row has the bytes that Spark writes for its fields") {
      forAll(messages.ofType(messageType), Selections.any) { (message, selection) =>
        val row = decoder(selection).decode(message.bytes, message.context)
        assert(row == expected(message, selection))
      }
    }
  }

  test("a part of a row in another encoding is the same part of the whole row") {
    val encoding = TextEncoding.of("EUC_JP").get
    val all = new MessageDecoder(encoding)
    forAll(new Messages(encoding.charset).any, Selections.any) { (message, selection) =>
      val row = new MessageDecoder(encoding, selection).decode(message.bytes, message.context)
      val wholeRow = all.decode(message.bytes, message.context)
      assert(generic(row, selection) ==
        Selections.part(wholeRow, selection))
    }
  }

  test("a row does not show what was in the buffer before") {
    forAll(Selections.any, Gen.listOfN(5, messages.any), Gen.choose(0.0, 1.0)) {
      (selection, several, part) =>
        val used = decoder(selection)
        several.foreach { message =>
          val row = used.decode(message.bytes, message.context)
          assert(row == expected(message, selection))
          // The buffer is full of ones, and then a row fails halfway. The next row must show neither.
          java.util.Arrays.fill(row.getBaseObject.asInstanceOf[Array[Byte]], -1.toByte)
          used.decode(
            message.bytes.take((message.bytes.length * part).toInt),
            message.context,
            failFast = false
          )
        }
    }
  }

  test("a row has as many fields as are selected, also none") {
    val none = decoder(FieldSelection.Unused)
    forAll(messages.any) { message =>
      val row = none.decode(message.bytes, message.context)
      assert(row.numFields == 0)
      assert(row.getSizeInBytes == 0)
    }
    assert(none.decode(Array.emptyByteArray, StreamContext.UNKNOWN) == null)
  }

  test("the selection does not change which messages are malformed, and why") {
    forAll(Mutations.of(messages.any), Selections.any, minSuccessful(1000)) {
      (bytes, selection) =>
        val pruned = decoder(selection)
        Message.contexts.foreach { context =>
          withClue(s"${Fields.hex(bytes)} in context $context: ") {
            assert(pruned.errorOrNull(bytes, context) == whole.errorOrNull(bytes, context))
            val row = pruned.decode(bytes, context, failFast = false)
            val wholeRow = whole.decode(bytes, context, failFast = false)
            assert((row == null) == (wholeRow == null))
            if (row != null) {
              assert(generic(row, selection) ==
                Selections.part(wholeRow, selection))
            }
          }
        }
    }
  }

  test("a text that is not selected is checked too") {
    val types = decoder(FieldSelection.members("type"))
    val texts = Seq(
      "INSERT at byte 13 (new, column 1)" -> "49 00004010 4e 0001 74 00000001 ff",
      "ORIGIN at byte 9 (origin)" -> "4f 0000000001851440 ff 00",
      "RELATION at byte 5 (relation, namespace)" -> "52 00004010 ff00 6e00 64 0000"
    )
    texts.foreach { case (place, message) =>
      val error = types.errorOrNull(Fields.unhex(message), StreamContext.OUTSIDE)
      assert(error.toString.startsWith(s"$place: the text is not valid UTF-8"))
    }
  }

  test("the context of a logical message is inferred from its LSN, even if that is not selected") {
    val xids = decoder(FieldSelection.members("xid"))
    def xid(message: String) = {
      val row = xids.decode(Fields.unhex(message), StreamContext.UNKNOWN)
      Option.when(!row.isNullAt(0))(row.getLong(0))
    }
    assert(xid("4d 01 0000000180000000 616263646500 00000000").isEmpty)
    assert(xid("4d 00000301 01 0000000061626364 6500 00000000").contains(0x301L))
  }
}
