package io.sparkpgoutput.lake.target

import java.io.FileNotFoundException

import org.apache.spark.sql.delta.actions.{Action, CommitInfo}
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}

/** A commit of a Delta table, as its log tells of it. */
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

  /** Returns None if the file is not there. Not every writer tells of its commit. */
  private def read(log: DeltaLog, version: Long): Option[Option[DeltaCommit]] =
    try {
      val file = FileNames.unsafeDeltaFile(log.logPath, version)
      val actions = log.store.read(file, log.newDeltaHadoopConf()).iterator.map(Action.fromJson)
      Some(actions.collectFirst { case info: CommitInfo =>
        DeltaCommit(info.operation, info.userMetadata)
      })
    } catch { case _: FileNotFoundException => None }
}
