package io.sparkpgoutput.lake.target

import java.io.{DataOutputStream, FileNotFoundException}
import java.util.UUID
import java.util.zip.CRC32

import scala.collection.mutable

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.delta.actions.{
  Action,
  AddFile,
  DeletionVectorDescriptor,
  RemoveFile,
  SetTransaction
}
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.stats.{
  DeltaFileStatistics,
  DeltaJobStatisticsTracker,
  DeltaTaskStatisticsTracker
}
import org.apache.spark.sql.delta.storage.dv.HadoopFileSystemDVStore
import org.apache.spark.sql.delta.util.{DeltaFileOperations, JsonUtils}
import org.apache.spark.sql.delta.{
  DeltaColumnMapping,
  DeltaLog,
  DeltaOperations,
  IsolationLevel,
  OptimisticTransaction,
  Serializable,
  Snapshot
}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.{
  ByteType,
  DateType,
  IntegerType,
  LongType,
  ShortType,
  StringType,
  StructField,
  StructType
}
import org.apache.spark.unsafe.types.UTF8String

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.hadoop.mapreduce.{Job, TaskAttemptID, TaskType}

import io.sparkpgoutput.lake.direct._

/**
 * Direct commits to a Delta table. This file has all that is called of Delta below its SQL. None of it runs a job
 * of Spark, but for the first look at the files of a table.
 *
 * @see Delta's PROTOCOL.md, "Deletion Vectors" and "Add File and Remove File"
 */
final private class DeltaDirect(
    session: SparkSession,
    val log: DeltaLog,
    catalogTable: Option[CatalogTable]
) {
  import DeltaDirect._

  private var known = Option.empty[DeltaFiles]
  private var layout = Option.empty[DeltaLayout]

  /** That of the thread that compacts the table, because a layout has the state of a file that is written. */
  private var rewriting = Option.empty[DeltaLayout]

  /**
   * Commits a change of a version.
   *
   * @param known the transactions of applications that the snapshot has, if its checksum has them
   * @param check checks the version that the commit replaces
   * @return the version that the commit has made
   * @throws NotDirect if a MERGE has to write the change
   */
  def commit(
      snapshot: Snapshot,
      transactions: Option[Map[String, Long]],
      mark: SetTransaction,
      comment: String,
      check: OptimisticTransaction => Unit
  )(change: DirectTable => DirectChange): Long = synchronized {
    val transaction = new DirectTransaction(log, catalogTable, snapshot, transactions)
    check(transaction)
    // Together with the isolation level, nothing that others write comes between the lookup and the commit.
    transaction.readWholeTable()
    val layout = layoutOf(this.layout, snapshot, transaction)
    this.layout = Some(layout)
    val files = filesOf(snapshot)
    known = None // until the commit is there
    val found = change(new DeltaVersion(layout, files))
    val added = Option.when(found.added.nonEmpty)(layout.write(found.added.iterator))
    val (actions, changed) = deletions(files, found.deleted)
    val operation =
      DeltaOperations.StreamingUpdate(OutputMode.Update, mark.appId, mark.version, Some(comment))
    val version = transaction.commit(actions ++ added :+ mark, operation)
    if (version == snapshot.version + 1)
      known = Some(files.next(version, found.deleted.keys, changed ++ added.map(fresh(_, files))))
    version
  }

  private def fresh(add: AddFile, files: DeltaFiles) =
    new DeltaFile(add, new RoaringBitmapArray, files.schema)

  /**
   * Rewrites the files for which [[Compaction]] asks into one. Commits go on meanwhile, but for the moment in
   * which the rewrite is committed. It changes no data, so readers of changes do not see it.
   *
   * @param update returns the newest version
   * @return whether files were rewritten
   */
  def compact(update: () => Snapshot): Boolean = {
    val begun = synchronized {
      val snapshot = update()
      val files = filesOf(snapshot)
      val due = Compaction.choose(files.files.values)
      Option.when(due.nonEmpty) {
        known = Some(files)
        val transaction = new DirectTransaction(log, catalogTable, snapshot, None)
        val layout = layoutOf(rewriting, snapshot, transaction)
        rewriting = Some(layout)
        (layout, new Rewrite(new DeltaVersion(layout, files), due.toIndexedSeq))
      }
    }
    begun.exists { case (layout, rewrite) =>
      val added = Option.when(rewrite.rows > 0)(layout.write(rewrite.read()))
      synchronized(commitRewrite(update(), layout, rewrite, added))
    }
  }

  private def commitRewrite(
      snapshot: Snapshot,
      layout: DeltaLayout,
      rewrite: Rewrite,
      added: Option[AddFile]
  ): Boolean = {
    val files = filesOf(snapshot)
    known = Some(files)
    val carried = Option.when(layout.isOf(snapshot))(rewrite.carried(files.files.get(_))).flatten
    carried.foreach { positions =>
      val transaction = new DirectTransaction(log, catalogTable, snapshot, None)
      transaction.readWholeTable()
      val now = System.currentTimeMillis
      val old = rewrite.files.map(file => files.files(file.path))
      val file = added.map { add =>
        val unchanged = DeltaLayout.unchanged(add)
        if (positions.isEmpty) fresh(unchanged, files)
        else {
          val deleted = new RoaringBitmapArray
          positions.foreach(deleted.add)
          val (marked, _) = unchanged
            .removeRows(writeVectors(Seq(deleted)).head, updateStats = true, dataChange = false)
          new DeltaFile(marked, deleted, files.schema)
        }
      }
      val removed = old.map(_.add.removeWithTimestamp(now, dataChange = false))
      val operation = DeltaOperations.Optimize(Nil, Nil, auto = true)
      known = None
      val version = transaction.commit(removed ++ file.map(_.add), operation)
      if (version == snapshot.version + 1)
        known = Some(files.next(version, old.map(_.path), file))
    }
    carried.nonEmpty
  }

  private def layoutOf(
      known: Option[DeltaLayout],
      snapshot: Snapshot,
      transaction: DirectTransaction
  ): DeltaLayout =
    known.filter(_.isOf(snapshot))
      .getOrElse(new DeltaLayout(session, log, snapshot, transaction))

  private def filesOf(snapshot: Snapshot): DeltaFiles =
    known.filter(_.id == snapshot.metadata.id).flatMap(_.upTo(snapshot))
      .getOrElse(DeltaFiles.all(snapshot))

  /** Returns the actions for deleted rows, and the files that still have others. */
  private def deletions(
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
    val vectors = if (left.isEmpty) Nil else writeVectors(left.map(_._2))
    val changed = left.zip(vectors).map { case ((file, bitmap), vector) =>
      val (add, remove) = file.add.removeRows(vector, updateStats = true)
      (Seq[Action](add, remove), new DeltaFile(add, bitmap, file.schema))
    }
    (empty.map(_._1.add.removeWithTimestamp(now)) ++ changed.flatMap(_._1), changed.map(_._2))
  }

  /** Writes one file: a byte for the version, then the size, the bitmap and its CRC-32 of each vector. */
  private def writeVectors(bitmaps: Seq[RoaringBitmapArray]): Seq[DeletionVectorDescriptor] = {
    val id = UUID.randomUUID
    val path = new Path(log.dataPath, s"deletion_vector_$id.bin")
    val out =
      new DataOutputStream(path.getFileSystem(log.newDeltaHadoopConf()).create(path, false))
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

  /** The most files of a table whose names are kept in memory. */
  final private val MostFiles = 20000L

  /**
   * Returns why a table is not written directly. All that is known to need nothing but data files and
   * deletion vectors is listed here, and anything else is left to MERGE.
   */
  def problem(snapshot: Snapshot, files: Long): Option[String] = {
    val metadata = snapshot.metadata
    val protocol = snapshot.protocol
    val features = protocol.readerAndWriterFeatureNames.toSeq.sorted
    def isOn(name: String) = metadata.configuration.get(name).contains("true")
    val properties = metadata.configuration.keys.toSeq.sorted
      .filter(name => name.startsWith("delta.") && !name.startsWith("delta.feature."))
    val found = features.find(!Features(_)).map(name => s"the table has the feature $name")
      .orElse(properties.find(!Properties(_)).map(name => s"the table has the property $name"))
      .orElse(Option.when(!isOn("delta.enableDeletionVectors"))(
        "the table has no deletion vectors"
      ))
      .orElse(Option.when(isOn("delta.appendOnly"))("the table has the property delta.appendOnly"))
      .orElse(Option.when(metadata.configuration.get("delta.columnMapping.mode").contains("id"))(
        "the table maps its columns by id"
      ))
      .orElse(Option.when(metadata.partitionColumns.nonEmpty)("the table has partitions"))
      .orElse(Option.when(files > MostFiles)(s"the table has more than $MostFiles files"))
    found.orElse(metadata.schema.flatMap(columnProblem).headOption)
  }

  private def columnProblem(field: StructField): Option[String] = {
    // The keys of a JSON object.
    val keys = JsonUtils.mapper.readTree(field.metadata.json).fieldNames
    val unknown = Iterator.continually(keys).takeWhile(_.hasNext).map(_.next())
      .find(key => !ColumnProperties.exists(key.startsWith))
    unknown.map(key => s"the column ${field.name} has the property $key").orElse(
      Option.when(!field.nullable)(s"the column ${field.name} is NOT NULL")
    )
  }

  private val Features = Set(
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

  private val Properties = Set(
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

  private val ColumnProperties = Seq("delta.columnMapping.", "delta.typeChanges", "comment")
}

/** A transaction that fails if anything was written since its snapshot. */
final private class DirectTransaction(
    log: DeltaLog,
    catalogTable: Option[CatalogTable],
    snapshot: Snapshot,
    transactions: Option[Map[String, Long]]
) extends OptimisticTransaction(log, catalogTable, snapshot) {

  override def txnVersion(id: String): Long = transactions.fold(super.txnVersion(id)) { known =>
    readTxn += id
    known.getOrElse(id, -1L)
  }

  override protected def getIsolationLevelToUse(
      actions: Seq[Action],
      operation: DeltaOperations.Operation
  ): IsolationLevel = Serializable

  /** What makes the statistics of a file as Delta does; None if the session has switched them off. */
  def statistics(columns: Seq[Attribute]): Option[DeltaJobStatisticsTracker] =
    getOptionalStatsTrackerAndStatsCollection(
      columns,
      deltaLog.dataPath,
      new StructType,
      spark.emptyDataFrame
    )._1
}

/** A version of the table for a lookup. */
final private class DeltaVersion(layout: DeltaLayout, known: DeltaFiles) extends DirectTable {
  override def schema: StructType = layout.schema
  override def files: Seq[DirectFile] = known.files.values.toSeq
  override def read(file: DirectFile, columns: Seq[Int]): Iterator[InternalRow] =
    layout.read(file, columns)
}

/** A data file, and the rows of it that are deleted. */
final private class DeltaFile(
    val add: AddFile,
    val deleted: RoaringBitmapArray,
    val schema: StructType
) extends DirectFile {
  override def path: String = add.path
  override def bytes: Long = add.size
  override def isDeleted(position: Long): Boolean = deleted.contains(position)
  override def deletedRows: Long = deleted.cardinality
  override def deletedPositions: Array[Long] = deleted.toArray

  override val rows: Long = add.numPhysicalRecords.getOrElse(
    throw new NotDirect(s"the file ${add.path} does not say how many rows it has")
  )

  private lazy val statistics = JsonUtils.mapper.readTree(add.stats)
  private val found = mutable.LongMap.empty[Option[(Any, Any)]]

  override def bounds(column: Int): Option[(Any, Any)] = found.synchronized {
    found.getOrElseUpdate(
      column.toLong, {
        val field = schema(column)
        val name = DeltaColumnMapping.getPhysicalName(field)
        for {
          least <- bound(field, statistics.path("minValues").path(name))
          most <- bound(field, statistics.path("maxValues").path(name))
        } yield (least, most)
      }
    )
  }

  /**
   * Texts are cut, and the greater one is made greater than all texts that begin with it. Bounds of other types
   * are not exact: timestamps have milliseconds, and NaN is above the greatest number.
   */
  private def bound(field: StructField, value: JsonNode): Option[Any] = field.dataType match {
    case ByteType | ShortType | IntegerType | LongType =>
      Option.when(value.isIntegralNumber)(value.longValue)
    case DateType if value.isTextual =>
      DateTimeUtils.stringToDate(UTF8String.fromString(value.textValue)).map(_.toLong)
    case StringType => Option.when(value.isTextual)(UTF8String.fromString(value.textValue))
    case _          => None
  }
}

/**
 * The files of a version.
 *
 * @param id Delta's id of the table
 * @param files the files by their paths in the log
 */
final private case class DeltaFiles(
    id: String,
    version: Long,
    schema: StructType,
    files: Map[String, DeltaFile]
) {
  import DeltaFiles._

  /** The files after a commit that was made on this version. */
  def next(
      version: Long,
      removed: Iterable[String],
      added: Iterable[DeltaFile]
  ): DeltaFiles =
    copy(version = version, files = files -- removed ++ added.map(file => file.path -> file))

  /** Reads the commits since this version; None if one of them is not there. */
  def upTo(snapshot: Snapshot): Option[DeltaFiles] =
    if (version > snapshot.version || snapshot.version - version > MostCommits) None
    else
      try {
        val all = (version + 1 to snapshot.version).foldLeft(files) { (files, version) =>
          val actions = DeltaHistory.actions(snapshot.deltaLog, version).toSeq
          val removed = actions.collect { case remove: RemoveFile => remove.path }
          files -- removed ++ actions.collect { case add: AddFile => add.path -> of(add, snapshot) }
        }
        Some(DeltaFiles(id, snapshot.version, snapshot.metadata.schema, all))
      } catch { case _: FileNotFoundException => None }
}

private object DeltaFiles {

  /** Delta reads the state of a table faster than more commits than these. */
  final private val MostCommits = 100L

  def all(snapshot: Snapshot): DeltaFiles = DeltaFiles(
    snapshot.metadata.id,
    snapshot.version,
    snapshot.metadata.schema,
    snapshot.allFiles.collect().map(add => add.path -> of(add, snapshot)).toMap
  )

  private def of(add: AddFile, snapshot: Snapshot): DeltaFile = {
    val log = snapshot.deltaLog
    val deleted =
      if (add.deletionVector == null) new RoaringBitmapArray
      else
        new HadoopFileSystemDVStore(log.newDeltaHadoopConf()).read(add.deletionVector, log.dataPath)
    new DeltaFile(add, deleted, snapshot.metadata.schema)
  }
}

/** Reads and writes the data files of a table, as long as its columns are the same. */
final private class DeltaLayout(
    session: SparkSession,
    log: DeltaLog,
    snapshot: Snapshot,
    transaction: DirectTransaction
) {
  import DeltaLayout._

  private val metadata = snapshot.metadata
  private val protocol = snapshot.protocol

  /** Returns whether a version has the same columns and properties. */
  def isOf(other: Snapshot): Boolean = other.metadata == metadata && other.protocol == protocol

  val schema: StructType = metadata.schema

  private val physical = DeltaColumnMapping.createPhysicalAttributes(
    DataTypeUtils.toAttributes(schema),
    schema,
    metadata.columnMappingMode
  )
  private val inFiles = DataTypeUtils.fromAttributes(physical)
  private val readers =
    new java.util.concurrent.ConcurrentHashMap[Seq[Int], PartitionedFile => Iterator[InternalRow]]

  private def reader(columns: Seq[Int]) = readers.computeIfAbsent(
    columns,
    columns =>
      new ParquetFileFormat().buildReaderWithPartitionValues(
        session,
        inFiles,
        new StructType,
        StructType(columns.map(inFiles(_))),
        Nil,
        Map(FileFormat.OPTION_RETURNING_BATCH -> "false"),
        log.newDeltaHadoopConf()
      )
  )

  def read(file: DirectFile, columns: Seq[Int]): Iterator[InternalRow] = {
    val path = DeltaFileOperations.absolutePath(log.dataPath.toString, file.path)
    reader(columns)(PartitionedFile(
      InternalRow.empty,
      SparkPath.fromPath(path),
      0,
      file.bytes,
      Array.empty,
      0,
      file.bytes
    ))
  }

  private lazy val (factory, context) = {
    val job = Job.getInstance(log.newDeltaHadoopConf())
    val factory =
      log.fileFormat(protocol, metadata).prepareWrite(session, job, Map.empty, inFiles)
    val id = new TaskAttemptID("", 0, TaskType.REDUCE, 0, 0)
    (factory, new TaskAttemptContextImpl(job.getConfiguration, id))
  }

  private val tracker = transaction.statistics(physical)
  private var statistics = Option.empty[DeltaTaskStatisticsTracker]
  private var written = 0

  /** Writes one file. */
  def write(rows: Iterator[InternalRow]): AddFile = {
    val name = s"part-00000-${UUID.randomUUID}.c000${factory.getFileExtension(context)}"
    val path = new Path(log.dataPath, name)
    // One for many files, because Spark compiles code for each.
    if (written % FilesOfTracker == 0) statistics =
      tracker.map(_.newTaskInstance().asInstanceOf[DeltaTaskStatisticsTracker])
    written += 1
    statistics.foreach(_.newFile(path.toString))
    val writer = factory.newInstance(path.toString, inFiles, context)
    var count = 0L
    try rows.foreach { row =>
        writer.write(row)
        statistics.foreach(_.newRow(path.toString, row))
        count += 1
      }
    finally writer.close()
    val stats = statistics.map { tracker =>
      tracker.closeFile(path.toString)
      val all = tracker.getFinalStats(0).asInstanceOf[DeltaFileStatistics].stats
      all.collectFirst { case (file, found) if file.endsWith(name) => found }.get
    }
    add(path, name, stats.getOrElse(s"""{"numRecords":$count}"""))
  }

  /** The constructor of the action has more parameters in later versions of Delta. */
  private def add(path: Path, name: String, stats: String): AddFile = {
    val status = path.getFileSystem(log.newDeltaHadoopConf()).getFileStatus(path)
    val node = JsonUtils.mapper.createObjectNode()
    val add = node.putObject("add")
    add.put("path", name)
    add.putObject("partitionValues")
    add.put("size", status.getLen)
    add.put("modificationTime", status.getModificationTime)
    add.put("dataChange", true)
    add.put("stats", stats)
    Action.fromJson(JsonUtils.mapper.writeValueAsString(node)).asInstanceOf[AddFile]
  }
}

private object DeltaLayout {

  /** The file of a commit that changes no data. */
  def unchanged(add: AddFile): AddFile = {
    val node = JsonUtils.mapper.readTree(add.json)
    node.get("add").asInstanceOf[ObjectNode].put("dataChange", false)
    Action.fromJson(JsonUtils.mapper.writeValueAsString(node)).asInstanceOf[AddFile]
  }

  /** A tracker keeps the statistics of all of its files. */
  final private val FilesOfTracker = 1000
}
