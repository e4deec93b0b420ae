package io.sparkpgoutput.lake.faults

import org.apache.spark.SparkException
import org.apache.spark.sql.AnalysisException

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.target.{CommitConflict, TargetError}
import io.sparkpgoutput.source.SourceError

class TableFaultSuite extends AnyFunSuite {
  private def inTask(cause: Throwable) =
    new SparkException("Job aborted due to stage failure", cause)

  test("errors of one table may stop it") {
    val differs =
      ApplyError.targetDiffers(TableName("public", "orders"), "the row is there already")
    val missing =
      new AnalysisException("TABLE_OR_VIEW_NOT_FOUND", Map("relationName" -> "orders"), None)
    Seq(differs, inTask(differs), missing).foreach(error => assert(TableFault.is(error), error))
  }

  test("errors of the job, and those that nobody knows, stop no table") {
    val others = Seq(
      new SparkException("Job 7 cancelled because SparkContext was shut down"),
      new InterruptedException,
      new OutOfMemoryError,
      new java.io.IOException("503 Slow Down"),
      // As HiveExternalCatalog throws it if the metastore does not answer.
      new AnalysisException(
        "_LEGACY_ERROR_TEMP_3065",
        Map("clazz" -> "TException", "msg" -> "timed out"),
        Some(new java.io.IOException("timed out"))
      ),
      new CommitConflict("orders", new RuntimeException("compacted")),
      TargetError.otherJob("orders", Some(1), Some(2)),
      SourceError.option("The server is another one.")
    )
    (others ++ others.map(inTask)).foreach(error => assert(!TableFault.is(error), error))
  }
}
