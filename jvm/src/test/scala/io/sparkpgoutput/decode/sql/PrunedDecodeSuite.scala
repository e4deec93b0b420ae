package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{ArrayType, BinaryType, StructType}

import io.sparkpgoutput.decode.{Golden, MessageFilter, Rows}
import io.sparkpgoutput.errors.MalformedMessageException
import io.sparkpgoutput.protocol.{
  Fields,
  MessageSchema,
  RelationColumnSchema,
  RelationSchema,
  TupleSchema
}

class PrunedDecodeSuite extends MessageFunctionTests {
  private val decode = new PgOutputDecode(data, inStream)
  private val whole = PrunedDecode.of(decode)

  private def member(struct: StructType, name: String) = StructType(Seq(struct(name)))

  /** `type` and `new.text`. */
  private val typeAndText = {
    val text = member(TupleSchema.schema, "text")
    StructType(Seq(MessageSchema.schema("type"), MessageSchema.schema("new").copy(dataType = text)))
  }

  private def pruned(required: StructType) = whole.copy(required = required)

  private def filtered(types: Option[Set[String]], relationIds: Option[Set[Long]]) =
    whole.copy(filter = MessageFilter(types, relationIds))

  private def part(message: String, inStream: Any, required: StructType): InternalRow =
    Rows.part(decoded(message, inStream), MessageSchema.schema, required)

  test("it is the projection of the decode that it was, interpreted and generated") {
    val schemas = Seq(
      typeAndText,
      MessageSchema.schema,
      member(MessageSchema.schema, "xid"),
      member(MessageSchema.schema, "relation")
    )
    // One of each type: `checkEvaluation` compiles something for each message.
    val messages = Golden.all.groupBy(_.decoded("type")).values.map(_.head).toSeq
    for (required <- schemas; golden <- messages) {
      val message = Fields.hex(golden.data)
      checkEvaluation(
        pruned(required),
        part(message, golden.inStream, required),
        row(message, golden.inStream)
      )
    }
  }

  test("a row of no fields is not NULL") {
    checkEvaluation(IsNull(pruned(new StructType)), false, row(insert))
    checkEvaluation(IsNull(pruned(new StructType)), true, row(null))
  }

  test("messages that the filter does not keep are NULL") {
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

  test("a malformed message is an error, or NULL, whatever is required and kept") {
    val narrow = filtered(Some(Set("BEGIN")), None).copy(required = typeAndText)
    checkExceptionInExpression[MalformedMessageException](narrow, row(broken), "INSERT at byte 15")
    checkEvaluation(narrow.copy(failFast = false), null, row(broken))
  }

  test("it takes over the arguments, name, mode and encoding of the function that it was") {
    val latin1Options = options("encoding" -> "LATIN1")
    val latin1Decode = PrunedDecode.of(TryPgOutputDecode(data, inStream, latin1Options))
    assert(latin1Decode.prettyName == "try_pgoutput_decode")
    assert(!latin1Decode.failFast)
    assert(latin1Decode.children == Seq(data, inStream, latin1Options))
    checkEvaluation(latin1Decode, null, row(broken))
    checkEvaluation(
      GetStructField(latin1Decode.copy(required = member(MessageSchema.schema, "origin")), 0),
      "nöde",
      row(latin1)
    )
    assert(whole.failFast)
    assert(whole.filter == MessageFilter.all)
    assert(!whole.shared)
    assert(PrunedDecode.of(latin1Decode) eq latin1Decode)
    val permissive = PgOutputDecode(data, inStream, options("mode" -> "PERMISSIVE"))
    assert(!PrunedDecode.of(permissive).failFast)
  }

  test("its type is what is required") {
    assert(pruned(typeAndText).dataType == typeAndText)
    assert(whole.dataType == MessageSchema.schema)
    assert(whole.nullable)
  }

  private val column = AttributeReference("data", BinaryType)(ExprId(1))
  private val shown =
    PrunedDecode.of(new PgOutputDecode(column)).copy(required = typeAndText)

  test("it shows its fields, types and relation ids") {
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

  test("of a struct that is whole it shows the name only, of others each member that is there") {
    val columns = ArrayType(member(RelationColumnSchema.schema, "type_id"), containsNull = false)
    val relation = StructType(
      Seq(RelationSchema.schema("name"), RelationSchema.schema("columns").copy(dataType = columns))
    )
    val required = StructType(
      Seq(
        MessageSchema.schema("relation").copy(dataType = relation),
        MessageSchema.schema("new")
      )
    )
    assert(
      shown.copy(required = required).toString ==
        s"pgoutput_decode($column)[relation.name, relation.columns.type_id, new]"
    )
  }

  test("it shows the elements of a text, and a tuple's bytes") {
    def member(name: String) = TupleSchema.complete(name)
    val members = Seq(TupleSchema.withElements(member("text"), Set(12, 3)), member("cells"))
    val tuple = MessageSchema.schema("new").copy(dataType = StructType(members))
    assert(
      shown.copy(required = StructType(Seq(tuple))).toString ==
        s"pgoutput_decode($column)[new.text[3, 12], new.cells]"
    )
  }

  test("shared, it is not deterministic; otherwise it is as its arguments are") {
    assert(whole.deterministic)
    assert(!whole.copy(shared = true).deterministic)
    val random = If(LessThan(Rand(Literal(1L)), Literal(0.5)), data, data)
    assert(!whole.copy(data = random).deterministic)
    checkEvaluation(whole.copy(shared = true), decoded(insert), row(insert))
  }

  test("a row that interpreted evaluation gave stays as it is when the next one is evaluated") {
    val decode = pruned(typeAndText)
    val kept = decode.eval(row(insert)).asInstanceOf[InternalRow]
    decode.eval(row(ambiguous))
    assert(Rows.part(kept, typeAndText, typeAndText) == part(insert, null, typeAndText))
  }
}
