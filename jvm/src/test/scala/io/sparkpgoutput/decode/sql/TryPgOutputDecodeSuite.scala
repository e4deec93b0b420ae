package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.TypeCheckFailure
import org.apache.spark.sql.catalyst.expressions.GetStructField

import io.sparkpgoutput.protocol.MessageSchema

class TryPgOutputDecodeSuite extends MessageFunctionTests {
  private val decode = new TryPgOutputDecode(data, inStream)

  test("what is decoded is as pgoutput_decode has it") {
    checkEvaluation(decode, decoded(insert), row(insert))
    checkEvaluation(decode, decoded(ambiguous, true), row(ambiguous, true))
    checkEvaluation(new TryPgOutputDecode(data), decoded(insertInStream), row(insertInStream))
    assert(decode.dataType == MessageSchema.schema)
  }

  test("a malformed message is NULL") {
    checkEvaluation(decode, null, row(broken))
    checkEvaluation(decode, null, row(insertInStream, false))
    checkEvaluation(decode, null, row(latin1))
  }

  test("NULL and a message of zero bytes are NULL") {
    Seq(null, "").foreach(message => checkEvaluation(decode, null, row(message, true)))
  }

  test("the encoding can be said, and the mode if it is PERMISSIVE") {
    val both = options("encoding" -> "LATIN1", "mode" -> "PERMISSIVE")
    val origin = GetStructField(TryPgOutputDecode(data, inStream, both), MessageSchema.ORIGIN)
    checkEvaluation(origin, "nöde", row(latin1))
  }

  test("the mode FAILFAST is refused, with a hint") {
    TryPgOutputDecode(data, inStream, options("mode" -> "FAILFAST")).checkInputDataTypes() match {
      case TypeCheckFailure(text) => assert(text.contains("valid are: PERMISSIVE"))
      case other                  => fail(s"$other")
    }
  }
}
