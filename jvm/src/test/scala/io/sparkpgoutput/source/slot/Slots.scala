package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.Lsn

/** A server, a slot and a source that belong together. */
object Slots {
  val server: Server = Server(
    systemIdentifier = "7710881203549750371",
    timeline = 1,
    database = "shop",
    majorVersion = 18,
    walBlockSize = 8192,
    inRecovery = false,
    started = "2026-01-01 12:00:00+00"
  )

  val slot: SlotState = SlotState(
    name = "lake",
    plugin = Some("pgoutput"),
    database = Some("shop"),
    temporary = false,
    twoPhase = false,
    synced = false,
    restartLsn = Some(lsn("16/B0000000")),
    confirmedFlush = Some(lsn("16/B1000000")),
    walStatus = Some("reserved"),
    safeWalSize = None,
    invalidationReason = None,
    holder = None,
    flushLsn = lsn("16/B3000000"),
    maxSlotWalKeepSize = None,
    oldestTransaction = None,
    standbySlots = None
  )

  val source: SourceIdentity = SourceIdentity(
    id = "2f0c7f7e-0b3c-4c43-8d8c-0c3a4a4f9a35",
    systemIdentifier = server.systemIdentifier,
    timelines = Seq(1),
    database = "shop",
    slot = "lake",
    publications = Map("orders" -> 16402L, "items" -> 16403L),
    firstLsn = lsn("16/B0000000"),
    schema = new StructType
  )

  def lsn(text: String): Long = Lsn.parse(text).get

  /** Returns the condition and the text of the error, if there is one. */
  def failure(check: => Any): Option[(String, String)] =
    try {
      check: Unit
      None
    } catch { case error: SourceException => Some(error.getCondition -> error.getMessage) }
}
