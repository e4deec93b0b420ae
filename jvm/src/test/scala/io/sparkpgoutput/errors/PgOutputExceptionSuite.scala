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
