package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.types.StringType

class DecodeErrorSuite extends MessageFunctionTests {
  private val problem = error(data, inStream)

  private def withOptions(entries: (String, String)*) =
    error(data, inStream, options(entries: _*))

  private val text = "INSERT at byte 15 (new, column 2): need 1 byte, got 0; " +
    s"message of 15 bytes: ${broken.replace(" ", "")}"

  test("a message that decodes gives NULL, and so does NULL") {
    Seq(insert, insertInStream, ambiguous, "", null).foreach { message =>
      checkEvaluation(problem, null, row(message))
    }
    checkEvaluation(error(data), null, row(insert))
  }

  test("a malformed message gives the text of the error, without condition and SQLSTATE") {
    checkEvaluation(problem, text, row(broken))
    checkEvaluation(error(data), text, row(broken))
    assert(problem.dataType == StringType)
  }

  test("in_stream decides how a message is read") {
    checkEvaluation(problem, null, row(insertInStream, true))
    val outside = "INSERT at byte 5 (new, marker): found 0, expected N; message of 20 bytes: " +
      insertInStream.replace(" ", "")
    checkEvaluation(problem, outside, row(insertInStream, false))
  }

  test("the encoding decides which text is valid, and the mode changes nothing") {
    checkEvaluation(withOptions("encoding" -> "latin1"), null, row(latin1))
    Seq("FAILFAST", "PERMISSIVE").foreach { mode =>
      checkEvaluation(withOptions("mode" -> mode), text, row(broken))
      checkEvaluation(withOptions("mode" -> mode), null, row(insert))
    }
  }
}
