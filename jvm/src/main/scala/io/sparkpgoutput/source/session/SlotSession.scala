package io.sparkpgoutput.source.session

import java.sql.SQLException
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.locks.LockSupport
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.{TaskContext, TaskKilledException}

import org.postgresql.copy.CopyDual

import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{BeginMessage, Lsn}
import io.sparkpgoutput.source.connection._

/**
 * A replication session that reads one slot, for one batch after the other.
 *
 * A thread of its own owns the connection. The thread reads messages into a bounded queue, also while
 * no task reads. It sends status updates, also while the queue is full, because the server ends a session
 * whose client is silent. A task takes the messages. Only one task may use a session at a time.
 *
 * @param statusInterval
 *   the time between two status updates in nanoseconds, well below `wal_sender_timeout`
 * @param shutdownQuestionInterval the time between two calls of [[isShuttingDown]] in nanoseconds
 */
class SlotSession(
    settings: SessionSettings,
    connection: ReplicationConnection,
    copy: CopyDual,
    name: String,
    statusInterval: Long,
    shutdownQuestionInterval: Long = SlotSession.ShutdownQuestionInterval
) extends AutoCloseable {
  import ReplicationProtocol._
  import SlotSession._

  private val queue = new LinkedBlockingQueue[MessageChunk]
  private val queuedBytes = new AtomicLong

  /** The end of the batch that a task reads; 0 while the session is parked. */
  @volatile private var wanted = 0L

  /** The LSN to confirm to the server; 0 if there is none. */
  private val confirmation = new AtomicLong
  @volatile private var closing = false
  @volatile private var failure: Throwable = _
  @volatile private var parkedSince = System.nanoTime()
  @volatile private var relations = 0

  /** The thread's chunk that is being filled. */
  private val filling = mutable.ArrayBuffer.empty[Array[Byte]]
  private var fillingBytes = 0L

  /** An LSN below which the server has sent all commits. */
  private var reached = 0L

  /** The value of `reached` in the last chunk. */
  private var passedOn = 0L
  private var lastStatus = System.nanoTime()
  private var lastQuestion = 0L

  /** When the server was last asked whether it is shutting down, or had nothing left to send. */
  private var lastShutdownQuestion = System.nanoTime()

  /** The state in the last status update. */
  private var announced = 0L

  private val thread = new Thread(() => run(), name)
  thread.setDaemon(true)

  /** The task's chunk, and the messages of it that are taken. */
  private var chunk = new MessageChunk(Array.empty, 0, 0)
  private var taken = 0

  /** Begins to read. */
  def start(): this.type = {
    thread.start()
    this
  }

  /** Returns whether the session can be used. */
  def isOpen: Boolean = !closing && failure == null

  /**
   * Returns whether somebody has ended the session with `pg_terminate_backend`, or the connection broke. The
   * client cannot distinguish the two if the server was waiting for it to read (`postgres.c`,
   * `ProcessClientWriteInterrupt`).
   */
  def wasLost: Boolean = failure match {
    case error: SQLException => ConnectionError.isLost(error)
    case _                   => false
  }

  /**
   * Returns whether the session has described so many tables that the next batch needs a new one. Who reads a session
   * keeps what it has said of all tables, also of those that were dropped since, such as partitions.
   */
  def knowsTooMuch: Boolean = relations > MostRelations

  /** Begins with a batch. */
  def startBatch(end: Long): Unit = {
    wanted = end
    LockSupport.unpark(thread)
  }

  /** Ends a batch. The next one can go on. */
  def park(): Unit = {
    parkedSince = System.nanoTime()
    wanted = 0
  }

  /** Confirms an LSN to the server, as soon as the server has sent everything below it. */
  def confirm(lsn: Long): Unit = confirmation.set(lsn)

  /**
   * Returns the next message of the batch, or null at its end. A Begin message at or above the end
   * stays for the next batch.
   *
   * A batch does not end inside a transaction, although a chunk can: a keepalive inside a transaction has an LSN that
   * is not above the one of its commit. It is `sentPtr`, which is the end of the record before the commit while the
   * server decodes the commit (`walsender.c`, XLogSendLogical and WalSndKeepalive).
   */
  def next(end: Long): Array[Byte] = {
    while (taken == chunk.messages.length && Lsn.isBelow(chunk.reached, end)) take()
    val message = if (taken < chunk.messages.length) chunk.messages(taken) else null
    if (
      message == null || (BeginMessage.is(message) && !Lsn.isBelow(BeginMessage.lsn(message), end))
    ) null
    else {
      taken += 1
      message
    }
  }

  /** Waits for a chunk. A task that is killed is interrupted. */
  private def take(): Unit = {
    var next = queue.poll()
    while (next == null) {
      if (failure != null) ConnectionError.explaining(settings.address)(throw failure)
      if (closing) throw new InterruptedException("The session was closed.")
      KilledTask.check()
      next = queue.poll(100, TimeUnit.MILLISECONDS)
    }
    queuedBytes.addAndGet(-next.bytes)
    chunk = next
    taken = 0
  }

  /** Ends the session at once. The slot is free some milliseconds later. */
  override def close(): Unit = {
    closing = true
    LockSupport.unpark(thread)
    abort()
  }

  private def abort(): Unit =
    try connection.abort()
    catch { case NonFatal(_) => () } // it is gone already

  private def run(): Unit =
    try while (!closing) step()
    // The task must hear of an OutOfMemoryError too, or it would wait for ever.
    catch { case error: Throwable => failure = ConnectionError.whileReading(error) }
    finally abort()

  private def step(): Unit = {
    if (queuedBytes.get < QueueBytes) {
      val message = copy.readFromCopy(false)
      if (message == null) idle() else received(message)
    } else full()
    status()
  }

  private def received(message: Array[Byte]): Unit = message(0).toChar match {
    case XLogData =>
      val data = walData(message)
      if (data(0) == Tag.Relation) relations += 1
      filling += data
      fillingBytes += data.length + MessageOverhead
      if (fillingBytes >= ChunkBytes) handOver()
    case Keepalive =>
      reached = Lsn.max(reached, keepaliveLsn(message))
      if (wantsReply(message)) send(askReply = false)
    case other =>
      throw new IllegalStateException(s"the server sent a replication message '$other'.")
  }

  private def handOver(): Unit = {
    queuedBytes.addAndGet(fillingBytes)
    queue.put(new MessageChunk(filling.toArray, fillingBytes, reached))
    filling.clear()
    fillingBytes = 0
    passedOn = reached
  }

  /** The server has sent all that it has for now. */
  private def idle(): Unit = {
    if (!copy.isActive) throw new IllegalStateException("the server ended the replication.")
    lastShutdownQuestion = System.nanoTime()
    val end = wanted
    if (filling.nonEmpty || (end != 0 && passedOn != reached && !Lsn.isBelow(reached, end)))
      handOver()
    if (end == 0) {
      endIfParkedTooLong()
      LockSupport.parkNanos(ParkedPause)
    } else if (Lsn.isBelow(reached, end) && System.nanoTime() - lastQuestion > QuestionInterval) {
      lastQuestion = System.nanoTime()
      send(askReply = true)
    }
  }

  /**
   * Waits until the task takes messages. A client that leaves data unread makes a fast shutdown of
   * the server wait for ever (`WalSndDone` runs when all is sent), so the session ends if the server
   * is about to stop. Only a new connection shows this: an open one would make a smart shutdown wait.
   * `pg_ctl stop` waits for 60 seconds, so the question is not asked more often than it must. It is also
   * asked of a server whose client takes messages all the time, but more slowly than the server has them.
   */
  private def full(): Unit =
    while (!closing && queuedBytes.get >= QueueBytes) {
      status()
      if (System.nanoTime() - lastShutdownQuestion > shutdownQuestionInterval) {
        if (isShuttingDown)
          throw new SQLException("The server is shutting down.", SqlState.AdminShutdown)
        lastShutdownQuestion = System.nanoTime()
      }
      endIfParkedTooLong()
      LockSupport.parkNanos(ParkedPause)
    }

  /** Asks the server whether it is shutting down. */
  protected def isShuttingDown: Boolean =
    Connections.isShuttingDown(settings.address, connection.host, SessionStart.name(settings))

  private def endIfParkedTooLong(): Unit =
    if (wanted == 0 && System.nanoTime() - parkedSince > LongestParking) {
      // A batch that begins at this moment takes another session, as if the connection broke.
      failure =
        new SQLException("The session was not used for too long.", SqlState.ConnectionFailure)
      close()
    }

  private def status(): Unit = {
    val now = System.nanoTime()
    val isConfirming = confirmation.get != 0 && !Lsn.isBelow(reached, confirmation.get)
    if (isConfirming || now - lastStatus > statusInterval || announced != state)
      send(askReply = wanted != 0 && announced != state)
  }

  private def state = if (wanted == 0) Parked else Reading

  /**
   * Sends a status update. A confirmed LSN is sent once: a client that repeats one below what was
   * sent makes a fast shutdown of the server wait for ever.
   */
  private def send(askReply: Boolean): Unit = {
    val confirmed = confirmation.get
    val flushed = if (Lsn.isBelow(reached, confirmed)) 0 else confirmed
    announced = state
    val update = statusUpdate(reached, flushed, announced, askReply)
    copy.writeToCopy(update, 0, update.length)
    copy.flushCopy()
    if (flushed != 0) confirmation.compareAndSet(flushed, 0)
    lastStatus = System.nanoTime()
  }
}

object SlotSession {

  /**
   * The applied LSN of status updates, which `pg_stat_replication` shows, says whether a task reads
   * from the session. The server does nothing else with it.
   */
  final val Parked = 1L
  final val Reading = 2L

  final private val QueueBytes = 16L << 20
  final private val ChunkBytes = 128L << 10

  /** The Relation messages of a session that is kept for another batch. */
  final private[sparkpgoutput] val MostRelations = 50000

  /** The memory that a message takes in addition to its bytes. */
  final private val MessageOverhead = 24
  private val ParkedPause = TimeUnit.MILLISECONDS.toNanos(10)
  private val QuestionInterval = TimeUnit.MILLISECONDS.toNanos(100)
  private val ShutdownQuestionInterval = TimeUnit.SECONDS.toNanos(20)
  private val LongestParking = TimeUnit.MINUTES.toNanos(10)
}

/**
 * Messages that a session hands to a task at once.
 *
 * @param reached an LSN below which the server has sent all commits, in this chunk or before it
 */
final class MessageChunk(val messages: Array[Array[Byte]], val bytes: Long, val reached: Long)

/** Ends the wait of a task that Spark has killed. Spark does not always interrupt its thread. */
object KilledTask {

  /** Throws `TaskKilledException` if this thread runs a task that was killed. */
  def check(): Unit =
    if (Option(TaskContext.get()).exists(_.isInterrupted())) throw new TaskKilledException
}
