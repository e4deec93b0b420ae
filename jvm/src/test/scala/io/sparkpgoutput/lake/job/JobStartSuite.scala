package io.sparkpgoutput.lake.job

import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.apply.WaitingChanges
import io.sparkpgoutput.lake.resync.FoundWaiting
import io.sparkpgoutput.lake.state.{
  JobState,
  MarkedTable,
  SlotIdentity,
  TableState,
  TableStatus,
  TargetMarks
}
import io.sparkpgoutput.lake.table.{MirroredTable, ReplicaIdentity, SourceTable, TableMode}
import io.sparkpgoutput.types.registry.TypeRegistry

class JobStartSuite extends AnyFunSuite {
  private val source = SlotIdentity("7", "shop", "lake")
  private val id = "11111111-2222-3333-4444-555555555555"
  private val first = 100L
  private val end = 500L

  private def job(end: Option[Long]) = JobState(id, "7", "shop", "lake", first, end)

  private def state(mark: Long) = TableState(
    MirroredTable(
      SourceTable(
        16400,
        TableName("public", "orders"),
        Nil,
        Nil,
        Nil,
        ReplicaIdentity.Default,
        SourceTable.Operations,
        None,
        1,
        isPartitioned = false,
        Nil,
        1
      ),
      "orders",
      new StructType,
      TypeRegistry()
    ),
    Map.empty,
    1,
    TableStatus.Live,
    Some(mark),
    None
  )

  private def marked(mark: Option[Long]) = MarkedTable("orders", id, 16400, 1, mark)

  /** How a job with one live table starts if some of its parts are lost. */
  private def start(checkpoint: Boolean, slot: Boolean, kept: Boolean, table: Boolean): String =
    outcome(
      FoundState(
        source,
        checkpoint,
        Option.when(slot)(end - 50),
        Option.when(kept)((job(Some(end)), Seq(state(end)))),
        Option.when(table)(marked(Some(end))).toSeq
      )
    )

  private def outcome(found: FoundState): String =
    try {
      val start = JobStart.of(found)
      if (start.needsSlot) "makes the slot"
      else if (start.lostState.nonEmpty) "finds the state anew"
      else if (start.job.end.isEmpty) "takes the slot"
      else "goes on"
    } catch { case error: LakeException => error.getCondition }

  test("each part of a job can be kept or lost") {
    val expected = Map(
      // checkpoint, slot, state table, marked table
      (true, true, true, true) -> "goes on",
      (true, true, true, false) -> "PGOUTPUT_MARK_LOST",
      (true, true, false, true) -> "finds the state anew",
      (true, true, false, false) -> "PGOUTPUT_MARK_LOST",
      (true, false, true, true) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (true, false, true, false) -> "PGOUTPUT_MARK_LOST",
      (true, false, false, true) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (true, false, false, false) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (false, true, true, true) -> "goes on",
      (false, true, true, false) -> "PGOUTPUT_MARK_LOST",
      (false, true, false, true) -> "finds the state anew",
      (false, true, false, false) -> "takes the slot",
      (false, false, true, true) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (false, false, true, false) -> "PGOUTPUT_MARK_LOST",
      (false, false, false, true) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (false, false, false, false) -> "makes the slot"
    )
    expected.foreach { case (parts @ (checkpoint, slot, kept, table), outcome) =>
      assert(start(checkpoint, slot, kept, table) == outcome, parts)
    }
  }

  test("a catalog can keep the name of a table in lower case") {
    val live = state(end)
    val mixed = live.copy(table = live.table.copy(target = "Orders"))
    val found = FoundState(
      source,
      hasCheckpoint = true,
      Some(end),
      Some((job(Some(end)), Seq(mixed))),
      Seq(marked(Some(end + 7)))
    )
    assert(JobStart.of(found).tables.map(_.mark) == Seq(Some(end + 7)))
  }

  private def withoutCheckpoint(
      confirmed: Long,
      kept: Option[(JobState, Seq[TableState])],
      marks: Option[Long]*
  ) = outcome(FoundState(source, hasCheckpoint = false, Some(confirmed), kept, marks.map(marked)))

  test("before the first micro-batch, the slot must be where the job took it") {
    val copied = Some((job(None), Seq(state(150))))
    assert(withoutCheckpoint(first, copied, Some(150L)) == "takes the slot")
    assert(withoutCheckpoint(first + 1, copied, Some(150L)) == "PGOUTPUT_SLOT_MOVED")
    assert(withoutCheckpoint(first - 1, copied, Some(150L)) == "PGOUTPUT_SLOT_MOVED")
  }

  test("later, the slot must not be above the end of the job and all marks") {
    val kept = Some((job(Some(end)), Seq(state(300))))
    assert(withoutCheckpoint(end, kept, Some(300L)) == "goes on")
    assert(withoutCheckpoint(end + 1, kept, Some(300L)) == "PGOUTPUT_SLOT_MOVED")
    assert(withoutCheckpoint(end + 1, kept, Some(end + 1)) == "goes on")
  }

  test("without the job's row, the slot must not be above the least mark") {
    assert(withoutCheckpoint(300, None, Some(300L), Some(end)) == "finds the state anew")
    assert(withoutCheckpoint(301, None, Some(300L), Some(end)) == "PGOUTPUT_SLOT_MOVED")
  }

  test("a mark below the one that was read before is an error") {
    val kept = Some((job(Some(end)), Seq(state(end))))
    val found = FoundState(source, hasCheckpoint = true, Some(1L), kept, Seq(marked(Some(end - 1))))
    assert(outcome(found) == "PGOUTPUT_MARK_LOST")
  }

  test("a table that is copied again has the mark of its new generation, or none yet") {
    val waiting =
      state(300).copy(status = TableStatus.Waiting("A resync was requested."), generation = 2)
    def mark(generation: Int) = {
      val found = marked(Some(400)).copy(generation = generation)
      val kept = Some((job(Some(end)), Seq(waiting)))
      val start =
        JobStart.of(FoundState(source, hasCheckpoint = true, Some(first), kept, Seq(found)))
      assert(start.tables.map(_.status) == Seq(waiting.status))
      start.tables.head.mark
    }
    assert(mark(generation = 1).contains(300L))
    assert(mark(generation = 2).contains(400L))
    val live = Some((job(Some(end)), Seq(state(300).copy(generation = 2))))
    assert(
      outcome(
        FoundState(source, hasCheckpoint = true, Some(1L), live, Seq(marked(Some(400))))
      ) == "PGOUTPUT_MARK_LOST"
    )
  }

  test("without a checkpoint, the mark of a copy does not tell what the stream has reached") {
    val copied = state(end + 9).copy(generation = 2, copied = Some(end + 9))
    val kept = Some((job(Some(end)), Seq(copied)))
    def found(mark: Long) = FoundState(
      source,
      hasCheckpoint = false,
      Some(end + 9),
      kept,
      Seq(marked(Some(mark)).copy(generation = 2))
    )
    assert(outcome(found(end + 9)) == "PGOUTPUT_SLOT_MOVED")
    assert(outcome(found(end + 10)) == "goes on")
    // A job was killed before its state had the first copy.
    val copying = state(0).copy(status = TableStatus.Copying, mark = None)
    val first = FoundState(
      source,
      hasCheckpoint = true,
      Some(1L),
      Some((job(None), Seq(copying))),
      Seq(marked(Some(end)))
    )
    assert(JobStart.of(first).tables.map(_.copied) == Seq(Some(end)))
  }

  test("a mark of another source table does not tell that a table is copied") {
    val copying = state(0).copy(status = TableStatus.Copying, mark = None)
    val ofDropped = marked(Some(end)).copy(oid = copying.oid - 1)
    val found =
      FoundState(source, true, Some(1L), Some((job(None), Seq(copying))), Seq(ofDropped))
    assert(JobStart.of(found).tables == Seq(copying))
  }

  test("a table whose changes wait is not live if the state was lost") {
    val table = state(300).table
    def status(generations: Int*) = {
      val waiting = generations.map(FoundWaiting("waiting", 16400, _))
      val rebuilt = JobStart.rebuilt(job(Some(end)), marked(Some(300)), Seq(table), waiting)
      (rebuilt.status.name, rebuilt.isWaiting, rebuilt.generation)
    }
    assert(status() == (("live", false, 1)))
    assert(status(2) == (("copying", true, 2)))
    assert(status(1, 2) == (("copying", true, 2)))
    assert(status(1) == (("copying", true, 1)))
  }

  test("a table without a mark is copied if its state was lost, also when the stream runs") {
    val tables = Seq(state(300).table)
    def status(end: Option[Long], stopped: Option[String]) =
      JobStart.rebuilt(job(end), marked(None).copy(stopped = stopped), tables, Nil).status
    assert(status(None, None) == TableStatus.Copying)
    assert(status(Some(end), None) == TableStatus.Waiting("The state of the job was lost."))
    assert(status(Some(end), Some("It differs.")) == TableStatus.Stopped("It differs."))
  }

  test("a job that was killed before the first mark begins again with the same UUID") {
    val found = FoundState(
      source,
      hasCheckpoint = false,
      Some(first + 7),
      Some((job(None), Seq(state(0).copy(status = TableStatus.Copying, mark = None)))),
      Seq(marked(None))
    )
    val start = JobStart.of(found)
    assert(start.job == job(None).copy(firstLsn = first + 7))
    assert(!start.needsSlot)
  }

  test("the tables of another slot, or of two jobs, are refused") {
    val other = job(Some(end)).copy(slot = "other")
    assert(
      outcome(FoundState(source, hasCheckpoint = true, Some(1L), Some((other, Nil)), Nil)) ==
        "PGOUTPUT_OTHER_JOB"
    )
    val two = Seq(marked(Some(1)), marked(Some(1)).copy(target = "b", job = "another"))
    assert(
      outcome(FoundState(source, hasCheckpoint = true, Some(1L), None, two)) == "PGOUTPUT_OTHER_JOB"
    )
  }

  test("a history that the job has left is not the state of the one that follows it") {
    val left = marked(Some(end)).copy(stopped = Some("The job began anew without it."))
    val next = marked(Some(end - 9)).copy(target = "orders_2")
    def lost(marked: MarkedTable*) =
      JobStart.of(FoundState(source, hasCheckpoint = true, Some(1L), None, marked)).lostState
    assert(lost(left, next) == Seq(next))
    assert(lost(left) == Seq(left))
  }

  test("what a job writes into its tables is the same for ever") {
    val history = state(300)
    val table = history.copy(table = history.table.copy(mode = TableMode.History("cdc_")))
    val expected = Map(
      "version" -> "1",
      "system-identifier" -> "7",
      "database" -> "shop",
      "slot" -> "lake",
      "job" -> id,
      "table-oid" -> "16400",
      "generation" -> "1",
      "mode" -> "history",
      "history-prefix" -> "cdc_"
    ).map { case (name, value) => s"spark-pgoutput.$name" -> value }
    assert(TargetMarks.properties(job(None), table) == expected)
    assert(TargetMarks.mode(expected) == table.table.mode)
    assert(table.markName(job(None)).toString == s"spark-pgoutput-$id-16400-1")
    assert(table.waitingName == "_spark_pgoutput_waiting_16400_1")
    assert(
      WaitingChanges.schema.toDDL == "batch_end BIGINT,definition INT,lsn BIGINT,ordinal BIGINT," +
        "transaction BINARY,message BINARY,types ARRAY<BINARY>"
    )
  }
}
