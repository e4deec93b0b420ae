package io.sparkpgoutput.lake.folder

import java.io.{FileNotFoundException, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardOpenOption.{CREATE, CREATE_NEW, READ, WRITE}
import java.nio.file.{
  FileAlreadyExistsException => LocalFileExists,
  FileSystemException,
  Files,
  NoSuchFileException,
  Path => LocalPath
}
import java.time.Instant
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  CommonPathCapabilities,
  FSDataOutputStream,
  FileAlreadyExistsException,
  FileSystem,
  Path,
  StreamCapabilities,
  UnsupportedFileSystemException
}
import org.apache.hadoop.util.VersionInfo

import io.sparkpgoutput.errors.{ErrorCauses, LakeException}

/** A file, its name without the folder, and the time at which it was written. */
final private[folder] case class FolderFile(name: String, written: Instant)

/**
 * Small files of a folder, which are written whole: a reader sees the whole file as it was before or after a
 * write, and a crash leaves one of the two. Names are relative to the folder, such as `state/1.json`.
 */
private[folder] trait FolderFiles {

  /** The files and folders in a folder, and none if it does not exist. */
  def list(folder: String): Seq[FolderFile]

  def read(name: String): Option[Array[Byte]]

  /**
   * Writes a file if there is none of this name.
   *
   * @param makesFolder whether the folder may be missing. Only the first file of a job makes it.
   * @return whether it has written the file
   */
  def create(name: String, content: Array[Byte], makesFolder: Boolean): Boolean

  /** Writes a file, and replaces an existing one. */
  def replace(name: String, content: Array[Byte]): Unit

  /** Removes a file, if it exists. */
  def delete(name: String): Unit
}

private[folder] object FolderFiles {

  /** Chooses how files of a folder are written, by its file system. */
  def of(path: String, configuration: Configuration): FolderFiles = {
    val folder = new Path(path)
    val files = StoreJars.fileSystem(folder, configuration)
    val qualified = files.makeQualified(folder)
    if (files.getUri.getScheme == "file")
      new LocalFiles(LocalPath.of(qualified.toUri.getPath))
    else if (isObjectStore(files, qualified)) new StoredObjects(files, qualified)
    else new RenamedFiles(files, qualified)
  }

  /** Returns a name, in the same folder, for a file that is not whole yet. */
  def unfinished(name: String): String = {
    val (folder, file) = name.splitAt(name.lastIndexOf('/') + 1)
    s"$folder.$file.${UUID.randomUUID}.tmp"
  }

  def isUnfinished(name: String): Boolean = name.startsWith(".") && name.endsWith(".tmp")

  /**
   * Returns whether a file is there only when its stream was closed, and whole. S3A declares it as a
   * capability (its streams can be aborted). The connectors of other object stores do the same, and some
   * do not say so. The connector of Azure is not one of them.
   */
  private def isObjectStore(files: FileSystem, path: Path) =
    ObjectStores.Schemes(files.getUri.getScheme) ||
      files.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM)
}

/**
 * Files on a disk of the driver's host, or one that it has mounted.
 *
 * A file and the entry of its folder are synced, so they are there after a crash of the host. Hadoop's
 * LocalFileSystem syncs no folder, and its checksum is a second file (`.name.crc`), which one rename
 * cannot replace together with the first.
 */
final private class LocalFiles(folder: LocalPath) extends FolderFiles {
  import LocalFiles._

  private def path(name: String): LocalPath = folder.resolve(name)

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

  override def create(name: String, content: Array[Byte], makesFolder: Boolean): Boolean = {
    if (!makesFolder) checkMounted()
    !Files.exists(path(name)) && write(name, content)(link(_, path(name)))
  }

  override def replace(name: String, content: Array[Byte]): Unit = {
    checkMounted()
    write(name, content)(Files.move(_, path(name), ATOMIC_MOVE): Unit)
  }

  /**
   * If the disk of the folder is not mounted any more, the folder is missing, or it is empty because it is the mount
   * point. A file that was written there would be on another disk.
   */
  private def checkMounted(): Unit =
    if (list("").isEmpty) throw new NoSuchFileException(folder.toString)

  override def delete(name: String): Unit = Files.deleteIfExists(path(name)): Unit

  /** Writes a file under another name, and syncs it. `named` gives it its name. */
  private def write[A](name: String, content: Array[Byte])(named: LocalPath => A): A = {
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
  private def link(written: LocalPath, target: LocalPath): Boolean =
    try {
      Files.createLink(target, written)
      true
    } catch {
      case _: LocalFileExists => false
      // Some file systems, for example exFAT, have no hard links.
      case _: FileSystemException | _: UnsupportedOperationException => move(written, target)
    }
}

private object LocalFiles {

  /** Gives a file a name that no file has. A lock keeps other processes from doing the same at that time. */
  def move(written: LocalPath, target: LocalPath): Boolean = synchronized {
    Using.resource(FileChannel.open(target.resolveSibling(".lock"), CREATE, WRITE)) { channel =>
      Using.resource(channel.lock()) { _ =>
        !Files.exists(target) && {
          Files.move(written, target, ATOMIC_MOVE)
          true
        }
      }
    }
  }

  private def createFolder(folder: LocalPath): Unit = if (!Files.isDirectory(folder)) {
    val parent = Option(folder.toAbsolutePath.getParent)
    parent.foreach(createFolder(_))
    try Files.createDirectory(folder): Unit
    catch {
      case problem: LocalFileExists => if (!Files.isDirectory(folder)) throw problem
    }
    parent.foreach(sync(_))
  }

  /** On Windows, a folder cannot be opened for this, and the system keeps the order of changes by itself. */
  @throws[IOException]
  private def sync(folder: LocalPath): Unit =
    if (!IsWindows) Using.resource(FileChannel.open(folder, READ))(_.force(true))

  private val IsWindows = java.io.File.separatorChar == '\\'
}

/** What Hadoop's file systems of both kinds have in common. */
abstract private class HadoopFiles(files: FileSystem, folder: Path) extends FolderFiles {

  protected def path(name: String): Path = new Path(folder, name)

  override def list(folder: String): Seq[FolderFile] =
    try
      files.listStatus(if (folder.isEmpty) this.folder else path(folder)).toSeq.map(status =>
        FolderFile(status.getPath.getName, Instant.ofEpochMilli(status.getModificationTime))
      )
    catch { case _: FileNotFoundException => Nil }

  override def read(name: String): Option[Array[Byte]] =
    try Some(Using.resource(files.open(path(name)))(_.readAllBytes()))
    catch { case _: FileNotFoundException => None }

  override def delete(name: String): Unit = files.delete(path(name), false)
}

/**
 * Files in an object store: one PUT is atomic. If the store has conditional writes, and the connector uses
 * them (S3A from Hadoop 3.4.2 on with the option below, and Google's connector for `overwrite(false)`), then
 * [[create]] is atomic too. Otherwise, the caller checks the result.
 */
final private class StoredObjects(files: FileSystem, folder: Path)
    extends HadoopFiles(files, folder) {

  override def create(name: String, content: Array[Byte], makesFolder: Boolean): Boolean =
    try {
      val file = files.createFile(path(name)).recursive().overwrite(false)
      // If the settings of S3A turn off conditions, S3A fails if it gets one.
      val builder =
        if (!files.getConf.getBoolean("fs.s3a.create.conditional.enabled", true)) file
        else file.opt("fs.option.create.conditional.overwrite", true)
      ObjectStores.put(builder.build(), content)
      true
    } catch {
      case _: FileAlreadyExistsException => false
      // Connectors have errors of their own for a condition that is not fulfilled.
      case problem: IOException =>
        if (files.exists(path(name))) false else throw problem
    }

  override def replace(name: String, content: Array[Byte]): Unit =
    ObjectStores.put(files.createFile(path(name)).recursive().overwrite(true).build(), content)
}

/**
 * Files in HDFS, in Azure's store, and in any other file system. A file gets its name when it is whole, by
 * a rename. HDFS and Azure refuse a rename to a name that exists, so [[create]] is atomic.
 *
 * `FileSystem` has no rename that replaces a file, and `FileContext` has one that is atomic only in HDFS.
 * So [[replace]] first renames the new file to a name that is its own: `<name>.next`. From then on, the file
 * `.next` counts. Then the old file is removed, and the new one gets its name. A process that finds a file
 * `.next` after a crash does the remaining steps.
 *
 * A list of the folder that is made at that moment can have neither name. So a file that was replaced once has a
 * file `<name>.place` beside it, which represents it in lists.
 */
final private class RenamedFiles(files: FileSystem, folder: Path)
    extends HadoopFiles(files, folder) {
  import RenamedFiles._

  override def list(folder: String): Seq[FolderFile] = super.list(folder)
    .groupBy(_.name.stripSuffix(Next).stripSuffix(Place)).toSeq
    .map { case (name, files) => FolderFile(name, files.map(_.written).max) }

  /** Looks several times, because a file that gets its name between two looks is found under neither name. */
  override def read(name: String): Option[Array[Byte]] =
    Iterator.continually(super.read(name + Next).orElse(super.read(name)))
      .take(MostMoves).collectFirst { case Some(content) => content }

  override def create(name: String, content: Array[Byte], makesFolder: Boolean): Boolean =
    if (files.exists(path(name)) || files.exists(path(name + Next))) false
    else
      write(name, content) { written =>
        files.rename(written, path(name)) || {
          if (!files.exists(path(name))) throw notRenamed(written, path(name))
          false
        }
      }

  override def replace(name: String, content: Array[Byte]): Unit = {
    if (!files.exists(path(name + Place))) files.create(path(name + Place), true).close()
    finish(name)
    write(name, content)(rename(_, path(name + Next)))
    finish(name)
  }

  override def delete(name: String): Unit = {
    super.delete(name) // first, so that an older file never counts again
    super.delete(name + Next)
    super.delete(name + Place)
  }

  private def finish(name: String): Unit =
    if (files.exists(path(name + Next))) {
      files.delete(path(name), false)
      rename(path(name + Next), path(name))
    }

  /** Writes a file under another name, which `named` changes. */
  private def write[A](name: String, content: Array[Byte])(named: Path => A): A = {
    val written = path(FolderFiles.unfinished(name))
    try {
      Using.resource(files.create(written, false)) { out =>
        out.write(content)
        if (out.hasCapability(StreamCapabilities.HSYNC)) out.hsync()
      }
      named(written)
    } finally files.delete(written, false): Unit
  }

  private def rename(from: Path, to: Path): Unit =
    if (!files.rename(from, to)) throw notRenamed(from, to)

  private def notRenamed(from: Path, to: Path) =
    new IOException(s"The file $from cannot be renamed to $to.")
}

private object RenamedFiles {
  private val Next = ".next"
  private val Place = ".place"
  final private val MostMoves = 5
}

/**
 * Object stores, by the schemes of Hadoop's connectors. A file is there only when it is whole, and a rename
 * is not atomic. The store of Azure is not one of them: its renames are.
 */
private[lake] object ObjectStores {

  /** The schemes for which Delta's default log store is safe for only one driver. */
  val S3: Set[String] = Set("s3", "s3a", "s3n")

  val Schemes: Set[String] = S3 ++ Set("gs", "oss", "cosn", "obs")

  /** Writes a file, whole or not at all. */
  def put(out: FSDataOutputStream, content: Array[Byte]): Unit = {
    try out.write(content)
    catch {
      case NonFatal(problem) => // To close the stream would make a file of what was written.
        try out.abort(): Unit
        catch { case NonFatal(other) => problem.addSuppressed(other) }
        throw problem
    }
    out.close()
  }
}

/** Names the JAR that is missing if Spark cannot open a folder or the store of a catalog. */
private[lake] object StoreJars {

  /**
   * Returns the file system of a folder.
   *
   * @throws LakeException if its JAR is missing
   */
  def fileSystem(folder: Path, configuration: Configuration): FileSystem =
    naming(s"the folder $folder", _ => Some(ofFolder(folder.toUri.getScheme)))(
      folder.getFileSystem(configuration)
    )

  /**
   * Opens something.
   *
   * @param place what it opens
   * @param remedy what to do if a class is missing, by the text of the error
   * @throws LakeException if a class is missing and there is a remedy
   */
  def naming[T](place: String, remedy: String => Option[String])(open: => T): T =
    try open
    catch {
      case problem @ (NonFatal(_) | _: LinkageError) =>
        val reason =
          ErrorCauses.of(problem).filter(isMissing).map(String.valueOf(_)).toSeq.lastOption
        throw reason.flatMap(text => remedy(text).map(text -> _)).fold(problem) {
          case (text, remedy) => new LakeException(
              "PGOUTPUT_STORE_JAR",
              "place" -> place,
              "remedy" -> remedy,
              "reason" -> text
            ).initCause(problem)
        }
    }

  /** Iceberg writes the name of the error of a class into the text of its own. */
  private def isMissing(problem: Throwable) = problem match {
    case _: ClassNotFoundException | _: LinkageError | _: UnsupportedFileSystemException => true
    case other => String.valueOf(other.getMessage).contains("NoClassDefFoundError")
  }

  /** Spark has a version of Hadoop, which the connectors of Hadoop must have too. */
  private def ofFolder(scheme: String) = {
    def hadoop(name: String) = start(s"org.apache.hadoop:$name:${VersionInfo.getVersion}")
    scheme match {
      case "s3a"            => hadoop("hadoop-aws")
      case "s3" | "s3n"     => s"Write s3a:// in place of $scheme://. ${hadoop("hadoop-aws")}"
      case "abfs" | "abfss" => hadoop("hadoop-azure")
      case "gs" => "Add the JAR of com.google.cloud.bigdataoss:gcs-connector for Hadoop 3."
      case other =>
        s"Correct the name of the folder, or add the JAR with Hadoop's file system for $other://."
    }
  }

  /** What to do if a class is missing that a FileIO of Iceberg needs. */
  def ofIceberg(version: => String)(missing: String): Option[String] =
    Seq("software/amazon" -> "aws", "com/google" -> "gcp", "com/azure" -> "azure")
      .collectFirst {
        case (part, name) if missing.contains(part) =>
          start(s"org.apache.iceberg:iceberg-$name-bundle:$version")
      }

  private def start(packages: String) =
    s"Start Spark with --packages $packages, in addition to the packages that you have."
}
