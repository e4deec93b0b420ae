package io.sparkpgoutput.lake.target

import java.io.{FileNotFoundException, OutputStream}
import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.actions.{Action, CommitInfo, SetTransaction}
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.WriteIntoDelta
import org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.delta.{
  DeltaConcurrentModificationException,
  DeltaLog,
  DeltaOptions,
  OptimisticTransaction,
  Snapshot,
  TimestampNTZTableFeature,
  TransactionExecutionObserver
}
import org.apache.spark.sql.pgoutput.{ClonedSession, TablePlans}
import org.apache.spark.sql.types.{StructType, TimestampNTZType}
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession, classic, functions}

import org.apache.hadoop.fs.Path

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{DirectChange, DirectTable, KeyCache, NotDirect, TableFiles}

/**
 * Tables of Delta. A mark is a transaction of an application (`txn` in Delta's protocol), whose version
 * is the LSN. Delta writes it in the commit of the rows, and keeps it through compactions and VACUUM.
 *
 * RESTORE keeps it too, although the rows go back. So each commit also has the mark in `userMetadata`,
 * and no RESTORE may come after it in the table's history.
 */
final class DeltaTarget(
    session: SparkSession,
    place: TablePlace,
    keys: KeyCache,
    linked: DeltaLinkage = new DeltaLinkage
) extends TableCommands(session, LakeFormat.Delta, place) {
  import DeltaTarget._

  // `getOption` also returns the default of a setting, as soon as Delta has declared it.
  private def isUnset(setting: String) = !session.conf.getAll.contains(setting)

  private val choosesTasks = isUnset(SnapshotTasks)
  if (choosesTasks) session.conf.set(SnapshotTasks, 1L)
  // The rows of a MERGE are the same whenever they are computed, so Delta need not store them first.
  if (isUnset(MergeSource)) session.conf.set(MergeSource, "none")

  // A checksum with all files costs a job of Spark in the first commit of a table, whenever its files have become
  // fewer than 50, and, if a zone is not UTC, in each commit.
  if (isUnset(FilesInChecksum)) session.conf.set(FilesInChecksum, false)

  /** The version of each table up to which the history has no RESTORE after the last mark. */
  private val checked = new ConcurrentHashMap[String, Long]

  /** What is known of the files of tables. */
  private val directs = new ConcurrentHashMap[String, DeltaDirect]

  /** When to look whether VACUUM is due for a table. */
  private val vacuums = new ConcurrentHashMap[String, Instant]

  def look(table: String): TargetLook = {
    // The direct commit looks at the newest version itself. Only then is there always one of the log that Delta has now.
    val known = linked(
      Option(directs.get(table)).map(_.log.unsafeVolatileSnapshot)
        .filter(DeltaDirect.problem(_).isEmpty)
    )
    val found = known.toOption.flatten.getOrElse(snapshot(table))
    TargetLook(found.metadata.schema, linked(DeltaDirect.problem(found)).fold(Some(_), identity))
  }

  def properties(table: String): Map[String, String] = snapshot(table).metadata.configuration

  def mark(table: String, name: MarkName): Option[Long] = mark(table, snapshot(table), name)

  def generation(table: String, job: String, oid: Long): Option[Int] =
    MarkName.newest(transactions(snapshot(table)).keys, job, oid)

  def newest(table: String, job: String): Option[MarkName] =
    MarkName.newest(transactions(snapshot(table)).keys, job)

  def version(table: String): String = snapshot(table).version.toString

  def read(session: SparkSession, table: String): DataFrame = {
    refresh(table)
    session.table(sqlName(table))
  }

  protected def refresh(table: String): Unit = snapshot(table)

  protected def defaults(schema: StructType, chosen: Map[String, String]): Map[String, String] =
    Map(
      ColumnMapping -> "name",
      "delta.enableDeletionVectors" -> "true",
      TypeWidening -> "true",
      // A checkpoint takes about a second. Between two checkpoints, a reader reads up to so many small files.
      "delta.checkpointInterval" -> "100"
    ) ++
      // The log gets a file for each commit. By default, all of the last 30 days stay. Delta refuses a time that is
      // shorter than the one for removed data files, which is 7 days by default.
      Option.when(
        !chosen.contains(FileRetention)
      )("delta.logRetentionDuration" -> "interval 9 days")

  /** Users can give the tables other properties than [[defaults]]. */
  override def alterProblem(table: String, change: ColumnChange): Option[String] = {
    val found = properties(table)
    def off(property: String, value: String) =
      Option.when(found.getOrElse(property, value).equalsIgnoreCase(value))(
        s"because the property $property of the table is $value."
      )
    change match {
      case ColumnChange.Add(_, _) => None
      case ColumnChange.Rename(name, _) =>
        off(ColumnMapping, "none").map(why => s"Delta cannot rename the column '$name', $why")
      case ColumnChange.Widen(name, dataType) =>
        off(TypeWidening, "false")
          .map(why => s"Delta cannot give the column '$name' the type ${dataType.sql}, $why")
    }
  }

  /** Delta adds this feature by itself only when a table is made. */
  protected def allowTypes(table: String, schema: StructType): Unit =
    if (
      TargetTypes.exists(schema)(_ == TimestampNTZType) &&
      !snapshot(table).protocol.isFeatureSupported(TimestampNTZTableFeature)
    ) setProperties(table, Map("delta.feature.timestampNtz" -> "supported"))

  /**
   * Delta clusters by up to four columns that have statistics, and not a table with partitions.
   */
  protected def layout(
      schema: StructType,
      key: Seq[String],
      shape: TableShape
  ): Option[String] = {
    def ofKey = key.filter(TargetShapes.hasStatistics(schema, _)).take(TargetShapes.MostClustered)
    val columns = if (shape.cluster.nonEmpty) shape.cluster else ofKey
    Option.when(shape.partition.isEmpty && columns.nonEmpty)(clusterBy(columns))
  }

  private def clusterBy(columns: Seq[String]): String =
    if (columns.isEmpty) "CLUSTER BY NONE"
    else columns.map(TablePlace.quoted(_)).mkString("CLUSTER BY (", ", ", ")")

  private def alter(table: String, clause: String): Unit =
    session.sql(s"ALTER TABLE ${sqlName(table)} $clause"): Unit

  def arrange(table: String, schema: StructType, key: Seq[String], shape: TableShape): Unit =
    layout(schema, key, shape).foreach(alter(table, _))

  def reshape(table: String, shape: TableShape): Unit = {
    val found = open(table)
    val wanted = shape.partition.map(_.column)
    if (found.snapshot.metadata.partitionColumns != wanted) ClonedSession.run(session) { own =>
      optimizeWrite(own, wanted)
      overwrite(own, found, read(own, table), wanted)
    }
    val isClustered = ClusteringColumnInfo.extractLogicalNames(snapshot(table)).nonEmpty
    if (wanted.isEmpty && (isClustered || shape.cluster.nonEmpty))
      alter(table, clusterBy(shape.cluster))
  }

  /** Delta's own shuffle before a write makes one file for a partition, and not one for each task and partition. */
  private def optimizeWrite(session: SparkSession, partition: Seq[String]): Unit =
    if (partition.nonEmpty && isUnset(OptimizeWrite)) session.conf.set(OptimizeWrite, true)

  /** Replaces the rows, the columns and the partitioning, which DataFrameWriterV2 cannot do for a table that exists. */
  private def overwrite(
      session: SparkSession,
      found: OpenedTable,
      rows: DataFrame,
      partition: Seq[String]
  ): Unit = {
    val conf = session.asInstanceOf[classic.SparkSession].sessionState.conf
    val command = WriteIntoDelta(
      found.log,
      SaveMode.Overwrite,
      new DeltaOptions(Map("overwriteSchema" -> "true"), conf),
      partition,
      found.snapshot.metadata.configuration,
      rows,
      found.catalogTable
    )
    TablePlans.run(session, command)
  }

  /** Delta's parser miscounts the characters after an emoji. Only then is there an ALTER TABLE, which takes longer. */
  protected def isParsed(create: String): Boolean =
    create.codePointCount(0, create.length) == create.length

  protected def write(
      session: SparkSession,
      table: String,
      name: MarkName,
      expected: Option[Long],
      lsn: Long,
      write: TargetWrite
  ): Unit = {
    def check(transaction: OptimisticTransaction): Unit = {
      // This also makes Delta refuse the commit if another one with such a mark comes before.
      transaction.txnVersion(name.toString)
      // A copy of an empty table has no files by which Delta would find the conflict.
      transaction.txnVersion(name.next.toString)
      // Delta accepts two appends at the same time. It must not accept an append of another copy.
      write match {
        case TargetWrite.Append(_) => transaction.readWholeTable()
        case _                     => ()
      }
      if (name.isReplaced(transactions(transaction.snapshot).keys))
        throw new LakeException("PGOUTPUT_OTHER_JOB.COPIED_AGAIN", "table" -> sqlName(table))
      val found = mark(table, transaction.snapshot, name)
      if (found != expected) throw TargetError.otherMark(sqlName(table), expected, found)
    }
    write match {
      case TargetWrite.Direct(change) => direct(table, name, lsn, check)(change)
      case other: TargetWrite.Query =>
        def run(): Unit = query(session, table, name, lsn, other, check)
        // No rewrite is committed while a query runs, because each of them could be a conflict for the query.
        Option(directs.get(table)).fold(run())(_.synchronized(run()))
    }
  }

  /** Commits without a query. After a conflict, the lookup begins again. */
  private def direct(
      table: String,
      name: MarkName,
      lsn: Long,
      check: OptimisticTransaction => Unit
  )(change: DirectTable => DirectChange): Unit =
    attempt(_.isInstanceOf[DeltaConcurrentModificationException]) {
      val opened = open(table)
      val made = linked {
        val known = directs.compute(
          table,
          (_, known) =>
            if (known != null && (known.log eq opened.log)) known
            else new DeltaDirect(session, opened.log, opened.catalogTable, keys.table(table))
        )
        val mark = SetTransaction(name.toString, lsn, Some(System.currentTimeMillis))
        DeltaDirect.problem(opened.snapshot).foreach(reason => throw new NotDirect(reason))
        known.commit(opened.snapshot, mark, comment(name, lsn), check)(change)
      }
      checked.put(table, made.fold(reason => throw new NotDirect(reason), identity)): Unit
    }

  def checkpoint(table: String): Unit = linked(
    Option(directs.get(table)).foreach(direct =>
      ClonedSession.within(session)(direct.checkpoint(snapshot(table)))
    )
  ): Unit

  override def files(table: String): Option[TableFiles] =
    Option(directs.get(table)).map(_.tableFiles)

  /** Another writer wins against a rewrite, which is tried again later. */
  def compact(table: String): Boolean =
    linked(Option(directs.get(table)).exists { direct =>
      try ClonedSession.within(session)(direct.compact(() => snapshot(table)))
      catch { case _: DeltaConcurrentModificationException => false }
    }).contains(true)

  override def keepKeys(table: String): Unit = linked(
    Option(directs.get(table)).foreach(direct =>
      ClonedSession.within(session)(direct.keepKeys(() => snapshot(table)))
    )
  ): Unit

  /**
   * Delta itself removes old files of the log when it writes a checkpoint. Each hour, VACUUM LITE removes the data files
   * that the log says are not used any more. It leaves files that the log does not know, for example those of another
   * writer that has not committed yet. It does not run if the table has a property for the time that these files stay.
   *
   * VACUUM LITE needs all commits of the log since it ran last. So it removes files some time before Delta removes their
   * commits from the log.
   */
  def expire(table: String, since: Instant, versions: Int): Unit =
    if (directs.containsKey(table) && Option(vacuums.get(table)).forall(_.isBefore(Instant.now))) {
      val found = snapshot(table)
      val last = DeltaHistory.lastVacuum(found).orElse(
        found.metadata.createdTime.map(Instant.ofEpochMilli(_))
      ).getOrElse(Instant.EPOCH)
      val now = Instant.now
      val isDue = last.isBefore(now.minus(VacuumEvery))
      // Before it runs: if Delta refuses it, the next commits do not ask for it again, and files are still rewritten.
      vacuums.put(table, (if (isDue) now else last).plus(VacuumEvery))
      if (isDue && !found.metadata.configuration.contains(FileRetention)) {
        val oldest = DeltaHistory.time(found.deltaLog, found.version - versions)
        val log = Duration.ofMillis(found.deltaLog.deltaRetentionMillis(found.metadata))
        val kept = Seq(Duration.between(retained(since, oldest), now), log.minus(LogMargin)).min
        DeltaHistory.repairVacuum(found.deltaLog)
        ClonedSession.run(session) { own =>
          own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", false)
          // Otherwise, Delta 4.1 and later takes the time of the table's property in place of that of the statement.
          own.conf.set("spark.databricks.delta.vacuum.retentionWindowIgnore.enabled", false)
          // The log has few files, and each task costs more than it does.
          own.conf.set(
            "spark.sql.shuffle.partitions",
            session.sparkContext.defaultParallelism.toLong
          )
          // Delta rounds the hours, and 0 hours would remove files that readers have open.
          val hours = math.max(1, kept.plusHours(1).minusMillis(1).toHours)
          // VACUUM prints what it has deleted.
          Console.withOut(OutputStream.nullOutputStream) {
            own.sql(s"VACUUM ${sqlName(table)} LITE RETAIN $hours HOURS")
          }
        }
      }
    }

  /** Commits by a query of Spark. */
  private def query(
      session: SparkSession,
      table: String,
      name: MarkName,
      lsn: Long,
      write: TargetWrite.Query,
      check: OptimisticTransaction => Unit
  ): Unit = {
    val first = new FirstTransactionCheck(transaction => {
      if (choosesTasks)
        session.conf.set(SnapshotTasks, tasks(DeltaDirect.filesIn(transaction.snapshot)))
      check(transaction)
    })
    val settings = Map(
      "spark.databricks.delta.write.txnAppId" -> name.toString,
      "spark.databricks.delta.write.txnVersion" -> lsn.toString,
      "spark.databricks.delta.commitInfo.userMetadata" -> comment(name, lsn)
    )
    settings.foreach { case (key, value) => session.conf.set(key, value) }
    // A MERGE does not use these two values, because Delta itself sends its rows to their partitions.
    lazy val found = open(table)
    lazy val partition = write match {
      case TargetWrite.Replace(_, shape) => shape.toSeq.flatMap(_.partition.map(_.column))
      case _                             => found.snapshot.metadata.partitionColumns
    }
    def checked(rows: DataFrame) = DeltaPartitionText.checked(rows, partition)
    write match {
      case _: TargetWrite.Merge => ()
      case _                    => optimizeWrite(session, partition)
    }
    try first.run {
        write match {
          case TargetWrite.Append(rows) => checked(rows).writeTo(sqlName(table)).append()
          case TargetWrite.Overwrite(rows, where) =>
            checked(rows).writeTo(sqlName(table)).overwrite(functions.expr(where))
          case TargetWrite.Replace(rows, _) if partition.nonEmpty =>
            overwrite(session, found, checked(withOthers(table, rows)), partition)
          case TargetWrite.Replace(rows, _) =>
            withOthers(table, rows).writeTo(sqlName(table)).option("overwriteSchema", "true")
              .overwrite(functions.lit(true))
          case TargetWrite.Merge(rows, condition, clauses, narrowed) =>
            val target = TablePlans.Named(place.parts(table))
            TablePlans.merge(session, target, rows, condition, clauses, narrowed)
        }
      }
    finally settings.keys.foreach(session.conf.unset)
    write match {
      case _: TargetWrite.Overwrite =>
        // Delta removes the clustering with the rows.
        val columns = ClusteringColumnInfo.extractLogicalNames(found.snapshot)
        if (columns.nonEmpty) alter(table, columns.mkString("CLUSTER BY (", ", ", ")"))
      case _ => ()
    }
  }

  private def mark(table: String, snapshot: Snapshot, name: MarkName): Option[Long] = {
    val found = transactions(snapshot).get(name.toString)
    if (found.nonEmpty && !Option(checked.get(table)).contains(snapshot.version)) {
      checkHistory(table, snapshot, comment(name, found.get))
      checked.put(table, snapshot.version)
    }
    found
  }

  /** Searches the history for a RESTORE, from the newest commit back to our last one. */
  private def checkHistory(table: String, snapshot: Snapshot, ours: String): Unit =
    DeltaHistory.commits(snapshot).takeWhile(!_.userMetadata.contains(ours))
      .find(_.operation == "RESTORE").foreach(_ =>
        throw new LakeException(
          "PGOUTPUT_MARK_LOST.OLDER_ROWS",
          "table" -> sqlName(table),
          "reason" -> "a RESTORE"
        )
      )

  private def snapshot(table: String): Snapshot = open(table).snapshot

  /** A table can be in another bucket than its namespace. */
  private def open(table: String): OpenedTable = {
    val opened = openNow(table)
    if (S3Commits.ensure(session, opened.log.dataPath)) openNow(table) else opened
  }

  private def openNow(table: String): OpenedTable = ClonedSession.within(session) {
    val (log, catalogTable) = place match {
      case catalog: CatalogPlace => catalog.load(table) match {
          case loaded: DeltaTableV2 => (loaded.deltaLog, loaded.catalogTable)
          case _ =>
            throw new LakeException(
              "PGOUTPUT_TARGET_FORMAT.OTHER_FORMAT",
              "table" -> sqlName(table),
              "format" -> "Delta"
            )
        }
      case folder: FolderPlace => (DeltaLog.forTable(session, folder.path(table)), None)
    }
    val known = log.unsafeVolatileSnapshot
    val found =
      if (linked(DeltaHistory.isNewest(known)).contains(true)) known
      else log.update(false, None, catalogTable)
    // Delta computes the transactions when they are first asked for, with the settings of that moment.
    transactions(found): Unit
    OpenedTable(log, catalogTable, found)
  }
}

/** A table as Delta has it. */
final private case class OpenedTable(
    log: DeltaLog,
    catalogTable: Option[CatalogTable],
    snapshot: Snapshot
)

object DeltaTarget {

  private val VacuumEvery = Duration.ofHours(1)

  /** How long the log keeps a commit after VACUUM could remove its files. Delta cleans the log up by whole days. */
  private val LogMargin = Duration.ofDays(2)

  final private val ColumnMapping = "delta.columnMapping.mode"

  final private val TypeWidening = "delta.enableTypeWidening"

  final private val FileRetention = "delta.deletedFileRetentionDuration"

  private val MergeSource = "spark.databricks.delta.merge.materializeSource"

  private val FilesInChecksum = "spark.databricks.delta.allFilesInCrc.enabled"

  private val SnapshotTasks = "spark.databricks.delta.snapshotPartitions"

  /**
   * The number of tasks that read the state of a table after each commit. By default, Delta takes
   * 50, each of which uses 0.1 s of CPU for a table of two files: five times as much as the first
   * copy of a million rows.
   */
  private def tasks(files: Long): Long = math.min(50, 1 + files / 20000)

  private val OptimizeWrite = "spark.databricks.delta.optimizeWrite.enabled"

  private def transactions(snapshot: Snapshot): Map[String, Long] =
    DeltaTransactions.of(snapshot).getOrElse(snapshot.transactions)

  private def comment(name: MarkName, lsn: Long) = s"$name $lsn"
}

/**
 * Checks the snapshot on which Delta begins a transaction. Delta itself only compares the version of an
 * application's transaction with its previous version: it would accept a later mark that was made from older
 * rows.
 *
 * Delta's hooks after a commit begin transactions of their own, which are not checked.
 */
final private class FirstTransactionCheck(check: OptimisticTransaction => Unit)
    extends TransactionExecutionObserver {

  private var isFirst = true

  /** Runs something that begins a transaction on this thread. */
  def run(body: => Unit): Unit = TransactionExecutionObserver.withObserver(this)(body)

  def startingTransaction(begin: => OptimisticTransaction): OptimisticTransaction = {
    val begun = begin
    if (isFirst) {
      isFirst = false
      val transaction = new KnownTransactions(begun.deltaLog, begun.catalogTable, begun.snapshot)
      check(transaction)
      transaction
    } else begun
  }

  def createChild(): TransactionExecutionObserver = this
  def preparingCommit[T](prepare: => T): T = prepare
  def beginDoCommit(): Unit = ()
  def beginBackfill(): Unit = ()
  def beginPostCommit(): Unit = ()
  def transactionCommitted(): Unit = ()
  def transactionAborted(): Unit = ()
}

/** A commit of a Delta table, as its log describes it. */
final private case class DeltaCommit(operation: String, userMetadata: Option[String])

/**
 * The commits of a Delta table. Delta's own history runs a Spark job to read them, and the commit that is
 * looked for is nearly always the newest one.
 */
private object DeltaHistory {

  /** The commits from that of a snapshot back to the oldest one whose file is still there. */
  def commits(snapshot: Snapshot): Iterator[DeltaCommit] = {
    val found = Iterator.iterate(snapshot.version)(_ - 1).takeWhile(_ >= 0)
      .map(read(snapshot.deltaLog, _)).takeWhile(_.nonEmpty).flatten.flatten
    // The newest commits of a table that its catalog manages are elsewhere.
    if (found.hasNext) found
    else
      snapshot.deltaLog.history.getHistory(0, Some(snapshot.version), None).iterator
        .map(commit => DeltaCommit(commit.operation, commit.userMetadata))
  }

  /**
   * Returns whether nobody has committed since a snapshot, by two files of the log. To list the log, as Delta's `update`
   * does, takes longer than the rest of a direct commit.
   *
   * The last commit has to be the file that the snapshot has, because the table can have been made again in the same
   * folder. If a checkpoint is due, only a list of the log shows whether somebody has written it.
   */
  def isNewest(snapshot: Snapshot): Boolean = DeltaDirect.unknownFeature(snapshot).isEmpty && {
    val log = snapshot.deltaLog
    val commits = snapshot.logSegment.deltas
    commits.size < log.checkpointInterval(snapshot.metadata) && commits.lastOption.exists { last =>
      val system = last.getPath.getFileSystem(log.newDeltaHadoopConf())
      last.getPath.getName == FileNames.unsafeDeltaFile(log.logPath, snapshot.version).getName &&
      changed(log, last.getPath).contains(Instant.ofEpochMilli(last.getModificationTime)) &&
      !system.exists(FileNames.unsafeDeltaFile(log.logPath, snapshot.version + 1))
    }
  }

  /** Returns when a commit was made; None if its file is not there any more. */
  def time(log: DeltaLog, version: Long): Option[Instant] =
    Option.when(version >= 0)(FileNames.unsafeDeltaFile(log.logPath, version))
      .flatMap(changed(log, _))

  /** Returns when VACUUM last removed files of the table, if Delta has noted it. */
  def lastVacuum(snapshot: Snapshot): Option[Instant] =
    changed(snapshot.deltaLog, vacuumInfo(snapshot.deltaLog))

  private def vacuumInfo(log: DeltaLog) = new Path(log.logPath, "_last_vacuum_info")

  /**
   * Lets VACUUM LITE run if the log lacks commits since it ran last. Delta refuses it then for ever, because also a VACUUM
   * of the whole folder does not note a commit (`VacuumCommand.gc`). The files that the missing commits have removed stay
   * until somebody runs VACUUM.
   */
  def repairVacuum(log: DeltaLog): Unit = {
    val conf = log.newDeltaHadoopConf()
    val last =
      try log.store.read(vacuumInfo(log), conf).headOption.flatMap(VacuumedUpTo.findFirstMatchIn(_))
          .map(_.group(1).toLong)
      catch { case _: FileNotFoundException => None }
    val earliest = log.store.listFrom(FileNames.listingPrefix(log.logPath, 0), conf)
      .collectFirst { case FileNames.DeltaFile(_, version) => version }
    earliest.filter(version => version > 0 && last.forall(_ < version)).foreach { version =>
      val note = s"""{"latestCommitVersionOutsideOfRetentionWindow":$version}"""
      log.store.write(vacuumInfo(log), Iterator(note), overwrite = true, conf)
    }
  }

  private val VacuumedUpTo = """"latestCommitVersionOutsideOfRetentionWindow"\s*:\s*(\d+)""".r

  private def changed(log: DeltaLog, file: Path): Option[Instant] =
    try {
      val system = file.getFileSystem(log.newDeltaHadoopConf())
      Some(Instant.ofEpochMilli(system.getFileStatus(file).getModificationTime))
    } catch { case _: FileNotFoundException => None }

  /** Returns None if the file is not there. Not every writer describes its commit. */
  private def read(log: DeltaLog, version: Long): Option[Option[DeltaCommit]] =
    try Some(actions(log, version).collectFirst { case info: CommitInfo =>
        DeltaCommit(info.operation, info.userMetadata)
      })
    catch { case _: FileNotFoundException => None }

  /**
   * Returns the actions of a commit.
   *
   * @throws java.io.FileNotFoundException if its file is not there
   */
  def actions(log: DeltaLog, version: Long): Iterator[Action] = {
    val file = FileNames.unsafeDeltaFile(log.logPath, version)
    log.store.read(file, log.newDeltaHadoopConf()).iterator.map(Action.fromJson)
  }
}
