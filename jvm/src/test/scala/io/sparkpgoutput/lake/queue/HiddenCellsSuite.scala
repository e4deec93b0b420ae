package io.sparkpgoutput.lake.queue

import java.nio.charset.StandardCharsets.UTF_8
import java.util.HexFormat
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.changes.rows.RelationColumn
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{HashSalt, HiddenColumns}
import io.sparkpgoutput.protocol.Fields.Fields
import io.sparkpgoutput.protocol.{Fields, MessageEncoder, Messages}

class HiddenCellsSuite extends PropertySuite {
  private val salt = HashSalt.of("sält")

  /** The hash as the option defines it. */
  private def hash(text: String): String = {
    val mac = Mac.getInstance("HmacSHA256")
    mac.init(new SecretKeySpec("sält".getBytes(UTF_8), "HmacSHA256"))
    HexFormat.of().formatHex(mac.doFinal(text.getBytes(UTF_8)))
  }

  private val value: Gen[Messages.Cell] = Gen.oneOf(
    Gen.oneOf("", "a", "größe", "💎", "x" * 300).map(text => ("t", text, null)),
    Gen.oneOf("n", "u").map(kind => (kind, null, null))
  )

  /** For each column, s (shown), x (excluded) or h (hashed), and a change with these columns. */
  private val changes: Gen[(Seq[Char], Fields)] = for {
    kinds <- Gen.nonEmptyListOf(Gen.oneOf('s', 'x', 'h'))
    tuple = Gen.listOfN(kinds.length, value)
    (next, old) <- Gen.zip(tuple, tuple)
    name <- Gen.oneOf("key", "old")
    message <- Gen.oneOf(
      Fields("type" -> "INSERT", "new" -> next),
      Fields("type" -> "UPDATE", "new" -> next),
      Fields("type" -> "UPDATE", name -> old, "new" -> next),
      Fields("type" -> "DELETE", name -> old)
    )
  } yield (kinds, message ++ Fields("relation_id" -> 16385L))

  private def columns(kinds: Seq[Char]) = kinds.indices.map(index => s"c$index")

  private def cells(kinds: Seq[Char], hashed: Char = 'h') = {
    def of(kind: Char) = kinds.indices.filter(kinds(_) == kind).map(index => s"c$index")
    HiddenCells.of(columns(kinds), HiddenColumns(of('x'), of(hashed)), salt)
  }

  private def encoded(message: Fields)(rewritten: Seq[Messages.Cell] => Seq[Messages.Cell]) =
    MessageEncoder.encode(
      message.map {
        case (name, tuple: Seq[_]) =>
          name -> Messages.tupleOf(rewritten(tuple.asInstanceOf[Seq[Messages.Cell]]))
        case other => other
      },
      inStream = false
    )

  test("a change lacks the excluded values and has the hashes of the hashed ones") {
    forAll(changes) { case (kinds, message) =>
      val wanted = encoded(message)(_.zip(kinds).collect {
        case (("t", text, _), 'h')       => ("t", hash(text), null)
        case (cell, kind) if kind != 'x' => cell
      })
      val found = cells(kinds).change(encoded(message)(identity))
      assert(Fields.hex(found) == Fields.hex(wanted))
    }
  }

  test("a large message leaves no large buffer") {
    val hiding = cells(Seq('s', 'x'))
    def change(size: Int) = encoded(Fields(
      "type" -> "INSERT",
      "new" -> Seq(("t", "x" * size, null), ("n", null, null)),
      "relation_id" -> 16385L
    ))(identity)
    assert(hiding.change(change(5000000)).length > 5000000)
    assert(hiding.change(change(10)).length < 100)
    assert(hiding.room < 5000)
  }

  private def relation(columns: Seq[Fields]) = MessageEncoder.encode(
    Fields(
      "type" -> "RELATION",
      "relation_id" -> 16385L,
      "relation" -> Fields(
        "namespace" -> "public",
        "name" -> "größe",
        "replica_identity" -> "d",
        "columns" -> columns
      )
    ),
    inStream = false
  )

  test("a Relation message lacks the excluded columns, and hashed ones are texts") {
    forAll(Gen.nonEmptyListOf(Gen.oneOf('s', 'x', 'h'))) { kinds =>
      val sent = columns(kinds).map(name =>
        Fields("key" -> (name == "c0"), "name" -> name, "type_id" -> 1043L, "type_modifier" -> 24)
      )
      val wanted = sent.zip(kinds).collect {
        case (column, 'h') => column ++ Fields("type_id" -> 25L, "type_modifier" -> -1)
        case (column, kind) if kind != 'x' => column
      }
      val found = cells(kinds).relation(relation(sent))
      assert(Fields.hex(found) == Fields.hex(relation(wanted)))
    }
  }

  test("a change of a table that is not understood loses all its values") {
    forAll(changes) { case (kinds, message) =>
      val found = HiddenCells.all(columns(kinds)).change(encoded(message)(identity))
      assert(Fields.hex(found) == Fields.hex(encoded(message)(_ => Nil)))
    }
  }

  test("a bare byte of PostgreSQL 14 in a shown column of the type char is a text in UTF-8") {
    // The letter X stands for the byte.
    def message(text: String) = encoded(Fields(
      "type" -> "UPDATE",
      "relation_id" -> 16385L,
      "old" -> Seq(("t", "X", null), ("n", null, null), ("t", "X", null), ("t", "X", null)),
      "new" -> Seq(("t", text, null), ("t", "ä", null), ("u", null, null), ("t", "X", null))
    ))(identity)
    def bare(message: Array[Byte]) = message.map(byte => if (byte == 'X') -23.toByte else byte)
    def sent(types: Long*) = types.zipWithIndex.map { case (oid, index) =>
      RelationColumn(s"c$index", isKey = false, oid)
    }
    val columns = sent(18, 18, 25, 25)
    val shown = HiddenCells.withChars(None, columns).get
    val wanted = encoded(Fields(
      "type" -> "UPDATE",
      "relation_id" -> 16385L,
      "old" -> Seq(("t", "\\351", null), ("n", null, null), ("t", "X", null), ("t", "X", null)),
      "new" -> Seq(("t", "\\351", null), ("t", "ä", null), ("u", null, null), ("t", "X", null))
    ))(identity)
    assert(Fields.hex(shown.change(bare(message("X")))) == Fields.hex(bare(wanted)))
    val hidden = Some(cells("xsxx"))
    val left = encoded(Fields(
      "type" -> "UPDATE",
      "relation_id" -> 16385L,
      "old" -> Seq(("n", null, null)),
      "new" -> Seq(("t", "ä", null))
    ))(identity)
    val found = HiddenCells.withChars(hidden, columns).get.change(bare(message("X")))
    assert(Fields.hex(found) == Fields.hex(left))
    assert(HiddenCells.withChars(None, sent(25, 23)).isEmpty)
    assert(HiddenCells.withChars(hidden, sent(25, 25, 25, 25)) == hidden)
  }

  test("a TRUNCATE stays as it is") {
    val truncate = MessageEncoder.encode(
      Fields(
        "type" -> "TRUNCATE",
        "cascade" -> false,
        "restart_identity" -> true,
        "relation_ids" -> Seq(16385L, 16390L)
      ),
      inStream = false
    )
    assert(cells("sx").change(truncate) eq truncate)
  }

  test("a change with another number of columns than its Relation message is an error") {
    val insert = encoded(
      Fields("type" -> "INSERT", "relation_id" -> 16385L, "new" -> Seq(("n", null, null)))
    )(identity)
    val error = intercept[PgOutputException](cells("sx").change(insert))
    assert(error.getCondition == "PGOUTPUT_MALFORMED_MESSAGE")
    // Nothing of a message that ends too early is taken.
    intercept[IndexOutOfBoundsException](cells("h").change(insert.dropRight(1)))
  }
}
