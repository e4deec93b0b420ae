package io.sparkpgoutput

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

object SourceFiles {

  /** Returns the files in a folder, at any depth, whose names have one of these endings. */
  def under(folder: Path, endings: String*): Seq[Path] = {
    val found = Files.walk(folder)
    try found.iterator.asScala.filter(file => endings.exists(file.toString.endsWith(_))).toSeq
    finally found.close()
  }
}
