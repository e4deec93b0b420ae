package io.sparkpgoutput.decode

import java.nio.charset.StandardCharsets
import java.nio.{ByteBuffer, CharBuffer}

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.{Fields, MessageSchema, StreamContext, TextEncoding}

/** Text in UTF-8 is checked, and is in the row as it was sent. */
class Utf8TextSuite extends PropertySuite {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)
  private val strict = StandardCharsets.UTF_8.newDecoder() // reports what is not valid

  private def isUtf8(text: Array[Byte]): Boolean = {
    val characters = CharBuffer.allocate(text.length)
    strict.reset().decode(ByteBuffer.wrap(text), characters, true).isUnderflow
  }

  /** The decoded cells, in hexadecimal; None if they are malformed. */
  private def decoded(cells: Array[Byte]*): Option[Seq[String]] = {
    val header = Fields.unhex("49 00004010 4e 00") :+ cells.size.toByte
    val message = header ++ cells.flatMap { cell =>
      ByteBuffer.allocate(5).put('t'.toByte).putInt(cell.length).array ++ cell
    }
    Option(decoder.decode(message, StreamContext.OUTSIDE, failFast = false)).map { row =>
      val text = row.getStruct(MessageSchema.NEW, 3).getArray(1)
      cells.indices.map(column => Fields.hex(text.getUTF8String(column).getBytes))
    }
  }

  /** Checks texts beside each other, because the decoder reads words of memory that can reach beyond one. */
  private def check(cells: Array[Byte]*): Unit = {
    val expected = Option.when(cells.forall(isUtf8))(cells.map(Fields.hex))
    if (decoded(cells: _*) != expected) fail(cells.map(Fields.hex).mkString(", "))
  }

  private val ascii = Gen.choose(0x00, 0x7f).map(_.toByte)

  private val character: Gen[Array[Byte]] = Gen
    .choose(0, 0x10ffff)
    .filterNot(code => code >= 0xd800 && code <= 0xdfff)
    .map(Character.toString(_).getBytes(StandardCharsets.UTF_8))

  /** A lead byte and bytes that are near the limits of the bytes that can follow it. */
  private val nearlyCharacter: Gen[Array[Byte]] = for {
    lead <- Gen.oneOf(0x80, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff)
    edges = Gen.oneOf(0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0)
    others <- Gen.choose(0, 3).flatMap(Gen.listOfN(_, edges))
  } yield (lead +: others).map(_.toByte).toArray

  private val run: Gen[Array[Byte]] = Gen.listOf(ascii).map(_.toArray)

  private val valid: Gen[Array[Byte]] =
    Gen.resize(30, Gen.listOf(Gen.oneOf(character, run))).map(_.toArray.flatten)

  private val nearlyValid: Gen[Array[Byte]] = for {
    before <- Gen.oneOf(run, valid)
    wrong <- nearlyCharacter
    after <- Gen.oneOf(run, valid)
  } yield before ++ wrong ++ after

  test("valid text comes back") {
    forAll(valid, valid)((one, other) => check(one, other))
  }

  test("bytes that are not UTF-8 are malformed, as strictly as in Java") {
    forAll(nearlyValid, valid, minSuccessful(2000)) { (text, other) =>
      check(text, other)
      check(other, text)
    }
  }

  test("ASCII of every length is read, at the end of the message and before other text") {
    (0 to 300).foreach { length =>
      val text = Array.tabulate(length)(i => (i % 0x80).toByte)
      check(text)
      check(text, Fields.unhex("c3a9"))
      check(text :+ 0x80.toByte)
    }
  }

  test("sequences of three bytes with each lead byte are checked") {
    // The ranges of Unicode's table 3-7 ("Well-Formed UTF-8 Byte Sequences") begin and end at these bytes.
    val edges = Seq(0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0)
    for (lead <- 0x7f to 0xff; second <- edges; third <- edges)
      check(Array(lead, second, third).map(_.toByte))
  }
}
