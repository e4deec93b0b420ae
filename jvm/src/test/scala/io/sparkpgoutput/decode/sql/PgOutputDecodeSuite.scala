package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.types.BinaryType

import io.sparkpgoutput.decode.Golden
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.{Fields, MessageSchema}

class PgOutputDecodeSuite extends MessageFunctionTests {
  private val whole = decode(data, inStream)

  private def withOptions(entries: (String, String)*) =
    decode(data, inStream, options(entries: _*))

  private def field(ordinal: Int, of: Expression = whole) = GetStructField(of, ordinal)

  test("real messages decode to the decoder's rows, interpreted and generated") {
    Seq(
      InterpretedUnsafeProjection.createProjection(Seq(evaluator(whole))),
      GenerateUnsafeProjection.generate(Seq(evaluator(whole)))
    ).foreach { projection =>
      Golden.all.foreach { golden =>
        val message = Fields.hex(golden.data)
        val found =
          projection(row(message, golden.inStream)).getStruct(0, MessageSchema.schema.length)
        assert(found == decoded(message, golden.inStream))
      }
    }
  }

  test("a message decodes with and without in_stream, wherever Spark evaluates it") {
    checkEvaluation(whole, decoded(insertInStream, true), row(insertInStream, true))
    checkEvaluation(decode(data), decoded(insert), row(insert))
  }

  test("NULL and a message of zero bytes are NULL, whatever in_stream is") {
    for {
      call <- Seq(whole, tryDecode(data, inStream), error(data, inStream))
      known <- Seq[Any](true, false, null)
      message <- Seq(null, "")
    } checkEvaluation(call, null, row(message, known))
  }

  test("in_stream decides, and NULL leaves it to the message") {
    checkEvaluation(field(MessageSchema.XID), 0x1000000L, row(ambiguous, true))
    checkEvaluation(field(MessageSchema.XID), null, row(ambiguous, false))
    checkEvaluation(field(MessageSchema.XID), null, row(ambiguous, null))
    checkEvaluation(field(MessageSchema.XID), 780L, row(insertInStream, null))
  }

  test("a wrong in_stream is not corrected") {
    checkExceptionInExpression[PgOutputException](
      whole,
      row(insertInStream, false),
      "INSERT at byte 5 (new, marker): found 0, expected N;"
    )
  }

  test("a malformed message is an error that names the message and the place") {
    val text =
      "[PGOUTPUT_MALFORMED_MESSAGE] INSERT at byte 15 (new, column 2): need 1 byte, got 0; " +
        s"message of 15 bytes: ${broken.replace(" ", "")}. SQLSTATE: 08P01"
    checkExceptionInExpression[PgOutputException](whole, row(broken), text)
    val failFast = withOptions("mode" -> "FAILFAST")
    checkExceptionInExpression[PgOutputException](failFast, row(broken), text)
  }

  test("try_pgoutput_decode gives NULL for a malformed message") {
    val lenient = tryDecode(data, inStream)
    checkEvaluation(lenient, decoded(insert), row(insert))
    Seq(row(broken), row(insertInStream, false), row(latin1))
      .foreach(checkEvaluation(lenient, null, _))
    val both = options("encoding" -> "LATIN1", "mode" -> "PERMISSIVE")
    val origin = field(MessageSchema.ORIGIN, of = tryDecode(data, inStream, both))
    checkEvaluation(origin, "nöde", row(latin1))
  }

  test("a malformed message is NULL with the mode PERMISSIVE") {
    val permissive = withOptions("mode" -> "PERMISSIVE")
    checkEvaluation(permissive, null, row(broken))
    checkEvaluation(permissive, null, row(insertInStream, false))
    checkEvaluation(permissive, decoded(insert), row(insert))
  }

  test("every field of a malformed message is an error") {
    checkExceptionInExpression[PgOutputException](
      field(MessageSchema.RELATION_ID),
      row(broken),
      "INSERT at byte 15"
    )
  }

  test("the option encoding decides how text is read") {
    val origin = field(MessageSchema.ORIGIN, of = withOptions("encoding" -> "LATIN1"))
    checkEvaluation(origin, "nöde", row(latin1))
    checkExceptionInExpression[PgOutputException](whole, row(latin1), "not valid UTF-8")
  }

  test("two decodes in one row do not disturb each other") {
    val second = BoundReference(1, BinaryType, nullable = true)
    val both = CreateStruct(Seq(decode(data), decode(second)))
    val messages = Seq(insert, ambiguous)
    val input = InternalRow(messages.map(Fields.unhex(_)): _*)
    checkEvaluation(both, InternalRow(messages.map(decoded(_)): _*), input)
  }

  test("the type is the struct of a message") {
    assert(whole.dataType == MessageSchema.schema)
    assert(whole.nullable)
  }
}
