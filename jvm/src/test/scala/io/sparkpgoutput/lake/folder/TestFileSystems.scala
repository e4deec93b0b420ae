package io.sparkpgoutput.lake.folder

import java.io.{ByteArrayOutputStream, IOException}
import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{
  CommonPathCapabilities,
  FSDataInputStream,
  FSDataOutputStream,
  FileAlreadyExistsException,
  FileSystem,
  Path,
  RawLocalFileSystem
}
import org.apache.hadoop.security.AccessControlException
import org.apache.hadoop.util.Progressable

/** Local files behind other schemes, with the rules of the file systems that jobs use. */
object TestFileSystems {

  /** How many more calls can change files before all of them fail. If it is negative, none fails. */
  @volatile var failsAt: Int = -1

  /** Runs once, before the next call that changes files. */
  @volatile var before: () => Unit = () => ()

  /** The end of the name of a file that may not be read. */
  @volatile var denied: Option[String] = None

  /** The end of the name of a file that the file system cannot read. */
  @volatile var unreadable: Option[String] = None

  /** Whether files may be written and not removed. */
  @volatile var keepsFiles: Boolean = false

  private def change(): Unit = synchronized {
    val first = before
    before = () => ()
    first()
    if (failsAt == 0) throw new IOException("The file system is away.")
    if (failsAt > 0) failsAt -= 1
  }

  val configuration: Configuration = {
    val configuration = new Configuration(false)
    configuration.set("fs.renames.impl", classOf[RenamingFiles].getName)
    configuration.set("fs.stores.impl", classOf[StoringFiles].getName)
    configuration
  }

  abstract class TestFiles(scheme: String) extends RawLocalFileSystem {
    override def getUri: URI = URI.create(s"$scheme:///")
    override def getScheme: String = scheme

    override def open(path: Path, bufferSize: Int): FSDataInputStream = {
      if (denied.exists(path.getName.endsWith))
        throw new AccessControlException("Permission denied")
      if (unreadable.exists(path.getName.endsWith)) throw new IOException("A block is missing.")
      super.open(path, bufferSize)
    }

    override def pathToFile(path: Path): java.io.File = new java.io.File(path.toUri.getPath)

    override def delete(path: Path, recursive: Boolean): Boolean = {
      if (keepsFiles) throw new AccessControlException("Deletes are forbidden.")
      change()
      super.delete(path, recursive)
    }
  }

  /** As in HDFS, a rename does not replace a file. */
  class RenamingFiles extends TestFiles("renames") {
    override def rename(from: Path, to: Path): Boolean = {
      change()
      TestFileSystems.synchronized(
        !pathToFile(to).exists && pathToFile(from).renameTo(pathToFile(to))
      )
    }

    override def create(
        path: Path,
        permission: FsPermission,
        overwrite: Boolean,
        size: Int,
        replication: Short,
        blockSize: Long,
        progress: Progressable
    ): FSDataOutputStream = {
      change()
      super.create(path, permission, overwrite, size, replication, blockSize, progress)
    }
  }

  /** As in an object store, a file exists when its stream is closed, which fails if another one exists. */
  class StoringFiles extends TestFiles("stores") {
    override def hasPathCapability(path: Path, capability: String): Boolean =
      capability == CommonPathCapabilities.ABORTABLE_STREAM ||
        super.hasPathCapability(path, capability)

    override def create(
        path: Path,
        permission: FsPermission,
        overwrite: Boolean,
        size: Int,
        replication: Short,
        blockSize: Long,
        progress: Progressable
    ): FSDataOutputStream = {
      change()
      val content = new ByteArrayOutputStream {
        override def close(): Unit = TestFileSystems.synchronized {
          val file = pathToFile(path).toPath
          if (!overwrite && file.toFile.exists) throw new FileAlreadyExistsException(path.toString)
          java.nio.file.Files.createDirectories(file.getParent)
          val whole = file.resolveSibling(s"../put-${java.util.UUID.randomUUID}")
          java.nio.file.Files.write(whole, toByteArray)
          java.nio.file.Files.move(whole, file, java.nio.file.StandardCopyOption.ATOMIC_MOVE): Unit
        }
      }
      new FSDataOutputStream(content, new FileSystem.Statistics("stores"))
    }
  }
}
