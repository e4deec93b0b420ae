package io.sparkpgoutput.lake.apply

import java.util.Locale

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types.StructField
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.MarkName
import io.sparkpgoutput.lake.batch.{
  ChangeChunk,
  ChangePacker,
  CutRouter,
  RoutedTable,
  TableStatistics
}
import io.sparkpgoutput.lake.fold.FoldFormat
import io.sparkpgoutput.lake.queue.CutMessages
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.Target
import io.sparkpgoutput.types.ConversionOptions

/**
 * Applies cuts of tables' queues to the tables of a target. Each cut is one commit with the net effect of
 * its changes and with its mark. Commits to several tables can run side by side.
 *
 * The driver folds a small cut by itself: the jobs that would do it take longer than the fold. Executors
 * fold a large one.
 *
 * @param repairs
 *   true takes a change that does not fit the target and counts it; false makes it the table's error
 * @param options how values are read
 * @param smallCut the most changes that the driver folds by itself
 */
final class CutApply(
    target: Target,
    repairs: Boolean,
    options: ConversionOptions = ConversionOptions(),
    smallCut: Long = CutApply.SmallCut
) {
  import CutApply._

  /**
   * Commits a cut. An error is the table's: nothing of the cut is in the table then.
   *
   * @param session a session whose settings the commit has, and which it does not change
   * @param formerNames the column of the target for each name at the server that is not the target's
   * @param expected
   *   the mark that the table has. Changes below it are in the table, and left out. If nothing is left,
   *   nothing is committed.
   * @param prepare
   *   makes the table ready for the definitions of the cut, and returns it as it is then. It is called
   *   once, before the commit, and only if there is a change.
   */
  def commit(
      session: SparkSession,
      table: MirroredTable,
      formerNames: Map[String, String],
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  )(
      prepare: TableStatistics => PreparedTable = _ => PreparedTable(table, formerNames)
  ): CutResult =
    try {
      val isSmall = cut.changes <= smallCut && cut.bytes <= SmallBytes && cut.isInMemory
      val made = sessionOf(session, isSmall)
      ClonedSession.within(made) {
        val apply =
          if (isSmall) new SmallCut(made, mark, expected, cut)
          else new LargeCut(made, mark, expected, cut)
        apply.run(PreparedTable(table, formerNames), prepare)
      }
    } catch { case NonFatal(thrown) => throw Drift.error(table.source.name, thrown, thrown) }

  /**
   * One commit.
   *
   * @param session a session of its own, because the mark is one of its settings
   */
  abstract private class OneCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ) {

    /** Takes the rows of the changes. */
    protected def packer: ChangePacker

    /** Returns the write for the rows that the packer has. */
    protected def plan(batch: TableBatch): PlannedWrite

    /** Forgets the rows that the packer has, and frees what they need. */
    protected def clear(): Unit

    def run(table: PreparedTable, prepare: TableStatistics => PreparedTable): CutResult =
      try {
        val routed = route(table)
        routed.fold(CutResult.nothing) { statistics =>
          val prepared = prepare(statistics)
          if (routedOf(prepared) == routedOf(table)) commit(statistics, prepared)
          else {
            // The rows say what is missing in the columns that the table had.
            clear()
            commit(route(prepared).get, prepared)
          }
        }
      } finally clear()

    private def routedOf(table: PreparedTable) =
      RoutedTable.of(table.table, expected, table.names)

    private def route(table: PreparedTable): Option[TableStatistics] = {
      val rows = packer
      val router = new CutRouter(routedOf(table), rows.add)
      cut.foreach(router.take)
      rows.flush()
      router.statistics
    }

    private def commit(statistics: TableStatistics, prepared: PreparedTable): CutResult = {
      val table = prepared.table
      val current = target.read(session, table.target)
      val others = otherColumns(current, table)
      val format = FoldFormat.of(
        table,
        prepared.names,
        statistics,
        options,
        !repairs,
        droppedColumns(others, prepared),
        splitsReplaced = !table.isHistory && others.nonEmpty
      )
      val batch = TableBatch(session, current, table, statistics, format, repairs)
      try {
        val planned = plan(batch)
        target.commit(session, table.target, mark, Some(expected), cut.end)(planned.write)
        CutResult(statistics.changes, planned.repaired, statistics.lastCommit, committed = true)
      } finally batch.close()
    }
  }

  final private class SmallCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ) extends OneCut(session, mark, expected, cut) {
    private val chunks = mutable.ArrayBuffer.empty[Array[Byte]]
    protected val packer = new ChangePacker(SmallBytes, chunks += _)

    protected def plan(batch: TableBatch): PlannedWrite = {
      val changes = ChangeChunk.sorted(chunks.iterator)
      batch.plan(changes)
    }

    protected def clear(): Unit = chunks.clear()
  }

  final private class LargeCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ) extends OneCut(session, mark, expected, cut) {
    private val shipped = new ShippedChanges(session)
    protected def packer: ChangePacker = shipped.packer
    protected def plan(batch: TableBatch): PlannedWrite = batch.plan(shipped.sorted())
    protected def clear(): Unit = shipped.close()
  }

  /** The columns that only the target has: those of users, and those that the server has dropped. */
  private def otherColumns(current: DataFrame, table: MirroredTable): Seq[StructField] = {
    val ours = table.targetSchema.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet
    current.schema.filterNot(field => ours(field.name.toLowerCase(Locale.ROOT)))
  }

  /**
   * The columns that the server has dropped, and that a history still has. Earlier changes have their
   * values.
   */
  private def droppedColumns(
      others: Seq[StructField],
      prepared: PreparedTable
  ): Seq[StructField] = {
    val dropped = prepared.names.values.toSet
    if (prepared.table.isHistory)
      others.filter(field => dropped(field.name)).map(field =>
        StructField(field.name, field.dataType)
      )
    else Nil
  }
}

object CutApply {

  /** The most changes of a small cut, and its most bytes. */
  final val SmallCut = 10000L
  final private val SmallBytes = 16 << 20

  /**
   * A small cut has few rows to shuffle, so adaptive execution would only make jobs of its stages. With a
   * small `maxNumItems`, a filter of keys would compute thousands of hashes of each key.
   */
  private def sessionOf(session: SparkSession, isSmall: Boolean): SparkSession = {
    val made = ClonedSession.of(session)
    made.conf.set("spark.sql.adaptive.enabled", !isSmall)
    if (isSmall) {
      val tasks = 2 * session.sparkContext.defaultParallelism
      made.conf.set(Partitions, math.min(made.conf.get(Partitions).toInt, tasks).toLong)
    }
    Seq("maxNumItems", "maxNumBits").foreach { limit =>
      made.conf.unset(s"spark.sql.optimizer.runtime.bloomFilter.$limit")
    }
    made
  }

  final private val Partitions = "spark.sql.shuffle.partitions"
}

/**
 * A table that is ready for the definitions of a cut.
 *
 * @param names the column of the target for each name in the definitions that is not the target's
 */
final case class PreparedTable(table: MirroredTable, names: Map[String, String] = Map.empty)

/**
 * What became of a cut.
 *
 * @param changes the changes that the server sent, without those that the table had
 * @param repaired how many rows of the target were not as the changes say
 * @param lastCommit
 *   the time of the last commit at the server with a change of the table, in microseconds since 1970
 * @param committed false if the table had all changes, so nothing was committed
 */
final case class CutResult(changes: Long, repaired: Long, lastCommit: Long, committed: Boolean)

object CutResult {
  val nothing: CutResult = CutResult(0, 0, 0, committed = false)
}
