package io.sparkpgoutput.errors

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.JavaSerialization

/** What Spark and PySpark need from an exception. */
class PgOutputExceptionSuite extends AnyFunSuite {
  private val invalidLsn = new PgOutputException("PGOUTPUT_INVALID_LSN", "text" -> "x")

  private def malformed(problem: Any) =
    new PgOutputException("PGOUTPUT_MALFORMED_MESSAGE.DECODED", "problem" -> problem)

  test("an exception and its text have the condition without the case, and the SQLSTATE") {
    val error = malformed("some text")
    assert(error.getCondition == "PGOUTPUT_MALFORMED_MESSAGE")
    assert(error.getSqlState == "08P01")
    assert(error.getMessage == "[PGOUTPUT_MALFORMED_MESSAGE] some text. SQLSTATE: 08P01")
    assert(error.sentences == "some text.")
    assert(invalidLsn.getCondition == "PGOUTPUT_INVALID_LSN")
    assert(invalidLsn.getSqlState == "22P02")
    assert(invalidLsn.sentences ==
      "'x' is not an LSN such as 16/B374D848; try_pg_lsn_parse gives NULL instead.")
  }

  test("the SQLSTATE of a server replaces that of the condition") {
    val name = "PGOUTPUT_CONNECTION.CHANGE_NOT_SENT"
    val error = new SourceException(name, "22021", Seq("said" -> "invalid byte sequence"))
    assert(error.getSqlState == "22021")
    assert(error.getMessage.endsWith(" SQLSTATE: 22021"))
  }

  test("the lines of a text are joined with spaces") {
    val error = Errors.source("PGOUTPUT_SLOT_TEMPORARY")
    assert(
      error.sentences == "The slot 'x' is temporary, so only the session that made it can read it. " +
        "Name a slot that is not temporary."
    )
  }

  test("a parameter stays as it is, except that its control characters are escaped") {
    val template = "<problem> $" + "{problem} $1 \\"
    Seq(
      "column 'a\nb'" -> "column 'a\\nb'.",
      template -> s"$template.",
      (null, "null."),
      Some(5) -> "Some(5)."
    ).foreach { case (value, text) => assert(malformed(value).sentences == text) }
  }

  test("an error of the input is not an internal error") {
    assert(!invalidLsn.isInternalError)
  }

  test("an exception goes from an executor to the driver unchanged") {
    Seq(
      invalidLsn,
      Errors.source("PGOUTPUT_SLOT_MOVED"),
      Errors.lake("PGOUTPUT_TARGET_DIFFERS").head
    )
      .foreach { error =>
        val arrived = JavaSerialization.copied(error)
        assert(arrived.getClass == error.getClass)
        assert(arrived.getMessage == error.getMessage)
        assert(arrived.getCondition == error.getCondition)
        assert(arrived.getSqlState == error.getSqlState)
      }
  }
}

class ErrorTextSuite extends AnyFunSuite {

  test("control characters and characters that change the direction of text are escaped") {
    Seq(
      "1\n2026 INFO fake\u001b[31m" -> "1\\n2026 INFO fake\\u001b[31m",
      "a\tb\rc\u0000" -> "a\\tb\\rc\\u0000",
      "\u202egnp.exe\u2066" -> "\\u202egnp.exe\\u2066",
      "line\u2028paragraph\u2029next\u0085" -> "line\\u2028paragraph\\u2029next\\u0085",
      "\ufeffmark\u200fright" -> "\\ufeffmark\\u200fright",
      "half \ud83d" -> "half \\ud83d",
      "\udb40\udc01" -> "\\udb40\\udc01"
    ).foreach { case (raw, escaped) => assert(ErrorText.escape(raw) == escaped) }
  }

  test("other text stays as it is") {
    Seq("", "plain", "nöde '\"\\'", "数据", "😀").foreach(text =>
      assert(ErrorText.escape(text) eq text)
    )
  }

  test("a text ends with one full stop") {
    Seq("text", "text.").foreach(text => assert(ErrorText.sentence(text) == "text."))
  }
}
