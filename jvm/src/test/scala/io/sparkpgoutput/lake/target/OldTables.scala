package io.sparkpgoutput.lake.target

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.delta.DeltaLog

/** Makes tables of Delta older, so that it is time to remove old files of them. */
object OldTables {

  /** The files in a folder itself that are not hidden. */
  def files(folder: Path): Set[Path] = {
    val found = Files.list(folder)
    try found.iterator.asScala.filter(Files.isRegularFile(_))
        .filterNot(_.getFileName.toString.startsWith(".")).toSet
    finally found.close()
  }

  def age(file: Path, time: Duration): Unit =
    Files.setLastModifiedTime(file, FileTime.from(Instant.now.minus(time))): Unit

  /** Writes what VACUUM notes, as if it had run some time ago. */
  def noteVacuum(folder: Path, note: String, time: Duration): Unit = {
    val info = folder.resolve("_delta_log/_last_vacuum_info")
    Files.writeString(info, note)
    Files.deleteIfExists(info.resolveSibling("._last_vacuum_info.crc")): Unit
    age(info, time)
  }

  /** Makes a table older: the commits, and the times at which they removed files. */
  def ageLog(folder: Path, time: Duration): Unit = {
    val log = folder.resolve("_delta_log")
    val found = Files.list(log)
    val all =
      try found.iterator.asScala.toSeq
      finally found.close()
    all.filter(_.toString.endsWith(".crc")).foreach(Files.delete)
    all.filter(_.toString.endsWith(".json")).sorted.zipWithIndex.foreach { case (commit, index) =>
      val removed = """"deletionTimestamp":(\d+)""".r.replaceAllIn(
        Files.readString(commit),
        found => s""""deletionTimestamp":${found.group(1).toLong - time.toMillis}"""
      )
      Files.writeString(commit, removed)
      age(commit, time.minusSeconds(index.toLong))
    }
    DeltaLog.clearCache()
  }

  /** Lets so much time pass that old files of a table are removed. */
  def makeDue(folder: String): Unit = {
    ageLog(Path.of(folder), Duration.ofHours(5))
    noteVacuum(Path.of(folder), "{}", Duration.ofHours(2))
  }
}
