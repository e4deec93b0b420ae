package io.sparkpgoutput.lake.faults

import java.sql.SQLException

import org.apache.spark.SparkException

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.CopyError
import io.sparkpgoutput.lake.target.{CommitConflict, TargetError}
import io.sparkpgoutput.source.connection.{ConnectionError, ServerAddress}

class TransientErrorSuite extends AnyFunSuite {
  private val server = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
  private val conflict = new CommitConflict("orders", new RuntimeException("compacted"))

  private def ofServer(state: String) =
    ConnectionError.of(new SQLException("The server says no.", state), server)

  private def around(cause: Throwable) =
    new SparkException("The job failed.", new RuntimeException("A task failed.", cause))

  private def assertTriedAgain(error: Throwable) =
    Seq(error, around(error)).foreach(failed =>
      assert(TransientError.unapply(failed).contains(error))
    )

  private def assertFinal(error: Throwable) =
    Seq(error, around(error)).foreach(failed => assert(TransientError.unapply(failed).isEmpty))

  test("what passes by itself is tried again, and is the cause that is told") {
    assertTriedAgain(conflict)
    assertTriedAgain(CopyError.interrupted(TableName("public", "orders"), "it gives way."))
    assertTriedAgain(new SparkException("ExecutorLostFailure (executor 1 exited)"))
    assertTriedAgain(new SparkException("Executor heartbeat timed out after 120000 ms"))
    assertTriedAgain(new SparkException("Checkpoint block rdd_1_0 not found!"))
  }

  test("another process that has moved the mark of a table ends the job") {
    assertFinal(TargetError.otherJob("orders", Some(1), Some(2)))
    assertFinal(TargetError.copiedAgain("orders"))
    assertFinal(TargetError.restored("orders", "a RESTORE"))
  }

  test("an error of the server is tried again if its SQLSTATE tells that it passes") {
    // Connections, resources that are used up, and sessions that an administrator or a crash ends.
    Seq("08000", "08001", "08006", "53100", "53300", "57P01", "57P02", "57P03")
      .foreach(state => assertTriedAgain(ofServer(state)))
    Seq("42P01", "42501", "28P01", "3D000", "22023", "55006", "57014", "XX000")
      .foreach(state => assertFinal(ofServer(state)))
  }

  test("the SQLSTATE of another error says nothing") {
    assertFinal(new SQLException("of somebody else's database", "08006"))
    assertFinal(new SparkException("Something else", null))
    assertFinal(new RuntimeException(null: String))
  }

  test("causes that go round in a circle are looked at") {
    val first = new RuntimeException("one")
    val second = new RuntimeException("two", first)
    first.initCause(second)
    assert(TransientError.unapply(second).isEmpty)
  }
}
