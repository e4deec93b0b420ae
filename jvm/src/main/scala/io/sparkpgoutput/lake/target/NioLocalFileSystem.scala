package io.sparkpgoutput.lake.target

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.{PosixFileAttributeView, PosixFilePermissions}

import org.apache.spark.sql.SparkSession

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{
  ChecksumFs,
  DelegateToFileSystem,
  FileStatus,
  LocalFileSystem,
  Path,
  RawLocalFileSystem
}

/**
 * Hadoop's local file system, which starts no process.
 *
 * Without Hadoop's native library, which PySpark lacks, `RawLocalFileSystem` runs `chmod` for each file that it makes
 * and `readlink` for each file that it renames. A commit to a table makes about ten files, their checksums included, so
 * these processes can take longer than the rest of the commit.
 */
final class NioLocalFileSystem extends LocalFileSystem(new NioRawLocalFileSystem)

/** The same for Hadoop's `FileContext`, with which Delta renames the files of its log. */
final class NioLocalFs(uri: URI, configuration: Configuration)
    extends ChecksumFs(
      new DelegateToFileSystem(uri, new NioRawLocalFileSystem, configuration, "file", false) {
        override def getUriDefaultPort: Int = -1
      }
    )

object NioLocalFileSystem {

  /**
   * Lets a session use it for paths with the scheme `file`, unless the user names another file system, or Hadoop cannot
   * load the class, because the JAR came into the JVM after Hadoop.
   */
  private[target] def use(session: SparkSession): Unit = {
    val isDefault = Settings.forall { case (name, _) =>
      session.conf.getOption(name).isEmpty &&
      !session.sparkContext.getConf.contains(s"spark.hadoop.$name")
    }
    val hadoop = session.sessionState.newHadoopConf()
    if (isDefault && hadoop.getClassByNameOrNull(classOf[NioLocalFileSystem].getName) != null)
      Settings.foreach { case (name, value) => session.conf.set(name, value) }
  }

  private val Settings = Map(
    "fs.file.impl" -> classOf[NioLocalFileSystem].getName,
    "fs.AbstractFileSystem.file.impl" -> classOf[NioLocalFs].getName,
    // Spark's own instance is in Hadoop's cache already.
    "fs.file.impl.disable.cache" -> "true"
  )
}

private[target] class NioRawLocalFileSystem extends RawLocalFileSystem {

  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val file = pathToFile(path).toPath
    val view = Files.getFileAttributeView(file, classOf[PosixFileAttributeView])
    // Windows has no such permissions, and Java does not know the sticky bit.
    if (view == null || permission.getStickyBit) super.setPermission(path, permission)
    else view.setPermissions(PosixFilePermissions.fromString(permission.toString))
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path)
    else getFileStatus(path)
}
