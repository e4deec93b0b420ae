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

  test("a step is run again after an error that passes by itself, unless it is to stop") {
    val transient = new RuntimeException("ExecutorLostFailure\nat Somewhere")
    var (runs, told) = (0, Seq.empty[String])
    def step(error: Throwable) = {
      runs += 1
      if (runs == 1) throw error else "done"
    }
    def run(error: Throwable, isStopping: Boolean = false) = {
      runs = 0
      new Retries().repeat(() => isStopping, text => told :+= text)(step(error))
    }
    assert(run(transient) == "done")
    assert(told == Seq("ExecutorLostFailure The job tries again in 1 s."))
    assert(intercept[RuntimeException](run(transient, isStopping = true)) eq transient)
    assertThrows[IllegalStateException](run(new IllegalStateException("wrong")))
    assert(runs == 1)
  }
}
