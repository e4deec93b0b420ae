package io.sparkpgoutput.decode

import java.nio.charset.StandardCharsets.UTF_8

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.Fields.Fields
import io.sparkpgoutput.protocol.{Fields, Messages, StreamContext, TextEncoding}

/**
 * Which of the two readings the decoder chooses for a message if the caller does not say whether it is in a
 * stream.
 */
class StreamContextSuite extends PropertySuite {
  import StreamContext._

  private val decoder = new MessageDecoder(TextEncoding.Utf8)
  private val messages = new Messages()

  private def read(message: Array[Byte], context: Int): Option[Fields] =
    Option(decoder.decode(message, context, failFast = false)).map(Fields.of(_))

  private def guessed(hex: String): Fields =
    Fields.of(decoder.decode(Fields.unhex(hex), UNKNOWN))

  private def error(hex: String): String =
    decoder.errorOrNull(Fields.unhex(hex), UNKNOWN).toString

  /** The rules in another form: they choose from the results of both readings. */
  private def rule(message: Array[Byte]): Option[Fields] = {
    val outside = read(message, OUTSIDE).filterNot { fields =>
      val named = fields.get("pg_type").orElse(fields.get("relation"))
      val namespace = named.map(_.asInstanceOf[Fields]("namespace").toString)
      namespace.exists(_.getBytes(UTF_8).take(4).exists(byte => byte >= 0 && byte.toChar.isControl))
    }
    val inside = read(message, INSIDE).filterNot { fields =>
      fields.get("xid").contains(0L) || fields.get("transactional").contains(false)
    }
    val smallest = (outside ++ inside).minByOption(unsignedLsn)
    if (message.head == 'M') smallest else outside.orElse(inside)
  }

  private def unsignedLsn(fields: Fields) = BigInt(fields.getOrElse("lsn", 0L).toString).mod(two64)
  private val two64 = BigInt(1) << 64

  private def bytes(count: Int): Gen[Array[Byte]] =
    Gen.listOfN(count, Gen.oneOf(Gen.oneOf(0, 1, 0x7f, 0x80), Gen.choose(0, 255)))
      .map(_.map(_.toByte).toArray)

  private val string: Gen[Array[Byte]] =
    Gen.listOf(Gen.choose(1, 0x7e)).map(_.map(_.toByte).toArray :+ 0.toByte)

  /** A logical message whose flags and LSN are valid with an xid of four bytes before them, and without. */
  private val ambiguousMessage: Gen[Array[Byte]] = for {
    flags <- Gen.oneOf(Gen.const(Array[Byte](1)), bytes(1))
    lsn <- bytes(3)
    flagsInStream <- Gen.oneOf(0, 1, 1, 1)
    rest <- bytes(4)
    prefix <- string
    beginning <- Gen.oneOf("abcd", "\u0001\u0002\u0003\u0004", "~~~~")
  } yield ('M'.toByte +: flags) ++ lsn ++ (flagsInStream.toByte +: rest) ++
    beginning.getBytes ++ prefix ++ Array[Byte](0, 0, 0, 0)

  /** A Relation or Type message whose namespace is long enough to be an oid and a namespace. */
  private val ambiguousDefinition: Gen[Array[Byte]] = for {
    oid <- bytes(4)
    beginning <- Gen.listOfN(4, Gen.oneOf(Gen.choose(1, 0x40), Gen.oneOf(0x61, 0x7f)))
    namespace <- string
    name <- string
    (tag, rest) <- Gen.oneOf('Y' -> Array.empty[Byte], 'R' -> Array[Byte]('d', 0, 0))
  } yield (tag.toByte +: oid) ++ beginning.map(_.toByte) ++ namespace ++ name ++ rest

  test("the decoder chooses between the two readings by the rules") {
    val any = Gen.oneOf(
      messages.any.map(_.bytes),
      Mutations.of(messages.any).filter(_.nonEmpty),
      ambiguousMessage,
      ambiguousDefinition
    )
    forAll(any, minSuccessful(2000)) { message =>
      withClue(s"${Fields.hex(message)}: ")(assert(read(message, UNKNOWN) == rule(message)))
    }
  }

  test("if both readings are valid, the decoder chooses the one without xid") {
    // One relation, oid 2, no flags; or xid 1, no relations, flags 2.
    assert(guessed("54 00000001 00 00000002")("relation_ids") == Seq(2L))
    // Namespace "pg_t"; or oid 0x70675f74 and namespace "".
    assert(guessed("52 00004010 70675f7400 6e00 64 0000")("relation_id") == 0x4010L)
  }

  test("a logical message has the reading with the smaller LSN") {
    val without = guessed("4d 01 0000000180000000 616263646500 00000000")
    assert(without("lsn") == 0x180000000L)
    assert(without("prefix") == "abcde")
    assert(!without.contains("xid"))

    val withXid = guessed("4d 00000301 01 0000000061626364 6500 00000000")
    assert(withXid("lsn") == 0x61626364L)
    assert(withXid("prefix") == "e")
    assert(withXid("xid") == 0x301L)

    val sameLsn = guessed("4d 01 6162630161626301 616263016500 00000000")
    assert(sameLsn("lsn") == 0x6162630161626301L)
    assert(!sameLsn.contains("xid"))
  }

  test("a logical message that is not transactional has no xid") {
    val message = "4d 00000301 00 0000000061626364 6500 00000000"
    assert(guessed(message)("lsn") == 0x30100_00000000L)
    assert(read(Fields.unhex(message), INSIDE).get("xid") == 0x301L) // the context is given
  }

  test("a type whose namespace begins with a control character has an xid") {
    val message = "59 00000301 01020304 7075626c696300 6d6f6f6400"
    assert(guessed(message)("xid") == 0x301L)
    assert(guessed(message)("pg_type") == pgType(0x01020304L, "public"))
    val outside = read(Fields.unhex(message), OUTSIDE).get // the context is given
    assert(outside("pg_type") == pgType(0x301L, "\u0001\u0002\u0003\u0004public"))

    val noControl = "59 00000301 20304050 7075626c696300 6d6f6f6400"
    assert(guessed(noControl)("pg_type") == pgType(0x301L, " 0@Ppublic"))
  }

  test("a namespace with a control character in its first four bytes is an oid after an xid") {
    Seq("01020304", "21222307", "2122237f").foreach { oid =>
      val id = java.lang.Long.parseLong(oid, 16)
      val table = guessed(s"52 00000301 $oid 7075626c696300 6e00 64 0000")
      assert((table("xid"), table("relation_id")) == (0x301L -> id))
      val mood = guessed(s"59 00000301 $oid 7075626c696300 6d6f6f6400")
      assert((mood("xid"), mood("pg_type")) == (0x301L -> pgType(id, "public")))
    }
    // The end of the namespace ends the look, and so does the fourth byte.
    assert(guessed("52 00000301 6100 0100 64 0000")("relation_id") == 0x301L)
    assert(guessed("52 00000301 616263640100 6e00 64 0000")("relation_id") == 0x301L)
  }

  private def pgType(id: Long, namespace: String) =
    Fields("id" -> id, "namespace" -> namespace, "name" -> "mood")

  test("an xid of 0 is refused, unless in_stream is given") {
    val message = "49 00000000 00004010 4e 0000"
    assert(error(message).startsWith("INSERT at byte 5 (new, marker): found 0, expected N;"))
    assert(read(Fields.unhex(message), INSIDE).get("xid") == 0L)
  }

  test("of the errors of both readings, the one that is further on is reported") {
    val inStream = "49 00000301 00004010 4e 0001 74 00000002 61"
    assert(error(inStream).startsWith("INSERT at byte 17 (new, column 1): need 2 bytes, got 1;"))
    val outside = "49 00004010 4e 0001 74 00000002 61"
    assert(error(outside).startsWith("INSERT at byte 13 (new, column 1): need 2 bytes, got 1;"))
  }

  test("of two errors at one place, that of the reading without xid is reported") {
    assert(
      error("55") == "UPDATE at byte 1 (relation_id): need 4 bytes, got 0; message of 1 bytes: 55"
    )
  }

  test("a reading that the rules exclude fails where they exclude it") {
    // Both would be valid: without xid there is a control character, with it the xid is 0.
    val noType = error("59 00000000 01020304 6100 6200")
    val where = "TYPE at byte 5 (pg_type, namespace): has the control character 1;"
    assert(noType.startsWith(where))
    // Without xid the flags are 2; with it the message is not transactional.
    val noMessage = error("4d 02000301 00 0000000061626364 6500 00000000")
    val flags =
      "MESSAGE at byte 5 (transactional, flags): found 0, but only a transactional message"
    assert(noMessage.startsWith(flags))
  }

  test("the context is a number that generated code passes on") {
    assert(StreamContext.of(inStream = true) == INSIDE)
    assert(StreamContext.of(inStream = false) == OUTSIDE)
  }
}
