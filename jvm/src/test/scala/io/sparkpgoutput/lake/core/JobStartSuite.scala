package io.sparkpgoutput.lake.core

import java.time.Instant

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.{Errors, PgOutputException}
import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Excluded, Failed, Live}

class JobStartSuite extends AnyFunSuite {
  private val lsn = 500L
  private val fresh =
    JobState("new", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 0)

  private def table(status: TableStatus, mark: Option[Long] = Some(450)) =
    TableState(
      SimTable(16400, "orders", Vector("id")).definition,
      status,
      generation = 2,
      mark = mark
    )

  private def keeps(table: TableState) = fresh.copy(id = "job", confirmed = lsn).put(table)

  private def found(
      kept: Option[JobState] = Some(keeps(table(Live))),
      confirmed: Option[Long] = Some(lsn),
      marks: Seq[FoundMark] = Seq(mark(450)),
      flush: Long = 1000,
      isInRecovery: Boolean = false
  ) = FoundJob(
    kept,
    confirmed,
    flush,
    isInRecovery,
    marks,
    // The server has left the timeline 9 at 600.
    (kept, lsn) =>
      if (kept.timeline == 9 && lsn > 600) throw Errors.source("PGOUTPUT_TIMELINE.BRANCHED_OFF")
  )

  private def mark(lsn: Long, generation: Int = 2, target: String = "orders", oid: Long = 16400) =
    FoundMark(target, "job", oid, generation, Some(lsn))

  private def start(found: FoundJob) = JobStart.of(fresh, found)

  private def outcome(found: FoundJob): String =
    try {
      val decided = start(found)
      if (decided.needsSlot) "makes the slot"
      else if (decided.state.tables.isEmpty) "takes the slot"
      else decided.state.tables.values.map(_.status.name).mkString
    } catch { case error: PgOutputException => error.getCondition }

  private def status(table: TableState, marks: FoundMark*) =
    start(found(Some(keeps(table)), marks = marks)).state.tables(16400)

  test("each part of a job can be kept or lost") {
    val expected = Map(
      // state, slot, table of the target
      (true, true, true) -> "live",
      (true, true, false) -> "copying",
      (true, false, true) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (true, false, false) -> "PGOUTPUT_SLOT_NOT_FOUND",
      (false, true, true) -> "PGOUTPUT_CHECKPOINT_LOST",
      (false, true, false) -> "takes the slot",
      (false, false, true) -> "PGOUTPUT_CHECKPOINT_LOST",
      (false, false, false) -> "makes the slot"
    )
    expected.foreach { case (parts @ (state, slot, target), end) =>
      val all = found()
      val left = all.copy(
        kept = all.kept.filter(_ => state),
        confirmed = all.confirmed.filter(_ => slot),
        marks = all.marks.filter(_ => target)
      )
      assert(outcome(left) == end, parts)
    }
  }

  test("a target that has none of several tables can be a disk that is not mounted") {
    val other = table(Live).copy(table = SimTable(16401, "seats", Vector("id")).definition)
    def outcomes(kept: JobState, marks: FoundMark*) = outcome(found(Some(kept), marks = marks))
    val both = keeps(table(Live)).put(other)
    val error = intercept[PgOutputException](start(found(Some(both), marks = Nil)))
    assert(error.getCondition == "PGOUTPUT_MARK_LOST")
    assert(error.getMessage.contains("none of the 2 tables"), error.getMessage)
    assert(error.getMessage.contains("spark-pgoutput resync --all"))
    val inIceberg = found(Some(both.copy(format = "iceberg")), marks = Nil)
    val format = intercept[PgOutputException](start(inIceberg))
    assert(format.getCondition == "PGOUTPUT_MARK_LOST", format)
    assert(format.getMessage.contains("Set the option format to iceberg."), format.getMessage)
    // The server says first what is wrong with the slot.
    assert(outcome(found(Some(both), confirmed = None, marks = Nil)) == "PGOUTPUT_SLOT_NOT_FOUND")
    val copying = both.put(other.copying("why")).put(table(Copying("why")))
    assert(outcomes(copying) == "PGOUTPUT_MARK_LOST")
    assert(outcomes(both, mark(450)) == "livecopying")
    // The tables are not known to be gone, or the job has not written them, or not there.
    assert(outcome(found(Some(both), marks = Nil).copy(unread = Set("seats"))) == "copyinglive")
    assert(outcomes(both.put(other.copy(mark = None))) == "copyingcopying")
    assert(outcomes(both.put(other.copy(status = Dropped))) == "copying")
    assert(outcomes(both.copy(target = "elsewhere")) == "copyingcopying")
    // A user can have removed the only table, but hardly a mirror with its history.
    val history = TableMode.Both(TableMode.Mirror, TableMode.History("_"))
    val one = table(Live)
    assert(outcomes(keeps(one.copy(table = one.table.copy(mode = history)))) ==
      "PGOUTPUT_MARK_LOST")
  }

  test("a job with another target starts again before any of its tables is there") {
    val other = table(Live).copy(table = SimTable(16401, "seats", Vector("id")).definition)
    val elsewhere = fresh.copy(target = "elsewhere")
    for (second <- Seq(other, other.copying("why"))) {
      val both = keeps(table(Live)).put(second)
      val first = JobStart.of(elsewhere, found(Some(both), marks = Nil)).state
      assert(first.written.isEmpty)
      assert(first.tables(16400).status.why.get.startsWith("The target was lake before, "))
      val again = JobStart.of(elsewhere, found(Some(first), marks = Nil)).state
      assert(again.tables.values.forall(_.status.isInstanceOf[Copying]))
      // A user can have moved the tables.
      val moved = JobStart.of(elsewhere, found(Some(both), marks = Seq(mark(450)))).state
      assert(moved.tables(16400) == table(Live) && moved.tables(16401).mark.isEmpty)
    }
  }

  test("a job whose folder is lost gets an error that says how to start over") {
    val error = intercept[PgOutputException](start(found(kept = None)))
    assert(error.getMessage.contains("spark-pgoutput resync --all"))
  }

  test("a new job begins where its slot begins") {
    val taken = start(found(None, confirmed = Some(77), marks = Nil))
    assert(taken == JobStart(fresh.copy(confirmed = 77), needsSlot = false))
    assert(JobStart(fresh, needsSlot = true).withSlot(88).state.confirmed == 88)
  }

  test("the session begins at the LSN of the state, also if the slot is below it") {
    assert(start(found(confirmed = Some(lsn - 100))).state.confirmed == lsn)
    assert(outcome(found(confirmed = Some(lsn + 1))) == "PGOUTPUT_SLOT_MOVED")
  }

  test("the server must have what the job and its tables have") {
    assert(outcome(found(flush = lsn - 1)) == "PGOUTPUT_SERVER_BEHIND")
    assert(outcome(found(flush = 600, marks = Seq(mark(601)))) == "PGOUTPUT_SERVER_BEHIND")
    assert(outcome(found(flush = 600, marks = Seq(mark(601)), isInRecovery = true)) == "live")
    def after(mark: FoundMark) =
      outcome(found(Some(keeps(table(Live)).copy(timeline = 9)), marks = Seq(mark)))
    assert(after(mark(600)) == "live")
    assert(after(mark(601)) == "PGOUTPUT_TIMELINE")
  }

  test(
    "after a failover, the generations of all tables with rows are closed before marks are read"
  ) {
    val owned = table(Live)
    def closed(fresh: JobState, kept: JobState) = JobStart.closed(fresh, kept, _ => Some(2))
    assert(closed(fresh, keeps(owned)).isEmpty)
    assert(closed(fresh.copy(timeline = 2), keeps(owned)) == Seq(owned))
    assert(closed(fresh.copy(timeline = 2), keeps(table(Dropped))).isEmpty)
    // Another table has its name in the target now.
    val nameless = owned.copy(table = owned.table.copy(target = ""))
    assert(closed(fresh.copy(timeline = 2), keeps(nameless)).isEmpty)
  }

  test("the generations of a mirror and its history are closed if they differ after a copy") {
    val mode = TableMode.Both(TableMode.Mirror, TableMode.History("_"))
    def both(status: TableStatus) =
      table(status).copy(table = table(status).table.copy(mode = mode))
    def closed(kept: TableState, generations: (String, Int)*) =
      JobStart.closed(fresh, keeps(kept), part => generations.toMap.get(part.target)).nonEmpty
    assert(closed(both(Live), "orders" -> 3, "orders_history" -> 2))
    assert(closed(both(Live), "orders" -> 2, "orders_history" -> 3))
    for (
      (kept, history) <- Seq(
        both(Live) -> Some(3),
        both(Live) -> Some(1), // an older state was restored
        both(Live) -> None,
        both(Copying("why", Some(480))) -> Some(2),
        both(Dropped) -> Some(2)
      )
    ) assert(!closed(kept, ("orders" -> 3) +: history.map("orders_history" -> _).toSeq: _*))
  }

  test("the timeline, the target and the publications are those of this start") {
    val options = fresh.copy(timeline = 2, target = "other", publications = Seq("some"))
    val state = JobStart.of(options, found()).state
    assert(state.timeline == 2 && state.target == "other" && state.publications == Seq("some"))
    assert(state.id == "job" && state.confirmed == lsn)
  }

  test("the mark in the target says what a table has") {
    assert(status(table(Live), mark(450)) == table(Live))
    assert(status(table(Live), mark(700)).mark.contains(700L))
    assert(status(table(Live), mark(700, target = "ORDERS")).mark.contains(700L))
    val closed = status(table(Live), mark(450, generation = 3))
    assert(closed.status == Live && closed.generation == 3)
    for (lost <- Seq(mark(449), mark(450, generation = 1), mark(450, oid = 5)))
      assert(status(table(Live), lost).status.isInstanceOf[Copying], lost)
    assert(status(table(Live)).status.why.get.contains("has no mark"))
  }

  test("the mark says whether the commit of a copy was made") {
    val copying = table(Copying("why", Some(480)))
    assert(status(copying, mark(480)).status == Live)
    assert(status(copying, mark(490)).mark.contains(490L))
    assert(status(copying, mark(480, generation = 1)).status == Copying("why"))
    assert(status(copying).status == Copying("why"))
    assert(status(table(Copying("why")), mark(480)).status == Copying("why"))
  }

  test("the rows of a copy that was committed have the definition of the state") {
    val former = Some(FormerDefinition(SimTable(16400, "orders", Vector("no")).definition, 1))
    val copying = table(Copying("It is new.", Some(470)), None).copy(former = former)
    assert(status(copying, mark(470)).former.isEmpty)
    assert(status(copying, mark(450, generation = 1)).former == former)
  }

  test("a mirror and its history can have different marks, of the same copy") {
    def both(status: TableStatus) = {
      val kept = table(status)
      val mode = TableMode.Both(TableMode.Mirror, TableMode.History("_"))
      kept.copy(table = kept.table.copy(mode = mode))
    }
    def history(lsn: Long, generation: Int = 2) = mark(lsn, generation, "orders_history")
    for ((one, other) <- Seq(700L -> 460L, 460L -> 700L)) {
      val found = status(both(Live), mark(one), history(other))
      assert(found.status == Live && found.mark.contains(460L) && found.ahead.contains(700L))
    }
    assert(status(both(Live), mark(460), history(460)).ahead.isEmpty)
    for (
      lost <- Seq(Seq(mark(460)), Seq(mark(460), history(449)), Seq(mark(460), history(460, 3)))
    ) {
      val found = status(both(Live), lost: _*)
      assert(found.status.why.exists(_.startsWith("The table orders")), lost)
    }
    assert(status(both(Live), mark(460)).status.why.get.startsWith("The table orders_history"))
    // The process was killed between the two commits of a copy.
    val copying = both(Copying("why", Some(480)))
    assert(status(copying, mark(480), history(480)).status == Live)
    assert(status(copying, mark(480), history(470, 1)).status == Copying("why"))
    assert(status(copying, mark(470, 1), history(480)).status == Copying("why"))
    // The server must have all changes of the table that is ahead.
    val ahead = found(Some(keeps(both(Live))), flush = 600, marks = Seq(mark(601), history(450)))
    assert(outcome(ahead) == "PGOUTPUT_SERVER_BEHIND")
  }

  test("a table that has failed, or is dropped or excluded, stays so") {
    def failed(needsCopy: Boolean) = Failed("why", Instant.EPOCH, needsCopy, isLasting = true)
    assert(status(table(failed(needsCopy = true)), mark(900)).status == failed(needsCopy = true))
    assert(status(table(failed(needsCopy = false)), mark(460)).mark.contains(460L))
    assert(status(table(failed(needsCopy = false)), mark(460)).status == failed(needsCopy = false))
    assert(status(table(Dropped), mark(450)) == table(Dropped))
    assert(status(table(Excluded)) == table(Excluded))
  }

  test("the tables of another slot, or of two jobs, are refused") {
    val other = keeps(table(Live)).copy(slot = "other")
    assert(outcome(found(Some(other))) == "PGOUTPUT_OTHER_JOB")
    val error = intercept[PgOutputException](start(found(Some(other))))
    assert(error.getMessage.contains(
      "The checkpoint folder belongs to a job that reads the slot 'other'"
    ))
    val two = Seq(mark(450), mark(450, target = "b").copy(job = "another"))
    assert(outcome(found(marks = two)) == "PGOUTPUT_OTHER_JOB")
  }

  test("if an option changes, the tables with a type that it concerns are copied") {
    val typed = table(Live)
    def typeOf(typeId: Long) = {
      val source = typed.table.source
      typed.copy(table =
        typed.table.copy(source =
          source.copy(columns = source.columns.map(_.copy(typeId = typeId)))
        )
      )
    }
    def reason(typeId: Long, options: JobState, before: String = "null") = JobStart
      .of(options, found(kept = Some(keeps(typeOf(typeId)).copy(infinity = before))))
      .state.tables.values.head.status.why.getOrElse("")
    val (timestamp, text, money) = (1114L, 25L, 790L)
    assert(reason(timestamp, fresh).contains("The option infinity has changed"))
    assert(!reason(timestamp, fresh.copy(infinity = "null")).contains("infinity"))
    assert(
      !reason(timestamp, fresh.copy(infinity = "clamp"), before = "error").contains("infinity"),
      "no row of the target has an infinite value"
    )
    assert(!reason(text, fresh).contains("infinity"))
    assert(reason(money, fresh.copy(infinity = "null", moneyScale = 0)).contains("moneyScale"))
  }

  test("a table that cannot be read goes on from the mark of the state") {
    def unread(status: TableStatus, timeline: Int = 1) = {
      val kept = keeps(table(status)).copy(timeline = timeline)
      start(found(Some(kept), marks = Nil).copy(unread = Set("ORDERS"))).state.tables
    }
    assert(unread(Live).values.toSeq == Seq(table(Live)))
    assert(unread(Dropped).nonEmpty)
    // Its generation is not closed, and an older process can commit what the server has lost.
    assert(unread(Live, timeline = 9).values.map(_.status.name).toSeq == Seq("copying"))
    // Its copy was perhaps not committed.
    val copying = Copying("It is new.", Some(400))
    assert(unread(copying).values.map(_.status).toSeq == Seq(Copying("It is new.")))
  }

  test("a dropped table is forgotten when it is gone from the target, too") {
    def left(status: TableStatus, marks: FoundMark*) =
      start(found(Some(keeps(table(status))), marks = marks)).state.tables.keySet
    assert(left(Dropped, mark(450)) == Set(16400L))
    assert(left(Dropped).isEmpty && left(Dropped, mark(450, oid = 16401)).isEmpty)
    assert(left(Excluded) == Set(16400L) && left(Live) == Set(16400L))
  }

  test("a dropped table with hidden columns is forgotten only when the server does not have it") {
    val shown = table(Dropped)
    val source = shown.table.source.hiding(_ => false, _ => Some("salt"))
    val hiding = found(
      Some(keeps(shown.copy(table = shown.table.copy(source = source)))),
      marks = Nil
    )
    assert(start(hiding).state.tables.nonEmpty)
    val gone = hiding.copy(gone = Set(16400L))
    assert(start(gone).state.tables.isEmpty)
    assert(start(gone.copy(marks = Seq(mark(450)))).state.tables.nonEmpty)
  }
}
