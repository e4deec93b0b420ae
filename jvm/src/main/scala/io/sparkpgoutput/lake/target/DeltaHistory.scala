package io.sparkpgoutput.lake.target

import java.io.FileNotFoundException
import java.time.Instant

import org.apache.spark.sql.delta.actions.{Action, CommitInfo}
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}

import org.apache.hadoop.fs.Path

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
    val last = vacuumedUpTo(log)
    val earliest = log.store.listFrom(FileNames.listingPrefix(log.logPath, 0), conf)
      .collectFirst { case FileNames.DeltaFile(_, version) => version }
    earliest.filter(version => version > 0 && last.forall(_ < version)).foreach { version =>
      val note = s"""{"latestCommitVersionOutsideOfRetentionWindow":$version}"""
      log.store.write(vacuumInfo(log), Iterator(note), overwrite = true, conf)
    }
  }

  /** Returns the version that was the newest one when the time began for which VACUUM LITE has kept all files. */
  private def vacuumedUpTo(log: DeltaLog): Option[Long] =
    try log.store.read(vacuumInfo(log), log.newDeltaHadoopConf()).headOption
        .flatMap(VacuumedUpTo.findFirstMatchIn(_)).map(_.group(1).toLong)
    catch { case _: FileNotFoundException => None }

  /**
   * Removes the commits from the log that only versions need whose files VACUUM LITE has removed: those before the last
   * checkpoint at or before the version up to which it has looked. The next VACUUM LITE and time travel to later versions
   * begin there. Delta itself keeps commits by their age, in whole days, and a table can get many thousands in a day.
   */
  def removeVacuumed(log: DeltaLog): Unit = vacuumedUpTo(log).foreach { last =>
    val system = log.logPath.getFileSystem(log.newDeltaHadoopConf())
    val found = log.store.listFrom(FileNames.listingPrefix(log.logPath, 0), log.newDeltaHadoopConf())
      .filter(file =>
        FileNames.isDeltaFile(file) || FileNames.isChecksumFile(file) ||
          FileNames.isCheckpointFile(file)
      )
      .map(file => file -> FileNames.getFileVersion(file)).takeWhile(_._2 <= last).toSeq
    // A checkpoint of several files can lack one of them.
    val first = found.filter { case (file, version) =>
      file.getLen > 0 &&
      file.getPath.getName == FileNames.checkpointFileSingular(log.logPath, version).getName
    }.lastOption
    // The oldest first, so that the log has no gap if this is interrupted.
    first.foreach { case (_, kept) =>
      found.iterator.takeWhile(_._2 < kept).takeWhile(_ => !Thread.currentThread.isInterrupted)
        .foreach { case (file, _) => system.delete(file.getPath, false) }
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
