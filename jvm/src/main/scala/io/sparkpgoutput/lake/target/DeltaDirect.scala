package io.sparkpgoutput.lake.target

import java.io.DataOutputStream
import java.time.{Duration, Instant}
import java.util.UUID
import java.util.zip.CRC32

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.delta.actions.{
  Action,
  AddFile,
  DeletionVectorDescriptor,
  RemoveFile,
  SetTransaction
}
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.stats.DeltaJobStatisticsTracker
import org.apache.spark.sql.delta.util.JsonUtils
import org.apache.spark.sql.delta.{
  DeltaConcurrentModificationException,
  DeltaLog,
  DeltaOperations,
  IsolationLevel,
  OptimisticTransaction,
  Serializable,
  Snapshot
}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.{StructField, StructType}

import io.sparkpgoutput.lake.direct.{Compaction, DirectChange, DirectTable, Rewrite, TableKeys}
import io.sparkpgoutput.protocol.Lsn

/**
 * Direct commits to a Delta table. This file and `DeltaFiles.scala` have all calls to internal classes of
 * Delta that direct commits need. None of it runs a job of Spark, except the first read of the list of a
 * table's files.
 *
 * @see Delta's PROTOCOL.md, "Deletion Vectors" and "Add File and Remove File"
 */
final private[target] class DeltaDirect(
    session: SparkSession,
    val log: DeltaLog,
    catalogTable: Option[CatalogTable],
    keys: TableKeys
) extends DirectCommits[Snapshot, DeltaFiles](keys) {
  import DeltaDirect._

  private var layout = Option.empty[DeltaLayout]

  /**
   * The layout of the thread that maintains the table, because a layout has the state of the file that is
   * being written.
   */
  private var rewriting = Option.empty[DeltaLayout]

  /**
   * Commits a change of a version.
   *
   * @param check checks the version that the commit replaces
   * @return the version that the commit has made
   * @throws io.sparkpgoutput.lake.direct.NotDirect if a MERGE has to write the change
   */
  def commit(
      snapshot: Snapshot,
      mark: SetTransaction,
      comment: String,
      check: OptimisticTransaction => Unit
  )(change: DirectTable => DirectChange): Long = synchronized {
    val transaction = new DirectTransaction(catalogTable, snapshot)
    check(transaction)
    // With this and the isolation level, Delta refuses the commit if somebody else has written since the lookup.
    transaction.readWholeTable()
    val layout = layoutOf(this.layout, snapshot)
    this.layout = Some(layout)
    val files = filesOf(snapshot)
    val found = change(new DeltaVersion(layout, files, keys))
    val (added, (actions, changed)) =
      layout.orRemoved(layout.write(found.added) -> deletions(layout, files, found.deleted))
    val operation =
      DeltaOperations.StreamingUpdate(OutputMode.Update, mark.appId, mark.version, Some(comment))
    // A store can report that the version exists because it has lost its answer to the first request.
    // By then, another process of the job can have gone on from it.
    def isMade = transactions(log.update())
      .forall(_.get(mark.appId).exists(found => !Lsn.isBelow(found, mark.version)))
    val version = layout.committing(isConflict(_) && !Try(isMade).getOrElse(true))(
      transaction.commit(actions ++ added :+ mark, operation)
    )
    if (version == snapshot.version + 1) {
      val newFiles = added.map(fresh(_, files))
      keep(files.next(version, found.deleted.keys, changed ++ newFiles))
      found.committed(newFiles)
    }
    version
  }

  private def keep(files: DeltaFiles): Unit = {
    keptFiles = Some(files)
    val all = files.files.values
    count(all.size.toLong, all.map(_.deletedRows).sum)
  }

  protected def isDirect(snapshot: Snapshot): Boolean = problem(snapshot).isEmpty

  protected def lookedUp(snapshot: Snapshot): DirectTable = {
    val files = filesOf(snapshot)
    new DeltaVersion(besideCommits(snapshot), files, keys)
  }

  /**
   * The newest version in memory, if its files are kept. After a commit of this process, it is the newest one of the
   * table. To look for a newer one takes about as long as a small commit.
   */
  def newest: Option[Snapshot] =
    Some(log.unsafeVolatileSnapshot).filter(found => keptVersion.contains(found.version))

  /** The version of the table whose files are kept. */
  def keptVersion: Option[Long] = keptFiles.map(_.version)

  /**
   * Returns whether it is known that OPTIMIZE has clustered no file of a version. Only the list of its files says so.
   */
  def hasNoClusteredFile(snapshot: Snapshot): Boolean = keptFiles.exists(kept =>
    kept.id == snapshot.metadata.id && kept.version >= snapshot.version &&
      kept.files.values.forall(_.add.clusteringProvider.isEmpty)
  )

  private def fresh(add: AddFile, files: DeltaFiles) =
    new DeltaFile(add, files.schema, new RoaringBitmapArray)

  /**
   * Rewrites the files for which [[Compaction]] asks into one. Commits go on during this time, except for the moment in
   * which the rewrite is committed. It changes no data, so readers of changes do not see it.
   *
   * @param update returns the newest version
   * @return whether files were rewritten
   */
  def compact(update: () => Snapshot): Boolean = {
    def areDue(files: DeltaFiles) = Compaction.choose(files.files.values).nonEmpty
    val begun = synchronized {
      val snapshot = Option.when(newest.isEmpty || keptFiles.forall(areDue))(update())
      // A list of all files costs a job of Spark, if `commit` has not kept it.
      snapshot.filter(found =>
        (found.deltaLog eq log) && isDirect(found) && mayBeDue(filesIn(found), isKnown(found))
      ).flatMap(begin)
    }
    begun.exists { case (layout, rewrite, partition) =>
      val added = Option.when(rewrite.rows > 0)(
        layout.orRemoved(layout.write(rewrite.foreach, partition, dataChange = false))
      )
      afterQuery(layout.removeAll())(
        commitRewrite(layout.orRemoved(update()), layout, rewrite, added)
      )
    }
  }

  /** Returns the rewrite, and the partition of its files. */
  private def begin(snapshot: Snapshot): Option[(DeltaLayout, Rewrite, Map[String, String])] = {
    val files = filesOf(snapshot)
    keep(files)
    val due = Compaction.choose(files.files.values)
    Option.when(due.nonEmpty) {
      val layout = besideCommits(snapshot)
      val rewrite = new Rewrite(new DeltaVersion(layout, files, keys), due.toIndexedSeq)
      (layout, rewrite, files.files(due.head.path).partition)
    }
  }

  private def besideCommits(snapshot: Snapshot): DeltaLayout = {
    val layout = layoutOf(rewriting, snapshot)
    rewriting = Some(layout)
    layout
  }

  private def commitRewrite(
      snapshot: Snapshot,
      layout: DeltaLayout,
      rewrite: Rewrite,
      added: Option[AddFile]
  ): Boolean = {
    val files = layout.orRemoved(filesOf(snapshot))
    val carried = Option.when(
      layout.isOf(snapshot) && isDirect(snapshot)
    )(rewrite.carried(files.files.get(_))).flatten
    if (carried.isEmpty) layout.removeAll()
    carried.foreach { positions =>
      val transaction = new DirectTransaction(catalogTable, snapshot)
      transaction.readWholeTable()
      val now = System.currentTimeMillis
      val old = rewrite.files.map(file => files.files(file.path))
      val file = layout.orRemoved(added.map { add =>
        if (positions.isEmpty) fresh(add, files)
        else {
          val deleted = new RoaringBitmapArray
          positions.foreach(deleted.add)
          val (marked, _) = add
            .removeRows(
              writeVectors(layout, Seq(deleted)).head,
              updateStats = true,
              dataChange = false
            )
          new DeltaFile(marked, files.schema, deleted)
        }
      })
      val removed =
        old.map(file => withoutStatistics(file.add.removeWithTimestamp(now, dataChange = false)))
      val operation = DeltaOperations.Optimize(Nil, Nil, auto = true)
      // A rewrite has no mark that says whether it was made, so its files stay.
      val version = layout.committing(_ => false)(
        transaction.commit(removed ++ file.map(_.add), operation)
      )
      if (version == snapshot.version + 1)
        keep(files.next(version, old.map(_.path), file))
      countRewritten(rewrite)
    }
    carried.nonEmpty
  }

  private def layoutOf(before: Option[DeltaLayout], snapshot: Snapshot): DeltaLayout =
    before.filter(_.isOf(snapshot)).getOrElse(new DeltaLayout(session, catalogTable, snapshot))

  private def keptOf(snapshot: Snapshot): Option[DeltaFiles] = keptFiles.filter(files =>
    files.id == snapshot.metadata.id && files.schema == snapshot.metadata.schema
  )

  /** Returns whether a few commits say what has changed since the files were looked at. */
  private def isKnown(snapshot: Snapshot) = keptOf(snapshot).exists(_.isBefore(snapshot))

  /** Returns the files of a version, and keeps them. Later commits, if there are some, are read from the log. */
  private def filesOf(snapshot: Snapshot): DeltaFiles = {
    val files = keptOf(snapshot).flatMap(_.upTo(snapshot)).getOrElse(DeltaFiles.all(snapshot))
    keptFiles = Some(files)
    files
  }

  /** Returns the actions for deleted rows, and the files that still have other rows. */
  private def deletions(
      layout: DeltaLayout,
      files: DeltaFiles,
      deleted: Map[String, Array[Long]]
  ): (Seq[Action], Seq[DeltaFile]) = {
    val now = System.currentTimeMillis
    val bitmaps = deleted.toSeq.map { case (path, positions) =>
      val file = files.files(path)
      val bitmap = file.deleted.copy()
      positions.foreach(bitmap.add)
      file -> bitmap
    }
    val (empty, left) = bitmaps.partition { case (file, bitmap) => bitmap.cardinality == file.rows }
    val vectors = if (left.isEmpty) Nil else writeVectors(layout, left.map(_._2))
    val changed = left.zip(vectors).map { case ((file, bitmap), vector) =>
      val (add, remove) = file.add.removeRows(vector, updateStats = true)
      (Seq[Action](add, withoutStatistics(remove)), new DeltaFile(add, file.schema, bitmap))
    }
    val emptied = empty.map(file => withoutStatistics(file._1.add.removeWithTimestamp(now)))
    (emptied ++ changed.flatMap(_._1), changed.map(_._2))
  }

  /** No reader uses the statistics of a removed file. A checkpoint by Delta Kernel would keep them for days. */
  private def withoutStatistics(removed: RemoveFile) = removed.copy(stats = null)

  /** Writes one file: a byte for the version, then the size, the bitmap and its CRC-32 of each vector. */
  private def writeVectors(
      layout: DeltaLayout,
      bitmaps: Seq[RoaringBitmapArray]
  ): Seq[DeletionVectorDescriptor] = {
    val id = UUID.randomUUID
    val path = layout.newFile(s"deletion_vector_$id.bin")
    val out = new DataOutputStream(path.getFileSystem(layout.conf).create(path, false))
    try {
      out.writeByte(VectorVersion)
      bitmaps.map { bitmap =>
        bitmap.runOptimize()
        val bytes = bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable)
        val offset = out.size
        val checksum = new CRC32
        checksum.update(bytes)
        out.writeInt(bytes.length)
        out.write(bytes)
        out.writeInt(checksum.getValue.toInt)
        DeletionVectorDescriptor
          .onDiskWithRelativePath(id, "", bytes.length, bitmap.cardinality, Some(offset))
      }
    } finally out.close()
  }
}

private object DeltaDirect {
  final private val VectorVersion = 1

  private val CheckpointAfter = Duration.ofMinutes(10)

  /** Returns whether somebody else has written the table. */
  def isConflict(problem: Throwable): Boolean =
    problem.isInstanceOf[DeltaConcurrentModificationException]

  /**
   * Returns why a table is not written directly. The features that are known to need only data files and
   * deletion vectors are listed here. All other features are left to MERGE.
   */
  def problem(snapshot: Snapshot): Option[String] = {
    val metadata = snapshot.metadata
    def isOn(name: String) = metadata.configuration.get(name).contains("true")
    val properties = metadata.configuration.keys.toSeq.sorted
      .filter(name => name.startsWith("delta.") && !name.startsWith("delta.feature."))
    val found = unknownFeature(snapshot).map(name => s"the table has the feature $name")
      .orElse(properties.find(!Properties(_)).map(name => s"the table has the property $name"))
      .orElse(Option.when(!isOn("delta.enableDeletionVectors"))(
        "the table has no deletion vectors"
      ))
      .orElse(Option.when(isOn("delta.appendOnly"))("the table has the property delta.appendOnly"))
      .orElse(Option.when(metadata.configuration.get("delta.columnMapping.mode").contains("id"))(
        "the table maps its columns by id"
      ))
      .orElse(metadata.partitionSchema.find(field =>
        !TargetShapes.isInDeltaPartition(field.dataType)
      ).map(field =>
        s"the table has partitions by the column ${field.name} of the type ${field.dataType.sql}"
      ))
      .orElse(DirectCommits.tooMany(filesIn(snapshot)))
    found.orElse(metadata.schema.flatMap(columnProblem).headOption)
  }

  /**
   * Returns whether there are as many commits since the last checkpoint as the table's property says, or some that are
   * older than [[CheckpointAfter]]. Delta itself knows when a table with other features needs one.
   */
  def isCheckpointDue(snapshot: Snapshot, now: Instant): Boolean = {
    val isLate = snapshot.logSegment.deltas.headOption.exists(first =>
      Instant.ofEpochMilli(first.getModificationTime).isBefore(now.minus(CheckpointAfter))
    )
    unknownFeature(snapshot).isEmpty && (isLate || behind(snapshot) >= 1)
  }

  /** The commits since the last checkpoint, as a multiple of those that the table's property says. */
  def behind(snapshot: Snapshot): Double =
    (snapshot.version - snapshot.checkpointProvider.version).toDouble /
      snapshot.deltaLog.checkpointInterval(snapshot.metadata)

  /** Returns a feature of the table that is not known here. A catalog that manages commits is one, too. */
  def unknownFeature(snapshot: Snapshot): Option[String] =
    snapshot.protocol.readerAndWriterFeatureNames.toSeq.sorted.find(!Features(_))

  /** The number of files, which the checksum of a commit has, too. */
  def filesIn(snapshot: Snapshot): Long =
    snapshot.checksumOpt.fold(snapshot.numOfFiles)(_.numFiles)

  /**
   * Returns the versions of the transactions of applications (`txn` in Delta's protocol) by their names, if the
   * checksum of the snapshot has them. Delta itself asks Spark for them, with three jobs after each commit.
   */
  def transactions(snapshot: Snapshot): Option[Map[String, Long]] = snapshot.checksumOpt
    .flatMap(_.setTransactions)
    .map(_.map(found => found.appId -> found.version).toMap)

  private def columnProblem(field: StructField): Option[String] = {
    // The keys of a JSON object.
    val keys = JsonUtils.mapper.readTree(field.metadata.json).fieldNames
    val unknown = Iterator.continually(keys).takeWhile(_.hasNext).map(_.next())
      .find(key => !ColumnProperties.exists(key.startsWith))
    unknown.map(key => s"the column ${field.name} has the property $key").orElse(
      Option.when(!field.nullable)(s"the column ${field.name} is NOT NULL")
    )
  }

  val Features: Set[String] = Set(
    "appendOnly",
    "invariants",
    "columnMapping",
    "deletionVectors",
    "typeWidening",
    "typeWidening-preview",
    "timestampNtz",
    "domainMetadata",
    "clustering"
  )

  val Properties: Set[String] = Set(
    "delta.appendOnly",
    "delta.columnMapping.mode",
    "delta.columnMapping.maxColumnId",
    "delta.enableDeletionVectors",
    "delta.enableTypeWidening",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.targetFileSize"
  )

  val ColumnProperties: Seq[String] = Seq(
    "delta.columnMapping.",
    "delta.typeChanges",
    "comment",
    // `DirectWrite` compares the length with that of the changes.
    "__CHAR_VARCHAR_TYPE_STRING"
  )
}

/** A transaction that fails if anything was written since its snapshot. */
final private class DirectTransaction(catalogTable: Option[CatalogTable], snapshot: Snapshot)
    extends KnownTransactions(catalogTable, snapshot) {

  override protected def getIsolationLevelToUse(
      actions: Seq[Action],
      operation: DeltaOperations.Operation
  ): IsolationLevel = Serializable

  /** Collects the statistics of a file as Delta does; None if the session has turned them off. */
  def statistics(
      columns: Seq[Attribute],
      partitions: StructType
  ): Option[DeltaJobStatisticsTracker] =
    getOptionalStatsTrackerAndStatsCollection(
      columns,
      deltaLog.dataPath,
      partitions,
      spark.emptyDataFrame
    )._1
}

/**
 * A transaction that asks Spark for the transactions of applications only if the checksum lacks them, and leaves
 * checkpoints to [[DeltaTarget.checkpoint]].
 */
private class KnownTransactions(catalogTable: Option[CatalogTable], snapshot: Snapshot)
    extends OptimisticTransaction(snapshot.deltaLog, catalogTable, snapshot) {

  private val versions = DeltaDirect.transactions(snapshot)

  /**
   * A checkpoint takes seconds, so another thread writes it while commits go on. If no checkpoint gets written, for
   * example because each run of the job is short, the commit writes it. A commit that needs a checkpoint also counts
   * all files of the table, by a job of Spark.
   */
  override protected def isCheckpointNeeded(version: Long, after: Snapshot): Boolean =
    (DeltaDirect.behind(after) > 2 || DeltaDirect.unknownFeature(after).nonEmpty) &&
      super.isCheckpointNeeded(version, after)

  override def txnVersion(id: String): Long = versions.fold(super.txnVersion(id)) { versions =>
    readTxn += id // by which Delta finds conflicts
    versions.getOrElse(id, -1L)
  }
}
