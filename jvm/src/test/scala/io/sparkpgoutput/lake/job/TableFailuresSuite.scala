package io.sparkpgoutput.lake.job

import java.io.{FileNotFoundException, IOException, UncheckedIOException}
import java.net.{SocketException, UnknownHostException}
import java.nio.file.Files
import java.sql.SQLException

import scala.util.Try

import org.apache.spark.SparkException
import org.apache.spark.sql.AnalysisException

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.LoggedTexts
import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.Errors
import io.sparkpgoutput.lake.catalog.TableError
import io.sparkpgoutput.lake.core.{JobState, TableFailure}
import io.sparkpgoutput.lake.folder.{JobFolder, TestFileSystems}
import io.sparkpgoutput.lake.target.TargetError
import io.sparkpgoutput.source.connection.{ConnectionError, ServerAddress}

class TableFailuresSuite extends AnyFunSuite {
  private val server = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
  private val conflict = TargetError.conflict("orders", new RuntimeException("compacted"))
  private val otherMark =
    Errors.lake("PGOUTPUT_OTHER_JOB.OTHER_MARK", "PGOUTPUT_OTHER_JOB.COPIED_AGAIN")

  private def ofServer(state: String) =
    ConnectionError.of(new SQLException("The server says no.", state), server)

  private def inTask(cause: Throwable) =
    new SparkException("Job aborted due to stage failure", new RuntimeException("A task.", cause))

  /** Checks the kind of errors, which is the same in a task and in the driver. */
  private def assertKind(kind: TableFailure.Kind)(errors: Throwable*) =
    errors.flatMap(error => Seq(error, inTask(error))).foreach { error =>
      assert(TableFailures.of(error).kind == kind, error)
      assert(!TableFailures.endsJob(error), error)
    }

  test("a text that quotes a large value is cut, because the state has to be read again") {
    val long = new RuntimeException("x" * 1999 + "💎" * 10000)
    val text = TableFailures.text(long)
    assert(text == "x" * 1999 + "…")
    assert(TableFailures.of(new RuntimeException("💎" * 5000)).text == "💎" * 1000 + "…")
    assert(TableFailures.text(new RuntimeException("y" * 2000)) == "y" * 2000)
  }

  test("a table waits, and stays live, for what passes by itself") {
    assertKind(TableFailure.Waits)(Errors.lake("PGOUTPUT_COPY_INTERRUPTED"): _*)
    assertKind(TableFailure.Waits)(
      conflict,
      new SparkException("ExecutorLostFailure (executor 1 exited)"),
      new SparkException("Executor heartbeat timed out after 120000 ms"),
      new SparkException("Checkpoint block rdd_1_0 not found!"),
      new SocketException("Connection reset"),
      new UnknownHostException("store.example.org"),
      new IOException("503 Slow Down"),
      // As HiveExternalCatalog throws it if the metastore does not answer.
      new AnalysisException(
        "_LEGACY_ERROR_TEMP_3065",
        Map("clazz" -> "TException", "msg" -> "timed out"),
        Some(new IOException("timed out"))
      )
    )
  }

  test("a search through causes that form a circle ends") {
    val outer = new RuntimeException("outer")
    outer.initCause(new RuntimeException("inner", outer))
    assertKind(TableFailure.Retried)(outer)
  }

  test("the SQLSTATE of an error of the server says whether it passes by itself") {
    // Connections, logins, resources that are used up, and what an administrator, a crash or a disk ends.
    val passing =
      Seq("08000", "08006", "28P01", "53100", "53300", "57014", "57P01", "57P03", "58030")
    assertKind(TableFailure.Waits)(passing.map(ofServer): _*)
    assertKind(TableFailure.Lasting)(Seq("3D000", "22012", "22023").map(ofServer): _*)
    val retried = Seq("42501", "42P01", "55006", "XX000")
    assertKind(TableFailure.Retried)(retried.map(ofServer): _*)
    assert((passing ++ retried).map(ofServer).forall(TableFailures.mayPass))
    val ended =
      Seq(ofServer("3D000"), Errors.source("PGOUTPUT_SLOT_MOVED"), new OutOfMemoryError)
    assert(!ended.exists(TableFailures.mayPass))
    assertKind(TableFailure.Retried)(new SQLException("of somebody else's database", "08006"))
  }

  test(
    "a copy that gets no slot waits for the server, and is tried again if all slots are in use"
  ) {
    def ofSlot(state: String) =
      ConnectionError.ofCreation(new SQLException("The server says no.", state), server, "copy")
    val passing = Seq("08006", "40001", "53100", "53200", "57014", "57P01", "58030")
    assertKind(TableFailure.Waits)(passing.map(ofSlot): _*)
    Seq("53400", "42602").map(ofSlot).foreach { refused =>
      assert(refused.getCondition == "PGOUTPUT_SLOT_NOT_CREATED")
      assertKind(TableFailure.Retried)(refused)
    }
  }

  test("missing rights and unknown errors stop a table, and the job tries again") {
    assertKind(TableFailure.Retried)(
      Errors.lake(
        "PGOUTPUT_SOURCE_NOT_READY.ONE",
        "PGOUTPUT_TARGET_NOT_WRITABLE",
        "PGOUTPUT_TARGET_LOG_LOST"
      ): _*
    )
    assertKind(TableFailure.Retried)(
      new AnalysisException("TABLE_OR_VIEW_NOT_FOUND", Map("relationName" -> "orders"), None),
      new FileNotFoundException("part-00000.parquet"),
      new SparkException("Something else", null),
      new RuntimeException(null: String)
    )
  }

  test("a table stops until its user corrects a value, a type, a name or a drift") {
    assertKind(TableFailure.Lasting)(
      Errors.lake(
        "PGOUTPUT_TARGET_DIFFERS",
        "PGOUTPUT_INVALID_VALUE.IN_REPLICATED_CHANGE",
        "PGOUTPUT_INVALID_VALUE.IN_COPY",
        "PGOUTPUT_TARGET_TYPE",
        "PGOUTPUT_TARGET_NAME.TABLE",
        "PGOUTPUT_TARGET_EXISTS.FOREIGN_TABLE"
      ): _*
    )
  }

  test(
    "an error of the code that handles an error of a table ends the job only if it is the job's"
  ) {
    def ended(error: Throwable): Option[Throwable] = {
      val parts =
        new JobParts(null, ReplicateOptions(), null, null, null, null, new SharedCore(null))
      Try(parts.unlessEnding(null, new RuntimeException("The commit failed."))(throw error)): Unit
      parts.error
    }
    val takenOver = Errors.lake("PGOUTPUT_OTHER_JOB.TAKEN_OVER").head
    val slot = Errors.source("PGOUTPUT_SLOT_NOT_FOUND.OF_JOB")
    assert(ended(takenOver).contains(takenOver) && ended(slot).contains(slot))
    assert(ended(new RuntimeException("The table cannot be looked at.")).isEmpty)
  }

  test("a job that ends because of a table ends with the reason, and not with an older error") {
    val parts = new JobParts(null, ReplicateOptions(), null, null, null, null, new SharedCore(null))
    def text(reason: String) = TableFailures.text(parts.stopError(1, reason))
    assert(text("It has no key.").contains("It has no key."))
    val error = Errors.lake("PGOUTPUT_MARK_LOST.NO_MARK").head
    parts.lastErrors.put(1, inTask(error))
    val known = error.getMessage
    for (reason <- Seq(known, s"$known Run spark-pgoutput resync."))
      assert(parts.stopError(1, reason) == parts.lastErrors.get(1L))
    // The catalog says later that the table cannot be copied.
    assert(text("It has no key.").contains("It has no key."))
    parts.committed(1, 1)
    assert(parts.lastErrors.isEmpty)
  }

  test("only a newer epoch says that another process has taken over") {
    val path = Files.createTempDirectory("replaced").resolve("job")
    val folder = new JobFolder(s"stores://$path", TestFileSystems.configuration)
    val state = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 1)
    val parts =
      new JobParts(null, ReplicateOptions(), null, null, folder, null, new SharedCore(null))
    assert(folder.take(1, state))
    parts.epoch = 1
    parts.checkEpoch()
    parts.end(otherMark.head)
    assert(!parts.isReplaced, "the process can still write its state")
    assert(folder.take(2, state))
    assert(Try(parts.checkEpoch()).isFailure && parts.isReplaced)
  }

  test(
    "a copy corrects unknown changes, changes without a key, a lost mark, and the mark of another process"
  ) {
    val changed = Errors.lake(
      "PGOUTPUT_TABLE_CHANGED.UNDESCRIBED",
      "PGOUTPUT_SCHEMA_EVOLUTION.REPLICATED_TYPE",
      "PGOUTPUT_MARK_LOST.NO_MARK",
      "PGOUTPUT_MARK_LOST.OLDER_ROWS"
    ) :+ TableError.keyNotSent(TableName("public", "orders"))
    assertKind(TableFailure.NeedsCopy)(changed ++ otherMark: _*)
    (changed.map(_ -> true) ++ otherMark.map(_ -> false)).foreach { case (error, expected) =>
      assert(TableFailures.needsCopy(inTask(error)) == expected, error)
      assert(TableFailures.isOtherMark(inTask(error)) != expected, error)
    }
    assert(!TableFailures.isOtherMark(conflict) && !TableFailures.needsCopy(conflict))
  }

  test("an error of the server or of the slot ends the job, whichever table meets it") {
    val ending = Seq(
      "PGOUTPUT_SLOT_MOVED",
      "PGOUTPUT_SERVER_BEHIND",
      "PGOUTPUT_PUBLICATION_NOT_FOUND.AT_START"
    ).map(Errors.source)
    (ending ++ ending.map(inTask)).foreach(error => assert(TableFailures.endsJob(error), error))
    // Another session on the slot will end, and a wrong option is not an error of the slot.
    val others =
      Seq("PGOUTPUT_SLOT_IN_USE.BY_ANOTHER", "PGOUTPUT_SOURCE_OPTION.INVALID").map(Errors.source)
    others.foreach(error => assert(!TableFailures.endsJob(error), error))
  }

  test("the text is that of the most informative error, without Spark's stack frames") {
    val differs = Errors.lake("PGOUTPUT_TARGET_DIFFERS").head
    assert(TableFailures.of(inTask(differs)).text == differs.getMessage)
    assert(TableFailures.isKnown(inTask(differs)))
    val unknown = new RuntimeException("It broke.\n  at Store.write")
    assert(TableFailures.of(unknown).text == "It broke.")
    assert(!TableFailures.isKnown(unknown))
    assert(TableFailures.of(new RuntimeException(null: String)).text.nonEmpty)
    assert(TableFailures.of(new RuntimeException("")).text.nonEmpty)
  }

  test("an error of a store has the text of the store and no stack, also in a task") {
    val away = inTask(new UncheckedIOException("closed", new IOException("The store is away.")))
    assert(TableFailures.of(away).text == "The store is away.")
    assert(!TableFailures.needsStack(away) && TableFailures.needsStack(new RuntimeException("?")))
    assert(!TableFailures.needsStack(Errors.lake("PGOUTPUT_TARGET_DIFFERS").head))
  }

  test("a circle of causes does no harm") {
    val first = new RuntimeException("one")
    val second = new RuntimeException("two", first)
    first.initCause(second)
    assert(TableFailures.of(second) == TableFailure(TableFailure.Retried, "two"))
  }

  test("the same problem of a table is reported again after a commit or a copy, and not before") {
    val log = new JobLog
    val orders = TableName("public", "orders")
    def fail() = log.failed(orders, TableFailure(TableFailure.Lasting, "The disk is full."))
    def lines = log.take().count(_.contains("The disk is full."))
    fail()
    fail()
    assert(lines == 1)
    log.copied(orders, "Copied public.orders.")
    fail()
    assert(lines == 1)
    log.committed(orders, 1, 0, System.nanoTime())
    fail()
    assert(lines == 1)
  }

  test("the attempts of a copy that waits are one copy") {
    val log = new JobLog
    val orders = TableName("public", "orders")
    def copies(kinds: TableFailure.Kind*) = {
      log.copying(orders)
      kinds.foreach { kind =>
        log.failed(orders, TableFailure(kind, "The store is away."))
        log.copying(orders)
      }
      log.copied(orders, "Copied public.orders.")
      log.take().count(_ == "Copying public.orders.")
    }
    assert(copies(TableFailure.Waits, TableFailure.Waits) == 1)
    assert(copies(TableFailure.Retried, TableFailure.Waits) == 2)
  }

  test("an event of a table whose name has the end of a line is one line") {
    val log = new JobLog
    val odd = TableName("public", "new\nline")
    log.copying(odd)
    log.failed(odd, TableFailure(TableFailure.Lasting, "The disk is full."))
    log.committed(odd, 1, 0, System.nanoTime())
    val lines = log.take()
    assert(lines.length == 3 && lines.forall(_.contains("public.new\\nline")), lines)
    assert(!lines.exists(_.contains('\n')), lines)
  }

  test("one thing is not several things") {
    assert(Seq(0L, 1L, 2L).map(JobLog.counted(_, "row")) == Seq("0 rows", "1 row", "2 rows"))
  }

  test(
    "an error that ends the job has no line of its own, and has a stack only if it is not known"
  ) {
    val known = Errors.lake("PGOUTPUT_COMMIT_CONFLICT").head
    val log = new JobLog
    val texts = LoggedTexts.of(classOf[JobLog]) {
      log.ended("The job has ended", known)
      log.ended("The job has ended", new RuntimeException("of somebody else"))
    }
    assert(texts == Seq(s"The job has ended. ${known.getMessage}", "The job has ended"))
    assert(log.take().isEmpty)
  }
}
