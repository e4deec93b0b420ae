package io.sparkpgoutput.rows.sql

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.decode.sql.{
  DecodeFunction,
  MessageFunctionTests,
  PgOutputDecode,
  PrunedDecode,
  TryPgOutputDecode
}
import io.sparkpgoutput.decode.{Mutations, RequiredSchemas}
import io.sparkpgoutput.errors.{InvalidValueException, MalformedMessageException, PgOutputException}
import io.sparkpgoutput.protocol.{Message, MessageSchema, Messages, TupleSchema}
import io.sparkpgoutput.types.registry.TypedTuples

/** A row that is read from the message, or of a tuple's bytes, is that of the decode's tuple. */
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
    val expected = result(query.unfused, row)
    assert(result(query.fused, row) == expected)
    query.ofCells.foreach(read => assert(result(read, row) == expected))
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

    /** Of the tuple's bytes, which the decode gives alone or beside other members. */
    val ofCells: Seq[RowFunction] =
      Seq(Seq("cells"), Seq("kinds", "binary", "cells")).map { names =>
        val required = RequiredSchemas.ofTuple(field, names: _*)
        val narrowed = PrunedDecode.of(decode).copy(required = required)
        unfused.ofCells(GetStructField(GetStructField(narrowed, 0), names.indexOf("cells")))
      }

    override def toString: String = fused.toString
  }
}

/** The same of code that Spark generates. */
class RowOfMessageCodeSuite extends MessageFunctionTests {
  private def decode(failFast: Boolean): DecodeFunction =
    if (failFast) new PgOutputDecode(data, inStream) else new TryPgOutputDecode(data, inStream)

  private def rowOf(tuple: Expression, rowOptions: Seq[(String, String)]): RowFunction = {
    val ids = CreateArray(Seq(Literal(23L), Literal(25L)))
    PgOutputRow(tuple, Literal("a INT, b STRING"), ids, options(rowOptions: _*))
      .withTimeZone("UTC").asInstanceOf[RowFunction]
  }

  private def fused(failFast: Boolean, rowOptions: (String, String)*): Expression = {
    val message = decode(failFast)
    val row = rowOf(GetStructField(message, MessageSchema.NEW), rowOptions)
    RowOfMessage.of(row, message, MessageSchema.NEW)
  }

  private def ofCells(failFast: Boolean, rowOptions: (String, String)*): Expression = {
    val required = RequiredSchemas.ofTuple(MessageSchema.NEW, "cells")
    val tuple = GetStructField(PrunedDecode.of(decode(failFast)).copy(required = required), 0)
    rowOf(Literal.create(null, TupleSchema.schema), rowOptions).ofCells(GetStructField(tuple, 0))
  }

  Seq[(String, (Boolean, Seq[(String, String)]) => Expression)](
    "of the message" -> (fused(_, _: _*)),
    "of the tuple's bytes" -> (ofCells(_, _: _*))
  ).foreach { case (kind, read) =>
    test(s"$kind: interpreted and generated") {
      val strict = read(true, Nil)
      checkEvaluation(strict, InternalRow(42, null), row(insert))
      checkEvaluation(strict, InternalRow(42, null), row(insertInStream, true))
      checkEvaluation(strict, null, row(ambiguous))
      checkEvaluation(strict, null, row(""))
      checkEvaluation(strict, null, row(null))
      checkEvaluation(read(false, Nil), null, row(broken))
      checkExceptionInExpression[MalformedMessageException](
        strict,
        row(broken),
        "INSERT at byte 15"
      )
      val binary = "49 00004010 4e 0002 62 00000004 0000002a 74 00000001 78"
      checkEvaluation(strict, InternalRow(42, UTF8String.fromString("x")), row(binary))
      val noInt = "49 00004010 4e 0002 74 00000001 78 6e"
      checkExceptionInExpression[InvalidValueException](strict, row(noInt), "column 'a'")
      checkEvaluation(read(true, Seq("mode" -> "PERMISSIVE")), InternalRow(null, null), row(noInt))
    }

    test(s"$kind: what was interpreted stays as it is when the next one is evaluated") {
      val expression = read(true, Nil)
      val kept = expression.eval(row(insert)).asInstanceOf[InternalRow]
      expression.eval(row("49 00004010 4e 0002 74 00000001 37 74 00000001 78"))
      assert(kept.getInt(0) == 42)
    }
  }
}
