package io.sparkpgoutput.lake.target

import java.io.FileNotFoundException
import java.time.ZoneOffset
import java.util.UUID

import scala.collection.mutable

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.delta.actions.{Action, AddFile, RemoveFile}
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray
import org.apache.spark.sql.delta.stats.{DeltaFileStatistics, DeltaTaskStatisticsTracker}
import org.apache.spark.sql.delta.storage.dv.HadoopFileSystemDVStore
import org.apache.spark.sql.delta.util.{DeltaFileOperations, JsonUtils}
import org.apache.spark.sql.delta.{DeltaColumnMapping, Snapshot}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectReader}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.hadoop.mapreduce.{Job, TaskAttemptID, TaskType}

import io.sparkpgoutput.lake.direct.{DirectFile, DirectTable, NotDirect, TableKeys}

/** A version of the table for a lookup. */
final private class DeltaVersion(layout: DeltaLayout, tableFiles: DeltaFiles, val keys: TableKeys)
    extends DirectTable {
  override def schema: StructType = layout.schema
  override def column(at: Int): String = DeltaColumnMapping.getPhysicalName(schema(at))
  override def files: Seq[DirectFile] = tableFiles.files.values.toSeq
  override def read[T](file: DirectFile, columns: Seq[Int])(use: Iterator[InternalRow] => T): T =
    layout.read(tableFiles.files(file.path), columns)(use)
}

/**
 * A data file.
 *
 * @param deletedOf reads which of its rows are deleted, when a lookup first needs them
 */
final private class DeltaFile(
    val add: AddFile,
    val schema: StructType,
    deletedOf: => RoaringBitmapArray
) extends DirectFile {
  lazy val deleted: RoaringBitmapArray = deletedOf

  override def path: String = add.path

  /** The values of the columns of the partitioning by their physical names, or null. */
  override def partition: Map[String, String] = add.partitionValues
  override def bytes: Long = add.size
  override def isDeleted(position: Long): Boolean = deleted.contains(position)
  override def deletedRows: Long = Option(add.deletionVector).fold(0L)(_.cardinality)
  override def deletedPositions: Array[Long] = deleted.toArray

  override val rows: Long = add.numPhysicalRecords.getOrElse(
    throw new NotDirect(s"the file ${add.path} does not say how many rows it has")
  )

  override def hasOnlyNulls(column: Int): Boolean = statistics(column)._1
  override def bounds(column: Int): Option[(Any, Any)] = statistics(column)._2

  /** For each column, whether it has only NULLs, and its bounds. */
  private val ofColumns = mutable.LongMap.empty[(Boolean, Option[(Any, Any)])]

  private def statistics(column: Int) = ofColumns.synchronized(ofColumns.getOrElseUpdate(
    column.toLong, {
      val field = schema(column)
      val name = DeltaColumnMapping.getPhysicalName(field)
      val all = DeltaBounds.Reader.readTree(add.stats)
      def bound(kind: String, side: Int) =
        DeltaBounds.of(field.dataType, all.path(kind).path(name), side)
      val bounds =
        if (partition.contains(name)) DeltaPartition.bounds(partition(name), field.dataType)
        else
          for (least <- bound("minValues", -1); most <- bound("maxValues", 1)) yield (least, most)
      (all.path("nullCount").path(name).asLong(-1) == rows, bounds)
    }
  ))
}

/**
 * The bounds of columns in the statistics of a file. If a bound is not exact, it is moved out by more than its error.
 */
private object DeltaBounds {

  /** A number that is read as a double would lose digits. */
  val Reader: ObjectReader =
    JsonUtils.mapper.reader(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)

  /**
   * Returns a bound; None if there is no reliable one. Delta cuts long texts, and makes the upper bound greater than
   * all texts that begin with it. NaN is above the greatest number.
   *
   * @param side -1 for the lower bound, and 1 for the upper one
   */
  def of(dataType: DataType, value: JsonNode, side: Int): Option[Any] = dataType match {
    case ByteType | ShortType | IntegerType | LongType =>
      Option.when(value.isIntegralNumber)(value.longValue)
    case _: DecimalType =>
      Option.when(value.isIntegralNumber || value.isBigDecimal) {
        val found = value.decimalValue
        // When a row of the file is deleted, Delta writes the statistics again, with all numbers as doubles.
        val error = found.abs.multiply(ErrorOfDouble)
        Decimal(if (side < 0) found.subtract(error) else found.add(error))
      }
    case DateType if value.isTextual =>
      DateTimeUtils.stringToDate(UTF8String.fromString(value.textValue)).map(_.toLong)
    case TimestampType if value.isTextual && hasZone(value.textValue) =>
      DateTimeUtils.stringToTimestamp(UTF8String.fromString(value.textValue), ZoneOffset.UTC)
        .map(moved(_, side, Minute))
    case TimestampNTZType if value.isTextual =>
      DateTimeUtils.stringToTimestampWithoutTimeZone(
        UTF8String.fromString(value.textValue),
        allowTimeZone = false
      ).map(moved(_, side, 0))
    case StringType => Option.when(value.isTextual)(UTF8String.fromString(value.textValue))
    case _          => None
  }

  /** Moves a bound out. Delta cuts the times of both bounds to milliseconds. */
  private def moved(micros: Long, side: Int, by: Long): Long =
    if (side < 0) math.max(micros, Long.MinValue + by) - by
    else math.min(micros, Long.MaxValue - by - Millisecond) + by + Millisecond

  private def hasZone(text: String) = Zone.findFirstIn(text).nonEmpty

  private val Zone = "(Z|[+-][0-9]{2}:[0-9]{2})$".r

  /** The greatest relative error of a double is 2 to the power of -53. Another writer can round several times. */
  private val ErrorOfDouble = new java.math.BigDecimal("1e-14")

  final private val Millisecond = 1000L

  /** A zone can be off UTC by seconds, as many were before 1973. The texts do not have them. */
  final private val Minute = 60000000L
}

/** The values of columns of a partitioning, which the log has as texts, and the data files do not have. */
private object DeltaPartition {

  /** @throws NotDirect for a text that Delta takes for NULL, and that makes a MERGE fail */
  def text(value: Any, dataType: DataType): String =
    if (value == null) null
    else {
      val text = Cast(Literal(value, dataType), StringType, Some(Zone)).eval().toString
      if (text.isEmpty || text == ExternalCatalogUtils.DEFAULT_PARTITION_NAME)
        throw new NotDirect("a partition of Delta cannot have a text that is empty")
      text
    }

  def value(text: String, dataType: DataType): Any =
    if (text == null || text.isEmpty) null
    else Cast(Literal(text), dataType, Some(Zone), EvalMode.ANSI).eval()

  def bounds(text: String, dataType: DataType): Option[(Any, Any)] = {
    val bound = (value(text, dataType), dataType) match {
      case (null, _) => None
      case (number: Number, ByteType | ShortType | IntegerType | LongType | DateType) =>
        Some(number.longValue)
      case (text, StringType) => Some(text)
      case _                  => None
    }
    bound.map(value => (value, value))
  }

  final private val Zone = "UTC"
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

  /** Returns whether so few commits are between this version and another one that they can be read. */
  def isBefore(snapshot: Snapshot): Boolean =
    version <= snapshot.version && snapshot.version - version <= MostCommits

  /** Reads the commits since this version; None if one of them is not there. */
  def upTo(snapshot: Snapshot): Option[DeltaFiles] =
    if (!isBefore(snapshot)) None
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

  /** If there are more commits than these, Delta reads the state of the table faster. */
  final private val MostCommits = 100L

  def all(snapshot: Snapshot): DeltaFiles = DeltaFiles(
    snapshot.metadata.id,
    snapshot.version,
    snapshot.metadata.schema,
    // To read the files is a job of Spark, which a new table does not need.
    if (DeltaDirect.filesIn(snapshot) == 0) Map.empty
    else snapshot.allFiles.collect().map(add => add.path -> of(add, snapshot)).toMap
  )

  private def of(add: AddFile, snapshot: Snapshot): DeltaFile = {
    val log = snapshot.deltaLog
    def deleted =
      if (add.deletionVector == null) new RoaringBitmapArray
      else
        new HadoopFileSystemDVStore(log.newDeltaHadoopConf()).read(add.deletionVector, log.dataPath)
    new DeltaFile(add, snapshot.metadata.schema, deleted)
  }
}

/** Reads and writes the data files of a table, as long as its columns are the same. */
final private class DeltaLayout(
    session: SparkSession,
    catalogTable: Option[CatalogTable],
    snapshot: Snapshot
) extends CommitWriter[Path] {
  import DeltaLayout._

  private val log = snapshot.deltaLog
  private val metadata = snapshot.metadata
  private val protocol = snapshot.protocol

  /** For the files of all commits, because Spark needs a tenth of a millisecond to make one. */
  val conf: Configuration = log.newDeltaHadoopConf()

  /** Returns whether a version has the same columns and properties. */
  def isOf(other: Snapshot): Boolean = other.metadata == metadata && other.protocol == protocol

  val schema: StructType = metadata.schema

  private val physical = DeltaColumnMapping.createPhysicalAttributes(
    DataTypeUtils.toAttributes(schema),
    schema,
    metadata.columnMappingMode
  )

  /** The places of the columns of the partitioning in the schema. */
  private val partitions = metadata.partitionColumns.map(schema.fieldIndex).toIndexedSeq

  /**
   * The places of the columns that files have: all others, but for those of the type VOID, which are NULL in each row.
   */
  private val stored =
    schema.indices.diff(partitions).filterNot(schema(_).dataType == NullType)
  private val inFiles = DataTypeUtils.fromAttributes(stored.map(physical))
  private val readers =
    new java.util.concurrent.ConcurrentHashMap[Seq[Int], PartitionedFile => Iterator[InternalRow]]

  private def reader(columns: Seq[Int]) = {
    if (readers.size >= MostReaders && !readers.containsKey(columns)) readers.clear()
    readers.computeIfAbsent(columns, readerOf)
  }

  private def readerOf(columns: Seq[Int]) = {
    val (inFile, ofPartition) = columns.partition(stored.contains)
    new ParquetFileFormat().buildReaderWithPartitionValues(
      session,
      inFiles,
      StructType(ofPartition.map(schema)),
      StructType(inFile.map(at => inFiles(stored.indexOf(at)))),
      Nil,
      Map(FileFormat.OPTION_RETURNING_BATCH -> "false"),
      log.newDeltaHadoopConf() // The reader writes its columns into it.
    )
  }

  def read[T](file: DeltaFile, columns: Seq[Int])(use: Iterator[InternalRow] => T): T = {
    val (inFile, ofPartition) = columns.partition(stored.contains)
    val rows = reader(columns)(PartitionedFile(
      InternalRow.fromSeq(ofPartition.map(at =>
        DeltaPartition.value(file.partition.getOrElse(nameOf(at), null), schema(at).dataType)
      )),
      SparkPath.fromPath(DeltaFileOperations.absolutePath(log.dataPath.toString, file.path)),
      0,
      file.bytes,
      Array.empty,
      0,
      file.bytes
    ))
    // Spark's reader adds the values of the partition at the end.
    def inOrder = {
      val places = columns.map((inFile ++ ofPartition).indexOf(_)).toIndexedSeq
      val row = ProjectingInternalRow(StructType(columns.map(schema)), places)
      rows.map { read =>
        row.project(read)
        row
      }
    }
    try use(if (ofPartition.isEmpty) rows else inOrder)
    finally rows match {
        case open: AutoCloseable => open.close()
        case _                   => ()
      }
  }

  private def nameOf(at: Int) = DeltaColumnMapping.getPhysicalName(schema(at))

  private lazy val (factory, context) = {
    val job = Job.getInstance(conf)
    val factory =
      log.fileFormat(protocol, metadata).prepareWrite(session, job, Map.empty, inFiles)
    val id = new TaskAttemptID("", 0, TaskType.REDUCE, 0, 0)
    (factory, new TaskAttemptContextImpl(job.getConfiguration, id))
  }

  private val tracker = new DirectTransaction(catalogTable, snapshot).statistics(
    stored.map(physical),
    DataTypeUtils.fromAttributes(partitions.map(physical))
  )
  private var statistics = Option.empty[DeltaTaskStatisticsTracker]
  private var written = 0

  /** VACUUM LITE would never find a file of a commit that is not made. */
  override protected def delete(file: Path): Unit =
    file.getFileSystem(conf).delete(file, false): Unit

  /** Names a file that is written for the next commit. */
  def newFile(name: String): Path = {
    val path = new Path(log.dataPath, name)
    note(path)
    path
  }

  /** Writes a file for each partition of rows. */
  def write(rows: IndexedSeq[InternalRow]): Seq[AddFile] =
    DirectTable.byPartition(rows, partitions.nonEmpty) { row =>
      partitions.map(at => DirectTable.value(row, at, schema(at).dataType))
    }.map { case (values, some) =>
      val texts = partitions.zip(values).map { case (at, value) =>
        nameOf(at) -> DeltaPartition.text(value, schema(at).dataType)
      }
      texts.toMap -> some
    }.map { case (partition, some) => write(some.foreach(_), partition, dataChange = true) }

  private val projected = ProjectingInternalRow(inFiles, stored)

  /** Returns a row with only the columns that are in files. It is valid until the next one. */
  private def storedOf(row: InternalRow): InternalRow =
    if (stored.length == schema.length) row
    else {
      projected.project(row)
      projected
    }

  /**
   * Writes one file, whose rows are all in one partition.
   *
   * @param rows gives each row to a writer
   * @param dataChange whether the commit of the file changes data
   */
  def write(
      rows: (InternalRow => Unit) => Unit,
      partition: Map[String, String],
      dataChange: Boolean
  ): AddFile = {
    val name = s"part-00000-${UUID.randomUUID}.c000${factory.getFileExtension(context)}"
    val path = newFile(name)
    // One tracker serves many files, because Spark compiles code for each tracker.
    if (written % FilesOfTracker == 0) statistics =
      tracker.map(_.newTaskInstance().asInstanceOf[DeltaTaskStatisticsTracker])
    written += 1
    val file = path.toString
    statistics.foreach(_.newFile(file))
    val writer = factory.newInstance(file, inFiles, context)
    var count = 0L
    try rows { row =>
        val inFile = storedOf(row)
        writer.write(inFile)
        statistics.foreach(_.newRow(file, inFile))
        count += 1
      }
    finally writer.close()
    val stats = statistics.map { tracker =>
      tracker.closeFile(file)
      val all = tracker.getFinalStats(0).asInstanceOf[DeltaFileStatistics].stats
      all.collectFirst { case (other, found) if other.endsWith(name) => found }.get
    }
    add(path, name, partition, dataChange, stats.getOrElse(s"""{"numRecords":$count}"""))
  }

  /** Makes the action from JSON, because its constructor has more parameters in later versions of Delta. */
  private def add(
      path: Path,
      name: String,
      partition: Map[String, String],
      dataChange: Boolean,
      stats: String
  ): AddFile = {
    val status = path.getFileSystem(conf).getFileStatus(path)
    val node = JsonUtils.mapper.createObjectNode()
    val add = node.putObject("add")
    add.put("path", name)
    val values = add.putObject("partitionValues")
    partition.foreach { case (column, value) => values.put(column, value) }
    add.put("size", status.getLen)
    add.put("modificationTime", status.getModificationTime)
    add.put("dataChange", dataChange)
    add.put("stats", stats)
    Action.fromJson(JsonUtils.mapper.writeValueAsString(node)).asInstanceOf[AddFile]
  }
}

private object DeltaLayout {

  /** A tracker keeps the statistics of all of its files. */
  final private val FilesOfTracker = 1000

  /**
   * Each has a configuration that Spark sends to the executors. A cut reads the columns that the server has not sent.
   */
  final private val MostReaders = 20
}
