package io.sparkpgoutput.lake.target

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.iceberg.exceptions.{
  CommitFailedException,
  CommitStateUnknownException,
  ValidationException
}
import org.apache.iceberg.hadoop.HadoopTables
import org.apache.iceberg.io.{FileIO, LocationProvider}
import org.apache.iceberg.types.Types
import org.apache.iceberg.{
  BaseTable,
  HasTableOperations,
  Schema,
  Table,
  TableMetadata,
  TableOperations
}
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.{LakeException, PgOutputException}
import io.sparkpgoutput.lake.core.MarkName

/** Commits to a table in a folder, whose file system can fail. */
class MarkingOperationsSuite extends AnyFunSuite {
  private val name = MarkName("job", 1, 1)

  /**
   * Operations whose first commit fails. If `renames`, the file of the metadata is renamed before. If
   * `isLost`, the table cannot be read afterwards.
   *
   * @param beside happens after the rename, and before the error
   */
  final private class Failing(
      operations: TableOperations,
      renames: Boolean,
      isLost: Boolean,
      beside: => Unit = ()
  ) extends TableOperations {
    private var left = 1

    def commit(base: TableMetadata, metadata: TableMetadata): Unit = {
      if (left == 0 || renames) operations.commit(base, metadata)
      if (left > 0) {
        left -= 1
        beside
        throw new CommitFailedException("The old file cannot be deleted.")
      }
    }
    override def refresh(): TableMetadata =
      if (isLost && left == 0) throw new IllegalStateException("gone") else operations.refresh
    override def current(): TableMetadata = operations.current
    override def io(): FileIO = operations.io
    override def metadataFileLocation(file: String): String = operations.metadataFileLocation(file)
    override def locationProvider(): LocationProvider = operations.locationProvider
  }

  private def operations(table: Table) = table.asInstanceOf[HasTableOperations].operations

  private def table(): Table = new HadoopTables(new Configuration).create(
    new Schema(Types.NestedField.optional(1, "id", Types.IntegerType.get)),
    Files.createTempDirectory("iceberg").resolve("t").toString
  )

  private def marked(on: TableOperations, expected: Option[Long], lsn: Long) =
    new MarkingOperations(on, "t", MarkedCommit("t", name, expected, lsn))

  private def appends(on: TableOperations, lsn: Long, expected: Option[Long]) =
    new BaseTable(marked(on, expected, lsn), "t").newFastAppend()
      .set(name.toString, lsn.toString).commit()

  private def mark(table: Table) = {
    table.refresh()
    IcebergMark.read(operations(table), "t", name)
  }

  test("a commit that is in the table although it failed is taken as done") {
    val made = table()
    appends(new Failing(operations(made), renames = true, isLost = false), 5, None)
    assert(mark(made).contains(5L))
    made.refresh()
    // Iceberg removes the manifests of a commit that it takes for failed.
    assert(made.io.newInputFile(made.currentSnapshot.manifestListLocation).exists)
    assert(made.history.size == 1)
  }

  test("a commit that is not in the table is tried again") {
    val made = table()
    appends(new Failing(operations(made), renames = false, isLost = false), 5, None)
    assert(mark(made).contains(5L))
    made.refresh()
    assert(made.history.size == 1)
  }

  test("the files of a commit stay if nobody knows whether it is in the table") {
    val made = table()
    val lost = new Failing(operations(made), renames = true, isLost = true)
    intercept[CommitStateUnknownException](appends(lost, 5, None))
    assert(mark(made).contains(5L))
    made.refresh()
    assert(made.io.newInputFile(made.currentSnapshot.manifestListLocation).exists)
  }

  test("the files of a commit stay also if later versions have it, but no longer its snapshot") {
    val made = table()
    def overtaken(): Unit = {
      appends(operations(made), 6, Some(5))
      made.refresh()
      made.expireSnapshots().expireOlderThan(Long.MaxValue).retainLast(1).commit()
    }
    val failing = new Failing(operations(made), renames = true, isLost = false, overtaken())
    intercept[CommitStateUnknownException](appends(failing, 5, None))
    made.refresh()
    assert(made.history.size == 1 && mark(made).contains(6L))
  }

  test("a rollback is found although only a later snapshot of somebody else is left") {
    val made = table()
    def others(commits: Int) = (1 to commits).foreach(_ => made.newFastAppend().commit())
    def forget() = made.expireSnapshots().expireOlderThan(Long.MaxValue).retainLast(1).commit()
    appends(operations(made), 5, None)
    made.refresh()
    val first = made.currentSnapshot.snapshotId
    appends(operations(made), 6, Some(5))
    made.refresh()
    others(3)
    forget()
    assert(made.history.size == 1 && mark(made).contains(6L))

    appends(operations(made), 7, Some(6))
    made.refresh()
    val older = made.currentSnapshot.snapshotId
    appends(operations(made), 8, Some(7))
    made.refresh()
    made.manageSnapshots().rollbackTo(older).commit()
    others(2)
    assert(mark(made).contains(7L) && older != first)
    forget()
    val error = intercept[LakeException](mark(made))
    assert(made.history.size == 1 && error.getCondition == "PGOUTPUT_MARK_LOST")
  }

  test("a staged commit, which does not become the current snapshot, is refused") {
    val made = table()
    val error = intercept[ValidationException](
      new BaseTable(marked(operations(made), None, 5), "t")
        .newFastAppend().stageOnly().commit()
    )
    val reason = error.getCause.asInstanceOf[LakeException]
    assert(reason.getCondition == "PGOUTPUT_TARGET_FORMAT")
    assert(reason.getMessage.contains("spark.wap.id"))
    assert(mark(made).isEmpty)
  }

  test("a commit of a process that another one has overtaken is refused") {
    val made = table()
    appends(operations(made), 5, None)
    val error = intercept[ValidationException](appends(operations(made), 6, None))
    assert(error.getMessage.contains("another process"))
    assert(mark(made).contains(5L))
  }

  test("a commit of rows that were read from an earlier snapshot is a conflict") {
    val made = table()
    appends(operations(made), 5, None)
    made.refresh()
    val marking = marked(operations(made), Some(5), 6)
    marking.sources = Set(made.currentSnapshot.snapshotId)
    made.newFastAppend().commit()
    val error =
      intercept[ValidationException](new BaseTable(marking, "t").newFastAppend().commit())
    assert(
      error.getCause.asInstanceOf[PgOutputException].getCondition == "PGOUTPUT_COMMIT_CONFLICT"
    )
  }
}
