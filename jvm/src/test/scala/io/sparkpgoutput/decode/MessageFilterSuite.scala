package io.sparkpgoutput.decode

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.{
  Fields,
  Message,
  MessageType,
  Messages,
  StreamContext,
  TextEncoding
}

/**
 * A message that a filter does not keep gives no row, but an error if it is malformed.
 */
class MessageFilterSuite extends PropertySuite {
  private val messages = new Messages()
  private val unfiltered = new MessageDecoder(TextEncoding.Utf8)

  private val ids = Seq(0L, 16384L, 16400L, 0x7fffffffL, 0x80000000L, 0xffffffffL)

  private def decoder(filter: MessageFilter) =
    new MessageDecoder(TextEncoding.Utf8, FieldSelection.All, filter)

  private val types: Gen[Option[Set[String]]] =
    Gen.option(Gen.someOf(MessageType.all.map(_.name)).map(_.toSet))

  private val relationIds: Gen[Option[Set[Long]]] =
    Gen.option(Gen.listOf(Gen.oneOf(ids)).map(_.toSet))

  private val filters: Gen[MessageFilter] = for {
    types <- types
    relationIds <- relationIds
  } yield MessageFilter(types, relationIds)

  /** Messages. If they have a relation id, it is one of a few, so that filters match it. */
  private val someRelations: Gen[Message] = for {
    message <- messages.any
    id <- Gen.oneOf(ids)
  } yield
    if (!message.fields.contains("relation_id")) message
    else message.copy(fields = message.fields + ("relation_id" -> id))

  private def keeps(filter: MessageFilter, fields: Fields.Fields): Boolean =
    filter.types.forall(_.contains(fields("type").toString)) &&
      filter.relationIds.forall(ids => fields.get("relation_id").exists(ids.map(id => id: Any)))

  test("exactly the messages that the filter keeps give a row, and the filter does not change it") {
    forAll(someRelations, filters, minSuccessful(1000)) { (message, filter) =>
      val row = decoder(filter).decode(message.bytes, message.context)
      assert((row != null) == keeps(filter, message.fields))
      if (row != null) assert(row == unfiltered.decode(message.bytes, message.context))
    }
  }

  test("if the context is not known, the filter applies to the reading that is chosen") {
    forAll(someRelations, filters, minSuccessful(1000)) { (message, filter) =>
      val row = decoder(filter).decode(message.bytes, StreamContext.UNKNOWN, failFast = false)
      val wanted = unfiltered.decode(message.bytes, StreamContext.UNKNOWN, failFast = false)
      assert((row != null) == (wanted != null && keeps(filter, Fields.of(wanted))))
      if (row != null) assert(row == wanted)
    }
  }

  test("a message without relation_id is dropped if the filter has relation ids") {
    val filter = decoder(MessageFilter(None, Some(ids.toSet)))
    forAll(messages.any.filterNot(_.fields.contains("relation_id"))) { message =>
      assert(filter.decode(message.bytes, message.context) == null)
    }
  }

  test("empty sets keep nothing") {
    val nothing = Seq(MessageFilter(Some(Set.empty), None), MessageFilter(None, Some(Set.empty)))
    forAll(messages.any, Gen.oneOf(nothing)) { (message, filter) =>
      assert(decoder(filter).decode(message.bytes, message.context) == null)
    }
  }

  test("names that no type has keep nothing") {
    val unknown = decoder(MessageFilter(Some(Set("insert", "INSERT ", "")), None))
    forAll(messages.any) { message =>
      assert(unknown.decode(message.bytes, message.context) == null)
    }
  }

  test("a message that is kept after others, kept or malformed, has the same row") {
    forAll(filters, Gen.listOfN(5, someRelations), Mutations.of(messages.any)) {
      (filter, several, malformed) =>
        val used = decoder(filter)
        several.foreach { message =>
          val row = used.decode(message.bytes, message.context)
          assert((row != null) == keeps(filter, message.fields))
          if (row != null) assert(row == unfiltered.decode(message.bytes, message.context))
          used.decode(malformed, message.context, failFast = false)
        }
    }
  }

  test("malformed messages are errors, whether the filter keeps them or not") {
    forAll(Mutations.of(someRelations), filters, minSuccessful(1000)) { (bytes, filter) =>
      val filtered = decoder(filter)
      Message.contexts.foreach { context =>
        withClue(s"${Fields.hex(bytes)} in context $context: ") {
          val error = unfiltered.errorOrNull(bytes, context)
          assert(filtered.errorOrNull(bytes, context) == error)
          if (error != null) {
            val thrown = raised("PGOUTPUT_MALFORMED_MESSAGE")(filtered.decode(bytes, context))
            assert(thrown.getMessage.contains(error.toString))
            assert(filtered.decode(bytes, context, failFast = false) == null)
          }
        }
      }
    }
  }

  test("the filter without conditions keeps all messages") {
    assert(MessageFilter.all == MessageFilter(None, None))
    forAll(messages.any) { message =>
      assert(decoder(MessageFilter.all).decode(message.bytes, message.context) != null)
    }
  }
}
