package io.sparkpgoutput.lake.faults

import org.scalatest.funsuite.AnyFunSuite

class RetriesSuite extends AnyFunSuite {
  test("an error is tried again five times, from a second to a minute, and a success begins anew") {
    val retries = new Retries
    val pauses = Seq.fill(6)(retries.next().map(_.toSeconds))
    assert(pauses == Seq(Some(1), Some(4), Some(15), Some(30), Some(60), None))
    retries.succeeded()
    assert(retries.next().map(_.toSeconds) == Some(1))
  }
}
