package io.sparkpgoutput.lake.target

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Arrays, Iterator => JavaIterator, UUID}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.SparkEnv
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.storage.LogStore

import io.delta.storage.S3SingleDriverLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, FileSystem, Path}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.folder.{ObjectStores, StoreJars}

/**
 * Writes the log of a Delta table in S3, so that several drivers can commit to the table. A commit is one PUT with
 * `If-None-Match`, which S3 refuses if the object exists. Delta's default log store looks for the object first, and
 * then writes it. It lists the log in the same way, so this class inherits the rest.
 *
 * The job takes this log store by itself ([[S3Commits]]). Other processes that write the tables, such as OPTIMIZE,
 * need the setting `spark.delta.logStore.s3a.impl`.
 */
final class S3LogStore(configuration: Configuration)
    extends S3SingleDriverLogStore(configuration) {
  import S3LogStore._

  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration
  ): Unit = {
    val files = path.getFileSystem(configuration)
    val content = actions.asScala.map(_ + "\n").mkString.getBytes(UTF_8)
    if (overwrite)
      ObjectStores.put(files.createFile(path).recursive().overwrite(true).build(), content)
    else
      try ObjectStores.put(created(files, path), content)
      catch {
        // The condition is not fulfilled, or the answer is not known.
        case problem: IOException if files.exists(path) =>
          // The connector sends a PUT again whose answer is lost. No two commits are equal: each has an ID.
          if (!Arrays.equals(Using.resource(files.open(path))(_.readAllBytes), content))
            throw new java.nio.file.FileAlreadyExistsException(path.toString).initCause(problem)
      }
  }
}

private object S3LogStore {

  /** Opens a new file. Closing it fails if there is a file of this name. */
  def created(files: FileSystem, path: Path): FSDataOutputStream =
    files.createFile(path).recursive().overwrite(false)
      .opt("fs.option.create.conditional.overwrite", true).build()
}

/** Lets Delta commit atomically to tables in S3, or refuses the target. */
private object S3Commits {

  /** The buckets that were checked, with the ids of their applications, each of which has settings of its own. */
  private val checked = mutable.Set.empty[(String, String)]

  /**
   * Checks once for each bucket that commits are atomic. If the user names no log store, Delta takes [[S3LogStore]]
   * from then on.
   *
   * @param folder where tables are, or one table
   * @return whether Delta opens tables with another log store than before
   * @throws LakeException if commits are not atomic. Its text says what to set.
   */
  def ensure(session: SparkSession, folder: Path): Boolean = {
    val bucket = Option(folder.toUri.getScheme).filter(ObjectStores.S3)
      .map(scheme => s"$scheme://${folder.toUri.getAuthority}")
    bucket.exists { bucket =>
      val ofApplication = session.sparkContext.applicationId -> bucket
      synchronized {
        val isChanged = !checked(ofApplication) && choose(session, folder)
        checked += ofApplication
        isChanged
      }
    }
  }

  private def choose(session: SparkSession, folder: Path): Boolean = {
    val settings = SparkEnv.get.conf
    val setting = LogStore.logStoreSchemeConfKey(folder.toUri.getScheme)
    val named = settings.getOption(LogStore.logStoreClassConfKey)
      .orElse(LogStore.getLogStoreConfValue(setting, settings))
    def refused(why: String) = new LakeException(
      "PGOUTPUT_TARGET_FORMAT.NOT_ATOMIC",
      "location" -> folder,
      "reason" -> why,
      "setting" -> setting
    )
    named.filter(SingleDriver).foreach(store =>
      throw refused(s"the log store $store is safe for one driver only")
    )
    // If the user names another log store, the user knows that it is safe.
    if (named.forall(_ == Ours)) {
      val files = StoreJars.fileSystem(folder, session.sessionState.newHadoopConf())
      val found =
        try probe(files, folder)
        catch {
          case problem: IOException =>
            throw TargetError.notWritable(s"an object in $folder", problem)
        }
      found.foreach(why => throw refused(why))
    }
    if (named.isEmpty) {
      settings.set(setting, Ours)
      DeltaLog.clearCache() // An open log has its log store for as long as it exists.
    }
    named.isEmpty
  }

  /**
   * Creates an object twice, which must fail the second time. Both streams are open before one is closed, so a store
   * that only looks before it writes finds nothing.
   *
   * @return why this was possible, or None if it was not
   */
  private[target] def probe(files: FileSystem, folder: Path): Option[String] = {
    val file = new Path(folder, s"_spark_pgoutput_probe_${UUID.randomUUID}")
    var isMade = false
    try {
      val streams = Seq.fill(2)(S3LogStore.created(files, file))
      streams.foreach { stream =>
        ObjectStores.put(stream, Array[Byte](1))
        isMade = true
      }
      Some("the store, or its connector, has created an object twice")
    } catch {
      case problem: IOException if isRefusal(problem) =>
        isMade = true
        None
      case problem: IOException if isNotSupported(problem) => Some(problem.getMessage)
    } finally
      // A job does not need the right to remove files, and a connector tries for minutes if its store is away.
      try if (isMade) files.delete(file, false): Unit
      catch { case _: IOException => () }
  }

  /** S3A has an exception of its own for the status 412. */
  private def isRefusal(problem: IOException) =
    problem.isInstanceOf[FileAlreadyExistsException] ||
      problem.getClass.getSimpleName == "RemoteFileChangedException"

  /** Some stores do not know the condition, and a setting of the connector can turn it off. */
  private def isNotSupported(problem: IOException) =
    Seq("NotImplemented", "Status Code: 501", "Conditional Writes Unavailable")
      .exists(String.valueOf(problem.getMessage).contains(_))

  private val Ours = classOf[S3LogStore].getName

  private val SingleDriver = Set(
    classOf[S3SingleDriverLogStore].getName,
    "org.apache.spark.sql.delta.storage.S3SingleDriverLogStore"
  )
}
