package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructType}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.LoggedTexts

import Slots.{failure, lsn}

class SlotChecksSuite extends AnyFunSuite {
  private val Start = lsn("16/B2000000")

  private def check(
      state: Option[SlotState] = Some(Slots.slot),
      server: Server = Slots.server,
      start: Long = Start
  ): Option[String] =
    failure(SlotChecks.beforeReading(state, server, Slots.source, start)).map(_._1)

  test("a slot that has all transactions from the LSN of the query on can be read") {
    assert(check().isEmpty)
    assert(check(start = Slots.slot.confirmedFlush.get).isEmpty)
    assert(check(start = Slots.slot.flushLsn).isEmpty)
  }

  test("each reason why a slot cannot be read has its condition") {
    val slot = Slots.slot
    val reasons = Seq(
      None -> "PGOUTPUT_SLOT_NOT_FOUND",
      Some(slot.copy(plugin = Some("test_decoding"))) -> "PGOUTPUT_SLOT_PLUGIN",
      Some(slot.copy(plugin = None, database = None)) -> "PGOUTPUT_SLOT_PLUGIN",
      Some(slot.copy(database = Some("other"))) -> "PGOUTPUT_SLOT_DATABASE",
      Some(slot.copy(walStatus = Some("lost"))) -> "PGOUTPUT_SLOT_INVALIDATED",
      Some(slot.copy(invalidationReason = Some("idle_timeout"))) -> "PGOUTPUT_SLOT_INVALIDATED",
      Some(slot.copy(temporary = true)) -> "PGOUTPUT_SLOT_TEMPORARY",
      Some(slot.copy(twoPhase = true)) -> "PGOUTPUT_SLOT_TWO_PHASE",
      Some(slot.copy(confirmedFlush = None)) -> "PGOUTPUT_SLOT_NOT_READY",
      Some(slot.copy(confirmedFlush = Some(Start + 1))) -> "PGOUTPUT_SLOT_MOVED",
      Some(slot.copy(flushLsn = Start - 1)) -> "PGOUTPUT_SERVER_BEHIND"
    )
    reasons.foreach { case (state, condition) =>
      assert(check(state).contains(condition), state)
    }
    assert(check(server =
      Slots.server.copy(systemIdentifier = "17")
    ).contains("PGOUTPUT_OTHER_SERVER"))
    assert(check(server = Slots.server.copy(database = "x")).contains("PGOUTPUT_SLOT_DATABASE"))
  }

  test("a slot that a standby has synchronized can be read only after the promotion") {
    val copy = Some(Slots.slot.copy(synced = true))
    val standby = Slots.server.copy(inRecovery = true)
    assert(check(copy, standby).contains("PGOUTPUT_SLOT_SYNCHRONIZED"))
    assert(check(copy).isEmpty)
  }

  test("a standby that has started again may still replay what was read") {
    val behind = Slots.slot.copy(flushLsn = Start - 1)
    assert(check(Some(behind)).contains("PGOUTPUT_SERVER_BEHIND"))
    assert(check(Some(behind), Slots.server.copy(inRecovery = true)).isEmpty)
  }

  test("a query without a checkpoint needs a slot that exists and is not two-phase") {
    def readable(state: Option[SlotState]) =
      failure(SlotChecks.readable(state, Slots.server, "lake")).map(_._1)
    assert(readable(Some(Slots.slot)).isEmpty)
    assert(readable(None).contains("PGOUTPUT_SLOT_NOT_FOUND"))
    assert(readable(Some(Slots.slot.copy(twoPhase = true))).contains("PGOUTPUT_SLOT_TWO_PHASE"))
  }

  test("LSNs are compared without a sign") {
    val high = Slots.slot.copy(
      confirmedFlush = Some(lsn("7FFFFFFF/0")),
      flushLsn = lsn("80000000/10")
    )
    assert(check(Some(high), start = lsn("80000000/0")).isEmpty)
    assert(check(Some(high), start = lsn("80000000/20")).contains("PGOUTPUT_SERVER_BEHIND"))
    val moved = high.copy(confirmedFlush = Some(lsn("80000000/1")))
    assert(check(Some(moved), start = lsn("7FFFFFFF/0")).contains("PGOUTPUT_SLOT_MOVED"))
  }

  test("the error of an invalidated slot names the setting that prevents it") {
    val settings = Map(
      "wal_removed" -> "max_slot_wal_keep_size",
      "rows_removed" -> "hot_standby_feedback",
      "wal_level_insufficient" -> "wal_level",
      "idle_timeout" -> "idle_replication_slot_timeout"
    )
    settings.foreach { case (reason, setting) =>
      val state = Slots.slot.copy(invalidationReason = Some(reason))
      val text = failure(SlotChecks.readable(Some(state), Slots.server, "lake")).get._2
      assert(text.contains(s"($reason)") && text.contains(setting), text)
      assert(text.contains("after the LSN 16/B1000000 are lost"), text)
    }
  }

  test("a checkpoint belongs to one server, one database and one slot") {
    val source = Slots.source
    def check(server: Server, slot: String) =
      failure(source.check(server, slot, Map.empty)).map(_._1)
    assert(check(Slots.server, "other").contains("PGOUTPUT_OTHER_SLOT"))
    assert(check(Slots.server.copy(database = "x"), "lake").contains("PGOUTPUT_SLOT_DATABASE"))
    assert(check(
      Slots.server.copy(systemIdentifier = "1"),
      "lake"
    ).contains("PGOUTPUT_OTHER_SERVER"))
  }

  test("a query that names other publications than its checkpoint gets a warning") {
    val source = Slots.source
    assert(source.check(Slots.server, "lake", source.publications).isEmpty)
    val warning = source.check(Slots.server, "lake", Map("new" -> 17L, "items" -> 16403L))
    assert(warning.exists(_.contains("publications items, orders of")))
    assert(warning.exists(_.contains("now reads items, new.")))
  }

  test("two sources have the same columns if names and types are equal, whatever the comments") {
    val columns =
      new StructType().add("id", IntegerType).add("name", StringType, true, "varchar(9)")
    val source = Slots.source.copy(schema = columns)
    assert(source.hasColumns(columns))
    assert(source.hasColumns(columns.copy(Array(
      columns(0),
      columns(1).withComment("varchar(10)")
    ))))
    assert(!source.hasColumns(columns.copy(columns.fields.reverse)))
    assert(!source.hasColumns(columns.add("more", StringType)))
    assert(!source.hasColumns(new StructType().add("id", LongType).add("name", StringType)))
  }

  test("a publication that was dropped and made again is an error") {
    val again = failure(Slots.source.checkPublications(Map("items" -> 16403L, "orders" -> 17L)))
    assert(again.map(_._1).contains("PGOUTPUT_PUBLICATION_MADE_AGAIN"))
    assert(again.exists(_._2.contains("'orders' was dropped and made again")))
  }

  test(
    "the versions that were tried are read, a newer one with one warning, and older ones are not"
  ) {
    def warnings(versions: Int*) =
      LoggedTexts.of(classOf[Server])(versions.foreach(Server.checkVersion))
    assert(warnings(14 to 18: _*).isEmpty)
    assert(warnings(19, 19, 20).map(_.take(29)) == Seq("The server has PostgreSQL 19."))
    assert(failure(Server.checkVersion(13)).map(_._1).contains("PGOUTPUT_SERVER_VERSION"))
  }
}
