package io.sparkpgoutput.lake.job

import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant

import io.sparkpgoutput.errors.{ErrorCauses, LakeException}
import io.sparkpgoutput.lake.apply.{CutApply, CutResult}
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableChange, TableComparison, TableError}
import io.sparkpgoutput.lake.core.{MarkName, NextDefinition, TableFailure, TableState}
import io.sparkpgoutput.lake.job.ServerCatalog.Look
import io.sparkpgoutput.lake.queue.{Cut, CutLimit, QueueFileNotFoundException, TableQueue}
import io.sparkpgoutput.lake.target.TableEvolution
import io.sparkpgoutput.protocol.Lsn

/**
 * Commits cuts of the queues. If the columns of the server have changed, it changes the columns of the target
 * first.
 */
final private[job] class TableApplier(job: JobParts) {
  import job.{catalog, core, ownTables, target}

  private val cuts =
    new CutApply(target, job.options.repairs, job.options.conversion, core.withoutPlace(_))

  /** Why the last cut of a table was written by a MERGE, by the oid of the table. */
  private val merged = new ConcurrentHashMap[Long, String]

  /** The marks of mirrors that have a history, and of their histories, by the names in the target. */
  private val marks = new ConcurrentHashMap[String, (MarkName, Long)]

  /** The fingerprints of definitions to which columns are being changed. */
  private val changing = new ConcurrentHashMap[Long, String]

  /** Takes a cut of a table's queue and commits it. */
  def apply(oid: Long, upTo: Long, queue: TableQueue): Unit = reporting(oid) { table =>
    val most = CutLimit(job.options.maxBytesPerCommit)
    val limit = cuts.limit(table.table, CutLimit(queue.bytes, queue.changes), most)
    queue.cut(upTo, limit) match {
      case None =>
        // The catalog can say that the table was altered, even if no row of it has changed.
        if (defined(table, None).nonEmpty)
          core(_.applied(oid, table.mark.getOrElse(0L), None, now))
      case Some(cut) => defined(table, Some(cut)).foreach(commit(_, queue, cut, upTo))
    }
  }

  /** Returns the table by a catalog that is as new as the cut; None if its columns have to change first. */
  private def defined(table: TableState, cut: Option[Cut]): Option[TableState] =
    look(table, cut.fold(Array.empty[Long])(_.xids)) match {
      case Look.Changed(found, fingerprint) =>
        val next = following(table, found)
        if (TableEvolution.columns(table.table, next.table).isEmpty) {
          core(_.redefined(table.oid, next.table, next.formerNames))
          catalog.follows(table.oid, fingerprint)
          Some(table.copy(table = next.table, formerNames = next.formerNames))
        } else {
          changing.put(table.oid, fingerprint)
          core(_.defines(table.oid, next))
          None
        }
      case Look.Gone =>
        cut.foreach(checkLast(table, _))
        Some(table)
      case _ => Some(table)
    }

  /**
   * The catalog cannot say any more what a column is that only the last changes of the table have. And no copy follows
   * that would give all rows the columns that the options hide now.
   */
  private def checkLast(table: TableState, cut: Cut): Unit = {
    val relations = cut.relations
    val added = relations.flatMap(_.columns.map(_.name)).diff(table.columnNames).headOption
      .map(name => s"its last changes have the column '$name', which was added shortly before.")
    val names = relations.map(_.name) + table.name
    val other = Option.unless(job.options.hiding.isAsIn(table.table.source, names))(
      "the options hide other columns of its last changes than of its rows in the target."
    )
    added.orElse(other).foreach(problem =>
      throw changed(table, s"It is not published any more, and $problem They are not applied.")
    )
  }

  /** Looks at the catalog until it is as new as the cut. */
  private def look(table: TableState, xids: Array[Long]): Look =
    ServerCatalog.whileBehind(catalog.look(table, job.state, xids)).fold(
      why => throw new Waiting(s"The changes of ${table.name} wait for the catalog: $why."),
      identity
    )

  /**
   * Returns the next definition.
   *
   * @throws LakeException if the table must be copied again
   */
  private def following(table: TableState, now: MirroredTable): NextDefinition =
    TableComparison.compare(table.table.source, now.source, table.columnNames) match {
      case Left(reason) => throw changed(table, reason)
      case Right(changes) =>
        lazy val next = TableEvolution.next(table, now, changes)
        TableComparison.altered(table.table.source, now.source)
          .orElse(catalog.reason(table.table.source, changes))
          .orElse(taken(table, now, changes))
          .orElse(TableEvolution.otherType(next.table, now))
          .orElse(TableEvolution.otherMode(table.table, now))
          .orElse(TableEvolution.otherShape(table.table, next.table))
          .foreach(reason => throw changed(table, reason))
        next
    }

  /**
   * Returns a reason if another column of the target has the name of a new or renamed column: one that the source
   * had before a copy, or one that a user has added.
   */
  private def taken(
      table: TableState,
      now: MirroredTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val names = changes.collect {
      case TableChange.ColumnAdded(column)  => column.name
      case TableChange.ColumnRenamed(_, to) => to.name
    }
    table.parts.zip(now.mode.parts).flatMap { case (part, mode) =>
      val added = names ++ mode.columns.diff(part.table.mode.columns).map(_.name)
      if (added.isEmpty) None
      else {
        val columns = target.read(job.session, part.target).columns
        added.find(name => columns.exists(_.equalsIgnoreCase(name)))
      }
    }.headOption.map(name =>
      s"The target has a column '$name' already, whose values are not those of the new one."
    )
  }

  /**
   * Commits a cut to each table of the target: to two of them if the table has a mirror and a history. If the process
   * ends between the two commits, the marks differ. The changes come again, and the table that has them leaves them
   * out.
   */
  private def commit(table: TableState, queue: TableQueue, cut: Cut, upTo: Long): Unit = {
    val started = System.nanoTime()
    job.session.sparkContext.setJobDescription(s"changes of ${table.name}")
    val (results, ends) = table.parts.map(part => commit(part, markOf(table, part), cut)).unzip
    val result = CutResult.of(results)
    queue.remove(cut)
    if (result.repaired > 0)
      job.log.warn(
        s"The table ${table.target} of the target differed in " +
          s"${JobLog.counted(result.repaired, "row")}, and the job has repaired it."
      )
    result.byMerge.filterNot(Option(merged.get(table.oid)).contains).foreach { reason =>
      merged.put(table.oid, reason)
      job.log.tell(
        s"The changes of ${table.name} are written by a MERGE, which takes longer: $reason."
      )
    }
    val changed = Option.when(result.committed)(microsToInstant(cut.lastCommit))
    val mark = ends.reduce(Lsn.min)
    val hasMore = queue.position.exists(Lsn.isBelow(_, upTo))
    core(_.applied(table.oid, mark, changed, now, hasMore))
    if (result.committed) {
      job.committed(table.oid, result.changes)
      job.log.committed(table.name, result.changes, cut.lastCommit, started)
    }
  }

  /** Commits a cut to a table of the target. Returns the result, and the mark that the table then has. */
  private def commit(part: TableState, expected: Long, cut: Cut): (CutResult, Long) = {
    val name = part.markName(job.state.id)
    val result = cuts.commit(job.session, part.table, part.formerNames, name, expected, cut)
    // Nothing is committed if the table had all changes already.
    val mark = if (result.committed) cut.end else expected
    marks.replace(part.target, name -> mark): Unit
    (result, mark)
  }

  /**
   * Returns the mark that a table of the target must have for a commit. It is the one that the job knows, unless a
   * mirror and its history can have different ones.
   */
  private def markOf(table: TableState, part: TableState): Long = {
    val least = table.mark.getOrElse(throw markLost(part))
    if (table.table.targets.length == 1) least
    else {
      val name = part.markName(job.state.id)
      val earlier = Option(marks.get(part.target)).collect { case (`name`, mark) => mark }
      val mark = earlier.orElse(ownTables.mark(job.state, part)).filterNot(Lsn.isBelow(_, least))
        .getOrElse(throw markLost(part))
      marks.put(part.target, name -> mark): Unit
      mark
    }
  }

  /** Changes the columns of the target to the next definition. It can be repeated after an interruption. */
  def alter(oid: Long): Unit = reporting(oid) { table =>
    table.next.foreach { next =>
      val changes = table.parts.zip(next.table.parts).map { case (part, next) =>
        part.target -> TableEvolution.columns(part.table, next)
      }
      for ((name, columns) <- changes; reason <- columns.flatMap(target.alterProblem(name, _)))
        throw changed(table, reason)
      for ((name, columns) <- changes) {
        if (columns.nonEmpty)
          job.log.tell(
            s"The table $name of the target changes: ${columns.map(_.text).mkString(", ")}."
          )
        target.alter(name, columns)
      }
      val mode = next.table.mode
      table.copy(table.table.copy(mode = mode), number = table.number + 1).parts
        .foreach(ownTables.noteDefinition(_, next.table))
      Option(changing.remove(oid)).fold(catalog.forget(oid))(catalog.follows(oid, _))
    }
    core(_.defined(oid, now))
  }

  /** Runs the work on a table, and reports its error. */
  private def reporting(oid: Long)(body: TableState => Unit): Unit =
    job.state.tables.get(oid).foreach {
      table =>
        try body(table)
        catch { case error: Throwable => failed(table, error) }
    }

  private def failed(table: TableState, error: Throwable): Unit =
    job.unlessEnding(table, error) {
      val expected =
        table.parts.map(part => Option(marks.remove(part.target)).map(_._2).orElse(table.mark))
      // If the disk or the folder of the tables is away, the table seems to have no mark.
      val passing =
        if (TableFailures.isPassing(error)) Some(error)
        else ownTables.absence(job.state).map(new Waiting(_))
      if (passing.isEmpty && TableFailures.isOtherMark(error)) otherMark(table, expected, error)
      else {
        val cause = passing.orElse(removed(table).map(markLost)).orElse(lost(table, error))
          .getOrElse(error)
        job.failed(table, TableFailures.of(cause), cause)
      }
    }

  private def changed(table: TableState, reason: String) = TableError.changed(table.name, reason)

  private def markLost(part: TableState) =
    new LakeException("PGOUTPUT_MARK_LOST.NO_MARK", "table" -> part.target)

  private def lost(table: TableState, error: Throwable) = ErrorCauses.of(error).collectFirst {
    case found: QueueFileNotFoundException =>
      new LakeException(
        "PGOUTPUT_TABLE_CHANGED.CHANGES_LOST",
        "table" -> table.name,
        "file" -> found.path
      )
  }

  /** Returns the table of the target that is gone, which Spark reports with an error of its own. */
  private def removed(table: TableState): Option[TableState] =
    table.parts.find(part => !Try(target.exists(part.target)).getOrElse(true))

  /**
   * The table has another mark than the one expected. If it is a greater one of the same generation, a process of the
   * job that was slow to end has committed a cut, which is right. Its changes are left out. If it is that of a
   * requested copy that was given up, the rows are right as of this mark, too. The tables of the target then go on from
   * their marks, under one new generation.
   *
   * @param expected the marks that the table and its history were expected to have
   */
  private def otherMark(table: TableState, expected: Seq[Option[Long]], error: Throwable): Unit = {
    job.checkEpoch()
    val isOfCopy =
      table.parts.flatMap(ownTables.newestGeneration(job.state, _)).exists(_ > table.generation)
    val isGivenUp =
      isOfCopy && table.copyReason.nonEmpty && table.parts.forall(ownTables.isOf(job.state, _))
    val generation =
      if (isGivenUp) ownTables.close(table.table.targets: _*) else table.generation
    val marks = table.copy(generation = generation).parts.map(ownTables.mark(job.state, _))
    val isRight = isOfCopy == isGivenUp && marks.forall(_.nonEmpty) &&
      !marks.flatten.zip(expected.flatten).exists { case (mark, least) => Lsn.isBelow(mark, least) }
    if (isRight && (isGivenUp || marks != expected))
      core { core =>
        core.closed(table.oid, generation)
        core.applied(table.oid, marks.flatten.reduce(Lsn.min), None, now)
      }
    else job.failed(table, TableFailure(TableFailure.NeedsCopy, TableFailures.text(error)), error)
  }

  private def now = JobClock.millis
}

/**
 * Rewrites small files of tables, and removes old files: see [[io.sparkpgoutput.lake.direct.Compaction]]. The rows of a
 * table are right without that. So a failure is not an error of the table, and the other parts of the work still run.
 *
 * @param isVerifying whether older versions of tables are read
 * @param pause how long a part of a table that has failed is left out
 * @param gathering how long the rewrites of a table wait for more commits, so that one rewrite serves all of them
 */
final private[job] class TableMaintenance(
    job: JobParts,
    threads: JobThreads,
    isVerifying: () => Boolean,
    pause: Duration = Duration.ofMinutes(5),
    gathering: Duration = Duration.ofSeconds(8)
) {
  import TableMaintenance._
  private val due = ConcurrentHashMap.newKeySet[String]

  /** How many commits in a row have left a table behind, by its oid. */
  private val behind = new ConcurrentHashMap[Long, Int]
  private val reported = ConcurrentHashMap.newKeySet[(String, String)]
  private val failures = new ConcurrentHashMap[(String, String), MaintenanceFailure]

  /** When [[spending]] may work again, by [[System.nanoTime]]. Only one thread uses this field and the next one. */
  private var restEnds = System.nanoTime()

  /** The tables that wait for their rewrites, in their order, and since when, by [[System.nanoTime]]. */
  private val gathered = mutable.LinkedHashMap.empty[String, Long]

  /** The tables that a query wrote when their turn came. Their turn comes again after the end of the query. */
  private val delayed = ConcurrentHashMap.newKeySet[String]

  /** When to look for orphans of a table again, by the clock of the system. */
  private val orphansDue = new ConcurrentHashMap[String, Long]

  private val maintains = job.options.maintains && job.target.maintainer.forall { who =>
    job.log.tell(s"$who maintains the tables, so the job does not rewrite or remove their files.")
    false
  }

  /**
   * Maintains the files of a table after a commit, while its next commits run. A table that is behind gets this after
   * some commits only, because each commit can delete many rows of files that were just rewritten.
   *
   * @param waiting how many changes of the table wait for the next commits
   */
  def after(oid: Long, waiting: Long = 0): Unit = {
    val targets = job.state.tables.get(oid).toSeq.flatMap(_.table.targets)
    if (
      waiting <= CutApply.SmallCut || targets.exists(delayed.contains(_)) ||
      behind.merge(oid, 1, Integer.sum(_, _)) >= MostBehind
    ) {
      behind.remove(oid)
      targets.filter(due.add).foreach { table =>
        threads.maintain {
          due.remove(table)
          maintain(table)
        }
      }
    }
  }

  /**
   * Maintains the tables with commits a last time, and waits until that is done, because the end of the threads
   * interrupts it. Another end of the job ends the wait.
   *
   * @param pause waits a short time
   */
  def last(pause: () => Unit): Unit = {
    job.state.tables.keys.filter(job.commitsOf(_).commits > 0).foreach(after(_))
    val isDone = new AtomicBoolean
    threads.maintain(isDone.set(true)) // One thread does all of it, in order.
    while (!isDone.get && !job.isEnding) pause()
  }

  /**
   * Maintains a table. What its next commits need is done at once: a checkpoint, and the keys for direct writes. The
   * other work waits for more commits, and for the end of the rest after earlier work. So this rest cannot get longer
   * and longer, and the work of each table has its turn. A job with `once` does all of it at once.
   */
  private[job] def maintain(table: String): Unit = {
    val isDue = maintains && (job.options.once || delayed.remove(table))
    // Delta removes old commits from the log when it writes a checkpoint, and needs them to remove their files. If the
    // table has to wait, that does no harm: Delta keeps commits for days longer.
    if (isDue) spending(removeOld(table))
    part(table, "has no new checkpoint")(job.target.checkpoint(table))
    part(table, "is still written by MERGE")(job.target.keepKeys(table))
    if (isDue) spending(rewriteOrDelay(table))
    else if (maintains && !gathered.contains(table)) {
      gathered(table) = System.nanoTime()
      if (gathered.size == 1) rewriteNext()
    }
  }

  /** Does the work of the first table that waits when its time has come, and then that of the next one. */
  private def rewriteNext(): Unit = {
    val due = math.max(gathered.head._2 + gathering.toNanos, restEnds)
    threads.maintainLater(due - System.nanoTime()) {
      val table = gathered.head._1
      gathered -= table
      try spending {
          removeOld(table)
          rewriteOrDelay(table)
        }
      finally if (gathered.nonEmpty) rewriteNext()
    }
  }

  private def removeOld(table: String): Unit = if (!isVerifying()) {
    val now = JobClock.millis
    val since = Instant.ofEpochMilli(now).minus(job.options.retain)
    part(table, "keeps its old versions") {
      kept("old versions", table, job.target.expire(table, since, job.options.retainVersions))
    }
    if (job.options.removesOrphans && orphansDue.getOrDefault(table, now) <= now)
      part(table, "keeps files that no version needs") {
        orphansDue.put(table, now + OrphansEvery.toMillis)
        val before = Seq(since, Instant.ofEpochMilli(now).minus(OrphanAge)).min
        kept("files that no version needs", table, job.target.removeOrphans(table, before))
      }
  }

  private def rewriteOrDelay(table: String): Unit =
    if (job.target.isQueried(table)) delayed.add(table): Unit else rewrite(table)

  /** Rewrites files until nothing is due. The other tables do not wait for a long series of rewrites. */
  private def rewrite(table: String): Unit = part(table, "keeps its small files") {
    val most = if (job.options.once) MostRewritingOnce else MostRewriting
    val end = System.nanoTime() + most.toNanos
    while (job.target.compact(table) && System.nanoTime() < end) ()
  }

  /** Does work whose turn has come, and rests, so that all such work takes only its share of the time of a core. */
  private def spending(work: => Unit): Unit = {
    val begin = System.nanoTime()
    work
    val end = System.nanoTime()
    val share = if (job.options.once) 100 else math.min(100, job.options.maintenanceShare)
    restEnds = math.max(restEnds, end) + (end - begin) * (100 - share) / share
  }

  /** Tells the user once why a table keeps what is old. */
  private def kept(what: String, table: String, reason: Option[String]): Unit =
    reason.filter(reason => reported.add(table -> reason))
      .foreach(reason => job.log.tell(s"The job keeps all $what of $table: $reason."))

  /**
   * Does a part of the work, unless it has failed a short time ago.
   *
   * @param without what the table does without it. The user sees it once for each cause, for the first part that fails
   */
  private def part(table: String, without: String)(work: => Unit): Unit = {
    val earlier = Option(failures.get((table, without)))
    if (earlier.forall(_.nanos + pause.toNanos <= System.nanoTime()))
      try {
        work
        failures.remove((table, without)): Unit
      } catch {
        case NonFatal(error) if !job.isEnding =>
          val failure = MaintenanceFailure(System.nanoTime(), MaintenanceFailure.cause(error))
          val isTold = failures.asScala.exists { case ((other, _), earlier) =>
            other == table && earlier.cause == failure.cause
          }
          failures.put((table, without), failure)
          if (!isTold)
            job.log.warn(
              s"The table $table $without, and the job tries it again later. ${TableFailures.text(error)}"
            )
        case NonFatal(_) => () // the end of the job has interrupted it
      }
  }

}

private object TableMaintenance {
  private val OrphansEvery = Duration.ofDays(1)

  /** After this time, a turn of a table ends. With `once`, it ends later, because no other turn follows. */
  private val MostRewriting = Duration.ofSeconds(1)
  private val MostRewritingOnce = Duration.ofMinutes(1)

  /** A table that is behind is maintained after so many commits. */
  final private val MostBehind = 16

  /** A younger file can belong to a commit that is still to come, for example one of a large query. */
  private val OrphanAge = Duration.ofDays(3)
}

/** @param nanos when the work has failed */
final private case class MaintenanceFailure(nanos: Long, cause: String)

private object MaintenanceFailure {

  /** What the innermost error says, without words that have a digit: a store gives each request an id. */
  def cause(error: Throwable): String =
    ErrorCauses.of(error).toSeq.last.toString.replaceAll("\\S*\\d\\S*", "")
}
