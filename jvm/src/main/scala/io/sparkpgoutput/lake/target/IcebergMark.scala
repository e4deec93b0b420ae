package io.sparkpgoutput.lake.target

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.iceberg.encryption.EncryptionManager
import org.apache.iceberg.exceptions.{
  CommitFailedException,
  CommitStateUnknownException,
  ValidationException
}
import org.apache.iceberg.io.{FileIO, LocationProvider}
import org.apache.iceberg.{Snapshot, TableMetadata, TableOperations}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.protocol.Lsn

/**
 * The mark of a table of Iceberg. It is in two places, which one commit writes: in the summary of
 * the snapshot, and with the snapshot in a property of the table.
 *
 * Snapshots after it, for example those of compactions, do not have it, and `expire_snapshots` can
 * remove it with its snapshot. The property stays. But a rollback goes back to an older snapshot and
 * keeps the property, so the property counts only if its snapshot is an ancestor of the current one, as
 * far as the ancestors are still known.
 */
object IcebergMark {

  /**
   * Reads the mark.
   *
   * @return None if the table never had one of this name
   * @throws LakeException if a rollback went back to a snapshot before all known marks
   */
  def read(metadata: TableMetadata, table: String, name: MarkName): Option[Long] = {
    val written = Option(metadata.properties.get(name.toString)).map(parse)
    val newest = ancestors(metadata)
      .takeWhile(snapshot => written.forall(snapshot.sequenceNumber >= _.sequenceNumber))
      .find(marked(_, name).nonEmpty)
    (written, newest) match {
      case (None, _)                                                => None
      case (Some(mark), Some(found)) if found.snapshotId == mark.id => Some(mark.lsn)
      case (Some(mark), None) if isExpired(metadata, mark)          => Some(mark.lsn)
      case _ =>
        ancestors(metadata).flatMap(marked(_, name)).nextOption().orElse(
          throw new LakeException(
            "PGOUTPUT_MARK_LOST.OLDER_ROWS",
            "table" -> table,
            "reason" -> "a rollback"
          )
        )
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

  /** Returns whether the snapshot of the mark was removed, and all that are left came after it. */
  private def isExpired(metadata: TableMetadata, mark: Written) =
    metadata.snapshot(mark.id) == null && {
      val all = ancestors(metadata).toSeq
      all.nonEmpty && all.forall(
        _.sequenceNumber > mark.sequenceNumber
      ) && all.last.parentId != null
    }

  private def ancestors(metadata: TableMetadata): Iterator[Snapshot] =
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
    try snapshot != null && operations.refresh().snapshot(snapshot.snapshotId) != null
    catch {
      case NonFatal(problem) =>
        failed.addSuppressed(problem)
        throw new CommitStateUnknownException(failed) // which keeps the files
    }

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
    table: String,
    name: MarkName,
    expected: Option[Long],
    lsn: Long
) extends CheckedOperations(operations) {

  @volatile private var committed = false

  def hasCommitted: Boolean = committed

  override def commit(base: TableMetadata, metadata: TableMetadata): Unit = {
    val found = IcebergMark.read(base, table, name)
    if (name.isReplaced(base.properties.keySet.asScala))
      throw refused(new LakeException("PGOUTPUT_OTHER_JOB.COPIED_AGAIN", "table" -> table))
    if (found != expected) throw refused(TargetError.otherMark(table, expected, found))
    val snapshot = metadata.currentSnapshot
    if (snapshot == null || snapshot == base.currentSnapshot)
      throw refused(new LakeException("PGOUTPUT_TARGET_FORMAT.NOT_CURRENT", "table" -> table))
    val property = IcebergMark.property(lsn, snapshot)
    val marked = TableMetadata.buildFrom(metadata).setProperties(JMap.of(name.toString, property))
    super.commit(base, marked.build())
    committed = true
  }

  /** Iceberg removes the manifests of a commit that fails in this way, and does not try it again. */
  private def refused(error: LakeException) =
    new ValidationException(error, "%s", error.getMessage)
}
