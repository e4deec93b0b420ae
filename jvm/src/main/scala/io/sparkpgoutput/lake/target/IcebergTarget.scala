package io.sparkpgoutput.lake.target

import java.time.Instant
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.{Locale, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.{ClonedSession, RowsOfRdd, TablePlans}
import org.apache.spark.sql.types.{StructType, VariantType}
import org.apache.spark.sql.{DataFrame, SparkSession}

import org.apache.iceberg.actions.DeleteOrphanFiles.PrefixMismatchMode
import org.apache.iceberg.encryption.EncryptionManager
import org.apache.iceberg.exceptions.{
  CommitFailedException,
  CommitStateUnknownException,
  NotFoundException,
  ValidationException
}
import org.apache.iceberg.io.{FileIO, LocationProvider, SupportsPrefixOperations}
import org.apache.iceberg.spark.SparkSchemaUtil
import org.apache.iceberg.spark.actions.SparkActions
import org.apache.iceberg.spark.source.SparkTable
import org.apache.iceberg.util.PropertyUtil
import org.apache.iceberg.{
  BaseTable,
  DataOperations,
  HasTableOperations,
  MetadataColumns,
  Snapshot,
  Table,
  TableMetadata,
  TableMetadataParser,
  TableOperations,
  TableProperties => Names,
  Transactions
}

import io.sparkpgoutput.errors.{ErrorCauses, LakeException}
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{DirectChange, DirectTable, KeyCache}
import io.sparkpgoutput.protocol.Lsn

/** Tables of Iceberg. [[IcebergMark]] is written in the commit of the rows by [[MarkingOperations]]. */
final class IcebergTarget(session: SparkSession, place: CatalogPlace, keys: KeyCache)
    extends TableCommands(session, LakeFormat.Iceberg, place) {
  import IcebergTarget._

  /** What is known of the files of tables. */
  private val directs = new ConcurrentHashMap[String, IcebergDirect]

  /** When to look for old versions of tables again. */
  private val expiries = new ConcurrentHashMap[String, NextExpiry]

  /** Iceberg adds these columns to each table that is read. */
  override def columnProblem(name: String): Option[String] =
    Option.when(
      MetadataColumns.isMetadataColumn(name.toLowerCase(Locale.ROOT))
    )("Iceberg has a column of this name itself.")

  def properties(table: String): Map[String, String] =
    operations(table).current.properties.asScala.toMap

  def look(table: String): TargetLook = {
    val found = operations(table)
    TargetLook(SparkSchemaUtil.convert(found.current.schema), IcebergDirect.problem(found))
  }

  /** Iceberg needs no checkpoints: each commit writes the whole metadata. */
  def checkpoint(table: String): Unit = ()

  protected def directCommits(table: String): Option[IcebergDirect] = Option(directs.get(table))

  protected def whileQueried(table: String)(run: => Unit): Unit = directOf(table).whileQueried(run)

  override def forgetOthers(tables: Set[String]): Unit = {
    Seq(directs, expiries).foreach(_.keySet.removeIf(!tables(_)))
    keys.forgetOthers(tables)
  }

  protected def rewrite(table: String): Boolean = directOf(table).compact(() => opened(table))

  override def keepKeys(table: String): Unit =
    directCommits(table).foreach(_.keepKeys(() => opened(table)))

  /**
   * The table's own properties, its tags and its branches win. The table is opened once an hour, or when the commits of
   * the job can have made too many versions.
   */
  def expire(table: String, since: Instant, versions: Int): Option[String] =
    if (Option(expiries.get(table)).exists(_.isLater)) None else expireNow(table, since, versions)

  private def expireNow(table: String, since: Instant, versions: Int): Option[String] = {
    val metadata = operations(table).current
    val times = IcebergMark.ancestors(metadata).map(_.timestampMillis).toIndexedSeq.reverse
    val reason = keepsFiles(metadata.properties)
    val excess = times.length - versions
    val most = versions / 20
    val next = new NextExpiry(if (excess > most) 0 else most - excess)
    if (reason.isEmpty) {
      if (OwnExpiry.exists(metadata.properties.containsKey)) {
        if (isOwnDue(metadata, times)) load(table).expireSnapshots().commit()
      } else {
        val oldest = Option.when(excess > 0)(Instant.ofEpochMilli(times(excess)))
        val due = retained(since, oldest).toEpochMilli
        expiry(times, due, excess > most).foreach { time =>
          load(table).expireSnapshots().expireOlderThan(time).retainLast(1).commit()
        }
      }
    }
    expiries.put(table, next)
    reason
  }

  /** A file whose path differs from that of a known file only in its scheme or authority is an error of Iceberg. */
  def removeOrphans(table: String, before: Instant): Option[String] = {
    val found = opened(table)
    val reason = keepsFiles(found.properties).orElse(
      IcebergFolder.otherTable(found, session.sessionState.newHadoopConf())
        .map(path => s"its folder has $path of another table")
    )
    if (reason.isEmpty) ClonedSession.run(session) { own =>
      SparkActions.get(own).deleteOrphanFiles(found).olderThan(before.toEpochMilli)
        .prefixMismatchMode(PrefixMismatchMode.ERROR)
        // Hadoop may not know the scheme, for example if S3FileIO reads the files.
        .usePrefixListing(found.io.isInstanceOf[SupportsPrefixOperations])
        .execute(): Unit
    }
    reason
  }

  override val maintainer: Option[String] =
    session.conf.getOption(s"spark.sql.catalog.${place.catalogName}.warehouse")
      .filter(S3Tables.matches).map(_ => "S3 Tables")

  def mark(table: String, name: MarkName): Option[Long] =
    IcebergMark.read(operations(table), sqlName(table), name)

  protected def markNames(table: String): Iterable[String] = properties(table).keys

  def version(table: String): String =
    Option(operations(table).current.currentSnapshot).fold("")(_.snapshotId.toString)

  /**
   * The new session of a commit must not look up the table itself. Spark would make a catalog for this
   * session, with connections that nobody closes.
   */
  def read(session: SparkSession, table: String): DataFrame = {
    refresh(session, table)
    TablePlans.read(session, TablePlans.Loaded(place.load(table), place.catalog))
  }

  protected def refresh(session: SparkSession, table: String): Unit = load(table).refresh()

  protected def allowTypes(table: String, schema: StructType): Unit = {
    val least = leastVersion(schema)
    if (operations(table).current.formatVersion < least)
      setProperties(table, Map("format-version" -> least.toString))
  }

  protected def defaults(
      schema: StructType,
      chosen: Map[String, String]
  ): Map[String, String] = {
    val modes = Seq("merge", "update", "delete").map(command =>
      s"write.$command.mode" -> "merge-on-read"
    )
    Map(
      "format-version" -> leastVersion(schema).toString,
      "write.metadata.delete-after-commit.enabled" -> "true",
      // Each commit that removes a file, and each scan, opens all manifests. By default, a table has up to 100 of each
      // kind.
      "commit.manifest.min-count-to-merge" -> "10"
    ) ++ modes
  }

  /** Calls the catalog as CREATE TABLE does. To parse and analyze a statement takes longer than to make the table. */
  protected def make(
      table: String,
      columns: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit = {
    val partitions = shape.partition.map(_.sql)
    TablePlans.create(
      place.catalog,
      place.identifier(table),
      columns.toNullable,
      if (partitions.isEmpty) Nil else TablePlans.partitioning(partitions.mkString(", ")).get,
      properties + (TableCatalog.PROP_PROVIDER -> format)
    )
    arrange(table, columns, key, shape)
  }

  /** If the options give no sort order, the table keeps the one that somebody else has given it. */
  def arrange(table: String, schema: StructType, key: Seq[String], shape: TableShape): Unit =
    if (shape.cluster.nonEmpty) reshape(table, shape)

  def reshape(table: String, shape: TableShape): Unit = {
    val transaction = load(table).newTransaction()
    IcebergShape.fit(transaction, shape)
    transaction.commitTransaction()
  }

  private def marking(commit: MarkedCommit, found: BaseTable) = {
    Option(expiries.get(commit.table)).foreach(_.commits.incrementAndGet())
    new MarkingOperations(found.operations, sqlName(commit.table), commit)
  }

  /** Returns what is known of the files of a table, whoever has written them. */
  private def directOf(table: String): IcebergDirect =
    directs.computeIfAbsent(table, _ => new IcebergDirect(keys.table(table)))

  /** A ValidationException of a query can have other causes. */
  protected def isConflict(problem: Throwable): Boolean =
    problem.isInstanceOf[CommitFailedException]

  override protected def isOvertaken(problem: Exception): Boolean =
    IcebergDirect.isOvertaken(problem)

  protected def direct(commit: MarkedCommit)(change: DirectTable => DirectChange): Unit = {
    val found = opened(commit.table)
    val marked = new BaseTable(marking(commit, found), found.name)
    directOf(commit.table).commit(marked, commit.name.toString -> commit.lsn.toString)(change)
  }

  protected def query(
      session: SparkSession,
      commit: MarkedCommit,
      write: TargetWrite.Query
  ): Unit = {
    import commit.{lsn, name, table}
    val found = opened(table)
    val marking = this.marking(commit, found)
    val begun = marking.current.metadataFileLocation
    val marked = new BaseTable(marking, found.name)
    // Spark does not write rows without the columns of users.
    def whole(rows: DataFrame) =
      if (found.schema.columns.size == rows.columns.length) rows else withOthers(table, rows)
    val target = TablePlans.Loaded(sparkTable(marked), place.catalog)
    val summary = s"spark.sql.iceberg.snapshot-property.$name"
    session.conf.set(summary, lsn.toString)
    try write match {
        case TargetWrite.Append(rows) =>
          TablePlans.append(session, target, once(session, marked, whole(rows)))
        case TargetWrite.Overwrite(rows) =>
          TablePlans.overwrite(session, target, once(session, marked, whole(rows)))
        case TargetWrite.Replace(rows, shape) =>
          marking.sources = snapshotsOf(rows)
          val transaction = Transactions.newTransaction(marked.name, marking)
          val all = withOthers(table, rows)
          // A type that Iceberg lacks, such as SMALLINT, is not another one than that of the table.
          val columns = TargetTypes.of(format, table, all.schema, Nil)
          // Iceberg does not remove a column that the shape uses.
          if (shape.nonEmpty && !IcebergColumns.fits(transaction.table.schema, columns))
            IcebergShape.fit(transaction, TableShape.none)
          checkUse(table, transaction.table, columns)
          IcebergColumns.fit(transaction.updateSchema(), transaction.table.schema, columns)
          shape.foreach(IcebergShape.fit(transaction, _))
          val replaced = TablePlans.Loaded(sparkTable(transaction.table), place.catalog)
          TablePlans.overwrite(session, replaced, once(session, transaction.table, all))
          transaction.commitTransaction()
        case TargetWrite.Merge(rows, condition, clauses, narrowed) =>
          TablePlans.merge(session, target, rows, condition, clauses, narrowed)
      }
    catch {
      // If nobody has written the table since, the same error comes again. If that is not known, it is tried again.
      case problem: Exception
          if ErrorCauses.of(problem).exists(IcebergDirect.isOvertaken) &&
            !Try(marking.refresh()).toOption.exists(_.metadataFileLocation == begun) =>
        throw TargetError.conflict(sqlName(table), problem)
    } finally session.conf.unset(summary)
    // A MERGE that changes nothing makes no snapshot.
    if (!marking.hasCommitted) marked.newFastAppend().set(name.toString, lsn.toString).commit()
  }

  /** Returns the snapshots that rows are read from: those of a copy can keep rows of the table. */
  private def snapshotsOf(rows: DataFrame): Set[Long] = rows.queryExecution.analyzed
    .collect { case relation: DataSourceV2Relation => relation.table }
    .collect { case read: SparkTable => Option(read.table.currentSnapshot) }
    .flatten.map(_.snapshotId).toSet

  /**
   * Checks that no column is replaced that Iceberg needs. It reads each sort order that a table has had, and fails if
   * one of its columns is gone. It does not remove a column of the current partitioning.
   */
  private def checkUse(name: String, table: Table, rows: StructType): Unit = {
    def replaced(id: Int) = IcebergColumns.replaced(table.schema, rows, id)
    for {
      field <- table.sortOrders.values.asScala.flatMap(_.fields.asScala)
      column <- replaced(field.sourceId)
    } throw new LakeException(
      "PGOUTPUT_REPLICATE_OPTION.SORTED_COLUMN",
      "table" -> sqlName(name),
      "column" -> column
    )
    for {
      field <- table.spec.fields.asScala if !field.transform.isVoid
      column <- replaced(field.sourceId)
    } throw new LakeException(
      "PGOUTPUT_REPLICATE_OPTION.PARTITION_COLUMN",
      "table" -> sqlName(name),
      "column" -> column,
      "field" -> TablePlace.quoted(field.name)
    )
  }

  /**
   * Returns rows that are computed once. For a sort order, Spark looks at all rows to find ranges, and then
   * writes them. A shuffle keeps them until then.
   */
  private def once(session: SparkSession, table: Table, rows: DataFrame): DataFrame = {
    val columns = table.sortOrder.fields.asScala
      .flatMap(field => table.schema.columns.asScala.find(_.fieldId == field.sourceId))
      .map(field => col(TablePlace.quoted(field.name))).toSeq
    if (columns.isEmpty) rows
    else
      RowsOfRdd.toDataFrame(session, RowsOfRdd.of(rows.repartition(columns: _*)), rows.schema)
  }

  private def load(table: String): Table = place.load(table) match {
    case loaded: SparkTable => loaded.table
    case _                  => throw otherFormat(table)
  }

  /** Returns what reads and writes the table's metadata, after it has read them. */
  private def operations(table: String): TableOperations = opened(table).operations

  /** Returns a table with its newest metadata. */
  private def opened(table: String): BaseTable = load(table) match {
    case loaded: HasTableOperations =>
      val operations = loaded.operations
      operations.refresh()
      new BaseTable(operations, loaded.name)
    case loaded =>
      throw new LakeException("PGOUTPUT_TARGET_FORMAT.NOT_WRITABLE", "table" -> loaded.name)
  }
}

object IcebergTarget {

  /** Returns why a table keeps all files that it does not use any more. */
  private def keepsFiles(properties: JMap[String, String]): Option[String] =
    Option.unless(
      PropertyUtil.propertyAsBoolean(properties, Names.GC_ENABLED, Names.GC_ENABLED_DEFAULT)
    )(s"the table has the property ${Names.GC_ENABLED} = false")

  /**
   * The warehouse of a catalog of Amazon S3 Tables, by itself or in AWS Glue. S3 rewrites and removes the files of its
   * tables itself: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-maintenance-overview.html
   */
  private val S3Tables = "arn:aws[^:]*:s3tables:.*|[0-9]+:s3tablescatalog/.*".r

  private val Hour = java.time.Duration.ofHours(1).toMillis

  /**
   * Returns when the oldest version that stays began: the one that was current at the time `due`. None if the job
   * removes no version now. It removes many at once, because each removal compares the files of all other versions.
   *
   * @param times when the current version and its ancestors began, the oldest first
   * @param due the versions that ended before this time are removed
   * @param isMany
   *   true removes versions as soon as they are due; false waits until the oldest one has been due for an hour
   */
  private[target] def expiry(times: IndexedSeq[Long], due: Long, isMany: Boolean): Option[Long] = {
    // A version ends when the next one begins.
    def isLate = times.lift(1).exists(_ < due - Hour)
    times.takeWhile(_ <= due).lastOption.filter(_ > times.head && (isMany || isLate))
  }

  /**
   * When to look for old versions again: after an hour, or after too many commits of the job.
   *
   * @param most how many commits do not make too many versions
   */
  final private class NextExpiry(most: Int) {
    private val nanos = System.nanoTime()
    val commits = new AtomicInteger

    def isLater: Boolean =
      commits.get <= most && System.nanoTime() - nanos < TimeUnit.MILLISECONDS.toNanos(Hour)
  }

  /** The properties with which a table says itself which snapshots stay. */
  private val OwnExpiry = Seq(Names.MAX_SNAPSHOT_AGE_MS, Names.MIN_SNAPSHOTS_TO_KEEP)

  /** Returns whether a snapshot is too old for the properties of a table, and has been so for long. */
  private def isOwnDue(metadata: TableMetadata, times: IndexedSeq[Long]): Boolean = {
    val age =
      metadata.propertyAsLong(Names.MAX_SNAPSHOT_AGE_MS, Names.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    val least =
      metadata.propertyAsInt(Names.MIN_SNAPSHOTS_TO_KEEP, Names.MIN_SNAPSHOTS_TO_KEEP_DEFAULT)
    times.dropRight(math.max(1, least)).headOption.exists(_ < System.currentTimeMillis - age - Hour)
  }

  /** The version of the format that has all types of a schema. */
  private def leastVersion(schema: StructType) =
    if (TargetTypes.exists(schema)(_ == VariantType)) 3 else 2

  /** The constructor has another parameter for Spark 4.0: whether to refresh the table. */
  private def sparkTable(table: Table): SparkTable = {
    val constructors = classOf[SparkTable].getConstructors
    val made = constructors.find(_.getParameterCount == 1).map(_.newInstance(table)).orElse(
      constructors
        .find(_.getParameterTypes.toSeq == Seq(classOf[Table], classOf[Boolean]))
        .map(_.newInstance(table, false))
    )
    made.get.asInstanceOf[SparkTable]
  }
}

/**
 * The mark of a table of Iceberg. It is in two places, which one commit writes: in the summary of
 * the snapshot, and with the snapshot in a property of the table.
 *
 * Snapshots after it, for example those of compactions, do not have it, and `expire_snapshots` can
 * remove it with its snapshot. The property stays. But a rollback goes back to an older snapshot and
 * keeps the property, so the property counts only if its snapshot is an ancestor of the current one. If ancestors are
 * removed, earlier metadata of the table say which they were. If these are gone too, the mark counts.
 */
object IcebergMark {

  /**
   * Reads the mark.
   *
   * @return None if the table never had one of this name
   * @throws LakeException if a rollback went back to a snapshot before all known marks
   */
  def read(operations: TableOperations, table: String, name: MarkName): Option[Long] =
    read(operations.current, operations.io, table, name)

  private[target] def read(
      metadata: TableMetadata,
      io: => FileIO,
      table: String,
      name: MarkName
  ): Option[Long] = {
    val written = Option(metadata.properties.get(name.toString)).map(parse)
    val newest = ancestors(metadata)
      .takeWhile(snapshot => written.forall(snapshot.sequenceNumber >= _.sequenceNumber))
      .find(marked(_, name).nonEmpty)
    (written, newest) match {
      case (None, _)                                                => None
      case (Some(mark), Some(found)) if found.snapshotId == mark.id => Some(mark.lsn)
      case (Some(mark), None) if isExpired(metadata, io, mark)      => Some(mark.lsn)
      case _ =>
        ancestors(metadata).flatMap(marked(_, name)).nextOption()
          .orElse(throw TargetError.olderRows(table, "a rollback"))
    }
  }

  /** The value of the property: the LSN, the id of the snapshot and its sequence number. */
  private[target] def property(lsn: Long, snapshot: Snapshot): String =
    s"${Lsn.format(lsn)} ${snapshot.snapshotId} ${snapshot.sequenceNumber}"

  final private case class Written(lsn: Long, id: Long, sequenceNumber: Long)

  private def parse(value: String): Written = {
    val parts = value.split(' ')
    Written(Lsn.parse(parts(0)).get, parts(1).toLong, parts(2).toLong)
  }

  private def marked(snapshot: Snapshot, name: MarkName): Option[Long] =
    Option(snapshot.summary.get(name.toString)).map(_.toLong)

  /**
   * Returns whether the snapshot of the mark was removed, and all that are left came after it. After a rollback, they
   * can descend from an earlier one. If the snapshots in between were removed too, earlier metadata can still have
   * them.
   */
  private def isExpired(metadata: TableMetadata, io: FileIO, mark: Written): Boolean = {
    def read(path: String) =
      try Some(TableMetadataParser.read(io, path))
      catch { case _: NotFoundException => None }
    lazy val earlier = metadata.previousFiles.asScala.reverseIterator
      .map(entry => read(entry.file)).takeWhile(_.nonEmpty).flatten.to(LazyList)
    def descend(parent: java.lang.Long): Boolean = parent != null && (parent == mark.id ||
      earlier.map(_.snapshot(parent)).find(_ != null).forall(found =>
        found.sequenceNumber > mark.sequenceNumber && descend(found.parentId)
      ))
    val all = ancestors(metadata).toSeq
    metadata.snapshot(mark.id) == null && all.nonEmpty &&
    all.forall(_.sequenceNumber > mark.sequenceNumber) && descend(all.last.parentId)
  }

  /** Returns the current snapshot and those before it, as far as they are known, the newest first. */
  private[target] def ancestors(metadata: TableMetadata): Iterator[Snapshot] =
    Iterator
      .iterate(metadata.currentSnapshot)(snapshot =>
        if (snapshot.parentId == null) null else metadata.snapshot(snapshot.parentId)
      )
      .takeWhile(_ != null)
}

/**
 * Operations on a table that find out whether a commit is in the table although it has failed. A file system
 * that renames a file by copying it can fail after that, and the answer of a catalog can be lost. Iceberg takes
 * both for a conflict: it would remove the files of the commit, or try it again.
 */
private class CheckedOperations(operations: TableOperations) extends TableOperations {

  override def commit(base: TableMetadata, metadata: TableMetadata): Unit =
    try operations.commit(base, metadata)
    catch {
      case failed: CommitFailedException if isThere(metadata.currentSnapshot, failed) => ()
    }

  private def isThere(snapshot: Snapshot, failed: CommitFailedException) =
    try {
      val now = operations.refresh()
      val isFound = snapshot != null && now.snapshot(snapshot.snapshotId) != null
      if (!isFound && mayBeExpired(now))
        throw new IllegalStateException("A later commit of the job is in the table.")
      isFound
    } catch {
      case NonFatal(problem) =>
        failed.addSuppressed(problem)
        throw new CommitStateUnknownException(failed) // which keeps the files
    }

  /** Whether the snapshot of the commit can have been in the table, and is removed since. */
  protected def mayBeExpired(now: TableMetadata): Boolean = false

  override def current(): TableMetadata = operations.current
  override def refresh(): TableMetadata = operations.refresh
  override def io(): FileIO = operations.io
  override def encryption(): EncryptionManager = operations.encryption
  override def metadataFileLocation(file: String): String = operations.metadataFileLocation(file)
  override def locationProvider(): LocationProvider = operations.locationProvider
  override def temp(uncommitted: TableMetadata): TableOperations = operations.temp(uncommitted)
  override def newSnapshotId(): Long = operations.newSnapshotId
  override def requireStrictCleanup(): Boolean = operations.requireStrictCleanup
}

/**
 * Adds a mark to each commit of a table, and refuses a commit if the table has another mark than the one
 * expected. It reads the mark in the metadata that the commit replaces, so no other commit comes in between.
 */
final private class MarkingOperations(
    operations: TableOperations,
    sqlName: String,
    mark: MarkedCommit
) extends CheckedOperations(operations) {
  import mark.{lsn, name}

  @volatile private var committed = false

  def hasCommitted: Boolean = committed

  /** The snapshots of the table that the rows of the commit were read from. Nobody may have changed its rows since. */
  @volatile var sources: Set[Long] = Set.empty

  private def isSource(base: TableMetadata, source: Long) = IcebergMark.ancestors(base)
    .dropWhile(found => found.snapshotId != source && found.operation == DataOperations.REPLACE)
    .nextOption().exists(_.snapshotId == source)

  override protected def mayBeExpired(now: TableMetadata): Boolean =
    IcebergMark.read(now, io(), sqlName, name).exists(!Lsn.isBelow(_, lsn))

  override def commit(base: TableMetadata, metadata: TableMetadata): Unit = {
    val names = base.properties.keySet.asScala
    mark.problem(sqlName, names, IcebergMark.read(base, io(), sqlName, name))
      .foreach(problem => throw refused(problem))
    if (!sources.forall(isSource(base, _)))
      throw refused(TargetError.conflict(
        sqlName,
        new ValidationException("The rows that stay were read from an earlier snapshot.")
      ))
    val snapshot = metadata.currentSnapshot
    if (snapshot == null || snapshot == base.currentSnapshot)
      throw refused(new LakeException("PGOUTPUT_TARGET_FORMAT.NOT_CURRENT", "table" -> sqlName))
    val property = IcebergMark.property(lsn, snapshot)
    val marked = TableMetadata.buildFrom(metadata).setProperties(JMap.of(name.toString, property))
    super.commit(base, marked.build())
    committed = true
  }

  /** Iceberg removes the manifests of a commit that fails in this way, and does not try it again. */
  private def refused(error: Throwable) =
    new ValidationException(error, "%s", error.getMessage)
}
