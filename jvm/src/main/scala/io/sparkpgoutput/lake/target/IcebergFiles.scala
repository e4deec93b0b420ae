package io.sparkpgoutput.lake.target

import java.io.{EOFException, FileNotFoundException, UncheckedIOException}
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap
import java.util.function.Supplier
import java.util.zip.{GZIPInputStream, ZipException}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{Decimal, StructType, VariantType}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.unsafe.types.UTF8String

import com.fasterxml.jackson.core.{JsonFactory, JsonProcessingException}
import org.apache.hadoop.conf.Configuration
import org.apache.iceberg.TableMetadataParser.Codec
import org.apache.iceberg.data.BaseDeleteLoader
import org.apache.iceberg.deletes.{BaseDVFileWriter, PositionDelete}
import org.apache.iceberg.encryption.EncryptedOutputFile
import org.apache.iceberg.formats.{FormatModelRegistry, ReadBuilder}
import org.apache.iceberg.hadoop.HadoopFileIO
import org.apache.iceberg.io.{FileIO, OutputFileFactory, SupportsPrefixOperations}
import org.apache.iceberg.mapping.NameMappingParser
import org.apache.iceberg.spark.SparkSchemaUtil
import org.apache.iceberg.types.Type.TypeID
import org.apache.iceberg.types.{Conversions, Types}
import org.apache.iceberg.util.{ByteBuffers, StructLikeWrapper, Tasks, ThreadPools}
import org.apache.iceberg.{
  BaseTable,
  ContentFile,
  DataFile,
  DeleteFile,
  FileContent,
  FileFormat,
  FileScanTask,
  MetadataColumns,
  MetricsConfig,
  PartitionKey,
  PartitionSpec,
  Schema,
  StructLike,
  TableMetadata,
  TableProperties => Names
}
import org.roaringbitmap.RoaringBitmap

import io.sparkpgoutput.lake.direct.{DirectFile, DirectTable, NotDirect, TableKeys}

/**
 * The data files of a version.
 *
 * @param snapshot the id of the snapshot; None if the table has none
 * @param schema the columns of the table
 * @param files the files by their paths
 */
final private case class IcebergFiles(
    snapshot: Option[Long],
    schema: Schema,
    files: Map[String, IcebergFile]
) {
  def isOf(metadata: TableMetadata): Boolean =
    snapshot == IcebergFiles.snapshotOf(metadata) && schema.sameSchema(metadata.schema)
}

private object IcebergFiles {

  def snapshotOf(metadata: TableMetadata): Option[Long] =
    Option(metadata.currentSnapshot).map(_.snapshotId)

  /** Reads the manifests. */
  def of(table: BaseTable, metadata: TableMetadata): IcebergFiles = {
    val snapshot = snapshotOf(metadata)
    val loader = new KeptDeletes(table.io)
    val files = mutable.Map.empty[String, IcebergFile]
    snapshot.foreach { id =>
      Using.resource(table.newScan().useSnapshot(id).includeColumnStats().planFiles()) {
        _.forEach { task =>
          problem(task, metadata).foreach(reason => throw new NotDirect(reason))
          val file = IcebergFile.of(task.file, metadata, metadata.schema, loader.of(task))
          files(file.path) = file
          DirectCommits.tooMany(files.size.toLong).foreach(reason => throw new NotDirect(reason))
        }
      }
    }
    IcebergFiles(snapshot, metadata.schema, files.toMap)
  }

  private def problem(task: FileScanTask, metadata: TableMetadata): Option[String] = {
    val file = task.file
    // Iceberg takes the values of a partition column that was dropped for NULL in delete files, so it does not find them.
    def lacksPartition = metadata.formatVersion == 2 && task.spec.fields.asScala.exists(field =>
      !field.transform.isVoid && metadata.schema.findField(field.sourceId) == null
    )
    def named(what: String) = Some(s"the file ${file.location} $what")
    if (file.format != FileFormat.PARQUET) named(s"has the format ${file.format}")
    else if (file.keyMetadata != null) named("is encrypted")
    else if (file.recordCount > Int.MaxValue) named("has too many rows")
    else if (task.deletes.asScala.exists(_.content != FileContent.POSITION_DELETES))
      named("has equality deletes")
    else if (lacksPartition)
      named(
        "has partitions by a column that was dropped. To write the table, rewrite its files with the procedure " +
          "rewrite_data_files of Iceberg and its option rewrite-all = true"
      )
    else None
  }

  /** Reads the rows that delete files delete, side by side. */
  def read(deletions: Iterable[DeletedRows]): Unit =
    Tasks.foreach(deletions.asJava).executeWith(ThreadPools.getWorkerPool).stopOnFailure()
      .throwFailureWhenFinished().run((rows: DeletedRows) => rows.positions: Unit)

  /** Reads each position delete file once, also if it has rows of many data files. */
  final private class KeptDeletes(io: FileIO)
      extends BaseDeleteLoader((file: DeleteFile) => io.newInputFile(file)) {
    private val kept = new ConcurrentHashMap[String, Any]

    override protected def canCache(size: Long): Boolean = true

    override protected def getOrLoad[V](key: String, supplier: Supplier[V], size: Long): V =
      kept.computeIfAbsent(key, _ => supplier.get).asInstanceOf[V]

    def of(task: FileScanTask): List[DeletedRows] = {
      val path = task.file.location
      task.deletes.asScala.toList.map { file =>
        new DeletedRows(
          file, {
            val bitmap = new RoaringBitmap
            loadPositionDeletes(List(file).asJava, path)
              .forEach(position => bitmap.add(position.toInt))
            bitmap
          }
        )
      }
    }
  }
}

/**
 * The rows of a data file that a delete file deletes.
 *
 * @param load reads their positions. It is lazy, because a cut changes no row of most files.
 */
final private class DeletedRows(val file: DeleteFile, load: => RoaringBitmap) {
  lazy val positions: RoaringBitmap = load
}

private object DeletedRows {

  /** Returns the positions of all the rows. */
  def of(deletions: Iterable[DeletedRows]): RoaringBitmap =
    RoaringBitmap.or(deletions.iterator.map(_.positions).asJava)
}

/**
 * A data file, and its deleted rows.
 *
 * @param file without statistics
 * @param deletions what the delete files delete, the newest first
 */
final private class IcebergFile private (
    val file: DataFile,
    override val partition: IcebergPartition,
    schema: Schema,
    least: Map[Int, ByteBuffer],
    most: Map[Int, ByteBuffer],
    nulls: Set[Int],
    val deletions: List[DeletedRows]
) extends DirectFile {
  override val path: String = file.location
  override val rows: Long = file.recordCount
  override def bytes: Long = file.fileSizeInBytes
  lazy val deleted: RoaringBitmap = DeletedRows.of(deletions)
  override def isDeleted(position: Long): Boolean = deleted.contains(position.toInt)
  override def deletedRows: Long = deleted.getLongCardinality
  override def deletedPositions: Array[Long] = deleted.toArray.map(_.toLong)

  def deletes: List[DeleteFile] = deletions.map(_.file)

  def withDeleted(deletions: List[DeletedRows]): IcebergFile =
    new IcebergFile(file, partition, schema, least, most, nulls, deletions)

  /** Iceberg cuts long texts, and makes the upper bound greater than all texts that begin with it. */
  override def bounds(column: Int): Option[(Any, Any)] = {
    val field = schema.columns.get(column)
    for (least <- least.get(field.fieldId); most <- most.get(field.fieldId))
      yield (value(field, least), value(field, most))
  }

  override def hasOnlyNulls(column: Int): Boolean = nulls(schema.columns.get(column).fieldId)

  /** If the type was narrower when the file was written, a number has fewer bytes. */
  private def value(field: Types.NestedField, bytes: ByteBuffer): Any =
    if (field.`type`.typeId == TypeID.STRING)
      UTF8String.fromBytes(ByteBuffers.toByteArray(bytes.duplicate))
    else
      Conversions.fromByteBuffer[Any](field.`type`, bytes.duplicate) match {
        case number: java.math.BigDecimal => Decimal(number)
        case other                        => other
      }
}

private object IcebergFile {

  /**
   * @param schema the columns of the table. All files share them, because each reading of the metadata makes new ones.
   */
  def of(
      file: DataFile,
      metadata: TableMetadata,
      schema: Schema,
      deletions: List[DeletedRows] = Nil
  ): IcebergFile = {
    val bounded =
      schema.columns.asScala.filter(field => Bounded(field.`type`.typeId)).map(_.fieldId)
    def kept[T](values: java.util.Map[Integer, T]) =
      if (values == null) Map.empty[Int, T]
      else bounded.flatMap(id => Option(values.get(id)).map(id -> _)).toMap
    val bare = file.copyWithoutStats()
    new IcebergFile(
      bare,
      IcebergPartition.of(bare, metadata.spec(file.specId)),
      schema,
      kept(file.lowerBounds),
      kept(file.upperBounds),
      kept(file.nullValueCounts).collect { case (id, nulls) if nulls == file.recordCount => id }
        .toSet,
      deletions
    )
  }

  /** The types whose bounds a lookup uses. */
  private val Bounded =
    Set(
      TypeID.INTEGER,
      TypeID.LONG,
      TypeID.DECIMAL,
      TypeID.DATE,
      TypeID.TIMESTAMP,
      TypeID.STRING
    )
}

/**
 * A partition of a table. If somebody gives the table another partitioning, files that exist keep theirs.
 *
 * @param spec the id of the partitioning
 * @param values compares the values
 */
final private case class IcebergPartition(spec: Int, values: StructLikeWrapper)

private object IcebergPartition {
  def of(file: ContentFile[_], spec: PartitionSpec): IcebergPartition =
    IcebergPartition(
      file.specId,
      StructLikeWrapper.forType(spec.partitionType).set(file.partition)
    )
}

/**
 * A version of the table for a lookup or a rewrite.
 *
 * @param columns the columns of the table, and for a rewrite of version 3 those of the row lineage
 */
final private class IcebergVersion(
    table: BaseTable,
    columns: Schema,
    tableFiles: IcebergFiles,
    val keys: TableKeys
) extends DirectTable {
  import IcebergVersion._

  private val fields = columns.columns.asScala.toIndexedSeq

  override val schema: StructType = SparkSchemaUtil.convert(columns)

  override def column(at: Int): String = fields(at).fieldId.toString

  override val files: Seq[DirectFile] = tableFiles.files.values.toSeq

  private val names = Option(table.properties.get(Names.DEFAULT_NAME_MAPPING))
    .map(NameMappingParser.fromJson)

  /** Iceberg 1.12 reads no file by batches in which a column has a VARIANT inside (`VectorizedVariantVisitor`). */
  private val hasBatches =
    !"false".equalsIgnoreCase(table.properties.get(Names.PARQUET_VECTORIZATION_ENABLED)) &&
      !schema.map(_.dataType).exists(column =>
        column != VariantType && TargetTypes.exists(column)(_ == VariantType)
      )

  /** Columns are found by their ids, so renamed columns and narrower types of old files are read, too. */
  override def read[T](file: DirectFile, columns: Seq[Int])(use: Iterator[InternalRow] => T): T = {
    val read = new Schema(columns.map(fields(_)).asJava)
    val found = tableFiles.files(file.path).file
    def builderOf[P](parts: Class[P]) = {
      val builder = FormatModelRegistry
        .readBuilder[P, StructType](FileFormat.PARQUET, parts, table.io.newInputFile(found))
        .project(read)
      names.foreach(builder.withNameMapping)
      if (hasLineage(read)) builder.idToConstant(lineage(found))
      builder
    }
    // Iceberg's batches have no nested columns.
    if (hasBatches && !hasLineage(read) && read.columns.asScala.forall(_.`type`.isPrimitiveType))
      using(builderOf(classOf[ColumnarBatch]).recordsPerBatch(BatchRows).reuseContainers())(
        batches =>
          use(batches.flatMap(_.rowIterator.asScala))
      )
    else using(builderOf(classOf[InternalRow]))(use)
  }
}

private object IcebergVersion {
  final private val BatchRows = 4096

  private def using[P, T](builder: ReadBuilder[P, StructType])(use: Iterator[P] => T): T =
    Using.resource(builder.build()) { file =>
      Using.resource(file.iterator)(parts => use(parts.asScala))
    }

  /**
   * Returns the columns that a rewrite reads and writes. In version 3 of the format, a row that only moves keeps its
   * id and the number of its last change.
   *
   * @see Iceberg's specification, "Row Lineage"
   */
  def rewritten(metadata: TableMetadata): Schema =
    if (metadata.formatVersion < 3) metadata.schema
    else MetadataColumns.schemaWithRowLineage(metadata.schema)

  private def hasLineage(columns: Schema) =
    columns.findField(MetadataColumns.ROW_ID.fieldId) != null

  /** The row lineage of the rows that were never moved, which the file itself does not have. */
  private def lineage(file: DataFile): java.util.Map[Integer, Any] = Map(
    MetadataColumns.ROW_ID -> file.firstRowId,
    MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER -> file.dataSequenceNumber
  ).collect {
    case (field, value) if value != null => Int.box(field.fieldId) -> (value: Any)
  }.asJava
}

/**
 * Writes the files of a commit, as Iceberg itself does.
 *
 * @param schema the columns of a data file
 */
final private class IcebergWriter(
    val table: BaseTable,
    val metadata: TableMetadata,
    val schema: Schema
) extends CommitWriter[String] {

  override protected def delete(file: String): Unit = table.io.deleteFile(file)

  private def files(format: FileFormat) =
    OutputFileFactory.builderFor(table, 0, 0).format(format)

  private lazy val dataFiles = files(FileFormat.PARQUET).build()
  private lazy val deleteFiles = files(FileFormat.PARQUET).suffix("deletes").build()
  private lazy val vectorFiles = files(FileFormat.PUFFIN).build()

  private def newFile(
      files: OutputFileFactory,
      spec: PartitionSpec,
      partition: StructLike
  ): EncryptedOutputFile = {
    val file =
      if (spec.isUnpartitioned) files.newOutputFile() else files.newOutputFile(spec, partition)
    note(file.encryptingOutputFile.location)
    file
  }

  /** Writes a file for each partition of rows, by the partitioning that the table has now. */
  def data(rows: IndexedSeq[InternalRow]): Seq[DataFile] = {
    val row = new IcebergRow(schema)
    val key = new PartitionKey(metadata.spec, schema)
    DirectTable.byPartition(rows, metadata.spec.isPartitioned) { values =>
      key.partition(row.of(values))
      key.copy()
    }.map { case (partition, some) => data(some.foreach(_), metadata.spec, partition) }
  }

  /**
   * Writes one file, whose rows are all in one partition.
   *
   * @param rows gives each row to a writer
   */
  def data(
      rows: (InternalRow => Unit) => Unit,
      spec: PartitionSpec,
      partition: StructLike
  ): DataFile = {
    val file = newFile(dataFiles, spec, partition)
    val writer = FormatModelRegistry
      .dataWriteBuilder[InternalRow, StructType](FileFormat.PARQUET, classOf[InternalRow], file)
      .setAll(metadata.properties)
      .metricsConfig(MetricsConfig.forTable(table))
      .spec(spec)
      .partition(partition)
      .keyMetadata(file.keyMetadata)
      .schema(schema)
      .engineSchema(SparkSchemaUtil.convert(schema))
      .build()
    try rows(writer.write(_))
    finally writer.close()
    writer.toDataFile
  }

  /**
   * Writes a position delete file for each partition.
   *
   * @param deleted the positions in the data files
   * @param add takes each delete file
   * @return
   *   the data files with these rows; None if there are none. A delete file with rows of one data file only is
   *   removed when this data file goes, so no other data file may need it.
   */
  def positions(
      deleted: Seq[(IcebergFile, RoaringBitmap)]
  )(add: DeleteFile => Any): Seq[(IcebergFile, Option[DeletedRows])] = {
    val byPartition = deleted.filterNot(_._2.isEmpty).groupBy(_._1.partition)
    val files = byPartition.map { case (partition, some) =>
      val spec = metadata.spec(partition.spec)
      val values = some.head._1.file.partition
      val file = newFile(deleteFiles, spec, values)
      val writer = FormatModelRegistry
        .positionDeleteWriteBuilder[InternalRow](FileFormat.PARQUET, file)
        .setAll(metadata.properties)
        .metricsConfig(MetricsConfig.forPositionDelete)
        .spec(spec)
        .partition(values)
        .keyMetadata(file.keyMetadata)
        .build()
      val row = PositionDelete.create[InternalRow]()
      try
        for ((file, positions) <- some.sortBy(_._1.path); position <- positions.asScala)
          writer.write(row.set(file.path, position.longValue))
      finally writer.close()
      partition -> writer.toDeleteFile
    }
    files.values.foreach(add)
    deleted.map { case (file, positions) =>
      val written = files.get(file.partition).filterNot(_ => positions.isEmpty)
      file -> written.map(new DeletedRows(_, positions))
    }
  }

  /**
   * Writes a Puffin file for each data file, because DuckDB 1.5 mistakes one vector of a file for another.
   *
   * @param add takes each vector
   * @return the data files with their vectors
   */
  def vectors(deletions: Seq[Deletion])(add: DeleteFile => Any): Seq[IcebergFile] = {
    val written = new ConcurrentHashMap[String, DeleteFile]
    Tasks.foreach(deletions.asJava).executeWith(ThreadPools.getWorkerPool).stopOnFailure()
      .throwFailureWhenFinished().run { (deletion: Deletion) =>
        val file = deletion.file.file
        val spec = metadata.spec(file.specId)
        val writer = new BaseDVFileWriter(vectorFiles, _ => null)
        deletion.all.iterator.asScala.foreach(position =>
          writer.delete(deletion.file.path, position.longValue, spec, file.partition)
        )
        writer.close()
        val vector = writer.result.deleteFiles.get(0)
        note(vector.location)
        written.put(deletion.file.path, vector): Unit
      }
    deletions.map { deletion =>
      val vector = written.get(deletion.file.path)
      add(vector)
      deletion.file.withDeleted(List(new DeletedRows(vector, deletion.all)))
    }
  }
}

/** A row of Spark, as Iceberg reads it to compute the partition of the row. */
final private class IcebergRow(schema: Schema) extends StructLike {
  private val types = SparkSchemaUtil.convert(schema).map(_.dataType).toIndexedSeq
  private var row: InternalRow = _

  def of(row: InternalRow): IcebergRow = {
    this.row = row
    this
  }

  override def size: Int = types.size

  override def get[T](at: Int, as: Class[T]): T = {
    val value: Any = DirectTable.value(row, at, types(at)) match {
      case text: UTF8String   => text.toString
      case bytes: Array[Byte] => ByteBuffer.wrap(bytes)
      case number: Decimal    => number.toJavaBigDecimal
      case other              => other
    }
    as.cast(value)
  }

  override def set[T](at: Int, value: T): Unit =
    throw new UnsupportedOperationException("The row is only read.")
}

/**
 * The folder of a table. Many catalogs leave the files of a table where they are if it is renamed, or removed without
 * PURGE, and give its folder to a new table of the old name. Only its metadata say which files belong to which table.
 */
private object IcebergFolder {

  /** Returns a file with the metadata of another table, if there is one. */
  def otherTable(table: BaseTable, conf: Configuration): Option[String] = {
    val metadata = table.operations.current
    val own = metadata.previousFiles.asScala.map(_.file) :+ metadata.metadataFileLocation
    val names = own.map(nameOf).toSet
    val io = table.io match {
      case lists: SupportsPrefixOperations => lists
      case _                               => new HadoopFileIO(conf)
    }
    try io.listPrefix(s"${metadata.location.stripSuffix("/")}/metadata/").asScala.map(_.location)
        .find(path =>
          isMetadata(path) && !names(nameOf(path)) && uuidIn(io, path).exists(_ != metadata.uuid)
        )
    catch {
      case gone: UncheckedIOException if gone.getCause.isInstanceOf[FileNotFoundException] => None
    }
  }

  private def nameOf(path: String) = path.split('/').last

  private def isMetadata(path: String) =
    path.endsWith(".metadata.json") || path.endsWith(".metadata.json.gz")

  /** Reads the UUID of a table, with which the metadata usually begin. None if their write was interrupted. */
  private def uuidIn(io: FileIO, path: String): Option[String] =
    Using.resource(io.newInputFile(path).newStream()) { stream =>
      try {
        val isZipped = Codec.fromFileName(path) == Codec.GZIP
        val parser = Json.createParser(if (isZipped) new GZIPInputStream(stream) else stream)
        parser.nextToken()
        Iterator.continually(parser.nextFieldName()).takeWhile(_ != null).find { name =>
          parser.nextToken()
          parser.skipChildren()
          name == "table-uuid"
        }.map(_ => parser.getText)
      } catch { case _: JsonProcessingException | _: EOFException | _: ZipException => None }
    }

  private val Json = new JsonFactory
}
