package io.sparkpgoutput.source.session

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.source.slot.Slots.lsn

class SessionStartSuite extends AnyFunSuite {
  test("a batch that ends above the WAL of the server has a warning with both LSNs") {
    def warning(flushLsn: String) =
      SessionStart.missingWal("lake", lsn("16/B3000000"), lsn(flushLsn))
    assert(warning("16/B3000000").isEmpty)
    assert(warning("80000000/0").isEmpty) // LSNs have no sign
    val text = warning("16/B2000000").get
    assert(text.contains("ends at the LSN 16/B3000000") && text.contains("ends at 16/B2000000"))
    assert(text.contains("SELECT pg_switch_wal()"))
  }
}
