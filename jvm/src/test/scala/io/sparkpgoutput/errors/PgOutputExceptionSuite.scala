package io.sparkpgoutput.errors

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.scalatest.funsuite.AnyFunSuite

/** What Spark and PySpark ask of an exception. */
class PgOutputExceptionSuite extends AnyFunSuite {
  private val malformed = new MalformedMessageException("some text;")
  private val invalidLsn = new InvalidLsnException("some text;")

  test("the condition and the SQLSTATE are told, and are in the text") {
    assert(malformed.getCondition == "PGOUTPUT_MALFORMED_MESSAGE")
    assert(malformed.getSqlState == "08P01")
    assert(malformed.getMessage == "[PGOUTPUT_MALFORMED_MESSAGE] some text; SQLSTATE: 08P01")
    assert(invalidLsn.getCondition == "PGOUTPUT_INVALID_LSN")
    assert(invalidLsn.getSqlState == "22P02")
    assert(invalidLsn.getMessage == "[PGOUTPUT_INVALID_LSN] some text; SQLSTATE: 22P02")
  }

  test("the input is at fault, not Spark") {
    assert(!malformed.isInternalError)
    assert(!invalidLsn.isInternalError)
  }

  test("it comes from an executor to the driver as it is") {
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
