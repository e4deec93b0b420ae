package io.sparkpgoutput.lake.catalog

import org.scalatest.funsuite.AnyFunSuite

class CatalogSnapshotSuite extends AnyFunSuite {
  private val Epoch = 1L << 32

  test("a snapshot sees the transactions that had ended") {
    val snapshot = CatalogSnapshot.of("100:110:100,103")
    assert((98L to 111L).filter(snapshot.sees) == Seq(
      98, 99, 101, 102, 104, 105, 106, 107, 108, 109
    ))
    assert(CatalogSnapshot.of("7:7:") == CatalogSnapshot(7, 7, Set.empty))
  }

  test("the 32 bits of a message's xid are enough, also around a wraparound") {
    val later = CatalogSnapshot(3 * Epoch + 100, 3 * Epoch + 110, Set(3 * Epoch + 103))
    assert(later.sees(99) && later.sees(109) && !later.sees(103) && !later.sees(110))
    // The transaction is from before the wraparound.
    assert(later.sees(Epoch - 1))
    // The snapshot is from before the wraparound, and the transaction from after it.
    val before = CatalogSnapshot(3 * Epoch - 20, 3 * Epoch - 10, Set(3 * Epoch - 15))
    assert(!before.sees(5) && before.sees(Epoch - 11) && !before.sees(Epoch - 15))
    // A transaction from before the wraparound is in progress.
    val across = CatalogSnapshot(3 * Epoch - 5, 3 * Epoch + 5, Set(3 * Epoch - 5))
    assert(!across.sees(Epoch - 5) && across.sees(Epoch - 4) && across.sees(4) && !across.sees(5))
  }
}
