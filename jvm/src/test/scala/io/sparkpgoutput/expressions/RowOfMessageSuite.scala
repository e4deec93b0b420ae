package io.sparkpgoutput.expressions

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol._
import io.sparkpgoutput.types.TypedTuples

/** A row that is read from the message is that of the decode's tuple. */
class RowOfMessageSuite extends PropertySuite {
  import RowOfMessageSuite._
  import TypedTuples.{cell, shape, some, tuples}

  private val fields = Seq(MessageSchema.KEY, MessageSchema.OLD, MessageSchema.NEW)

  private def queries(columns: Seq[TypedTuples.Column]): Gen[Query] = for {
    required <- Gen.option(some(columns))
    decodeFails <- Gen.oneOf(true, false)
    rowFails <- Gen.oneOf(true, false)
    field <- Gen.oneOf(fields)
    timeZone <- Gen.oneOf("UTC", "Asia/Tokyo")
  } yield Query(columns, required, decodeFails, rowFails, field, timeZone)

  private def result(expression: Expression, row: InternalRow): Either[String, Any] =
    Try(expression.eval(row)).toEither.left.map {
      case known: PgOutputException => known.getMessage
      case other                    => throw other
    }

  private def agree(query: Query, message: Array[Byte], inStream: Any): Unit = {
    assert(query.unfused.checkInputDataTypes().isSuccess)
    val row = InternalRow(message, inStream)
    assert(result(query.fused, row) == result(query.unfused, row))
  }

  private val context = Gen.oneOf[Any](null, true, false)

  test("of tuples whose values fit, do not fit, and are none") {
    val changes = for {
      (columns, old) <- tuples
      now <- Gen.listOfN(columns.size, cell)
      query <- queries(columns)
      oldName <- Gen.oneOf("key", "old")
      streamed <- Gen.oneOf(true, false)
    } yield {
      val fields = Map[String, Any](
        "type" -> "UPDATE",
        "relation_id" -> 16400L,
        oldName -> Messages.tupleOf(old),
        "new" -> Messages.tupleOf(now)
      ) ++ Option.when(streamed)("xid" -> 7L)
      (query, Message(fields, streamed, java.nio.charset.StandardCharsets.UTF_8))
    }
    forAll(changes, context, minSuccessful(1000)) { case ((query, message), inStream) =>
      agree(query, message.bytes, inStream)
    }
  }

  test("of messages of all types, and malformed ones") {
    val any = new Messages().any
    val messages = Gen.frequency(
      2 -> any.map(_.bytes),
      3 -> Mutations.of(any),
      1 -> Gen.const(Array.emptyByteArray)
    )
    forAll(shape.flatMap(queries), messages, context, minSuccessful(2000))(agree)
  }

  test("of messages of thousands of bytes") {
    val text = TypedTuples.Column(StringType, 25)
    Seq(4000, 5000, 100000).foreach { size =>
      val cells = Seq(("t", "é" * size, null), ("t", "x" * size, null))
      val message = Message.outsideOfStream(
        Map[String, Any]("type" -> "INSERT", "relation_id" -> 1L, "new" -> Messages.tupleOf(cells))
      )
      val required = Some(Seq(1))
      val query =
        Query(
          Seq(text, text),
          required,
          decodeFails = true,
          rowFails = true,
          MessageSchema.NEW,
          "UTC"
        )
      agree(query, message.bytes, false)
    }
  }

  test("its type is that of the row that it was, all of it or what is wanted") {
    forAll(shape.flatMap(queries)) { query =>
      assert(query.fused.dataType == query.unfused.dataType)
      assert(query.fused.wholeRow == query.unfused.wholeRow)
      val first = query.fused.withRequired(Seq(0))
      assert(first.dataType == StructType(query.unfused.wholeRow.take(1)))
      assert(first.nullable)
    }
  }

  test("the same row of the same message is the same expression, and no other is") {
    forAll(shape.flatMap(queries), shape.flatMap(queries)) { (a, b) =>
      assert(a.copy().fused.canonicalized == a.fused.canonicalized)
      if (a != b) assert(a.fused.canonicalized != b.fused.canonicalized)
    }
  }

  test("it shows the function, the decode and its columns") {
    val column = AttributeReference("data", data.dataType)(ExprId(1))
    val decode = new TryPgOutputDecode(column)
    val row = new PgOutputRow(GetStructField(decode, MessageSchema.OLD), Literal("a INT, b INT"))
      .withRequired(Seq(1))
    val fused = RowOfMessage.of(row, decode, MessageSchema.OLD)
    assert(fused.toString == s"pgoutput_row(try_pgoutput_decode($column).old)[b]")
    assert(row.toString.startsWith("pgoutput_row(") && row.toString.endsWith("[b]"))
  }
}

private object RowOfMessageSuite {
  val data = BoundReference(0, BinaryType, nullable = true)
  val inStream = BoundReference(1, BooleanType, nullable = true)

  /** A query: the columns' types, those that are wanted, what is an error, and of which tuple. */
  final case class Query(
      columns: Seq[TypedTuples.Column],
      required: Option[Seq[Int]],
      decodeFails: Boolean,
      rowFails: Boolean,
      field: Int,
      timeZone: String
  ) {
    private val decode: DecodeFunction =
      if (decodeFails) new PgOutputDecode(data, inStream) else new TryPgOutputDecode(data, inStream)

    private val ids =
      Literal.create(columns.map(_.oid).toArray, ArrayType(LongType, containsNull = false))

    val unfused: RowFunction = {
      val tuple = GetStructField(decode, field)
      val ddl = Literal(TypedTuples.schema(columns).toDDL)
      val row: RowFunction =
        if (rowFails) new PgOutputRow(tuple, ddl, ids) else new TryPgOutputRow(tuple, ddl, ids)
      val known = row.withTimeZone(timeZone).asInstanceOf[RowFunction]
      required.fold(known)(known.withRequired)
    }
    val fused: RowOfMessage = RowOfMessage.of(unfused, decode, field)

    override def toString: String = fused.toString
  }
}

/** The same of code that Spark generates. */
class RowOfMessageCodeSuite extends MessageFunctionTests {
  private def fused(failFast: Boolean, rowOptions: (String, String)*) = {
    val decode =
      if (failFast) new PgOutputDecode(data, inStream) else new TryPgOutputDecode(data, inStream)
    val tuple = GetStructField(decode, MessageSchema.NEW)
    val ids = CreateArray(Seq(Literal(23L), Literal(25L)))
    val row = PgOutputRow(tuple, Literal("a INT, b STRING"), ids, options(rowOptions: _*))
    RowOfMessage.of(row.withTimeZone("UTC").asInstanceOf[RowFunction], decode, MessageSchema.NEW)
  }

  test("interpreted and generated") {
    checkEvaluation(fused(failFast = true), InternalRow(42, null), row(insert))
    checkEvaluation(fused(failFast = true), InternalRow(42, null), row(insertInStream, true))
    checkEvaluation(fused(failFast = true), null, row(ambiguous))
    checkEvaluation(fused(failFast = true), null, row(""))
    checkEvaluation(fused(failFast = true), null, row(null))
    checkEvaluation(fused(failFast = false), null, row(broken))
    checkExceptionInExpression[MalformedMessageException](
      fused(failFast = true),
      row(broken),
      "INSERT at byte 15"
    )
    val binary = "49 00004010 4e 0002 62 00000004 0000002a 74 00000001 78"
    checkEvaluation(
      fused(failFast = true),
      InternalRow(42, UTF8String.fromString("x")),
      row(binary)
    )
    val noInt = "49 00004010 4e 0002 74 00000001 78 6e"
    checkExceptionInExpression[InvalidValueException](
      fused(failFast = true),
      row(noInt),
      "column 'a'"
    )
    checkEvaluation(
      fused(failFast = true, "mode" -> "PERMISSIVE"),
      InternalRow(null, null),
      row(noInt)
    )
  }

  test("a row that interpreted evaluation gave stays as it is when the next one is evaluated") {
    val expression = fused(failFast = true)
    val kept = expression.eval(row(insert)).asInstanceOf[InternalRow]
    expression.eval(row("49 00004010 4e 0002 74 00000001 37 74 00000001 78"))
    assert(kept.getInt(0) == 42)
  }
}
