package io.sparkpgoutput.rows.sql

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.decode.sql.{DecodeFunctions, DecodeMessage, MessageFunctionTests}
import io.sparkpgoutput.decode.{Mutations, Selections}
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.{Message, MessageSchema, Messages}
import io.sparkpgoutput.sql.FunctionCall
import io.sparkpgoutput.types.registry.TypedTuples

/**
 * A row that is read from a message, or from the cells of a tuple, equals the row of the decoded tuple.
 */
class DecodeTupleSuite extends PropertySuite {
  import DecodeTupleSuite._
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
    val row = InternalRow(message, inStream)
    val expected = result(query.unfused, row)
    assert(result(query.fused, row) == expected)
    query.ofCells.foreach(read => assert(result(read, row) == expected))
  }

  private val context = Gen.oneOf[Any](null, true, false)

  test("the rows are equal for tuples whose values fit, do not fit, or are missing") {
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
    forAll(changes, context, minSuccessful(400)) { case ((query, message), inStream) =>
      agree(query, message.bytes, inStream)
    }
  }

  test("the rows are equal for messages of all types, and for malformed ones") {
    val any = new Messages().any
    val messages = Gen.frequency(
      2 -> any.map(_.bytes),
      3 -> Mutations.of(any),
      1 -> Gen.const(Array.emptyByteArray)
    )
    forAll(shape.flatMap(queries), messages, context, minSuccessful(400))(agree)
  }

  test("the rows are equal for messages of thousands of bytes") {
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

  test("types that do not fit the schema are an error only if there is a tuple") {
    val columns = Seq(TypedTuples.Column(StringType, 25), TypedTuples.Column(StringType, 25))
    val query =
      Query(columns, None, decodeFails = true, rowFails = true, MessageSchema.NEW, "UTC")
    val one = query.fused.copy(typeIds = Seq(25L))
    val cells = columns.map(_ => ("t", "x", null))
    def message(kind: String, fields: (String, Any)*) =
      Message.outsideOfStream(Map[String, Any]("type" -> kind) ++ fields).bytes
    val insert = message("INSERT", "relation_id" -> 1L, "new" -> Messages.tupleOf(cells))
    assert(result(one, InternalRow(message("STREAM_STOP"), false)).contains(null))
    assert(result(one, InternalRow(insert, false)).isLeft)
  }

  test("the type is that of the decoded row, with all columns or with the required ones") {
    forAll(shape.flatMap(queries)) { query =>
      assert(query.fused.dataType == query.unfused.dataType)
      val first = query.fused.withColumns(Seq(0))
      assert(first.dataType == StructType(query.unfused.rowSchema.schema.take(1)))
      assert(first.nullable)
    }
  }

  test("the same row of the same message is the same expression, and no other is") {
    forAll(shape.flatMap(queries), shape.flatMap(queries)) { (a, b) =>
      assert(a.copy().fused.canonicalized == a.fused.canonicalized)
      if (a != b) assert(a.fused.canonicalized != b.fused.canonicalized)
    }
  }

  test("the text shows the function, the decode and the columns") {
    val column = AttributeReference("data", data.dataType)(ExprId(1))
    val decode = decoded(failFast = false, column)
    val tuple = GetStructField(decode, MessageSchema.OLD)
    val row = read(failFast = true, tuple, Literal("a INT, b INT")).withColumns(Seq(1))
    val shown = fused(row.copy(typeIds = noIds), decode, MessageSchema.OLD).toString
    assert(shown == s"pgoutput_row(try_pgoutput_decode($column).old)[b]")
    assert(row.toString.startsWith("pgoutput_row(") && row.toString.endsWith("[b]"))
  }
}

private object DecodeTupleSuite {
  val data = BoundReference(0, BinaryType, nullable = true)
  val inStream = BoundReference(1, BooleanType, nullable = true)

  val noIds: Expression = Literal.create(null, ArrayType(LongType))

  /** The expression that evaluates a decode. */
  def decoded(failFast: Boolean, arguments: Expression*): DecodeMessage = {
    val function = if (failFast) DecodeFunctions.decode else DecodeFunctions.tryDecode
    replacement(function.call(arguments)).asInstanceOf[DecodeMessage]
  }

  /** The expression that evaluates a row function. */
  def read(failFast: Boolean, arguments: Expression*): ReadTuple = {
    val function = if (failFast) RowFunctions.row else RowFunctions.tryRow
    replacement(function.call(arguments)).asInstanceOf[ReadTuple]
  }

  private def replacement(call: Expression) = call.asInstanceOf[FunctionCall].replacement

  /** The expression that the optimizer makes of a row function and a decode. */
  def fused(row: ReadTuple, decode: DecodeMessage, field: Int): DecodeTuple = DecodeTuple(
    decode.data,
    decode.inStream,
    decode.options,
    field,
    row.constantTypeIds.get,
    row.rowSchema
  )

  /** A query: its columns, the required ones, what is an error, and the field of the tuple. */
  final case class Query(
      columns: Seq[TypedTuples.Column],
      required: Option[Seq[Int]],
      decodeFails: Boolean,
      rowFails: Boolean,
      field: Int,
      timeZone: String
  ) {
    private val decode: DecodeMessage = decoded(decodeFails, data, inStream)

    private val ids =
      Literal.create(columns.map(_.oid).toArray, ArrayType(LongType, containsNull = false))

    val unfused: ReadTuple = {
      val tuple = GetStructField(decode, field)
      val options = CreateMap(Seq(Literal("timeZone"), Literal(timeZone)))
      val row = read(rowFails, tuple, Literal(TypedTuples.schema(columns).toDDL), ids, options)
      required.fold(row)(row.withColumns)
    }
    val fused: DecodeTuple = DecodeTupleSuite.fused(unfused, decode, field)

    /** Reads the cells of the tuple, which the decode gives alone or beside other members. */
    val ofCells: Seq[ReadTuple] =
      Seq(Seq("cells"), Seq("kinds", "binary", "cells")).map { names =>
        val narrowed = decode.copy(selection = Selections.ofTuple(field, names: _*))
        val tuple = GetStructField(narrowed, 0)
        unfused.copy(tuple = GetStructField(tuple, names.indexOf("cells")))
      }

    override def toString: String = fused.toString
  }
}

/** The code that Spark generates gives the same rows. */
class DecodeTupleCodeSuite extends MessageFunctionTests {
  import DecodeTupleSuite.{decoded => decodeOf, fused => fusedOf, read}

  private def rowOf(tuple: Expression, rowOptions: Seq[(String, String)]): ReadTuple = {
    val ids = Literal.create(Array(23L, 25L), ArrayType(LongType, containsNull = false))
    read(failFast = true, tuple, Literal("a INT, b STRING"), ids, options(rowOptions: _*))
  }

  private def fused(failFast: Boolean, rowOptions: (String, String)*): Expression = {
    val message = decodeOf(failFast, data, inStream)
    val row = rowOf(GetStructField(message, MessageSchema.NEW), rowOptions)
    fusedOf(row, message, MessageSchema.NEW)
  }

  private def ofCells(failFast: Boolean, rowOptions: (String, String)*): Expression = {
    val message = decodeOf(failFast, data, inStream)
    val cells = message.copy(selection = Selections.ofTuple(MessageSchema.NEW, "cells"))
    val row = rowOf(GetStructField(message, MessageSchema.NEW), rowOptions)
    row.copy(tuple = GetStructField(GetStructField(cells, 0), 0))
  }

  Seq[(String, (Boolean, Seq[(String, String)]) => Expression)](
    "of the message" -> (fused(_, _: _*)),
    "of the tuple's bytes" -> (ofCells(_, _: _*))
  ).foreach { case (kind, read) =>
    test(s"the row $kind is the same, interpreted and generated") {
      val strict = read(true, Nil)
      checkEvaluation(strict, InternalRow(42, null), row(insert))
      checkEvaluation(strict, InternalRow(42, null), row(insertInStream, true))
      checkEvaluation(strict, null, row(ambiguous))
      checkEvaluation(strict, null, row(""))
      checkEvaluation(strict, null, row(null))
      checkEvaluation(read(false, Nil), null, row(broken))
      checkExceptionInExpression[PgOutputException](
        strict,
        row(broken),
        "INSERT at byte 15"
      )
      val binary = "49 00004010 4e 0002 62 00000004 0000002a 74 00000001 78"
      checkEvaluation(strict, InternalRow(42, UTF8String.fromString("x")), row(binary))
      val noInt = "49 00004010 4e 0002 74 00000001 78 6e"
      checkExceptionInExpression[PgOutputException](strict, row(noInt), "column 'a'")
      checkEvaluation(read(true, Seq("mode" -> "PERMISSIVE")), InternalRow(null, null), row(noInt))
    }

    test(s"the interpreted row $kind stays the same when the next one is evaluated") {
      val expression = read(true, Nil)
      val kept = expression.eval(row(insert)).asInstanceOf[InternalRow]
      expression.eval(row("49 00004010 4e 0002 74 00000001 37 74 00000001 78"))
      assert(kept.getInt(0) == 42)
    }
  }
}
