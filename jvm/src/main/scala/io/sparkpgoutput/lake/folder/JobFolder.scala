package io.sparkpgoutput.lake.folder

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.AccessDeniedException
import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentHashMap
import java.util.{Locale, UUID}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.security.AccessControlException

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.JobState

/**
 * The checkpoint folder of a job (option `checkpoint`), in any file system of Hadoop. `docs/protocol.md`
 * has its files and their fields.
 *
 * The state has a file for each epoch. A process of the job takes an epoch at its start, and writes only
 * the file of this epoch. The greatest epoch counts. So a process that is slow to end can still write, but
 * this changes nothing.
 *
 * All methods throw IOException if the file system is away or read-only, and can be called again then. A
 * method that reads makes no folder. Threads can use it at the same time.
 */
final class JobFolder(path: String, configuration: Configuration) extends Logging {
  import JobFolder._

  /** The requests whose files could not be read the last time. */
  private val unread = ConcurrentHashMap.newKeySet[String]

  private val states = new StateFormat.StateWriter(UUID.randomUUID.toString)

  private lazy val files = FolderFiles.of(path, configuration)

  /** Whether this process has seen a state in the folder, which exists from then on. */
  @volatile private var hasState = false

  /** The greatest epoch that has a state; None if there is no state. */
  def newestEpoch(): Option[Long] = {
    val newest = epochs().maxOption
    if (newest.nonEmpty) hasState = true
    newest
  }

  /**
   * Reads the state of the newest epoch.
   *
   * @return None if there is no state
   * @throws LakeException
   *   if the file is damaged, or has been written by a later version. The state of an older epoch is never
   *   used in its place.
   */
  def read(): Option[(Long, JobState)] = read(MostTries)

  /** Reads the state of the newest epoch, of a job that has one. */
  def state(): (Long, JobState) = readable(read()).getOrElse(throw noState)

  def noState: LakeException =
    new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_STATE", "folder" -> path)

  @tailrec private def read(times: Int): Option[(Long, JobState)] = newestEpoch() match {
    case None => None
    case Some(epoch) =>
      stateOf(epoch) match {
        case Some(state) => Some(epoch -> state)
        // The process of a later epoch has removed it since.
        case None if times > 1 => read(times - 1)
        case None => throw new IOException(s"The file ${full(stateFile(epoch))} cannot be read.")
      }
  }

  private def stateOf(epoch: Long): Option[JobState] =
    files.read(stateFile(epoch)).map(StateFormat.read(full(stateFile(epoch)), _))

  /**
   * Takes an epoch, and writes its first state.
   *
   * @return
   *   whether it did. Otherwise another process has this epoch or a later one: the caller reads the state
   *   again. After an IOException it can take the same epoch again.
   */
  def take(epoch: Long, state: JobState): Boolean = {
    val content = states.write(state)
    def isLater = newestEpoch().exists(_ > epoch)
    if (isLater) false
    else {
      // Whose file it is decides, and not the result of the call: the answer to an earlier try can be lost,
      // and not every object store refuses to write a file that exists.
      files.create(stateFile(epoch), content, makesFolder = !hasState): Unit
      val isOwn = files.read(stateFile(epoch)).exists(_.sameElements(content))
      // A process can be suspended before it creates the file. If its epoch is old by then, the file of this
      // epoch may have been removed.
      isOwn && !isLater
    }
  }

  /**
   * Takes the epoch after the one whose state was read, and writes its first state.
   *
   * @param kept what [[read]] has returned
   * @return
   *   false if another process has written a state since, or takes this epoch or a later one: the caller reads the
   *   state again
   */
  def takeAfter(kept: Option[(Long, JobState)], state: JobState): Boolean =
    isNewest(kept) && writing(take(kept.fold(0L)(_._1) + 1, state) && !keepsLater(kept))

  /**
   * Looks whether the earlier process has written another state since the caller read it. That process can have removed
   * a request which only its last state has. So this state gets the epoch after that of the caller, and the caller
   * starts again with it.
   *
   * The earlier process looks for a later epoch between its write and the removal. So one of both processes sees what
   * the other one has written. Only if the caller is killed between its two writes, such a request is lost.
   *
   * @return whether the earlier process has written another state
   */
  private def keepsLater(kept: Option[(Long, JobState)]): Boolean =
    kept.exists { case (epoch, before) =>
      val later = stateOf(epoch).filter(_ != before)
      later.foreach(take(epoch + 2, _): Unit)
      later.nonEmpty
    }

  /**
   * Takes the epoch after the one that was read, with the newest state that its process has written. So this process
   * ends, and does not write again before the caller reads the state. The caller holds the slot, because nobody may
   * confirm an LSN of a later state.
   *
   * @param kept what [[read]] has returned
   */
  def takeOver(kept: Option[(Long, JobState)]): Unit = read().foreach {
    case newest @ (epoch, state) if kept.exists(_._1 == epoch) =>
      takeAfter(Some(newest), state): Unit
    case _ => () // A third process has taken over.
  }

  /** Returns whether nobody has written a state since [[read]] has returned one, or none. */
  def isNewest(kept: Option[(Long, JobState)]): Boolean = read() == kept

  /** Writes the state of an epoch that this process has taken. */
  def write(epoch: Long, state: JobState): Unit =
    files.replace(stateFile(epoch), states.write(state))

  /**
   * Removes the files of old epochs, answers to old requests, and what interrupted writes have left. The answers to a
   * request that is not handled stay, because the command that waits for the next answer goes on from the number of the
   * last one.
   *
   * @param epoch the epoch of this process
   */
  def clean(epoch: Long): Unit = {
    epochs().filter(_ <= epoch - KeptEpochs).foreach(old => files.delete(stateFile(old)))
    val now = Instant.now
    def remove(folder: String, age: Duration)(isOld: String => Boolean): Unit =
      files.list(folder)
        .filter(file => isOld(file.name) && file.written.isBefore(now.minus(age)))
        .foreach(file => files.delete(nameIn(folder, file.name)))
    Seq("", States, Requests, Answers)
      .foreach(remove(_, UnfinishedStay)(FolderFiles.isUnfinished))
    val open = requestIds.toSet
    remove(Answers, AnswersStay) {
      case AnswerName(id, _) => !open(id)
      case _                 => false
    }
  }

  /** The requests that are not handled and can be read, in the order in which users have asked. */
  def requests(): Seq[JobRequest] =
    requestIds.sorted.flatMap(request) // None if it was handled since

  private def requestIds =
    files.list(Requests).map(_.name).collect { case RequestName(id) => id }

  /**
   * A user can write a file that the job may not read. A file that the file system cannot read, for example because a
   * block of HDFS is missing, is read again later: other requests and the start of the job do not wait for it.
   */
  private def request(id: String): Option[JobRequest] = {
    val file = full(requestFile(id))
    try {
      val content = files.read(requestFile(id))
      unread.remove(id): Unit
      content.map(RequestFormat.request(file, id, _))
    } catch {
      case denied @ (_: AccessDeniedException | _: AccessControlException) =>
        Some(UnreadableRequest(id, s"The job may not read the file $file. ${denied.getMessage}"))
      case error: IOException =>
        if (unread.add(id))
          logWarning(s"The request $file cannot be read, so it waits.", error)
        None
    }
  }

  /** Asks the job for something. Its answers have the id of the request. */
  def ask(request: JobRequest): Unit =
    create(requestFile(request.id), RequestFormat.write(request)): Unit

  /** Takes a request away. */
  def handled(id: String): Unit = files.delete(requestFile(id))

  /** Adds an answer to a request. */
  @tailrec def answer(id: String, answer: JobAnswer): Unit = {
    val next = numbers(id).lastOption.getOrElse(0) + 1
    // Another process of the job can answer at the same time.
    if (!create(answerFile(id, next), RequestFormat.write(answer))) this.answer(id, answer)
  }

  /** Creates a file of a job that has a state, so the folder must exist. */
  private def create(name: String, content: Array[Byte]): Boolean =
    files.create(name, content, makesFolder = false)

  /**
   * Reads the answers to a request that have a number above another one, with their numbers, the oldest first. A job
   * removes them when they are a day old.
   */
  def answers(id: String, after: Int): Seq[(Int, JobAnswer)] =
    numbers(id).filter(_ > after).flatMap { number =>
      val file = answerFile(id, number)
      files.read(file).map(content => number -> RequestFormat.answer(full(file), content))
    }

  private def numbers(id: String): Seq[Int] = {
    JobRequest.checkId(id)
    files.list(Answers).map(_.name)
      .collect { case AnswerName(`id`, number) => number.toInt }.sorted
  }

  /** Writes what the command `status` shows, in place of the last status. */
  def writeStatus(json: String): Unit = files.replace(Status, json.getBytes(UTF_8))

  /** Returns what the job wrote last. */
  def readStatus(): Option[String] = files.read(Status).map(new String(_, UTF_8))

  /**
   * Refuses a folder that has the checkpoint of a streaming query of Spark, as jobs of older versions had
   * it, and no state.
   */
  def check(): Unit = readable {
    if (newestEpoch().isEmpty && files.list("").exists(file => StreamingName.matches(file.name)))
      throw new LakeException("PGOUTPUT_CHECKPOINT_VERSION.STREAMING_CHECKPOINT", "folder" -> path)
  }

  /** Shows that the folder can be written, before something depends on it, such as a slot. */
  def tryWrite(): Unit = writing {
    val attempt = FolderFiles.unfinished(s"$States/attempt")
    files.create(attempt, Array.emptyByteArray, makesFolder = true): Unit
    // A job does not need the right to remove files.
    try files.delete(attempt)
    catch { case _: IOException => () }
  }

  /** Says which folder cannot be read. */
  private def readable[A](body: => A): A = naming(body) { reason =>
    new LakeException("PGOUTPUT_CHECKPOINT_NOT_READABLE", "folder" -> path, "reason" -> reason)
  }

  /** Says which folder cannot be written. */
  private def writing[A](body: => A): A = naming(body) { reason =>
    new LakeException("PGOUTPUT_CHECKPOINT_NOT_WRITABLE", "folder" -> path, "reason" -> reason)
  }

  private def naming[A](body: => A)(error: String => LakeException): A =
    try body
    catch {
      case problem: IOException =>
        throw error(s"${problem.getClass.getSimpleName}: ${problem.getMessage}").initCause(problem)
    }

  private def epochs(): Seq[Long] = files.list(States).map(_.name)
    .collect { case StateName(epoch) => epoch }.flatMap(_.toLongOption)

  private def full(name: String) = s"${path.stripSuffix("/")}/$name"
}

object JobFolder {

  /** The checkpoint folder at a path, with the file systems of a session. */
  def of(session: SparkSession, path: String): JobFolder =
    new JobFolder(path, session.sparkContext.hadoopConfiguration)

  private val States = "state"
  private val Requests = "requests"
  private val Answers = "answers"
  private val Status = "status.json"

  private val StateName = """(\d{20})\.json""".r
  private val RequestName = s"(${JobRequest.Id})\\.json".r
  private val AnswerName = s"(${JobRequest.Id})\\.(\\d{1,9})\\.json".r

  /** Spark's `StreamingCheckpointConstants`, and the folders of the generations of older jobs. */
  private val StreamingName = """offsets|commits|metadata|sources|generation-\d+""".r

  /** An older epoch is only for a person who wants to find out what has happened. */
  final private val KeptEpochs = 5

  final private val MostTries = 10

  /** No write takes so long. Files of a write that goes on must stay. */
  private val UnfinishedStay = Duration.ofHours(1)

  private val AnswersStay = Duration.ofDays(1)

  private def stateFile(epoch: Long) = nameIn(States, "%020d.json".formatLocal(Locale.ROOT, epoch))

  private def requestFile(id: String) = {
    JobRequest.checkId(id)
    nameIn(Requests, s"$id.json")
  }

  private def answerFile(id: String, number: Int) = nameIn(Answers, s"$id.$number.json")

  private def nameIn(folder: String, name: String) = if (folder.isEmpty) name else s"$folder/$name"
}

/** Requests and answers as JSON. */
private object RequestFormat {
  import JsonFile.{JsonFields, fields}

  final private val Version = 1

  private val Resync = "resync"
  private val ResyncAll = "resync all"
  private val Verify = "verify"

  def write(request: JobRequest): Array[Byte] = request match {
    case ResyncRequest(_, tables) => write(Resync, tables)
    case ResyncAllRequest(_)      => JsonFile.write("version" -> Version, "request" -> ResyncAll)
    case VerifyRequest(_, tables) => write(Verify, tables)
    case UnreadableRequest(id, _) =>
      throw new IllegalArgumentException(s"The request $id cannot be written.")
  }

  private def write(request: String, tables: Seq[TableName]) =
    JsonFile.write(
      "version" -> Version,
      "request" -> request,
      "tables" -> tables.map(table => fields(StateFormat.nameFields(table): _*)).asJava
    )

  def request(file: String, id: String, content: Array[Byte]): JobRequest =
    try
      JsonFile.read(file, content, damaged(file)) { of =>
        StateFormat.checkVersion(of, Version)
        of.word("request") {
          case Resync    => Some(ResyncRequest(id, tables(of)))
          case ResyncAll => Some(ResyncAllRequest(id))
          case Verify    => Some(VerifyRequest(id, tables(of)))
          case _         => None
        }
      }
    catch {
      case known: LakeException => UnreadableRequest(id, known.sentences)
      case damaged: IOException => UnreadableRequest(id, damaged.getMessage)
    }

  private def tables(of: JsonFields) = of.seq("tables").map(StateFormat.name)

  def write(answer: JobAnswer): Array[Byte] =
    JsonFile.write("version" -> Version, "kind" -> answer.kind.name, "text" -> answer.text)

  def answer(file: String, content: Array[Byte]): JobAnswer =
    JsonFile.read(file, content, damaged(file)) { of =>
      StateFormat.checkVersion(of, Version)
      JobAnswer(of.word("kind")(name => JobAnswer.kinds.find(_.name == name)), of.text("text"))
    }

  private def damaged(file: String)(problem: String) =
    new IOException(s"The file $file is damaged. $problem")
}

/** A request of a user to a job, `requests/<id>.json` of its checkpoint folder. */
sealed trait JobRequest {

  /** Ids sort in the order in which users have asked. */
  def id: String
}

object JobRequest {

  /** Makes the id of a new request: the time in milliseconds, and random digits. */
  def newId(): String =
    s"${System.currentTimeMillis}-${UUID.randomUUID.toString.take(8)}"

  private[folder] val Id = "[0-9A-Za-z-]{1,64}".r

  private[folder] def checkId(id: String): Unit =
    if (!Id.matches(id)) throw new IllegalArgumentException(s"'$id' is not the id of a request.")
}

/** A request to copy tables again. */
final case class ResyncRequest(id: String, tables: Seq[TableName]) extends JobRequest

/** A request to start over with a new slot and copies of all tables. */
final case class ResyncAllRequest(id: String) extends JobRequest

/** A request to compare tables with the server. */
final case class VerifyRequest(id: String, tables: Seq[TableName]) extends JobRequest

/**
 * A request that the job cannot read. The job answers that it cannot do it, and goes on.
 *
 * @param problem why, sentences
 */
final case class UnreadableRequest(id: String, problem: String) extends JobRequest

/**
 * An answer of a job to a request.
 *
 * @param text a sentence, or the result if the request was for one
 */
final case class JobAnswer(kind: JobAnswer.AnswerKind, text: String)

object JobAnswer {

  /** @param name the name of the kind in files */
  sealed abstract class AnswerKind(val name: String)

  /** The request is not done yet. */
  case object Pending extends AnswerKind("waits")

  /** The request is done. */
  case object Done extends AnswerKind("done")

  /** The request cannot be done. */
  case object Impossible extends AnswerKind("failed")

  private[folder] val kinds: Seq[AnswerKind] = Seq(Pending, Done, Impossible)
}
