package io.sparkpgoutput.errors

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.scalatest.funsuite.AnyFunSuite

/** What Spark and PySpark need of an exception. */
class PgOutputExceptionSuite extends AnyFunSuite {
  private val malformed = new MalformedMessageException("some text")
  private val invalidLsn = new InvalidLsnException("some text")

  test("an exception and its text have the condition and the SQLSTATE") {
    assert(malformed.getCondition == "PGOUTPUT_MALFORMED_MESSAGE")
    assert(malformed.getSqlState == "08P01")
    assert(malformed.getMessage == "[PGOUTPUT_MALFORMED_MESSAGE] some text. SQLSTATE: 08P01")
    assert(invalidLsn.getCondition == "PGOUTPUT_INVALID_LSN")
    assert(invalidLsn.getSqlState == "22P02")
    assert(invalidLsn.getMessage == "[PGOUTPUT_INVALID_LSN] some text. SQLSTATE: 22P02")
  }

  test("an error of the input is not an internal error") {
    assert(!malformed.isInternalError)
    assert(!invalidLsn.isInternalError)
  }

  test("an exception goes from an executor to the driver unchanged") {
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(malformed)
    val arrived = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject
    arrived match {
      case exception: MalformedMessageException =>
        assert(exception.getMessage == malformed.getMessage)
        assert(exception.getCondition == malformed.getCondition)
      case other => fail(s"$other arrived")
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

  test("every exception escapes its text") {
    Seq[String => PgOutputException](
      new MalformedMessageException(_),
      new InvalidLsnException(_),
      new InvalidValueException(_),
      new SchemaMismatchException(_),
      new IncompleteTransactionException(_),
      new CommitWentBackException(_),
      new UnknownRelationException(_),
      new SchemaEvolutionException(_),
      new MessageOrderException(_),
      new InputChangedException(_)
    ).foreach { make =>
      val error = make("column 'a\nb'")
      assert(
        error.getMessage ==
          s"[${error.getCondition}] column 'a\\nb'. SQLSTATE: ${error.getSqlState}"
      )
    }
  }
}
