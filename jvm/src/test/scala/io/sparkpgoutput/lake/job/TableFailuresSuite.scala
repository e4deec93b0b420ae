package io.sparkpgoutput.lake.job

import java.io.{FileNotFoundException, IOException}
import java.net.{SocketException, UnknownHostException}
import java.sql.SQLException

import org.apache.spark.SparkException
import org.apache.spark.sql.AnalysisException

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.TableError
import io.sparkpgoutput.lake.copy.CopyError
import io.sparkpgoutput.lake.core.TableFailure
import io.sparkpgoutput.lake.target.{CommitConflict, TargetError}
import io.sparkpgoutput.lake.{ApplyError, LakeError}
import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.{ConnectionError, ServerAddress}
import io.sparkpgoutput.source.slot.SlotError

class TableFailuresSuite extends AnyFunSuite {
  private val orders = TableName("public", "orders")
  private val server = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
  private val conflict = new CommitConflict("orders", new RuntimeException("compacted"))
  private val otherMark =
    Seq(TargetError.otherJob("orders", Some(1), Some(2)), TargetError.copiedAgain("orders"))

  private def ofServer(state: String) =
    ConnectionError.of(new SQLException("The server says no.", state), server)

  private def inTask(cause: Throwable) =
    new SparkException("Job aborted due to stage failure", new RuntimeException("A task.", cause))

  /** An error that a task meets means the same as one that the driver meets. */
  private def assertKind(kind: TableFailure.Kind)(errors: Throwable*) =
    errors.flatMap(error => Seq(error, inTask(error))).foreach { error =>
      assert(TableFailures.of(error).kind == kind, error)
      assert(!TableFailures.endsJob(error), error)
    }

  test("a table waits, and stays live, for what passes by itself") {
    assertKind(TableFailure.Waits)(
      conflict,
      CopyError.interrupted(orders, "it gives way."),
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

  test("the SQLSTATE of an error of the server says whether it passes by itself") {
    // Connections, logins, resources that are used up, and what an administrator, a crash or a disk ends.
    val passing =
      Seq("08000", "08006", "28P01", "53100", "53300", "57014", "57P01", "57P03", "58030")
    assertKind(TableFailure.Waits)(passing.map(ofServer): _*)
    val lasting = Seq("42P01", "3D000", "22023", "55006", "XX000")
    assertKind(TableFailure.Lasting)(lasting.map(ofServer): _*)
    assertKind(TableFailure.Passing)(new SQLException("of somebody else's database", "08006"))
  }

  test("missing rights and unknown errors stop a table, and the job tries again") {
    assertKind(TableFailure.Passing)(
      ofServer("42501"),
      TableError.notReady(Seq("The role cannot read public.orders.")),
      TargetError.notWritable("orders", new RuntimeException("403")),
      new AnalysisException("TABLE_OR_VIEW_NOT_FOUND", Map("relationName" -> "orders"), None),
      new FileNotFoundException("part-00000.parquet"),
      new SparkException("Something else", null),
      new RuntimeException(null: String)
    )
  }

  test("a table stops until its user corrects a value, a type, a name or a drift") {
    assertKind(TableFailure.Lasting)(
      ApplyError.targetDiffers(orders, "the row is there already"),
      ApplyError.invalidValue(orders, "day", "infinity"),
      ApplyError.keyNotSent(orders),
      CopyError.invalid("infinity", orders, "day"),
      TargetError.columnType("The column p has no type."),
      TargetError.name("Two tables have one name."),
      LakeError.foreignTable("lake.orders", orders, "orders_2")
    )
  }

  test("a copy corrects unknown changes, a lost mark, and the mark of another process") {
    val changed = Seq(
      TableError.changed(orders, "It was rewritten."),
      ApplyError.unreadable(orders, "n", "text", "INT"),
      LakeError.markLost("orders"),
      TargetError.restored("orders", "a RESTORE")
    )
    assertKind(TableFailure.Changed)(changed ++ otherMark: _*)
    (changed.map(_ -> true) ++ otherMark.map(_ -> false)).foreach { case (error, expected) =>
      assert(TableFailures.isChanged(inTask(error)) == expected, error)
      assert(TableFailures.isOtherMark(inTask(error)) != expected, error)
    }
    assert(!TableFailures.isOtherMark(conflict) && !TableFailures.isChanged(conflict))
  }

  test("an error of the server or of the slot ends the job, whichever table meets it") {
    val ending = Seq(
      SlotError.moved("orders", 1, 2),
      SlotError.serverBehind("orders", 2, 1),
      SlotError.publicationsNotFound(Seq("orders"))
    )
    (ending ++ ending.map(inTask)).foreach(error => assert(TableFailures.endsJob(error), error))
    // Somebody else's session on the slot ends, and an option says nothing about the slot.
    val others = Seq(SourceError.slotInUse("orders", 1, "psql"), SourceError.option("No."))
    others.foreach(error => assert(!TableFailures.endsJob(error), error))
  }

  test("the text is that of the most informative error, without Spark's stack frames") {
    val differs = ApplyError.targetDiffers(orders, "the row is there already")
    assert(TableFailures.of(inTask(differs)).text == differs.getMessage)
    assert(TableFailures.isKnown(inTask(differs)))
    val unknown = new RuntimeException("It broke.\n  at Store.write")
    assert(TableFailures.of(unknown).text == "It broke.")
    assert(!TableFailures.isKnown(unknown))
    assert(TableFailures.of(new RuntimeException(null: String)).text.nonEmpty)
    assert(TableFailures.of(new RuntimeException("")).text.nonEmpty)
  }

  test("a circle of causes does no harm") {
    val first = new RuntimeException("one")
    val second = new RuntimeException("two", first)
    first.initCause(second)
    assert(TableFailures.of(second) == TableFailure(TableFailure.Passing, "two"))
  }
}
