package io.sparkpgoutput.lake.folder

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardOpenOption.{CREATE, CREATE_NEW, READ, WRITE}
import java.nio.file.{
  FileAlreadyExistsException,
  FileSystemException,
  Files,
  NoSuchFileException,
  Path
}

import scala.jdk.CollectionConverters._
import scala.util.Using

/**
 * Files on a disk of the driver's host, or one that it has mounted.
 *
 * A file and the entry of its folder are synced, so they are there after a crash of the host. Hadoop's
 * LocalFileSystem syncs no folder, and its checksum is a second file (`.name.crc`), which one rename
 * cannot replace together with the first.
 */
final private class LocalFiles(folder: Path) extends FolderFiles {
  import LocalFiles._

  private def path(name: String): Path = folder.resolve(name)

  override def list(folder: String): Seq[FolderFile] =
    try
      Using.resource(Files.list(path(folder)))(_.iterator.asScala.toList).flatMap { file =>
        try Some(FolderFile(file.getFileName.toString, Files.getLastModifiedTime(file).toInstant))
        catch { case _: NoSuchFileException => None } // It was removed since.
      }
    catch { case _: NoSuchFileException => Nil }

  override def read(name: String): Option[Array[Byte]] =
    try Some(Files.readAllBytes(path(name)))
    catch { case _: NoSuchFileException => None }

  override def create(name: String, content: Array[Byte]): Boolean =
    !Files.exists(path(name)) && write(name, content)(link(_, path(name)))

  /** The folder itself is not made here: it is missing if its disk is not mounted any more. */
  override def replace(name: String, content: Array[Byte]): Unit =
    if (!Files.isDirectory(folder)) throw new NoSuchFileException(folder.toString)
    else write(name, content)(Files.move(_, path(name), ATOMIC_MOVE): Unit)

  override def delete(name: String): Unit = Files.deleteIfExists(path(name)): Unit

  /** Writes a file under another name, and syncs it. `named` gives it its name. */
  private def write[A](name: String, content: Array[Byte])(named: Path => A): A = {
    val written = path(FolderFiles.unfinished(name))
    createFolder(written.getParent)
    try {
      Using.resource(FileChannel.open(written, CREATE_NEW, WRITE)) { channel =>
        val buffer = ByteBuffer.wrap(content)
        while (buffer.hasRemaining) channel.write(buffer): Unit
        channel.force(true)
      }
      val result = named(written)
      sync(written.getParent)
      result
    } finally Files.deleteIfExists(written): Unit
  }

  /** Gives a file a second name, if no file has it. */
  private def link(written: Path, target: Path): Boolean =
    try {
      Files.createLink(target, written)
      true
    } catch {
      case _: FileAlreadyExistsException => false
      // Some file systems, for example exFAT, have no hard links.
      case _: FileSystemException | _: UnsupportedOperationException => move(written, target)
    }
}

private object LocalFiles {

  /** Gives a file a name that no file has. A lock keeps other processes from doing the same at that time. */
  def move(written: Path, target: Path): Boolean = synchronized {
    Using.resource(FileChannel.open(target.resolveSibling(".lock"), CREATE, WRITE)) { channel =>
      Using.resource(channel.lock()) { _ =>
        !Files.exists(target) && {
          Files.move(written, target, ATOMIC_MOVE)
          true
        }
      }
    }
  }

  private def createFolder(folder: Path): Unit = if (!Files.isDirectory(folder)) {
    val parent = Option(folder.toAbsolutePath.getParent)
    parent.foreach(createFolder(_))
    try Files.createDirectory(folder): Unit
    catch {
      case problem: FileAlreadyExistsException => if (!Files.isDirectory(folder)) throw problem
    }
    parent.foreach(sync(_))
  }

  /** On Windows, a folder cannot be opened for this, and the system keeps the order of changes by itself. */
  @throws[IOException]
  private def sync(folder: Path): Unit =
    if (!IsWindows) Using.resource(FileChannel.open(folder, READ))(_.force(true))

  private val IsWindows = java.io.File.separatorChar == '\\'
}
