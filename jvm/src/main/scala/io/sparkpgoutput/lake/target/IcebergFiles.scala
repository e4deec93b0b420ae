package io.sparkpgoutput.lake.target

import java.nio.ByteBuffer
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.function.Supplier

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.unsafe.types.UTF8String

import org.apache.iceberg.data.BaseDeleteLoader
import org.apache.iceberg.deletes.{BaseDVFileWriter, PositionDelete}
import org.apache.iceberg.encryption.EncryptedOutputFile
import org.apache.iceberg.formats.{FormatModelRegistry, ReadBuilder}
import org.apache.iceberg.io.{CloseableIterable, FileIO, OutputFileFactory}
import org.apache.iceberg.mapping.NameMappingParser
import org.apache.iceberg.spark.SparkSchemaUtil
import org.apache.iceberg.types.Type.TypeID
import org.apache.iceberg.types.{Conversions, Types}
import org.apache.iceberg.util.{ByteBuffers, Tasks, ThreadPools}
import org.apache.iceberg.{
  BaseTable,
  DataFile,
  DeleteFile,
  FileContent,
  FileFormat,
  FileScanTask,
  MetadataColumns,
  MetricsConfig,
  Schema,
  TableMetadata,
  TableProperties => Names
}
import org.roaringbitmap.RoaringBitmap

import io.sparkpgoutput.lake.direct.{DirectFile, DirectTable, NotDirect, TableKeys}

/**
 * The data files of a version.
 *
 * @param snapshot the id of the snapshot; None if the table has none
 * @param files the files by their paths
 */
final private case class IcebergFiles(snapshot: Option[Long], files: Map[String, IcebergFile])

private object IcebergFiles {

  /** The most files of a table whose names are kept in memory. */
  final val Most = 20000

  def tooMany: String = s"the table has more than $Most files"

  /** Reads the manifests. */
  def of(table: BaseTable, snapshot: Option[Long]): IcebergFiles = {
    val loader = new KeptDeletes(table.io)
    val files = mutable.Map.empty[String, IcebergFile]
    snapshot.foreach { id =>
      val tasks = table.newScan().useSnapshot(id).includeColumnStats().planFiles()
      try tasks.forEach { task =>
          problem(table, task).foreach(reason => throw new NotDirect(reason))
          val file =
            IcebergFile.of(task.file, table.schema, task.deletes.asScala.toList, loader.of(task))
          files(file.path) = file
          if (files.size > Most) throw new NotDirect(tooMany)
        }
      finally tasks.close()
    }
    IcebergFiles(snapshot, files.toMap)
  }

  private def problem(table: BaseTable, task: FileScanTask): Option[String] = {
    val file = task.file
    def named(what: String) = Some(s"the file ${file.location} $what")
    if (file.format != FileFormat.PARQUET) named(s"has the format ${file.format}")
    else if (file.specId != table.spec.specId) named("has other partitions than the table")
    else if (file.keyMetadata != null) named("is encrypted")
    else if (file.recordCount > Int.MaxValue) named("has too many rows")
    else if (task.deletes.asScala.exists(_.content != FileContent.POSITION_DELETES))
      named("has equality deletes")
    else None
  }

  /** Returns the files that have delete files, after it has read these. */
  def withDeletes(files: Seq[IcebergFile]): Seq[IcebergFile] = {
    val some = files.filter(_.deletes.nonEmpty)
    Tasks.foreach(some.asJava).executeWith(ThreadPools.getWorkerPool).stopOnFailure()
      .throwFailureWhenFinished().run((file: IcebergFile) => file.deleted: Unit)
    some
  }

  /** Reads each position delete file once, also if it has rows of many data files. */
  final private class KeptDeletes(io: FileIO)
      extends BaseDeleteLoader((file: DeleteFile) => io.newInputFile(file)) {
    private val kept = new ConcurrentHashMap[String, Any]

    override protected def canCache(size: Long): Boolean = true

    override protected def getOrLoad[V](key: String, supplier: Supplier[V], size: Long): V =
      kept.computeIfAbsent(key, _ => supplier.get).asInstanceOf[V]

    def of(task: FileScanTask): () => RoaringBitmap = {
      val (deletes, path) = (task.deletes, task.file.location)
      () => {
        val bitmap = new RoaringBitmap
        if (!deletes.isEmpty)
          loadPositionDeletes(deletes, path).forEach(position => bitmap.add(position.toInt))
        bitmap
      }
    }
  }
}

/**
 * A data file, and its deleted rows.
 *
 * @param file without statistics
 * @param deletes the delete files, the newest first
 * @param load reads the deleted rows
 */
final private class IcebergFile private (
    val file: DataFile,
    least: Map[Int, ByteBuffer],
    most: Map[Int, ByteBuffer],
    nulls: Set[Int],
    val deletes: List[DeleteFile],
    load: () => RoaringBitmap
) {
  val path: String = file.location
  val rows: Long = file.recordCount

  /** Most files have no row that a cut changes, so their deletions are never read. */
  lazy val deleted: RoaringBitmap = load()

  def withDeleted(deleted: RoaringBitmap, deletes: List[DeleteFile]): IcebergFile =
    new IcebergFile(file, least, most, nulls, deletes, () => deleted)

  /** Iceberg cuts texts, and makes the greater one greater than all texts that begin with it. */
  def bounds(field: Types.NestedField): Option[(Any, Any)] = for {
    least <- least.get(field.fieldId)
    most <- most.get(field.fieldId)
  } yield (value(field, least), value(field, most))

  def hasOnlyNulls(field: Types.NestedField): Boolean = nulls(field.fieldId)

  /** The number of a type that was narrower when the file was written has fewer bytes. */
  private def value(field: Types.NestedField, bytes: ByteBuffer): Any =
    if (field.`type`.typeId == TypeID.STRING)
      UTF8String.fromBytes(ByteBuffers.toByteArray(bytes.duplicate))
    else Conversions.fromByteBuffer[Any](field.`type`, bytes)
}

private object IcebergFile {

  /** A file without deleted rows. */
  def of(file: DataFile, schema: Schema): IcebergFile =
    of(file, schema, Nil, () => new RoaringBitmap)

  def of(
      file: DataFile,
      schema: Schema,
      deletes: List[DeleteFile],
      load: () => RoaringBitmap
  ): IcebergFile = {
    val bounded =
      schema.columns.asScala.filter(field => Bounded(field.`type`.typeId)).map(_.fieldId)
    def kept(bounds: java.util.Map[Integer, ByteBuffer]) =
      if (bounds == null) Map.empty[Int, ByteBuffer]
      else bounded.flatMap(id => Option(bounds.get(id)).map(id -> _)).toMap
    val nulls = Option(file.nullValueCounts).fold(Map.empty[Int, Long])(_.asScala.map {
      case (id, count) => id.toInt -> count.toLong
    }.toMap)
    new IcebergFile(
      file.copyWithoutStats(),
      kept(file.lowerBounds),
      kept(file.upperBounds),
      bounded.filter(nulls.get(_).contains(file.recordCount)).toSet,
      deletes,
      load
    )
  }

  /** The types of which a lookup asks the bounds. */
  private val Bounded =
    Set(TypeID.INTEGER, TypeID.LONG, TypeID.DATE, TypeID.TIMESTAMP, TypeID.STRING)
}

/**
 * A version of the table for a lookup or a rewrite.
 *
 * @param columns the columns of the table, and for a rewrite of version 3 those of the row lineage
 */
final private class IcebergVersion(
    table: BaseTable,
    columns: Schema,
    known: IcebergFiles,
    val keys: TableKeys
) extends DirectTable {
  import IcebergVersion._

  private val fields = columns.columns.asScala.toIndexedSeq

  override val schema: StructType = SparkSchemaUtil.convert(columns)

  override def column(at: Int): String = fields(at).fieldId.toString

  override val files: Seq[DirectFile] = known.files.values.map(new VersionFile(_)).toSeq

  final private class VersionFile(val file: IcebergFile) extends DirectFile {
    override def path: String = file.path
    override def rows: Long = file.rows
    override def bytes: Long = file.file.fileSizeInBytes
    override def isDeleted(position: Long): Boolean = file.deleted.contains(position.toInt)
    override def deletedRows: Long = file.deleted.getLongCardinality
    override def deletedPositions: Array[Long] = file.deleted.toArray.map(_.toLong)
    override def bounds(column: Int): Option[(Any, Any)] = file.bounds(fields(column))
    override def hasOnlyNulls(column: Int): Boolean = file.hasOnlyNulls(fields(column))
  }

  private val names = Option(table.properties.get(Names.DEFAULT_NAME_MAPPING))
    .map(NameMappingParser.fromJson)

  private val hasBatches =
    !"false".equalsIgnoreCase(table.properties.get(Names.PARQUET_VECTORIZATION_ENABLED))

  /** Columns are found by their ids, so renamed columns and narrower types of old files are read, too. */
  override def read(file: DirectFile, columns: Seq[Int]): Iterator[InternalRow] = {
    val read = new Schema(columns.map(fields(_)).asJava)
    val found = known.files(file.path).file
    def open[T](rows: Class[T])(options: ReadBuilder[T, StructType] => Unit) = {
      val builder = FormatModelRegistry
        .readBuilder[T, StructType](FileFormat.PARQUET, rows, table.io.newInputFile(found))
        .project(read)
      names.foreach(builder.withNameMapping)
      if (hasLineage(read)) builder.idToConstant(lineage(found))
      options(builder)
      builder.build()
    }
    // Iceberg's batches have no nested columns.
    if (hasBatches && !hasLineage(read) && read.columns.asScala.forall(_.`type`.isPrimitiveType)) {
      val batches = open(classOf[ColumnarBatch])(_.recordsPerBatch(BatchRows).reuseContainers())
      new OpenRows[ColumnarBatch](batches, _.rowIterator.asScala)
    } else new OpenRows[InternalRow](open(classOf[InternalRow])(_ => ()), Iterator.single(_))
  }
}

private object IcebergVersion {
  final private val BatchRows = 4096

  /**
   * Returns the columns that a rewrite reads and writes. In version 3 of the format, a row that only moves keeps its id and
   * the number of its last change.
   *
   * @see Iceberg's specification, "Row Lineage"
   */
  def rewritten(metadata: TableMetadata): Schema =
    if (metadata.formatVersion < 3) metadata.schema
    else MetadataColumns.schemaWithRowLineage(metadata.schema)

  private def hasLineage(columns: Schema) =
    columns.findField(MetadataColumns.ROW_ID.fieldId) != null

  /** What the rows of a file have that the file does not say: those that were not moved. */
  private def lineage(file: DataFile): java.util.Map[Integer, Any] = Map(
    MetadataColumns.ROW_ID -> file.firstRowId,
    MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER -> file.dataSequenceNumber
  ).collect {
    case (field, value) if value != null => Int.box(field.fieldId) -> (value: Any)
  }.asJava
}

/** Rows of an open file, which is closed behind the last one and after an error. */
final private class OpenRows[T](source: CloseableIterable[T], rowsOf: T => Iterator[InternalRow])
    extends Iterator[InternalRow]
    with AutoCloseable {
  private var isOpen = true
  private var rows = Iterator.empty[InternalRow]
  private val parts = safely(source.iterator)

  override def hasNext: Boolean = isOpen && safely {
    while (!rows.hasNext && parts.hasNext) rows = rowsOf(parts.next())
    if (!rows.hasNext) close()
    isOpen
  }

  override def next(): InternalRow =
    if (hasNext) safely(rows.next()) else throw new NoSuchElementException

  private def safely[A](body: => A): A =
    try body
    catch {
      case problem: Throwable =>
        try close()
        catch { case NonFatal(another) => problem.addSuppressed(another) }
        throw problem
    }

  override def close(): Unit = if (isOpen) {
    isOpen = false
    rows = Iterator.empty
    try if (parts != null) parts.close()
    finally source.close()
  }
}

/**
 * Writes the files of a commit, as Iceberg itself does.
 *
 * @param schema the columns of a data file
 */
final private class IcebergWriter(
    val table: BaseTable,
    metadata: TableMetadata,
    val schema: Schema
) {
  import metadata.spec

  private val made = new ConcurrentLinkedQueue[String]

  private def files(format: FileFormat) =
    OutputFileFactory.builderFor(table, 0, 0).format(format)

  private lazy val dataFiles = files(FileFormat.PARQUET).build()
  private lazy val deleteFiles = files(FileFormat.PARQUET).suffix("deletes").build()
  private lazy val vectorFiles = files(FileFormat.PUFFIN).build()

  private def newFile(files: OutputFileFactory): EncryptedOutputFile = {
    val file = files.newOutputFile()
    made.add(file.encryptingOutputFile.location)
    file
  }

  /** Writes one file. */
  def data(rows: Iterator[InternalRow]): DataFile = {
    val file = newFile(dataFiles)
    val writer = FormatModelRegistry
      .dataWriteBuilder[InternalRow, StructType](FileFormat.PARQUET, classOf[InternalRow], file)
      .setAll(metadata.properties)
      .metricsConfig(MetricsConfig.forTable(table))
      .spec(spec)
      .keyMetadata(file.keyMetadata)
      .schema(schema)
      .engineSchema(SparkSchemaUtil.convert(schema))
      .build()
    try rows.foreach(writer.write)
    finally writer.close()
    writer.toDataFile
  }

  /**
   * Writes one position delete file; None if there are no positions.
   *
   * @param deleted the positions in order by the paths of data files
   */
  def positions(deleted: Seq[(String, Iterator[Long])]): Option[DeleteFile] =
    Option.when(deleted.exists(_._2.hasNext)) {
      val file = newFile(deleteFiles)
      val writer = FormatModelRegistry
        .positionDeleteWriteBuilder[InternalRow](FileFormat.PARQUET, file)
        .setAll(metadata.properties)
        .metricsConfig(MetricsConfig.forPositionDelete)
        .spec(spec)
        .keyMetadata(file.keyMetadata)
        .build()
      val row = PositionDelete.create[InternalRow]()
      try
        for ((path, positions) <- deleted.sortBy(_._1); position <- positions)
          writer.write(row.set(path, position))
      finally writer.close()
      writer.toDeleteFile
    }

  /** Writes a Puffin file for each data file, because DuckDB 1.5 mistakes one vector of a file for another. */
  def vectors(deletions: Seq[Deletion]): Seq[(Deletion, DeleteFile)] = {
    val written = new ConcurrentHashMap[String, DeleteFile]
    Tasks.foreach(deletions.asJava).executeWith(ThreadPools.getWorkerPool).stopOnFailure()
      .throwFailureWhenFinished().run { (deletion: Deletion) =>
        val file = deletion.file.file
        val writer = new BaseDVFileWriter(vectorFiles, _ => null)
        deletion.all.iterator.asScala.foreach(position =>
          writer.delete(deletion.file.path, position.longValue, spec, file.partition)
        )
        writer.close()
        val vector = writer.result.deleteFiles.get(0)
        made.add(vector.location)
        written.put(deletion.file.path, vector): Unit
      }
    deletions.map(deletion => deletion -> written.get(deletion.file.path))
  }

  /** Removes the files of a commit that is not made. */
  def removeAll(problem: Throwable): Unit = made.forEach { location =>
    try table.io.deleteFile(location)
    catch { case NonFatal(another) => problem.addSuppressed(another) }
  }
}
