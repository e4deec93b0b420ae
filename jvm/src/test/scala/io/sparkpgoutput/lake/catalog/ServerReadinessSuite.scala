package io.sparkpgoutput.lake.catalog

import org.scalatest.funsuite.AnyFunSuite

class ServerReadinessSuite extends AnyFunSuite {
  private def isReady(level: String, effective: Option[String], isStandby: Boolean = false) =
    ServerReadiness.walLevel(level, effective, isStandby).isEmpty

  test("before PostgreSQL 19, wal_level must be logical") {
    assert(isReady("logical", None))
    assert(!isReady("replica", None) && !isReady("minimal", None))
  }

  test(
    "from PostgreSQL 19 on, the first slot of a server with wal_level replica raises the level"
  ) {
    for (level <- Seq("replica", "logical"); effective <- Seq("replica", "logical"))
      assert(isReady(level, Some(effective)))
    assert(!isReady("minimal", Some("minimal")))
  }

  test("from PostgreSQL 19 on, a standby has the level of its primary server") {
    assert(isReady("replica", Some("logical"), isStandby = true))
    assert(!isReady("logical", Some("replica"), isStandby = true))
  }
}
