package io.sparkpgoutput.lake.apply

import java.util.concurrent.{Callable, ExecutionException, Executors}

import scala.util.control.NonFatal

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types.StructField
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.batch.{BatchStatistics, RoutedTable, SortedChanges, TableStatistics}
import io.sparkpgoutput.lake.fold.FoldFormat
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{MarkName, Target, TargetWrite}
import io.sparkpgoutput.types.ConversionOptions

/**
 * Applies micro-batches to the tables of a target. Each table gets one commit with the net effect of
 * its changes and with the mark of the batch.
 *
 * @param repairs
 *   true takes a change that does not fit the target and counts it; false makes it the table's error
 * @param options how values are read
 * @param parallelism how many tables are written at a time
 */
final class BatchApply(
    target: Target,
    repairs: Boolean,
    options: ConversionOptions = ConversionOptions(),
    parallelism: Int = 4
) {

  /**
   * Applies a batch. An error of one table does not keep the others from their commits.
   *
   * @param batch the rows of `format("pgoutput")` with the option `output` = `messages`
   * @param tables the tables that are kept equal. Other tables' changes are counted only.
   * @param end the end of the batch, which becomes the mark of the tables that have changes
   * @param prepare
   *   makes a table ready for the definitions of the batch, or says why that cannot be done. It is
   *   called for one table after the other, before the first commit.
   */
  def run(batch: DataFrame, tables: Seq[ApplyTable], end: Long)(
      prepare: TableStatistics => Either[Throwable, PreparedTable]
  ): AppliedBatch = {
    val session = clone(batch.sparkSession)
    val sorted = SortedChanges.read(batch, session, tables.map(_.routed))
    try {
      val marks = tables.map(table => table.routed.oid -> table).toMap
      val found = sorted.statistics.tables.values.toSeq.sortBy(-_.changes)
      val prepared = found.map(statistics => statistics -> attempt(prepare(statistics)))
      val results = parallel(prepared) { case (statistics, table) =>
        table.flatMap { ready =>
          attempt(Right(write(sorted, statistics, ready, marks(statistics.oid), end)))
        }.left.map(thrown => Drift.error(statistics.name, thrown, thrown))
      }
      AppliedBatch(
        sorted.statistics,
        prepared.map(_._1.oid).zip(results).toMap
      )
    } finally sorted.close()
  }

  private def write(
      sorted: SortedChanges,
      statistics: TableStatistics,
      prepared: PreparedTable,
      table: ApplyTable,
      end: Long
  ): AppliedTable = {
    // The mark is a setting of the session, so each commit has a session of its own.
    val session = clone(sorted.session)
    ClonedSession.within(session) {
      val changes = sorted.of(statistics.oid)
      val (into, mark, planned) = table.waiting match {
        case Some(waiting) =>
          val rows = WaitingChanges.rows(session, changes, statistics, end)
          (waiting.target, waiting.mark, PlannedWrite(TargetWrite.Append(rows), repaired = 0))
        case None =>
          val dropped = droppedColumns(session, prepared)
          val format =
            FoldFormat.of(prepared.table, prepared.names, statistics, options, !repairs, dropped)
          val batch = TableBatch(session, target, prepared.table, statistics, format, repairs)
          (prepared.table.target, Some(table.routed.mark), batch.plan(changes))
      }
      target.commit(session, into, table.name, mark, end)(planned.write)
      AppliedTable(statistics.changes, planned.repaired, statistics.lastCommit)
    }
  }

  /**
   * The columns that the server has dropped, and that a history still has. Changes of before have their
   * values.
   */
  private def droppedColumns(session: SparkSession, prepared: PreparedTable): Seq[StructField] = {
    val table = prepared.table
    val dropped = prepared.names.values.toSet -- table.schema.fieldNames
    if (table.isHistory && dropped.nonEmpty)
      target.read(session, table.target).schema.filter(field => dropped(field.name))
        .map(field => StructField(field.name, field.dataType))
    else Nil
  }

  /**
   * Spark switches adaptive execution off for a stream, but a micro-batch is a query like any
   * other. With a small `maxNumItems`, a filter of keys would compute thousands of hashes of each
   * key.
   */
  private def clone(session: SparkSession): SparkSession = {
    val made = ClonedSession.of(session)
    made.conf.set("spark.sql.adaptive.enabled", "true")
    Seq("maxNumItems", "maxNumBits").foreach { limit =>
      made.conf.unset(s"spark.sql.optimizer.runtime.bloomFilter.$limit")
    }
    made
  }

  private def attempt[T](body: => Either[Throwable, T]): Either[Throwable, T] =
    try body
    catch { case NonFatal(thrown) => Left(thrown) }

  /** Runs the tables side by side, in threads with the properties of this one, such as its job group. */
  private def parallel[A, B](values: Seq[A])(run: A => B): Seq[B] =
    if (values.length <= 1) values.map(run)
    else {
      val pool = Executors.newFixedThreadPool(math.min(parallelism, values.length))
      try {
        val tasks = values.map(value => (() => run(value)): Callable[B])
        tasks.map(pool.submit(_)).map { future =>
          try future.get()
          catch { case thrown: ExecutionException => throw thrown.getCause }
        }
      } finally {
        pool.shutdownNow()
        ()
      }
    }
}

/**
 * A table that batches are applied to.
 *
 * @param name the name of its mark
 * @param waiting where the changes wait, if the table is copied meanwhile
 */
final case class ApplyTable(
    routed: RoutedTable,
    name: MarkName,
    waiting: Option[WaitingTable] = None
)

/**
 * A table of the target in which changes of another one wait.
 *
 * @param mark its own mark; None if it has no changes yet
 */
final case class WaitingTable(target: String, mark: Option[Long])

/**
 * A table that is ready for the definitions of a batch.
 *
 * @param names the column of the target for each name in the definitions that is not the target's
 */
final case class PreparedTable(table: MirroredTable, names: Map[String, String] = Map.empty)

/**
 * The result of applying a batch.
 *
 * @param tables the tables with changes by their oids: what was committed, or why nothing was
 */
final case class AppliedBatch(
    statistics: BatchStatistics,
    tables: Map[Long, Either[Throwable, AppliedTable]]
)

/**
 * A commit.
 *
 * @param changes the changes that the server sent
 * @param repaired how many rows of the target were not as the changes say
 * @param lastCommit the time of the last commit at the server, in microseconds since 1970
 */
final case class AppliedTable(changes: Long, repaired: Long, lastCommit: Long)
