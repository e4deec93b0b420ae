package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.types.StringType

class PgOutputErrorSuite extends MessageFunctionTests {
  private val error = new PgOutputError(data, inStream)

  private def withOptions(entries: (String, String)*) =
    PgOutputError(data, inStream, options(entries: _*))

  private val text = "INSERT at byte 15 (new, column 2): need 1 byte, got 0; " +
    s"message of 15 bytes: ${broken.replace(" ", "")}"

  test("NULL where the message decodes, and where there is none") {
    Seq(insert, insertInStream, ambiguous, "", null).foreach { message =>
      checkEvaluation(error, null, row(message))
    }
    checkEvaluation(new PgOutputError(data), null, row(insert))
  }

  test("the text of the error where it does not, without condition and SQLSTATE") {
    checkEvaluation(error, text, row(broken))
    checkEvaluation(new PgOutputError(data), text, row(broken))
    assert(error.dataType == StringType)
  }

  test("in_stream decides") {
    checkEvaluation(error, null, row(insertInStream, true))
    val outside = "INSERT at byte 5 (new, marker): found 0, not N; message of 20 bytes: " +
      insertInStream.replace(" ", "")
    checkEvaluation(error, outside, row(insertInStream, false))
  }

  test("the encoding decides, the mode changes nothing") {
    checkEvaluation(withOptions("encoding" -> "latin1"), null, row(latin1))
    Seq("FAILFAST", "PERMISSIVE").foreach { mode =>
      checkEvaluation(withOptions("mode" -> mode), text, row(broken))
      checkEvaluation(withOptions("mode" -> mode), null, row(insert))
    }
  }
}
