package io.sparkpgoutput.protocol

import java.nio.ByteBuffer

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.{InLocale, PropertySuite}

class MessageReaderSuite extends PropertySuite {
  private val bytes = Gen.listOfN(9, Gen.choose(Byte.MinValue, Byte.MaxValue)).map(_.toArray)
  private val field = MessageSchema.LSN

  private def reader(message: Array[Byte]) = {
    val reader = new MessageReader
    reader.start(message)
    reader
  }

  test("integers are big-endian, and those of `uint` methods are unsigned") {
    forAll(bytes) { message =>
      val expected = ByteBuffer.wrap(message, 1, 8)
      assert(reader(message).uint8(field) == (expected.get(1) & 0xff))
      assert(reader(message).uint16(field, null) == (expected.getShort(1) & 0xffff))
      assert(reader(message).int32(field, null) == expected.getInt(1))
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
    assert(in.int32(field, null) == 0)
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

/** The errors of malformed messages, with the place and the problem. */
class DecodeFailureSuite extends AnyFunSuite {
  import StreamContext._

  private val decoder = new MessageDecoder(TextEncoding.Utf8)

  /** Each case is a message, and the text of its error up to the description of the message. */
  private def errors(context: Int, name: String)(cases: (String, String)*): Unit = test(name) {
    cases.foreach { case (message, text) =>
      val bytes = Fields.unhex(message)
      val error = decoder.errorOrNull(bytes, context)
      val described = s"message of ${bytes.length} bytes: ${message.replace(" ", "")}"
      assert(error != null, s"$message was decoded")
      assert(error.toString == s"$text; $described")
    }
  }

  private def accepted(name: String)(messages: String*): Unit = test(name) {
    messages.foreach { message =>
      assert(decoder.errorOrNull(Fields.unhex(message), OUTSIDE) == null, message)
    }
  }

  private val lsn = "0000000001851440"
  private val time = "0002bbcb0de48f40"
  private val xid = "0000030c"
  private val oid = "00004010"

  errors(OUTSIDE, "a tag that no message has")(
    "00" -> "unknown message at byte 0 (type): unknown message tag 0",
    "7a 00" -> "unknown message at byte 0 (type): unknown message tag 7a",
    "ff" -> "unknown message at byte 0 (type): unknown message tag ff"
  )

  errors(OUTSIDE, "a field that ends past the message")(
    s"42 000000" -> "BEGIN at byte 1 (lsn): need 8 bytes, got 3",
    s"42 $lsn" -> "BEGIN at byte 9 (timestamp): need 8 bytes, got 0",
    s"42 $lsn $time 00" -> "BEGIN at byte 17 (xid): need 4 bytes, got 1",
    s"43" -> "COMMIT at byte 1 (flags): need 1 byte, got 0",
    s"41 $xid 00" -> "STREAM_ABORT at byte 5 (subxid): need 4 bytes, got 1",
    s"41 $xid $xid 00" -> "STREAM_ABORT at byte 9 (lsn): need 8 bytes, got 1",
    s"52 $oid 00 00 64 00" -> "RELATION at byte 8 (relation, columns): need 2 bytes, got 1",
    s"49 $oid 4e 0001 74 0000" -> "INSERT at byte 9 (new, column 1): need 4 bytes, got 2",
    s"49 $oid 4e 0003 6e 75 74 00000001" ->
      "INSERT at byte 15 (new, column 3): need 1 byte, got 0",
    s"44 $oid 4b 0001 62 00000003 0102" -> "DELETE at byte 13 (key, column 1): need 3 bytes, got 2"
  )

  errors(INSIDE, "a field that ends past the message, after an xid")(
    "49 0000" -> "INSERT at byte 1 (xid): need 4 bytes, got 2",
    s"54 $xid 0000" -> "TRUNCATE at byte 5 (relation_ids, relations): need 4 bytes, got 2"
  )

  errors(OUTSIDE, "bytes left over")(
    "45 00" -> "STREAM_STOP at byte 1: 1 byte left over",
    s"53 $xid 01 0102" -> "STREAM_START at byte 6: 2 bytes left over",
    s"41 $xid $xid $lsn $time 00" -> "STREAM_ABORT at byte 25: 1 byte left over"
  )

  errors(OUTSIDE, "a count or length of more than is left")(
    s"49 $oid 4e ffff 6e" -> "INSERT at byte 8 (new, columns): need 65535 bytes, got 1",
    s"49 $oid 4e 0001 74 ffffffff" ->
      "INSERT at byte 13 (new, column 1): need 4294967295 bytes, got 0",
    s"52 $oid 00 00 64 ffff 01 00 $oid 000000" ->
      "RELATION at byte 10 (relation, columns): need 655350 bytes, got 9",
    s"54 ffffffff 00 $oid" ->
      "TRUNCATE at byte 6 (relation_ids): need 17179869180 bytes, got 4",
    s"4d 01 $lsn 00 80000000 00" -> "MESSAGE at byte 15 (content): need 2147483648 bytes, got 1"
  )

  errors(OUTSIDE, "a string that does not end")(
    s"4f $lsn 6162" -> "ORIGIN at byte 9 (origin): the NUL byte that ends it is missing",
    s"62 $lsn $lsn $time $xid 61" ->
      "BEGIN_PREPARE at byte 29 (gid): the NUL byte that ends it is missing",
    s"59 $oid 61 00" -> "TYPE at byte 7 (pg_type, name): the NUL byte that ends it is missing",
    s"52 $oid 61" -> "RELATION at byte 5 (relation, namespace): the NUL byte that ends it is missing",
    s"52 $oid 00 00 64 0001 00 61626364656667686970" ->
      "RELATION at byte 11 (relation, column 1, name): the NUL byte that ends it is missing"
  )

  errors(OUTSIDE, "text that is not in the encoding")(
    s"4f $lsn c3 00" -> "ORIGIN at byte 9 (origin): the text is not valid UTF-8",
    s"4d 01 $lsn ff00 00000000" -> "MESSAGE at byte 10 (prefix): the text is not valid UTF-8",
    s"52 $oid 00 ff00 64 0000" ->
      "RELATION at byte 6 (relation, name): the text is not valid UTF-8",
    s"49 $oid 4e 0002 6e 74 00000001 ff" ->
      "INSERT at byte 14 (new, column 2): the text is not valid UTF-8"
  )

  errors(OUTSIDE, "flags that must be 0")(
    s"43 01 $lsn $lsn $time" -> "COMMIT at byte 1 (flags): found 1, expected at most 0",
    s"63 $xid ff $lsn" -> "STREAM_COMMIT at byte 5 (flags): found 255, expected at most 0",
    s"50 01" -> "PREPARE at byte 1 (flags): found 1, expected at most 0",
    s"4b 01" -> "COMMIT_PREPARED at byte 1 (flags): found 1, expected at most 0",
    s"72 01" -> "ROLLBACK_PREPARED at byte 1 (flags): found 1, expected at most 0",
    s"70 01" -> "STREAM_PREPARE at byte 1 (flags): found 1, expected at most 0"
  )

  errors(OUTSIDE, "flags outside their range")(
    s"4d 02 $lsn" -> "MESSAGE at byte 1 (transactional, flags): found 2, expected at most 1",
    s"53 $xid 02" -> "STREAM_START at byte 5 (first_segment, flags): found 2, expected at most 1",
    s"54 00000000 04" -> "TRUNCATE at byte 5 (flags): found 4, expected at most 3",
    s"52 $oid 00 00 64 0001 02 00 $oid $oid" ->
      "RELATION at byte 10 (relation, column 1, flags): found 2, expected at most 1"
  )

  errors(OUTSIDE, "a letter that is not valid there")(
    s"49 $oid 4b 0000" -> "INSERT at byte 5 (new, marker): found 4b, expected N",
    s"55 $oid 58 0000" -> "UPDATE at byte 5 (new, marker): found 58, expected K, O or N",
    s"55 $oid 4b 0000 4f 0000" -> "UPDATE at byte 8 (new, marker): found 4f, expected N",
    s"44 $oid 4e 0000" -> "DELETE at byte 5 (old, marker): found 4e, expected K or O",
    s"49 $oid 4e 0001 78" -> "INSERT at byte 8 (new, column 1, kind): found 78, expected n, u, t or b",
    s"52 $oid 00 00 78 0000" ->
      "RELATION at byte 7 (relation, replica_identity): found 78, expected d, n, f or i"
  )

  errors(OUTSIDE, "a timestamp that Spark cannot hold")(
    s"42 $lsn 7fffffffffffffff $xid" -> ("BEGIN at byte 9 (timestamp): " +
      "found 9223372036854775807, which is more than a TIMESTAMP holds"),
    s"42 $lsn 7ffca2fec4c82000 $xid" -> ("BEGIN at byte 9 (timestamp): " +
      "found 9222425352054775808, which is more than a TIMESTAMP holds")
  )

  accepted("what is odd but not malformed")(
    s"42 0000000000000000 8000000000000000 00000000", // neither LSN nor xid, long ago
    s"42 $lsn 7ffca2fec4c81fff $xid", // the last microsecond
    s"54 00000000 00", // no relations
    s"49 $oid 4e 0001 75", // an INSERT without a value
    s"44 $oid 4f 0001 75",
    s"49 $oid 4e 0001 74 00000003 610062", // a NUL byte in a cell
    s"49 $oid 4e ffff" + "6e" * 65535, // more columns than tables have
    s"59 $oid 01 00 00", // control characters
    s"52 $oid 00 00 64 0002 01 00 $oid 00000000 01 00 $oid 00000000" // both names are empty
  )

  test("the first 32 bytes of the message are shown") {
    def excerpt(size: Int) = {
      val text = decoder.errorOrNull(Array.tabulate(size)(_.toByte), UNKNOWN).toString
      text.drop(text.lastIndexOf(' ') + 1)
    }
    val bytes = (0 until 32).map(byte => f"$byte%02x").mkString
    assert(excerpt(31) == bytes.dropRight(2))
    assert(excerpt(32) == bytes)
    assert(excerpt(33) == bytes + "…")
    assert(excerpt(1000000) == bytes + "…")
  }

  test("numbers do not depend on the locale") {
    val error = InLocale("ar-EG-u-nu-arab")(decoder.errorOrNull(Fields.unhex("42 00"), UNKNOWN))
    assert(error.toString.startsWith("BEGIN at byte 1 (lsn): need 8 bytes, got 1;"))
  }
}
