package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.BinaryType

import io.sparkpgoutput.decode.FieldSelection.{All, members}
import io.sparkpgoutput.decode.{FieldSelection, Golden, MessageFilter, Selections}
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.options.DecodeOptions
import io.sparkpgoutput.protocol.{Fields, MessageSchema}

class DecodeMessageSuite extends MessageFunctionTests {
  private val whole = evaluator(decode(data, inStream))

  /** `type` and `new.text`. */
  private val typeAndText =
    members("type").and(FieldSelection.member("new", members("text")))

  private def pruned(selection: FieldSelection) = whole.copy(selection = selection)

  private def filtered(types: Option[Set[String]], relationIds: Option[Set[Long]]) =
    whole.copy(filter = MessageFilter(types, relationIds))

  private def part(message: String, inStream: Any, selection: FieldSelection): InternalRow =
    Selections.part(decoded(message, inStream), selection)

  test("a narrowed decode gives a part of the whole row, interpreted and generated") {
    val selections = Seq(typeAndText, All, members("xid"), members("relation"))
    // Only one of each type, because `checkEvaluation` compiles code for each message.
    val messages = Golden.all.groupBy(_.decoded("type")).values.map(_.head).toSeq
    for (selection <- selections; golden <- messages) {
      val message = Fields.hex(golden.data)
      checkEvaluation(
        pruned(selection),
        part(message, golden.inStream, selection),
        row(message, golden.inStream)
      )
    }
  }

  test("a row of no fields is not NULL") {
    checkEvaluation(IsNull(pruned(FieldSelection.Unused)), false, row(insert))
    checkEvaluation(IsNull(pruned(FieldSelection.Unused)), true, row(null))
  }

  test("a message that the filter drops gives NULL") {
    Seq(
      filtered(Some(Set("INSERT")), None) -> true,
      filtered(Some(Set("UPDATE")), None) -> false,
      filtered(None, Some(Set(16400L))) -> true,
      filtered(None, Some(Set(16401L))) -> false,
      filtered(Some(Set("UPDATE")), Some(Set(16400L))) -> false
    ).foreach { case (decode, kept) =>
      checkEvaluation(decode, if (kept) decoded(insert) else null, row(insert))
      checkEvaluation(decode, null, row(ambiguous))
    }
  }

  test("a malformed message is an error or NULL, whatever is selected and kept") {
    val narrow = filtered(Some(Set("BEGIN")), None).copy(selection = typeAndText)
    checkExceptionInExpression[PgOutputException](narrow, row(broken), "INSERT at byte 15")
    checkEvaluation(narrow.copy(options = DecodeOptions(failFast = false)), null, row(broken))
  }

  test("text has the encoding of the options, also in a selected field") {
    val latin1Options = options("encoding" -> "LATIN1", "mode" -> "PERMISSIVE")
    val latin1Decode = evaluator(decode(data, inStream, latin1Options))
    assert(latin1Decode.prettyName == "try_pgoutput_decode")
    checkEvaluation(latin1Decode, null, row(broken))
    val origin = latin1Decode.copy(selection = members("origin"))
    checkEvaluation(GetStructField(origin, 0), "nöde", row(latin1))
    assert(whole.isWhole && !whole.shared)
    assert(!origin.isWhole)
  }

  test("the text of a call has the arguments that the user gave") {
    assert(whole.sql.endsWith(s"(${data.sql}, ${inStream.sql})"))
    assert(evaluator(decode(data)).sql.endsWith(s"(${data.sql})"))
  }

  test("the type of the rows follows the selection") {
    assert(pruned(typeAndText).dataType == typeAndText.prune(MessageSchema.schema))
    assert(whole.dataType == MessageSchema.schema)
    assert(whole.nullable)
  }

  private val column = AttributeReference("data", BinaryType)(ExprId(1))
  private val shown = evaluator(decode(column)).copy(selection = typeAndText)

  test("the text shows fields, types and relation ids") {
    assert(shown.toString == s"pgoutput_decode($column)[type, new.text]")
    val types = Option(Set("UPDATE", "INSERT"))
    val ids = Option(Set(16400L))
    assert(
      shown.copy(filter = MessageFilter(types, ids)).toString ==
        s"pgoutput_decode($column)[type, new.text] of INSERT, UPDATE with relation_id 16400"
    )
    assert(
      shown.copy(filter = MessageFilter(types, None)).toString ==
        s"pgoutput_decode($column)[type, new.text] of INSERT, UPDATE"
    )
    assert(
      shown.copy(filter = MessageFilter(None, Some(Set(30000L, 5L)))).toString ==
        s"pgoutput_decode($column)[type, new.text] with relation_id 5, 30000"
    )
  }

  test("the text shows a whole struct by its name, and others by their members") {
    val columns = FieldSelection.member("columns", members("type_id"))
    val relation = FieldSelection.member("relation", columns.and(members("name")))
    assert(
      shown.copy(selection = relation.and(members("new"))).toString ==
        s"pgoutput_decode($column)[relation.name, relation.columns.type_id, new]"
    )
  }

  test("the text shows the elements of a text, and a tuple's cells") {
    val text = FieldSelection.member("text", FieldSelection.Elements(Set(12, 3)))
    val tuple = FieldSelection.member("new", text.and(FieldSelection.Cells))
    assert(
      shown.copy(selection = tuple).toString ==
        s"pgoutput_decode($column)[new.text[3, 12], new.cells]"
    )
  }

  test("the text shows the encoding if it is not UTF8") {
    val latin1 = tryDecode(column, Literal(null), options("encoding" -> "LATIN1"))
    assert(evaluator(latin1).toString == s"try_pgoutput_decode($column, encoding ISO-8859-1)")
  }

  test("a shared decode is not deterministic; another one is if its arguments are") {
    assert(whole.deterministic)
    assert(!whole.copy(shared = true).deterministic)
    val random = If(LessThan(Rand(Literal(1L)), Literal(0.5)), data, data)
    assert(!whole.copy(data = random).deterministic)
    checkEvaluation(whole.copy(shared = true), decoded(insert), row(insert))
  }

  test("the same decode is the same expression, whatever its encoding") {
    def latin1 = evaluator(decode(data, inStream, options("encoding" -> "LATIN1")))
    assert(latin1 == latin1)
    assert(latin1 != whole)
  }

  test("interpreted evaluation gives a row that the next one does not overwrite") {
    Seq(All, typeAndText).map(pruned).foreach { decode =>
      val kept = decode.eval(row(insert)).asInstanceOf[InternalRow]
      val copied = kept.copy()
      decode.eval(row(ambiguous))
      assert(kept == copied && kept.getString(0) == "INSERT")
    }
  }
}
