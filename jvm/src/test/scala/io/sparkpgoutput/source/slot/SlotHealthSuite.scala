package io.sparkpgoutput.source.slot

import java.time.{Duration, Instant}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.InLocale

import Slots.lsn

class SlotHealthSuite extends AnyFunSuite {
  private val slot = Slots.slot

  private def warnings(state: SlotState) = SlotHealth.warnings(state).map(_.text)

  private def openFor(minutes: Long, process: Int = 7) = slot.copy(oldestTransaction =
    Some(OldestTransaction(s"the process $process", Duration.ofMinutes(minutes)))
  )

  test("the metrics have what the server says, with the decimal point of no locale") {
    val position = lsn("16/B2000000")
    val found = InLocale("de") {
      SlotHealth.metrics(slot.copy(safeWalSize = Some(5)), position, position, None)
    }
    assert(
      found == Map(
        "bytesBehindLatest" -> "16777216",
        "secondsBehindLatest" -> "0.000",
        "confirmedFlushLsn" -> "16/B1000000",
        "restartLsn" -> "16/B0000000",
        "retainedWalBytes" -> "50331648",
        "walStatus" -> "reserved",
        "safeWalSize" -> "5"
      )
    )
  }

  test("a metric that the server does not have is left out, and a lag is never negative") {
    val lost = slot.copy(restartLsn = None, walStatus = None)
    assert(
      SlotHealth.metrics(lost, slot.flushLsn + 1, slot.flushLsn + 2, None) ==
        Map("bytesBehindLatest" -> "0", "confirmedFlushLsn" -> "16/B1000000")
    )
  }

  test("the age of the newest commit is 0 at the end of the WAL, and absent if it is not known") {
    val before = Instant.now.minusSeconds(100)
    def seconds(isBehind: Boolean, newest: Option[Instant]) =
      SlotHealth.metrics(slot, position = 8, end = if (isBehind) 9 else 8, newest)
        .get("secondsBehindLatest").map(_.toDouble)
    assert(seconds(isBehind = false, Some(before)).contains(0.0))
    assert(seconds(isBehind = false, None).contains(0.0))
    assert(seconds(isBehind = true, None).isEmpty)
    assert(seconds(isBehind = true, Some(before)).exists(_ >= 100))
    assert(seconds(isBehind = true, Some(before.plusSeconds(900))).contains(0.0))
  }

  test("a healthy slot gives no warning") {
    assert(warnings(slot).isEmpty)
    assert(warnings(slot.copy(walStatus = Some("extended"))).isEmpty)
    assert(warnings(openFor(59)).isEmpty)
    assert(warnings(slot.copy(safeWalSize = Some(100), maxSlotWalKeepSize = Some(1000))).isEmpty)
  }

  test("each danger gives a warning that names it") {
    val standby = slot.copy(
      holder = Some(SlotHolder(7, "", None, Some("WaitForStandbyConfirmation"))),
      standbySlots = Some("near, far")
    )
    val dangers = Seq(
      slot.copy(walStatus = Some("unreserved")) -> "wal_status unreserved: the server can remove",
      slot.copy(walStatus = Some("lost")) -> "wal_status lost: the server has removed",
      slot.copy(safeWalSize = Some(99), maxSlotWalKeepSize = Some(1000)) -> "after 99 more bytes",
      openFor(61) -> "of the process 7 is open for 61 minutes",
      standby -> "synchronized_standby_slots (near, far)"
    )
    dangers.foreach { case (state, part) =>
      val found = warnings(state)
      assert(found.length == 1 && found.head.contains(part), found)
    }
  }

  test("a warning is logged again only after it changes") {
    val logged = mutable.ArrayBuffer.empty[String]
    val log = new SlotWarnings(logged += _)
    def loggedBy(state: SlotState) = {
      logged.clear()
      log.update(state)
      logged.length
    }
    assert(loggedBy(slot) == 0)
    assert(loggedBy(openFor(61)) == 1)
    assert(loggedBy(openFor(62)) == 0)
    assert(loggedBy(openFor(63, process = 8)) == 1)
    assert(loggedBy(openFor(64, process = 8).copy(walStatus = Some("unreserved"))) == 1)
    assert(loggedBy(slot) == 0)
    assert(loggedBy(openFor(65, process = 8)) == 1)
  }
}
