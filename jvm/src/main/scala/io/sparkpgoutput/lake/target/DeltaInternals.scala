package io.sparkpgoutput.lake.target

import java.io.{FileNotFoundException, IOException}
import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.time.Instant
import java.util.{Optional, UUID}

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.actions.{Action, AddFile, CommitInfo, RemoveFile}
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}

import io.delta.kernel.TableManager
import io.delta.kernel.data.FilteredColumnarBatch
import io.delta.kernel.defaults.engine.DefaultEngine
import io.delta.kernel.engine.Engine
import io.delta.kernel.internal.actions.{RemoveFile => KernelRemove, SingleAction}
import io.delta.kernel.internal.checkpoints.{CheckpointMetaData, Checkpointer}
import io.delta.kernel.internal.fs.{Path => KernelPath}
import io.delta.kernel.internal.replay.LogReplayUtils
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.xbean.asm9.ClassReader

/**
 * Direct commits call internal classes of Delta, and another version of Delta can lack some of their members. All of
 * them are looked up before the first call. Otherwise, a call after a commit could fail, and the commit would be
 * there. If a member is missing, all tables are written by MERGE.
 *
 * @param loader has the classes of Delta
 */
final class DeltaLinkage(loader: ClassLoader = classOf[DeltaLinkage].getClassLoader)
    extends Logging {
  import DeltaLinkage._

  @volatile private var problem = Option.empty[String]
  private lazy val look: Unit = missing.foreach(note)

  /** Runs calls of internal classes of Delta. Returns why they cannot run, if a member is missing. */
  def apply[T](calls: => T): Either[String, T] = {
    look
    problem.toLeft(()).flatMap { _ =>
      try Right(calls)
      catch { case missing: LinkageError => Left(note(missing.toString)) }
    }
  }

  private def note(member: String): String = synchronized {
    if (problem.isEmpty) {
      problem = Some(s"this version of Delta has no $member")
      logWarning(s"The tables are written by MERGE, which takes longer: ${problem.get}.")
    }
    problem.get
  }

  private def missing: Option[String] = callers.flatMap(membersOf).collectFirst {
    case (owner, None) if !exists(owner) => owner.replace('/', '.')
    case (owner, Some((name, descriptor))) if !exists(owner, name, descriptor) =>
      s"${owner.replace('/', '.')}.$name$descriptor"
  }

  /** The classes of direct commits, and the partial functions in them, which are classes of their own. */
  private def callers: Iterator[String] = Callers.iterator.flatMap { caller =>
    caller +: referencesOf(caller).map(_._1).distinct
      .filter(_.startsWith(s"$Package${caller.stripSuffix("$")}$$$$anonfun"))
      .map(_.stripPrefix(Package))
  }

  /** The classes of Delta that a class uses, and their members with their descriptors. */
  private def membersOf(caller: String) = referencesOf(caller).filter { case (owner, _) =>
    // The members that a class inherits from Delta are called by its own name.
    owner.startsWith(Delta) || Callers.exists(Package + _ == owner)
  }

  /** The classes that a class uses, and their members with their descriptors, from its constant pool. */
  private def referencesOf(caller: String): Seq[(String, Option[(String, String)])] = {
    val file =
      Using.resource(loader.getResourceAsStream(s"$Package$caller.class"))(new ClassReader(_))
    val buffer = new Array[Char](file.getMaxStringLength)
    (1 until file.getItemCount).map(file.getItem).filter(_ > 0).flatMap { at =>
      file.readByte(at - 1) match {
        case ClassTag => Some(file.readUTF8(at, buffer) -> None)
        case FieldTag | MethodTag | InterfaceMethodTag =>
          val pair = file.getItem(file.readUnsignedShort(at + 2))
          val member = file.readUTF8(pair, buffer) -> file.readUTF8(pair + 2, buffer)
          Some(file.readClass(at, buffer) -> Some(member))
        case _ => None
      }
    }
  }

  private def load(owner: String) = Class.forName(owner.replace('/', '.'), false, loader)

  private def exists(owner: String): Boolean = isThere(load(owner))

  private def exists(owner: String, name: String, descriptor: String): Boolean = {
    def has(find: (MethodHandles.Lookup, Class[_], MethodType) => MethodHandle) = isThere {
      val of = load(owner)
      val lookup = MethodHandles.privateLookupIn(of, MethodHandles.lookup())
      val signature = if (descriptor.startsWith("(")) descriptor else s"()$descriptor"
      find(lookup, of, MethodType.fromMethodDescriptorString(signature, loader))
    }
    if (name == "<init>") has(_.findConstructor(_, _))
    else if (descriptor.startsWith("("))
      has(_.findVirtual(_, name, _)) || has(_.findStatic(_, name, _))
    else
      has((lookup, of, as) => lookup.findGetter(of, name, as.returnType)) ||
      has((lookup, of, as) => lookup.findStaticGetter(of, name, as.returnType))
  }

  private def isThere(find: => Any): Boolean =
    try find != null
    catch {
      case _: ReflectiveOperationException | _: TypeNotPresentException | _: LinkageError => false
    }
}

object DeltaLinkage {

  /** That of the Delta beside this JAR. All targets share it, because the lookup takes a tenth of a second. */
  val own: DeltaLinkage = new DeltaLinkage

  final private val Delta = "org/apache/spark/sql/delta/"
  final private val Package = "io/sparkpgoutput/lake/target/"

  /** The classes of direct commits that call Delta. */
  private[target] val Callers: Seq[String] = Seq(
    "DeltaBounds$",
    "DeltaDirect",
    "DeltaDirect$",
    "DeltaFile",
    "DeltaFiles",
    "DeltaFiles$",
    "DeltaHistory$",
    "DeltaLayout",
    "DeltaLayout$",
    "DeltaPartition$",
    "DeltaVersion",
    "DirectTransaction",
    "KnownTransactions"
  )

  // The Java Virtual Machine Specification, table 4.4-A.
  final private val ClassTag = 7
  final private val FieldTag = 9
  final private val MethodTag = 10
  final private val InterfaceMethodTag = 11
}

/**
 * Writes checkpoints by Delta Kernel, in one thread and without jobs of Spark. The jobs of Delta's own checkpoints took
 * half of the CPU time of a job whose tables change each second, most of it to generate and to compile code.
 *
 * After an error while it reads the log, Kernel ends and publishes the file that it writes. A checkpoint without the
 * rest of the log would be the loss of a table. So Kernel writes a file that no reader knows, and only a whole one gets
 * the name of a checkpoint.
 */
private object DeltaCheckpoint extends Logging {
  @volatile private var isLinked = true

  /**
   * Writes a checkpoint of a version, and removes commits that are too old from the log, as Delta does.
   *
   * @return whether Delta Kernel has written it. If not, Delta itself can: it may read the log by other classes.
   */
  def write(snapshot: Snapshot, table: Option[CatalogTable]): Boolean = isLinked &&
    (try {
      writeByKernel(snapshot)
      snapshot.deltaLog.doLogCleanup(snapshot, table)
      true
    } catch {
      case missing: LinkageError =>
        isLinked =
          false // Kernel is not there, or Spark 4.0 lacks classes of Parquet that it needs.
        cannot(missing)
      case NonFatal(problem) => cannot(problem)
    })

  private def writeByKernel(snapshot: Snapshot): Unit = {
    val log = snapshot.deltaLog
    val conf = log.newDeltaHadoopConf()
    val files = log.logPath.getFileSystem(conf)
    val engine = DefaultEngine.create(conf)
    val found = TableManager.loadSnapshot(log.dataPath.toString).atVersion(snapshot.version)
      .build(engine)
    val before = found.getLogSegment.getCheckpointVersionOpt.orElse(-1L)
    val actions = found.getCreateCheckpointIterator(engine)
    val corrected = withRemoved(snapshot, before, engine)
    val whole = actions.map(corrected(_))
    val unfinished = new Path(log.logPath, s".${UUID.randomUUID}.unfinished")
    try {
      engine.getParquetHandler.writeParquetFileAtomically(unfinished.toString, whole)
      val checkpoint = FileNames.checkpointFileSingular(log.logPath, snapshot.version)
      if (!files.rename(unfinished, checkpoint) && !files.exists(checkpoint))
        throw new IOException(s"$unfinished cannot get the name $checkpoint.")
    } finally files.delete(unfinished, false): Unit
    val last =
      new CheckpointMetaData(snapshot.version, actions.getNumberOfAddActions, Optional.empty)
    new Checkpointer(new KernelPath(log.logPath.toString)).writeLastCheckpointFile(engine, last)
  }

  /**
   * Corrects the list of removed files that Kernel writes. Kernel leaves out the removed files of the previous
   * checkpoint, so VACUUM would remove files of versions that stay. And if a RESTORE adds a removed file again, Kernel
   * also lists this file as removed, so readers would lack its rows.
   *
   * @param before the version of the previous checkpoint
   */
  private def withRemoved(snapshot: Snapshot, before: Long, engine: Engine)
      : FilteredColumnarBatch => FilteredColumnarBatch = {
    val isAdded = (before + 1 to snapshot.version)
      .flatMap(DeltaHistory.actions(snapshot.deltaLog, _)).collect {
        case add: AddFile       => (add.pathAsUri, add.getDeletionVectorUniqueId) -> true
        case remove: RemoveFile => (remove.pathAsUri, remove.getDeletionVectorUniqueId) -> false
      }.toMap // with the last action of each file
    val oldest = System.currentTimeMillis - DeltaLog.tombstoneRetentionMillis(snapshot.metadata)
    batch => {
      val data = batch.getData
      val removed = data.getColumnVector(SingleAction.REMOVE_FILE_ORDINAL)
      def column(name: String) = removed.getChild(KernelRemove.FULL_SCHEMA.indexOf(name))
      val (path, vector, time) =
        (column("path"), column("deletionVector"), column("deletionTimestamp"))
      val chosen = batch.getSelectionVector
      def isOfKernel(row: Int) = chosen.isEmpty || chosen.get.getBoolean(row)
      val selected = Array.tabulate(data.getSize) { row =>
        if (removed.isNullAt(row)) isOfKernel(row)
        else {
          val file = LogReplayUtils.getUniqueFileAction(path, vector, row)
          isAdded.get((file._1, Option(file._2.orElse(null)))).fold(
            !time.isNullAt(row) && time.getLong(row) > oldest
          )(!_ && isOfKernel(row))
        }
      }
      val handler = engine.getExpressionHandler
      new FilteredColumnarBatch(
        data,
        Optional.of(handler.createSelectionVector(selected, 0, selected.length))
      )
    }
  }

  private def cannot(problem: Throwable) = {
    logDebug("Delta writes the checkpoint itself.", problem)
    false
  }
}

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
   * Returns whether nobody has committed since a snapshot, by two files of the log. To list the log, as Delta's
   * `update` does, takes longer than the rest of a direct commit.
   *
   * The last commit has to be the file that the snapshot has, because the table can have been made again in the same
   * folder. If a checkpoint is due, only a list of the log shows whether somebody has written it.
   */
  def isNewest(snapshot: Snapshot): Boolean = DeltaDirect.unknownFeature(snapshot).isEmpty && {
    val log = snapshot.deltaLog
    val commits = snapshot.logSegment.deltas
    commits.size < log.checkpointInterval(snapshot.metadata) && commits.lastOption.exists { last =>
      val system = systemOf(log)
      last.getPath.getName == FileNames.unsafeDeltaFile(log.logPath, snapshot.version).getName &&
      changed(system, last.getPath).contains(Instant.ofEpochMilli(last.getModificationTime)) &&
      !system.exists(FileNames.unsafeDeltaFile(log.logPath, snapshot.version + 1))
    }
  }

  /** Returns when a commit was made; None if its file is not there any more. */
  def time(log: DeltaLog, version: Long): Option[Instant] =
    Option.when(version >= 0)(FileNames.unsafeDeltaFile(log.logPath, version))
      .flatMap(changed(systemOf(log), _))

  /** Returns when VACUUM last removed files of the table, if Delta has noted it. */
  def lastVacuum(snapshot: Snapshot): Option[Instant] =
    changed(systemOf(snapshot.deltaLog), vacuumInfo(snapshot.deltaLog))

  private def vacuumInfo(log: DeltaLog) = new Path(log.logPath, "_last_vacuum_info")

  /**
   * Lets VACUUM LITE run if the log lacks commits since it ran last. Delta refuses it then for ever, because also a
   * VACUUM of the whole folder does not note a commit (`VacuumCommand.gc`). The files that the missing commits have
   * removed stay until somebody runs VACUUM.
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
   * Removes the commits from the log that only versions need whose files VACUUM LITE has removed: those before the
   * last checkpoint at or before the version up to which it has looked. The next VACUUM LITE and time travel to later
   * versions begin there. Delta itself keeps commits by their age, in whole days, and a table can get many thousands
   * in a day.
   */
  def removeVacuumed(log: DeltaLog): Unit = vacuumedUpTo(log).foreach { last =>
    val system = systemOf(log)
    val found =
      log.store.listFrom(FileNames.listingPrefix(log.logPath, 0), log.newDeltaHadoopConf())
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

  /** To make the configuration for it takes longer than to ask it for a file on a local disk. */
  private def systemOf(log: DeltaLog): FileSystem =
    log.logPath.getFileSystem(log.newDeltaHadoopConf())

  private def changed(system: FileSystem, file: Path): Option[Instant] =
    try Some(Instant.ofEpochMilli(system.getFileStatus(file).getModificationTime))
    catch { case _: FileNotFoundException => None }

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
