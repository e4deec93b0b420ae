package io.sparkpgoutput.lake.target

import java.io.OutputStream
import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.actions.SetTransaction
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.WriteIntoDelta
import org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo
import org.apache.spark.sql.delta.{
  DeltaLog,
  DeltaOptions,
  OptimisticTransaction,
  Snapshot,
  TimestampNTZTableFeature,
  TransactionExecutionObserver
}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.pgoutput.{ClonedSession, TablePlans}
import org.apache.spark.sql.types.{StructType, TimestampNTZType}
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession, classic, functions}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{DirectChange, DirectTable, KeyCache, NotDirect}

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
    linked: DeltaLinkage = DeltaLinkage.own
) extends TableCommands(session, LakeFormat.Delta, place) {
  import DeltaTarget._

  // `getOption` is of no use here: if Delta has declared the setting, it returns the default.
  private def isUnset(setting: String) = !session.conf.getAll.contains(setting)

  private val choosesTasks = isUnset(SnapshotTasks)
  if (choosesTasks) session.conf.set(SnapshotTasks, 1L)
  // The rows of a MERGE are the same whenever they are computed, so Delta need not store them first.
  if (isUnset(MergeSource)) session.conf.set(MergeSource, "none")

  // A checksum with all files costs a job of Spark in the first commit of a table, whenever its files have become
  // fewer than 50, and, if a zone is not UTC, in each commit.
  if (isUnset(FilesInChecksum)) session.conf.set(FilesInChecksum, false)

  // Each copy of a table adds a mark. By default, a checksum has at most 100, and without them a commit runs jobs.
  if (isUnset(MarksInChecksum)) session.conf.set(MarksInChecksum, 10000L)

  /** For each table, the version up to which the history was read. It has no RESTORE after the last mark. */
  private val checkedVersions = new ConcurrentHashMap[String, Long]

  /** What is known of the files of tables. */
  private val directs = new ConcurrentHashMap[String, DeltaDirect]

  /** When to look whether VACUUM is due for a table. */
  private val vacuums = new ConcurrentHashMap[String, Instant]

  def look(table: String): TargetLook = {
    // The version in memory is enough for a direct commit, which reads the newest one itself. For other tables,
    // `snapshot` reads it. It asks for the log again, because Delta replaces a log that was not used for an hour.
    def problem(found: Snapshot) = linked(DeltaDirect.problem(found)).fold(Some(_), identity)
    val found = newest(table).filter(problem(_).isEmpty).getOrElse(snapshot(table))
    TargetLook(found.metadata.schema, problem(found))
  }

  /** Spark gives this column to each table of files, and a MERGE of Delta reads it. */
  override def columnProblem(name: String): Option[String] =
    Option.when(name.equalsIgnoreCase(FileFormat.METADATA_NAME))(
      "Spark has a column of this name in each table of files."
    )

  def properties(table: String): Map[String, String] = snapshot(table).metadata.configuration

  def mark(table: String, name: MarkName): Option[Long] = mark(table, snapshot(table), name)

  protected def markNames(table: String): Iterable[String] = transactions(snapshot(table)).keys

  def version(table: String): String = snapshot(table).version.toString

  def read(session: SparkSession, table: String): DataFrame = {
    refresh(session, table)
    session.table(sqlName(table))
  }

  protected def refresh(session: SparkSession, table: String): Unit =
    ClonedSession.readVariants(session, snapshot(table).schema)

  protected def defaults(schema: StructType, chosen: Map[String, String]): Map[String, String] =
    Map(
      ColumnMapping -> "name",
      "delta.enableDeletionVectors" -> "true",
      TypeWidening -> "true",
      // Between two checkpoints, a reader reads up to so many small files.
      "delta.checkpointInterval" -> "100"
    ) ++
      // The log gets a file for each commit, which stays for 30 days by default. A shorter time means fewer files. It
      // must not be shorter than the time that removed data files stay, which is 7 days by default.
      Option.when(
        !chosen.contains(FileRetention)
      )(LogRetention -> OwnLogRetention)

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

  protected def make(
      table: String,
      columns: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit = {
    val partitions = shape.partition.map(_.sql)
    val partitioned =
      if (partitions.isEmpty) "" else s" PARTITIONED BY (${partitions.mkString(", ")})"
    val listed = columns.map(TableCommands.column).mkString(", ")
    val made = s"CREATE TABLE ${sqlName(table)} ($listed) USING $format$partitioned"
    val rest = s"TBLPROPERTIES (${TableProperties.sql(properties)})"
    val arranged =
      layout(columns, key, shape).map(layout => s"$made $layout $rest").filter(isParsed)
    session.sql(arranged.getOrElse(s"$made $rest"))
    if (arranged.isEmpty) arrange(table, columns, key, shape)
  }

  /** Delta's parser miscounts the characters after an emoji. An ALTER TABLE does not fail, but takes longer. */
  private def isParsed(create: String): Boolean =
    create.codePointCount(0, create.length) == create.length

  /**
   * The clause of CREATE TABLE and ALTER TABLE that clusters a table by its shape or else by its key. Delta clusters
   * by up to four columns that have statistics, and not a table with partitions.
   */
  private def layout(
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

  private def check(commit: MarkedCommit)(transaction: OptimisticTransaction): Unit = {
    import commit.{name, table}
    // This also makes Delta refuse the commit if another one with such a mark comes before.
    transaction.txnVersion(name.toString)
    // A copy of an empty table has no files by which Delta would find the conflict.
    transaction.txnVersion(name.next.toString)
    val names = transactions(transaction.snapshot).keys
    commit.problem(sqlName(table), names, mark(table, transaction.snapshot, name))
      .foreach(throw _)
  }

  protected def directCommits(table: String): Option[DeltaDirect] = Option(directs.get(table))

  protected def whileQueried(table: String)(run: => Unit): Unit =
    linked(directOf(table)).fold(_ => run, _.whileQueried(run))

  override def forgetOthers(tables: Set[String]): Unit = {
    Seq(checkedVersions, directs, vacuums).foreach(_.keySet.removeIf(!tables(_)))
    keys.forgetOthers(tables)
  }

  private def directOf(table: String): DeltaDirect =
    directCommits(table).getOrElse(directOf(table, open(table)))

  /** Returns what is known of the files of a table, whoever has written them. */
  private def directOf(table: String, opened: OpenedTable): DeltaDirect = directs.compute(
    table,
    (_, known) =>
      if (known != null && (known.log eq opened.log)) known
      else new DeltaDirect(session, opened.log, opened.catalogTable, keys.table(table))
  )

  protected def isConflict(problem: Throwable): Boolean = DeltaDirect.isConflict(problem)

  protected def direct(commit: MarkedCommit)(change: DirectTable => DirectChange): Unit = {
    import commit.{lsn, name, table}
    val opened = open(table)
    val made = linked {
      val mark = SetTransaction(name.toString, lsn, Some(System.currentTimeMillis))
      DeltaDirect.problem(opened.snapshot).foreach(reason => throw new NotDirect(reason))
      directOf(table, opened)
        .commit(opened.snapshot, mark, comment(name, lsn), check(commit))(change)
    }
    checkedVersions.put(table, made.fold(reason => throw new NotDirect(reason), identity)): Unit
  }

  def checkpoint(table: String): Unit = {
    def isDue(snapshot: Snapshot) = DeltaDirect.isCheckpointDue(snapshot, Instant.now)
    val opened = Option.when(newest(table).forall(isDue))(open(table))
    opened.filter(opened => isDue(opened.snapshot)).foreach(opened =>
      ClonedSession.within(session) {
        val isWritten = isOfKernel(table, opened.snapshot) &&
          DeltaCheckpoint.write(opened.snapshot, opened.catalogTable)
        if (!isWritten) opened.log.checkpoint(opened.snapshot, opened.catalogTable)
        // Otherwise, the next commits would still begin at the previous checkpoint.
        opened.log.update(false, None, opened.catalogTable): Unit
      }
    )
  }

  /** Whether Delta Kernel may write the checkpoint. It does not write which files OPTIMIZE has clustered. */
  private def isOfKernel(table: String, snapshot: Snapshot): Boolean =
    !snapshot.protocol.readerAndWriterFeatureNames("clustering") ||
      linked(directCommits(table).exists(_.hasNoClusteredFile(snapshot))).contains(true)

  private def newest(table: String): Option[Snapshot] =
    linked(directCommits(table).flatMap(_.newest)).toOption.flatten

  protected def rewrite(table: String): Boolean =
    linked(ClonedSession.within(session)(directOf(table).compact(() => snapshot(table))))
      .contains(true)

  override def keepKeys(table: String): Unit = linked(
    directCommits(table).foreach(direct =>
      ClonedSession.within(session)(direct.keepKeys(() => snapshot(table)))
    )
  ): Unit

  /**
   * Delta itself removes old files of the log when it writes a checkpoint. Each hour, VACUUM LITE removes the data
   * files that the log says are not used any more. It leaves files that the log does not know, for example those of
   * another writer that has not committed yet. It does not run if somebody else has given the table a property for the
   * time that these files stay.
   *
   * VACUUM LITE needs all commits of the log since it ran last. So it removes files some time before Delta removes
   * their commits from the log, and the job removes what VACUUM has seen from the log, unless a user wants the log
   * for longer.
   */
  def expire(table: String, since: Instant, versions: Int): Option[String] =
    if (Option(vacuums.get(table)).exists(!_.isBefore(Instant.now))) None
    else {
      val found = snapshot(table)
      val last = DeltaHistory.lastVacuum(found).orElse(
        found.metadata.createdTime.map(Instant.ofEpochMilli(_))
      ).getOrElse(Instant.EPOCH)
      val now = Instant.now
      val isDue = last.isBefore(now.minus(VacuumEvery))
      // This comes before VACUUM runs. If Delta refuses it, the next commits do not ask for it again, and still rewrite
      // files.
      vacuums.put(table, (if (isDue) now else last).plus(VacuumEvery))
      val reason = keepsFiles(found)
      if (isDue && reason.isEmpty) {
        val oldest = DeltaHistory.time(found.deltaLog, found.version - versions)
        expire(table, found, Duration.between(retained(since, oldest), now))
      }
      reason
    }

  /**
   * VACUUM without LITE removes all files of the folder that are old enough, unless the state of the table names
   * them. The state forgets a file some time after its removal from the table, so no version can stay longer than that.
   * If the job has chosen this time ([[nameRemoved]]), none does.
   */
  def removeOrphans(table: String, before: Instant): Option[String] = {
    val found = snapshot(table)
    val kept = Duration.between(before, Instant.now)
    val known = Duration.ofMillis(DeltaLog.tombstoneRetentionMillis(found.metadata))
    // `before` was the time of a week ago a moment earlier.
    val isLong = !hasOwnRetention(found) && kept.compareTo(known.plusHours(1)) > 0
    val reason = keepsFiles(found).orElse(Option.when(isLong)(
      s"versions stay for more than the ${known.toDays} days for which Delta knows old files"
    ))
    if (reason.isEmpty) vacuum(table, "", kept)
    reason
  }

  private def expire(table: String, found: Snapshot, wanted: Duration): Unit = {
    val log = Duration.ofMillis(found.deltaLog.deltaRetentionMillis(found.metadata))
    val kept = Seq(wanted, log.minus(LogMargin)).min
    DeltaHistory.repairVacuum(found.deltaLog)
    vacuum(table, "LITE", kept)
    nameRemoved(table, found, hours(kept))
    val isOwn = found.metadata.configuration.get(LogRetention).contains(OwnLogRetention)
    try
      if (
        isOwn && found.deltaLog.enableExpiredLogCleanup(found.metadata) &&
        DeltaDirect.unknownFeature(found).isEmpty
      ) DeltaHistory.removeVacuumed(found.deltaLog)
    catch { case _: LinkageError => () } // Delta itself removes commits.
  }

  /**
   * Says for how long the state of a table names files after their removal from it: as long as versions stay. By
   * default, that is a week. A table with a commit each second would have two million such files, and each checkpoint
   * and each reader takes all of them.
   *
   * The time gets only an hour longer each hour, because the state lacks the files that were removed before.
   */
  private def nameRemoved(table: String, found: Snapshot, kept: Long): Unit = {
    val now = Duration.ofMillis(DeltaLog.tombstoneRetentionMillis(found.metadata)).toHours
    val next = if (kept > now) now + 1 else kept
    if (kept > now && hasOwnRetention(found) || kept <= now / 2) {
      val value = s"interval $next hours"
      setProperties(table, Map(FileRetention -> value, OwnFileRetention -> value))
    }
  }

  /** Removes files that no version of the last time needs. */
  private def vacuum(table: String, mode: String, kept: Duration): Unit =
    ClonedSession.run(session) { own =>
      own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", false)
      // Otherwise, Delta 4.1 and later takes the time of the table's property in place of that of the statement.
      own.conf.set("spark.databricks.delta.vacuum.retentionWindowIgnore.enabled", false)
      // The log has few files, and each task costs more than it does. By default, a list of the folder has 10,000
      // tasks.
      val tasks = session.sparkContext.defaultParallelism.toLong
      own.conf.set("spark.sql.shuffle.partitions", tasks)
      own.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", tasks)
      // VACUUM prints what it has deleted.
      Console.withOut(OutputStream.nullOutputStream) {
        own.sql(s"VACUUM ${sqlName(table)} $mode RETAIN ${hours(kept)} HOURS")
      }
    }

  protected def query(
      session: SparkSession,
      commit: MarkedCommit,
      write: TargetWrite.Query
  ): Unit = {
    import commit.{lsn, name, table}
    val first = new FirstTransactionCheck(transaction => {
      if (choosesTasks)
        session.conf.set(SnapshotTasks, tasks(DeltaDirect.filesIn(transaction.snapshot)))
      // Delta accepts two appends at the same time. It must not accept an append of another copy. A MERGE leaves out
      // files by their bounds, so Delta would accept that somebody restores an older version during the MERGE.
      write match {
        case TargetWrite.Append(_) | _: TargetWrite.Merge => transaction.readWholeTable()
        case _                                            => ()
      }
      check(commit)(transaction)
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
    ClonedSession.readVariants(session, found.snapshot.schema)
    if (!write.isInstanceOf[TargetWrite.Merge]) optimizeWrite(session, partition)
    try TransactionExecutionObserver.withObserver(first) {
        write match {
          case TargetWrite.Append(rows) => checked(rows).writeTo(sqlName(table)).append()
          case TargetWrite.Overwrite(rows) =>
            checked(rows).writeTo(sqlName(table)).overwrite(functions.lit(true))
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
    if (found.nonEmpty && !Option(checkedVersions.get(table)).contains(snapshot.version)) {
      checkHistory(table, snapshot, comment(name, found.get))
      checkedVersions.put(table, snapshot.version)
    }
    found
  }

  /** Searches the history for a RESTORE, from the newest commit back to our last one. */
  private def checkHistory(table: String, snapshot: Snapshot, ours: String): Unit =
    DeltaHistory.commits(snapshot).takeWhile(!_.userMetadata.contains(ours))
      .find(_.operation == "RESTORE")
      .foreach(_ => throw TargetError.olderRows(sqlName(table), "a RESTORE"))

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
          case _                    => throw otherFormat(table)
        }
      case folder: FolderPlace => (DeltaLog.forTable(session, folder.path(table)), None)
    }
    val keptVersion = directCommits(table).flatMap(_.keptVersion)
    val inMemory = log.unsafeVolatileSnapshot
    val found =
      if (linked(DeltaHistory.isNewest(inMemory)).contains(true)) inMemory
      else log.update(false, None, catalogTable)
    // Delta takes a table of a catalog for an empty one if its folder is away, as on a disk that is not mounted.
    if (catalogTable.nonEmpty && found.version < 0)
      throw new LakeException(
        "PGOUTPUT_TARGET_LOG_LOST",
        "table" -> sqlName(table),
        "folder" -> log.dataPath
      )
    // Delta computes the transactions when they are first asked for, with the settings of that moment.
    transactions(found): Unit
    // The version in memory of a log that Delta has replaced would never become newer. If somebody has replaced the
    // files of the log by older ones, the versions that follow are not those whose files are known.
    val isOther = keptVersion.exists(_ > found.version)
    directs.computeIfPresent(
      table,
      (_, direct) => if ((direct.log eq log) && !isOther) direct else null
    ): Unit
    OpenedTable(catalogTable, found)
  }
}

/** A table as Delta has it. */
final private case class OpenedTable(catalogTable: Option[CatalogTable], snapshot: Snapshot) {
  def log: DeltaLog = snapshot.deltaLog
}

object DeltaTarget {

  private val VacuumEvery = Duration.ofHours(1)

  /** How long the log keeps a commit after VACUUM could remove its files. Delta cleans the log up by whole days. */
  private val LogMargin = Duration.ofDays(2)

  final private val ColumnMapping = "delta.columnMapping.mode"

  final private val TypeWidening = "delta.enableTypeWidening"

  final private val FileRetention = "delta.deletedFileRetentionDuration"

  /** The property with the value that the job has given to the one above. A user can give it another one. */
  final private val OwnFileRetention = "spark-pgoutput.file-retention"

  private def hasOwnRetention(snapshot: Snapshot) = {
    val found = snapshot.metadata.configuration
    found.get(FileRetention).exists(found.get(OwnFileRetention).contains(_))
  }

  /** Returns why a table keeps all files that it does not use any more. */
  private def keepsFiles(snapshot: Snapshot): Option[String] =
    Option.when(
      snapshot.metadata.configuration.contains(FileRetention) && !hasOwnRetention(snapshot)
    )(s"the table has the property $FileRetention")

  /** Delta rounds the hours, and 0 hours would remove files that readers have open. */
  private def hours(kept: Duration) = math.max(1, kept.plusHours(1).minusMillis(1).toHours)

  final private val LogRetention = "delta.logRetentionDuration"

  final private val OwnLogRetention = "interval 9 days"

  private val MergeSource = "spark.databricks.delta.merge.materializeSource"

  private val FilesInChecksum = "spark.databricks.delta.allFilesInCrc.enabled"

  private val MarksInChecksum = "spark.databricks.delta.setTransactionsInCrc.maxAllowed"

  private val SnapshotTasks = "spark.databricks.delta.snapshotPartitions"

  /**
   * The number of tasks that read the state of a table after each commit. By default, Delta takes
   * 50, each of which uses 0.1 s of CPU for a table of two files: five times as much as the first
   * copy of a million rows.
   */
  private def tasks(files: Long): Long = math.min(50, 1 + files / 20000)

  private val OptimizeWrite = "spark.databricks.delta.optimizeWrite.enabled"

  private def transactions(snapshot: Snapshot): Map[String, Long] =
    DeltaDirect.transactions(snapshot).getOrElse(snapshot.transactions)

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

  def startingTransaction(begin: => OptimisticTransaction): OptimisticTransaction = {
    val begun = begin
    if (isFirst) {
      isFirst = false
      val transaction = new KnownTransactions(begun.catalogTable, begun.snapshot)
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
