package io.sparkpgoutput.lake.target

import java.io.{FilterOutputStream, IOException, OutputStream}
import java.net.URI
import java.nio.file.FileAlreadyExistsException

import org.apache.spark.sql.SparkSession

import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.permission.FsPermission

/**
 * Local files behind another scheme. At each call, the process that writes them can die, or the answer of the
 * call can be lost.
 */
final class FaultyFiles extends NioRawLocalFileSystem {
  import FaultyFiles._

  override def getUri: URI = URI.create(s"$Scheme:///")
  override def getScheme: String = Scheme
  override def pathToFile(path: Path): java.io.File = new java.io.File(path.toUri.getPath)

  override protected def createOutputStreamWithMode(
      path: Path,
      append: Boolean,
      permission: FsPermission
  ): OutputStream = step(s"create $path") {
    val file = super.createOutputStreamWithMode(path, append, permission)
    new FilterOutputStream(file) {
      private var isOpen = true
      override def write(bytes: Array[Byte], from: Int, length: Int): Unit =
        file.write(bytes, from, length)
      override def close(): Unit = if (isOpen) {
        isOpen = false
        try step(s"close $path")(())
        finally file.close()
      }
    }
  }

  override def rename(from: Path, to: Path): Boolean = step(s"rename to $to") {
    // As in HDFS, a file is not replaced.
    FaultyFiles.synchronized(
      !pathToFile(to).exists && pathToFile(from).renameTo(pathToFile(to))
    )
  }

  override def delete(path: Path, recursive: Boolean): Boolean =
    step(s"delete $path")(super.delete(path, recursive))
}

object FaultyFiles {
  final val Scheme = "faulty"

  /** What goes wrong. */
  sealed trait Fault

  /** The process dies: from a call on, nothing is written. */
  case object Death extends Fault

  /** A call is made, and its answer is lost. */
  case object LostAnswer extends Fault

  private var fault = Option.empty[Fault]
  private var left = 0
  private var at = Option.empty[String]

  private var conflict = Option.empty[String => Boolean]
  private var pause = Option.empty[(String => Boolean, () => Unit)]

  /** Returns the address of a local folder, and lets the session of Spark open it. */
  def address(spark: SparkSession, folder: java.nio.file.Path): String = {
    spark.sparkContext.hadoopConfiguration.set(s"fs.$Scheme.impl", classOf[FaultyFiles].getName)
    s"$Scheme://$folder"
  }

  /**
   * Runs something, and something else in the middle of it: before the first call that fits.
   *
   * @return whether there was such a call
   */
  def pausing(fits: String => Boolean)(inside: => Unit)(body: => Unit): Boolean = {
    synchronized { pause = Some(fits -> (() => inside)) }
    try {
      body
      synchronized(pause.isEmpty)
    } finally synchronized { pause = None }
  }

  /**
   * Runs something in which the first call that fits is made, and says that the file exists. A store does so if it gets
   * a request twice, because the first answer was lost.
   *
   * @return whether there was such a call
   */
  def repeating(fits: String => Boolean)(body: => Unit): Boolean = {
    synchronized { conflict = Some(fits) }
    try {
      body
      synchronized(conflict.isEmpty)
    } finally synchronized { conflict = None }
  }

  /**
   * Runs something in which a call fails.
   *
   * @param number the number of the call
   * @return the call that failed; None if there were not so many calls
   */
  def during(fault: Fault, number: Int)(body: => Unit): Option[String] = {
    synchronized {
      this.fault = Some(fault)
      left = number
      at = None
    }
    try body
    finally synchronized { this.fault = None }
    synchronized(at)
  }

  private def step[A](call: String)(body: => A): A = {
    val due = synchronized {
      val found = pause.filter(_._1(call))
      if (found.nonEmpty) pause = None
      found
    }
    due.foreach(_._2())
    val answerIsLost = synchronized {
      fault.exists { fault =>
        left -= 1
        val isDue = left == -1 || fault == Death && left < 0
        if (isDue && at.isEmpty) at = Some(call)
        if (isDue && fault == Death) throw new IOException(s"The process is dead at: $call")
        isDue
      }
    }
    val done = body
    if (answerIsLost) throw new IOException(s"The answer is lost: $call")
    val isRepeated = synchronized {
      val found = conflict.exists(_(call))
      if (found) conflict = None
      found
    }
    if (isRepeated) throw new FileAlreadyExistsException(call)
    done
  }
}
