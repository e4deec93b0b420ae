package io.sparkpgoutput.decode

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.{Fields, Message, MessageType, Messages, TextEncoding}

/** A message that was encoded is decoded to the same fields. */
class MessageDecoderRoundTripSuite extends PropertySuite {
  private val messages = new Messages()
  private val decoder = new MessageDecoder(TextEncoding.Utf8)

  private def check(message: Message, decoder: MessageDecoder = decoder): Unit = {
    assert(Fields.of(decoder.decode(message.bytes, message.context)) == message.fields)
    assert(decoder.errorOrNull(message.bytes, message.context) == null)
  }

  MessageType.all.foreach { messageType =>
    test(s"${messageType.name}: every field is decoded as it was encoded") {
      forAll(messages.ofType(messageType))(check(_))
    }
  }

  Seq("LATIN1", "KOI8R", "EUC_JP", "SJIS", "GB18030").foreach { name =>
    test(s"$name: names and text come back as they were, bytes untouched") {
      val encoding = TextEncoding.of(name).get
      val decoderOfIt = new MessageDecoder(encoding)
      forAll(new Messages(encoding.charset).any)(check(_, decoderOfIt))
    }
  }

  test("a tuple can have as many columns as a table") {
    val cells: Seq[Messages.Cell] = (1 to 1600).map { column =>
      if (column % 3 == 0) ("n", null, null)
      else if (column % 3 == 1) ("t", s"cell $column", null)
      else ("b", null, f"$column%04x")
    }
    val columns = (1 to 1600).map { column =>
      val name = s"column $column"
      Fields("key" -> true, "name" -> name, "type_id" -> column.toLong, "type_modifier" -> -1)
    }
    check(tuples("UPDATE", "old" -> cells, "new" -> cells))
    check(relation(columns))
  }

  test("a tuple can have no columns") {
    check(tuples("INSERT", "new" -> Nil))
    check(tuples("UPDATE", "old" -> Nil, "new" -> Nil))
    check(tuples("DELETE", "key" -> Nil))
    check(relation(Nil))
  }

  test("a tuple can mix text and binary cells") {
    val kinds = Gen.listOf(Gen.oneOf("t", "b", "n", "u"))
    forAll(kinds) { kinds =>
      check(tuples(
        "INSERT",
        "new" -> kinds.map {
          case "t"   => ("t", "text", null)
          case "b"   => ("b", null, "b1b2")
          case other => (other, null, null)
        }
      ))
    }
  }

  test("values of the sizes at which the buffer grows come back") {
    Seq(4000, 4096, 8192, (1 << 20) - 64, 1 << 20, 3 << 20).foreach { size =>
      check(tuples("INSERT", "new" -> Seq(("t", "x" * size, null), ("t", "y", null))))
      check(tuples("INSERT", "new" -> Seq(("b", null, "ab" * size), ("t", "é" * size, null))))
    }
  }

  private def tuples(name: String, tuples: (String, Seq[Messages.Cell])*) = {
    val members = tuples.map { case (field, cells) => field -> Messages.tupleOf(cells) }
    Message.outsideOfStream(Fields("type" -> name, "relation_id" -> 16384L) ++ members)
  }

  private def relation(columns: Seq[Fields.Fields]) =
    Message.outsideOfStream(
      Fields(
        "type" -> "RELATION",
        "relation_id" -> 16384L,
        "relation" -> Fields(
          "namespace" -> "",
          "name" -> "wide",
          "replica_identity" -> "f",
          "columns" -> columns
        )
      )
    )
}
