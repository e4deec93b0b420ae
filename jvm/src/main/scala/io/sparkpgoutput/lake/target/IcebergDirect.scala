package io.sparkpgoutput.lake.target

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.iceberg.encryption.PlaintextEncryptionManager
import org.apache.iceberg.exceptions.{CommitFailedException, ValidationException}
import org.apache.iceberg.expressions.Expressions
import org.apache.iceberg.transforms.Transform
import org.apache.iceberg.types.Type.TypeID
import org.apache.iceberg.types.{Type, Types}
import org.apache.iceberg.util.ContentFileUtil
import org.apache.iceberg.{
  BaseTable,
  DataFile,
  DeleteFile,
  FileContent,
  ManifestFiles,
  PartitionField,
  RewriteFiles,
  RowDelta,
  Schema,
  Snapshot,
  TableMetadata,
  TableOperations
}
import org.roaringbitmap.RoaringBitmap

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.direct.{
  Compaction,
  DirectChange,
  DirectTable,
  NotDirect,
  Rewrite,
  TableKeys
}

/**
 * Direct commits to a table of Iceberg, by its public API. None of it runs a job of Spark.
 *
 * {{{
 *   format v2: one position delete file for each commit ──► above MostDeleteFiles in a partition of the
 *              table: the small ones become one
 *   format v3: a deletion vector for each data file, which has the earlier deletions too
 *   both:      a data file without a row that is left is removed
 * }}}
 *
 * An updated row is a deletion and a new row, so a table of v3 gives it another `_row_id`. The specification
 * allows that.
 *
 * @see Iceberg's specification, "Row-level Deletes" and "Row Lineage"
 */
final private[target] class IcebergDirect(keys: TableKeys)
    extends DirectCommits[BaseTable, IcebergFiles](keys) {
  import IcebergDirect._

  /**
   * Commits a change of the current version.
   *
   * @param mark a name and a value that the summary of the snapshot also gets
   * @throws NotDirect if a MERGE has to write the change
   * @throws ValidationException if somebody else has written the table since the lookup
   */
  def commit(table: BaseTable, mark: (String, String))(
      change: DirectTable => DirectChange
  ): Unit = synchronized {
    val operations = table.operations
    val metadata = operations.current
    problem(operations).foreach(reason => throw new NotDirect(reason))
    val files = filesOf(table, metadata)
    val found = change(new IcebergVersion(table, metadata.schema, files, keys))
    keptFiles = None // until the commit is there
    val writer = new IcebergWriter(table, metadata, metadata.schema)
    val delta = table.newRowDelta().set(mark._1, mark._2)
    files.snapshot.foreach(delta.validateFromSnapshot(_))
    delta.conflictDetectionFilter(Expressions.alwaysTrue)
      .validateNoConflictingDataFiles()
      .validateNoConflictingDeleteFiles()
      .validateDeletedFiles()
    val left = writer.orRemoved(write(delta, writer, files, found))
    // If the mark is refused, the files stay, because it can be the mark of this commit, whose answer was lost.
    writer.committing(isOvertaken(_)) {
      try delta.commit()
      catch {
        // A rollback or an expiry has removed the snapshot of the lookup.
        case problem: IllegalArgumentException
            if operations.refresh().metadataFileLocation != metadata.metadataFileLocation =>
          throw new ValidationException(problem, "%s", problem.getMessage)
      }
    }
    count(table)
    keptFiles = filesAfter(table, files, left)(_.summary.get(mark._1) == mark._2)
    found.committed(keptFiles.toSeq.flatMap(_.files -- files.files.keySet).map(_._2))
  }

  /** Returns the files after a commit; None if somebody else has written before or after it. */
  private def filesAfter(
      table: BaseTable,
      before: IcebergFiles,
      left: Map[String, IcebergFile]
  )(isOwn: Snapshot => Boolean): Option[IcebergFiles] = Option(table.currentSnapshot)
    .filter(made => isOwn(made) && Option(made.parentId) == before.snapshot.map(Long.box))
    .map(made => before.copy(snapshot = Some(made.snapshotId), files = left))

  private def filesIn(table: BaseTable) =
    total(table.operations.current, "data-files") + total(table.operations.current, "delete-files")

  private def count(table: BaseTable): Unit =
    count(filesIn(table), total(table.operations.current, "position-deletes"))

  /**
   * Returns the files of a version, and keeps them. Another thread can refresh the metadata of the table, so it is read
   * only once.
   */
  private def filesOf(table: BaseTable, metadata: TableMetadata): IcebergFiles = {
    val files = keptFiles.filter(_.isOf(metadata)).getOrElse(IcebergFiles.of(table, metadata))
    keptFiles = Some(files)
    files
  }

  protected def isDirect(table: BaseTable): Boolean = problem(table.operations).isEmpty

  protected def lookedUp(table: BaseTable): DirectTable = {
    val metadata = table.operations.current
    new IcebergVersion(table, metadata.schema, filesOf(table, metadata), keys)
  }

  /**
   * Rewrites the files for which [[Compaction]] asks into one. Commits go on during this time, except for the moment in
   * which the rewrite is committed. Its snapshot replaces files and changes no data, so readers of
   * changes do not see it.
   *
   * @param update returns the newest version
   * @return whether files were rewritten
   */
  def compact(update: () => BaseTable): Boolean = {
    val begun = synchronized {
      val table = update()
      val metadata = table.operations.current
      Option.when(isDirect(table) && mayBeDue(table, metadata)) {
        val files = filesOf(table, metadata)
        val columns = IcebergVersion.rewritten(metadata)
        // The choice looks at the deleted rows of all files, which would be read one after the other.
        IcebergFiles.read(files.files.values.flatMap(_.deletions))
        val due = Compaction.choose(files.files.values)
        Option.when(due.nonEmpty) {
          // Only the manifests say which ids the rows of a new file of v3 have got.
          val read = if (metadata.formatVersion < 3) files else IcebergFiles.of(table, metadata)
          val version = new IcebergVersion(table, columns, read, keys)
          val writer = new IcebergWriter(table, metadata, columns)
          val one = files.files(due.head.path).file
          val rewrite = new Rewrite(version, due.map(file => read.files(file.path)).toIndexedSeq)
          val write = () =>
            writer.data(rewrite.foreach, metadata.spec(one.specId), one.partition)
          (writer, rewrite, write)
        }
      }.flatten
    }
    begun.exists { case (writer, rewrite, write) =>
      val added = writer.orRemoved(Option.when(rewrite.rows > 0)(write()))
      afterQuery(writer.removeAll()) {
        val found = writer.orRemoved(update())
        val table = new BaseTable(new CheckedOperations(found.operations), found.name)
        val replaced = writer.orRemoved(replacement(table, writer, rewrite, added))
        replaced.foreach { case (replace, files, left) =>
          keptFiles = None
          writer.committing(isOvertaken(_))(replace.commit())
          count(table)
          countRewritten(rewrite)
          filesAtLook = filesIn(table)
          keptFiles = filesAfter(table, files, left)(_ => true)
        }
        replaced.nonEmpty
      }
    }
  }

  /** The manifests are read only if there can be something to do, unless [[commit]] has kept what they say. */
  private def mayBeDue(table: BaseTable, metadata: TableMetadata): Boolean = {
    count(table)
    mayBeDue(filesIn(table), keptFiles.exists(_.isOf(metadata)))
  }

  /**
   * Returns the commit of a rewrite, and the data files that the table has before it and after it. None if the files of
   * the rewrite are no longer what they were.
   */
  private def replacement(
      table: BaseTable,
      writer: IcebergWriter,
      rewrite: Rewrite,
      added: Option[DataFile]
  ): Option[(RewriteFiles, IcebergFiles, Map[String, IcebergFile])] = {
    val metadata = table.operations.current
    val files = filesOf(table, metadata)
    val isSame = IcebergVersion.rewritten(metadata).sameSchema(writer.schema)
    val carried = Option.when(isSame)(rewrite.carried(files.files.get(_))).flatten
    if (carried.isEmpty) writer.removeAll()
    carried.map { positions =>
      val old = rewrite.files.map(file => files.files(file.path))
      val kept = files.files -- old.map(_.path)
      val replace = table.newRewrite()
      files.snapshot.foreach(replace.validateFromSnapshot(_))
      old.foreach(file => replace.deleteFile(file.file))
      needless(old, kept.values).foreach(replace.deleteFile(_))
      added.foreach(replace.addFile(_))
      val fresh = added.map(IcebergFile.of(_, metadata, files.schema)).toSeq
      val bitmap = bitmapOf(positions)
      val changed =
        if (positions.isEmpty) fresh
        else if (metadata.formatVersion > 2)
          writer.vectors(fresh.map(Deletion(_, bitmap, bitmap)))(replace.addFile(_))
        else {
          // A rewrite can add delete files only in place of others, so all those of the partition become one.
          val partition = fresh.head.partition
          val beside = kept.values.filter(_.partition == partition).toSeq
          deleteFiles(metadata, table).filter(partitionOf(metadata, _) == partition)
            .filterNot(ContentFileUtil.isFileScoped).foreach(replace.deleteFile(_))
          val all = beside.filter(_.deletes.nonEmpty).map(file => file -> file.deleted) ++
            fresh.map(_ -> bitmap)
          beside.flatMap(_.deletes).filter(ContentFileUtil.isFileScoped).distinct
            .foreach(replace.deleteFile(_))
          writer.positions(all)(replace.addFile(_)).map { case (file, rows) =>
            file.withDeleted(rows.toList)
          }
        }
      (replace, files, kept ++ changed.map(file => file.path -> file))
    }
  }

  /**
   * Returns the delete files of data files that are gone which no data file that is left needs. Iceberg itself removes
   * only those that are older than all data files of the table.
   */
  private def needless(
      gone: Iterable[IcebergFile],
      left: Iterable[IcebergFile]
  ): Seq[DeleteFile] = {
    val held = left.iterator.flatMap(_.deletes).map(_.location).toSet
    gone.flatMap(_.deletes)
      .filter(file => ContentFileUtil.isFileScoped(file) || !held(file.location)).toSeq
  }

  private def bitmapOf(positions: Array[Long]) = RoaringBitmap.bitmapOf(positions.map(_.toInt): _*)

  /** Writes the files of a commit, and returns the data files that the table has after it. */
  private def write(
      delta: RowDelta,
      writer: IcebergWriter,
      files: IcebergFiles,
      change: DirectChange
  ): Map[String, IcebergFile] = {
    val deletions = change.deleted.toSeq.map { case (path, positions) =>
      val file = files.files(path)
      val added = bitmapOf(positions)
      Deletion(file, RoaringBitmap.or(file.deleted, added), added)
    }
    val (emptied, touched) = deletions.partition(_.isEmptied)
    emptied.foreach(deletion => delta.removeRows(deletion.file.file))
    val others = files.files -- emptied.map(_.file.path)
    val hasVectors = writer.metadata.formatVersion > 2
    // A vector has all deletions of its data file.
    val unused =
      if (hasVectors) deletions.flatMap(_.file.deletes.filter(ContentFileUtil.isFileScoped))
      else needless(emptied.map(_.file), others.values)
    val many =
      if (hasVectors) Nil
      else manyDeleteFiles(writer, deletions.map(_.file), files.files.values)
    (unused ++ many).foreach(delta.removeDeletes)
    val changed =
      if (hasVectors) writer.vectors(touched)(delta.addDeletes(_))
      else {
        val merged = many.map(_.location).toSet
        def isMerged(rows: DeletedRows) = merged(rows.file.location)
        val now = touched.map(found => found.file.path -> found).toMap
        val all = others.values
          .filter(file => now.contains(file.path) || file.deletions.exists(isMerged)).toSeq
        IcebergFiles.read(all.flatMap(_.deletions.filter(isMerged)))
        val rows = all.map { file =>
          val positions = DeletedRows.of(file.deletions.filter(isMerged))
          now.get(file.path).foreach(deletion => positions.or(deletion.added))
          file -> positions
        }
        writer.positions(rows)(delta.addDeletes(_)).map { case (file, fresh) =>
          file.withDeleted(fresh.toList ++ file.deletions.filterNot(isMerged))
        }
      }
    delta.validateDataFilesExist(touched.map(_.file.path: CharSequence).asJava)
    val added = writer.data(change.added)
    added.foreach(delta.addRows)
    val fresh = added.map(IcebergFile.of(_, writer.metadata, files.schema))
    others ++ (changed ++ fresh).map(file => file.path -> file)
  }

  /**
   * Returns the small position delete files of each partition that has more than [[MostDeleteFiles]]. A file that has
   * many more rows than all smaller ones together stays, so that each row is written a few times only. In a table with
   * partitions, many delete files are usual, so the manifests are only read if data files of a partition have so many.
   *
   * @param deleted the data files of which rows are deleted
   * @param all the data files of the table
   */
  private def manyDeleteFiles(
      writer: IcebergWriter,
      deleted: Seq[IcebergFile],
      all: Iterable[IcebergFile]
  ): Seq[DeleteFile] = {
    import writer.{metadata, table}
    def count = deleteManifests(metadata, table)
      .map(found => found.addedFilesCount.toLong + found.existingFilesCount.toLong).sum
    val changed = deleted.map(_.partition).toSet
    lazy val known =
      all.filter(file => file.deletes.nonEmpty && changed(file.partition)).groupBy(_.partition)
    def countOf(partition: IcebergPartition) =
      known.getOrElse(partition, Nil).flatMap(_.deletes).map(_.location).toSet.size.toLong
    val partitions = changed.filter { partition =>
      val isWhole = metadata.spec(partition.spec).isUnpartitioned
      MostDeleteFiles < (if (isWhole) count else countOf(partition))
    }
    if (partitions.isEmpty) Nil
    else
      deleteFiles(metadata, table).groupBy(partitionOf(metadata, _)).toSeq.collect {
        case (partition, files) if partitions(partition) && files.length > MostDeleteFiles =>
          val sorted = files.sortBy(_.recordCount)
          val smaller = sorted.scanLeft(0L)(_ + _.recordCount)
          val last =
            sorted.indices.lastIndexWhere(at => sorted(at).recordCount <= Growth * smaller(at))
          sorted.take(math.max(last, 1) + 1)
      }.flatten
  }

  private def partitionOf(metadata: TableMetadata, file: DeleteFile) =
    IcebergPartition.of(file, metadata.spec(file.specId))

  private def deleteManifests(metadata: TableMetadata, table: BaseTable) =
    Option(metadata.currentSnapshot).toSeq.flatMap(_.deleteManifests(table.io).asScala)

  /** Returns the position delete files of a version, also those whose data files are gone. */
  private def deleteFiles(metadata: TableMetadata, table: BaseTable): Seq[DeleteFile] =
    deleteManifests(metadata, table).flatMap { manifest =>
      Using.resource(ManifestFiles.readDeleteManifest(manifest, table.io, metadata.specsById))(
        _.asScala.filter(_.content == FileContent.POSITION_DELETES).map(_.copy()).toList
      )
    }
}

private object IcebergDirect {

  /** If a partition has more delete files, small ones become one, because each scan reads them all. */
  final private val MostDeleteFiles = 16

  /** How many times as many rows as all smaller delete files a delete file must have, to stay beside them. */
  final private val Growth = 4

  /** Returns whether another writer has prevented a commit, and nothing of it is in the table. */
  def isOvertaken(problem: Throwable): Boolean = problem match {
    case _: CommitFailedException     => true
    case refused: ValidationException => !refused.getCause.isInstanceOf[LakeException]
    case _                            => false
  }

  /**
   * Returns why a table is not written directly. The features that are known to need only data files and
   * deletions are listed here. All other features are left to MERGE.
   */
  def problem(operations: TableOperations): Option[String] = {
    val metadata = operations.current
    val properties = metadata.properties.asScala.toSeq.sorted
    val partitioning = metadata.spec.fields.asScala
    Seq(
      Option.when(metadata.formatVersion < 2 || metadata.formatVersion > 3)(
        s"the table has the version ${metadata.formatVersion} of the format"
      ),
      partitioning.map(_.transform).find(isUnknown(_)).map(transform =>
        s"the table has partitions by $transform"
      ),
      partitioning.find(isInStruct(metadata.schema, _)).map(field =>
        s"the table has partitions by ${metadata.schema.findColumnName(field.sourceId)}"
      ),
      Option.when(!operations.encryption.isInstanceOf[PlaintextEncryptionManager])(
        "the table is encrypted"
      ),
      Option.when(!OnRead.equalsIgnoreCase(metadata.properties.get(MergeMode)))(
        s"the table does not have the property $MergeMode=$OnRead"
      ),
      properties.collectFirst {
        case (name, value) if isUnknown(name, value) => s"the table has the property $name=$value"
      },
      metadata.schema.columns.asScala.flatMap(fieldProblem(_)).headOption,
      DirectCommits.tooMany(total(metadata, "data-files"))
    ).flatten.headOption
  }

  /** Returns a number that the summary of the current snapshot has. */
  private def total(metadata: TableMetadata, name: String): Long =
    Option(metadata.currentSnapshot)
      .flatMap(snapshot => Option(snapshot.summary.get(s"total-$name"))).fold(0L)(_.toLong)

  /** The direct write computes partitions of top-level columns only. */
  private def isInStruct(schema: Schema, field: PartitionField) =
    !field.transform.isVoid && schema.columns.asScala.forall(_.fieldId != field.sourceId)

  /** A function of a later version of the specification. */
  private def isUnknown(transform: Transform[_, _]) =
    transform.getClass.getSimpleName == "UnknownTransform"

  private def isUnknown(name: String, value: String) = name match {
    case "write.format.default" | "write.delete.format.default" =>
      !value.equalsIgnoreCase("parquet")
    case "write.wap.enabled" => !value.equalsIgnoreCase("false")
    case _ =>
      name.startsWith("encryption.") ||
      name.startsWith("write.") && !Known.exists(name.startsWith)
  }

  private def fieldProblem(field: Types.NestedField, isKey: Boolean = false): Option[String] =
    Option.when(field.isRequired && !isKey)(s"the column ${field.name} is NOT NULL")
      .orElse(Option.when(field.initialDefault != null || field.writeDefault != null)(
        s"the column ${field.name} has a default"
      )).orElse(typeProblem(field.name, field.`type`))

  private def typeProblem(name: String, dataType: Type): Option[String] = dataType match {
    case map: Types.MapType =>
      fieldProblem(map.fields.get(0), isKey = true).orElse(fieldProblem(map.fields.get(1)))
    case nested: Type.NestedType => nested.fields.asScala.flatMap(fieldProblem(_)).headOption
    case found =>
      Option.when(!KnownTypes(found.typeId))(s"the column $name has the type $found")
  }

  final private val MergeMode = "write.merge.mode"
  final private val OnRead = "merge-on-read"

  /** The known properties whose names begin with `write.`, by the beginnings of their names. */
  val Known: Seq[String] = Seq(
    "write.avro.",
    "write.data.path",
    "write.delete.",
    "write.distribution-mode",
    "write.folder-storage.path",
    "write.location-provider.impl",
    "write.manifest.",
    "write.merge.",
    "write.metadata.",
    "write.object-storage.",
    "write.orc.",
    "write.parquet.",
    "write.spark.advisory-partition-size-bytes",
    "write.spark.fanout.enabled",
    "write.summary.partition-limit",
    "write.target-file-size-bytes",
    "write.update."
  )

  val KnownTypes: Set[TypeID] = Set(
    TypeID.BOOLEAN,
    TypeID.INTEGER,
    TypeID.LONG,
    TypeID.FLOAT,
    TypeID.DOUBLE,
    TypeID.DECIMAL,
    TypeID.STRING,
    TypeID.BINARY,
    TypeID.DATE,
    TypeID.TIMESTAMP,
    TypeID.VARIANT
  )
}

/**
 * The deletion of rows of a data file.
 *
 * @param all the positions of all deleted rows, also of those that were deleted before
 * @param added the positions of the rows that are deleted now
 */
final private case class Deletion(file: IcebergFile, all: RoaringBitmap, added: RoaringBitmap) {
  def isEmptied: Boolean = all.getLongCardinality == file.rows
}
