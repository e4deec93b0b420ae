package io.sparkpgoutput.lake.queue

import java.sql.SQLException
import java.util.concurrent.{ConcurrentLinkedQueue, LinkedBlockingQueue, TimeUnit}

import scala.annotation.switch
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.internal.Logging

import org.postgresql.copy.CopyDual

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.rows.RelationDecoder
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.core.JobState
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, Lsn, TextEncoding, TruncateMessage}
import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ReplicationConnection,
  ReplicationProtocol,
  ServerAddress,
  ServerConnection,
  SqlState
}
import io.sparkpgoutput.source.session.{SessionSettings, SlotSession}
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState, SourceIdentity}

/**
 * Reads the slot of a job, and puts each change into the queue of its table.
 *
 * One thread calls [[run]]. It owns the one replication session of the job. The session can be lost or
 * renewed: the next one begins at the read LSN, and the changes of the transaction that was open are
 * forgotten, because the server sends this transaction again from its beginning.
 *
 * @param identity the server and the slot, for the checks before a session begins
 * @param events takes what was read
 */
final class SlotReader(
    address: ServerAddress,
    settings: SessionSettings,
    identity: SourceIdentity,
    events: SlotReader.Events
) extends Logging {
  import ReplicationProtocol._
  import SlotReader._

  private val decoder = new RelationDecoder(TextEncoding.Utf8)
  private val queues = mutable.LongMap.empty[TableQueue]

  /** What the session has said of tables and types. */
  private val relations = mutable.LongMap.empty[SentRelation]
  private val types = mutable.LongMap.empty[Array[Byte]]

  /** What the thread is asked to do between two messages. */
  private val tasks = new LinkedBlockingQueue[() => Unit]

  /** What is done when the next session has begun. */
  private val tasksOfNext = new ConcurrentLinkedQueue[() => Unit]

  @volatile private var isStopping, isRenewing = false
  @volatile private var sessionBegin = System.nanoTime()
  @volatile private var confirmation = 0L
  @volatile private var isAwaited = false

  /** The server's process of the session that began last; 0 if there is none. */
  @volatile private var pid = 0

  /** The end of what was read: all transactions with a lower commit LSN are whole in the queues. */
  private var readLsn = 0L

  /** What this session has reached, by its commits and keepalives. */
  private var sessionLsn = 0L
  private var lastConfirmed = 0L

  // The transaction that is being read.
  private var isOpen = false
  private var isSkipped = false
  private var lsn = 0L
  private var begin: Array[Byte] = _
  private var origin: Array[Byte] = _
  private var ordinal = 0L
  private val openQueues = mutable.LongMap.empty[TableQueue]

  private var lastStatus = 0L

  /** When the last message of the server came, to the nearest [[HeardInterval]]; None before the first session. */
  @volatile private var lastReceipt = Option.empty[Long]
  private var lastQuestion = 0L
  private var statusInterval = LongestStatusInterval

  // What other threads ask.

  /** Adds a queue before the first session begins. */
  def put(oid: Long, queue: TableQueue): Unit = queues.update(oid, queue)

  /**
   * Puts the changes of a table from now on into a queue, which `made` takes.
   *
   * @param isNewSession
   *   whether the changes have to come from a session that begins after this call, because the table has changed since
   *   this one began. Within a session, the server goes on publishing a table as before, and by the same replica
   *   identity, if only a partitioned table above it has changed: by `ALTER TABLE … SET SCHEMA` or `REPLICA IDENTITY`,
   *   for example (`rel_sync_cache_relation_cb` in `pgoutput.c` forgets the changed table alone). Before version 15,
   *   this also holds if the table becomes a partition or stops being one.
   */
  def beginQueue(oid: Long, makeQueue: Long => TableQueue, isNewSession: Boolean)(
      made: TableQueue => Unit
  ): Unit = {
    def begin(): Unit = {
      // The options hide columns of the table as it is now, and not as it was before. The server is asked, which can
      // fail, so this comes first.
      relations.get(oid).foreach(sent => relation(sent.message))
      // A queue begins with a whole transaction. One that is sent again is below the read LSN, and is left out.
      val from = if (isOpen) Lsn.max(lsn + 1, readLsn) else readLsn
      val queue = makeQueue(from)
      queues.put(oid, queue).foreach(_.drop())
      openQueues -= oid
      made(queue)
    }
    (if (isNewSession) tasksOfNext else tasks).add(() => begin()): Unit
  }

  /** Forgets a queue that the job does not need any more. */
  def dropQueue(oid: Long, queue: TableQueue): Unit = tasks.add { () =>
    if (queues.get(oid).contains(queue)) {
      queues -= oid
      openQueues -= oid
    }
    queue.drop()
  }

  /**
   * Confirms an LSN to the server, as soon as the session has reached it. The server may then forget what is
   * below it.
   */
  def confirm(lsn: Long): Unit = confirmation = lsn

  /** Asks the server how far it is, so that a reader that waits for an LSN gets there at once. */
  def ask(isWaiting: Boolean): Unit = isAwaited = isWaiting

  /** Begins a new session at once, also if the server has to send a transaction again from its beginning. */
  def renew(): Unit = isRenewing = true

  /**
   * Whether a new session can begin for the tasks that need one. A session that ends inside a transaction, or before it
   * has reached what was read, makes no progress: the server decodes the WAL again from the restart LSN of the slot. If
   * such sessions followed one another, the reader would read the same for ever.
   */
  private def isTimeForNext =
    !tasksOfNext.isEmpty && !isOpen && !Lsn.isBelow(sessionLsn, readLsn)

  /** The age of the session, or of the one that begins. */
  def sessionMillis: Long = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sessionBegin)

  def stop(): Unit = isStopping = true

  /** The seconds since the last message of the server; None before the first session. */
  def silence: Option[Double] = lastReceipt.map(time => (System.nanoTime() - time) / 1e9)

  /**
   * Reads until [[stop]].
   *
   * @param from where the first session begins
   */
  def run(from: Long): Unit = {
    readLsn = from
    var failures = 0
    var session = Option.empty[Session]
    def works(): Unit = {
      failures = 0
      events.connected()
    }
    try
      while (!isStopping)
        try {
          isRenewing = false
          sessionBegin = System.nanoTime()
          // What is asked for from here on needs another session than the one that begins.
          val waiting = tasksOfNext.asScala.toSeq
          session = Some(open(isAgain = failures > 0))
          val (first, opened) = (readLsn, System.nanoTime())
          // The next session can meet the same error again, so each pause is longer until one has come further.
          def isSettled = readLsn != first || System.nanoTime() - opened > SettledInterval
          if (failures == 0) works()
          waiting.foreach { task =>
            tasksOfNext.remove(task)
            task()
          }
          while (!isStopping && !isRenewing && !isTimeForNext) {
            step(session.get)
            if (failures > 0 && isSettled) works()
          }
          if (isStopping) last(session.get)
        } catch {
          case error: Throwable if !isStopping =>
            val problem = explained(error)
            if (!events.mayTryAgain(problem)) throw problem
            failures += 1
            events.waits(problem)
            session.foreach(_.close())
            session = None
            val pause = math.min(MostPause, FirstPause << math.min(failures - 1, 10))
            events.pause(pause)
        } finally {
          session.foreach(_.close())
          session = None
          abandon()
          runTasks()
        }
    finally pid = 0
  }

  private def explained(error: Throwable): Throwable = ConnectionError.whileReading(error) match {
    case sql: SQLException => ConnectionError.of(sql, address)
    case other             => other
  }

  /** Forgets the changes of a transaction whose end was not read. */
  private def abandon(): Unit = {
    openQueues.values.foreach(_.abandon())
    openQueues.clear()
    isOpen = false
    relations.clear()
    types.clear()
  }

  private def runTasks(): Unit =
    Iterator.continually(tasks.poll()).takeWhile(_ != null).foreach(run)

  /** Runs a task. If it fails, because the server cannot be asked, it runs again when the session has ended. */
  private def run(task: () => Unit): Unit =
    try task()
    catch { case error: Throwable => tasks.add(task); throw error }

  // A session.

  final private class Session(val connection: ReplicationConnection, val copy: CopyDual) {
    def close(): Unit =
      try connection.abort()
      catch { case _: Exception => () } // it is gone already
  }

  /** @param isAgain whether the last session was lost, perhaps because a message took too long */
  private def open(isAgain: Boolean): Session = ConnectionError.explaining(address) {
    Using.resource(Connections.open(address, s"${settings.applicationName} (checks)")) { sql =>
      val connection = Connections.openReplication(address, settings.applicationName)
      connection.orAbort {
        if (isAgain) connection.waitForLongMessages()
        val server = Server.of(connection)
        events.mayReadFrom(server)
        val state = events.state
        checkTimeline(server, state, Lsn.max(readLsn, state.walEnd))(connection)
        events.continues(server)
        SlotChecks.publications(sql, settings.publications)
        events.mayRead()
        def check(): Unit = {
          // It comes first, because the marks of copies grow while the server is asked.
          val has = Lsn.max(readLsn, events.state.walEnd)
          val slot = SlotState.read(sql, settings.slot)
          val found = SlotChecks.beforeReading(slot, server, identity, events.state.confirmed)
          // The server would leave out new transactions below the read LSN. A standby that has started again can still
          // replay what it had replayed before.
          if (!server.inRecovery) SlotChecks.walEnd(settings.slot, has, found.flushLsn)
        }
        events.checking(hasSlot = false)(check())
        val copy = start(connection, sql)
        // Nobody can move the slot from here on.
        events.checking(hasSlot = true)(check())
        statusInterval = ReplicationProtocol.statusInterval(sql)
        events.reads()
        sessionLsn = 0
        lastConfirmed = 0
        lastStatus = System.nanoTime()
        lastReceipt = Some(lastStatus)
        new Session(connection, copy)
      }
    }
  }

  /** Starts to read. An earlier session of this process, or of an earlier process of the job, is ended. */
  private def start(connection: ReplicationConnection, sql: ServerConnection): CopyDual = {
    val deadline = System.nanoTime() + SecondsForSlot.toNanos
    var copy = Option.empty[CopyDual]
    while (copy.isEmpty) {
      SlotState.read(sql, settings.slot).flatMap(_.holder) match {
        case Some(holder) =>
          val isOfJob = SessionSettings.isOfSource(settings.id, holder.applicationName)
          if (holder.pid == pid || isOfJob && events.mayEnd) sql.terminate(holder.pid)
          else if (System.nanoTime() > deadline || !isOfJob) throw holder.error(settings.slot)
          else events.mayRead()
          Thread.sleep(PauseMillis)
        case None =>
          events.mayRead() // Another process can have taken over, and left the slot.
          // The server can have begun the session even if the answer, or what follows, does not arrive.
          pid = connection.pid
          try copy = Some(connection.start(settings.slot, readLsn, settings.pluginOptions))
          catch {
            case error: SQLException
                if error.getSQLState == SqlState.ObjectInUse && System.nanoTime() < deadline =>
              Thread.sleep(PauseMillis)
          }
      }
      if (isStopping) throw new InterruptedException
    }
    copy.get
  }

  private def step(session: Session): Unit = {
    if (!tasks.isEmpty) runTasks()
    if (events.isFull) paused(session)
    else {
      val message = session.copy.readFromCopy(false)
      if (message == null) idle(session)
      else {
        received(session, message)
        hear(message)
      }
    }
    status(session)
  }

  private var lastProbe = 0L
  private var lastData = System.nanoTime() - BusyInterval

  /**
   * Waits until the queues have room, and goes on answering the server. A client that leaves data unread makes
   * a fast shutdown of the server wait for ever (`WalSndDone` runs when all is sent), so a paused session ends
   * when the server is about to stop.
   */
  private def paused(session: Session): Unit = {
    Thread.sleep(BusyMillis)
    if (System.nanoTime() - lastProbe > ProbeInterval) {
      lastProbe = System.nanoTime()
      if (Connections.isShuttingDown(address, session.connection.host, settings.applicationName))
        throw new SQLException("The server is shutting down.", SqlState.AdminShutdown)
    }
  }

  private def hear(message: Array[Byte]): Unit = {
    val now = System.nanoTime()
    if (lastReceipt.forall(now - _ > HeardInterval)) lastReceipt = Some(now)
    // The server also sends keepalives, while nothing is written.
    if (message(0) == XLogData) lastData = now
  }

  private def idle(session: Session): Unit = {
    if (!session.copy.isActive)
      throw new SQLException("The server ended the session.", SqlState.ConnectionFailure)
    val now = System.nanoTime()
    // An answer also shows whether the session has reached what was read, which the next one waits for.
    val isAsking = isAwaited || !tasksOfNext.isEmpty
    if (isAsking && now - lastQuestion > QuestionInterval) {
      lastQuestion = now
      send(session, askReply = true)
    }
    // A look for a message costs some CPU, also if there is none. A task ends the wait.
    val millis =
      if (now - lastData < BusyInterval) BusyMillis
      else if (isAsking || now - lastData < QuietInterval) QuietMillis
      else SilentMillis
    Option(tasks.poll(millis, TimeUnit.MILLISECONDS)).foreach(run)
  }

  private def received(session: Session, message: Array[Byte]): Unit = message(0).toChar match {
    case XLogData =>
      val data = walData(message)
      try read(data)
      catch {
        case _: IndexOutOfBoundsException =>
          throw new PgOutputException(
            "PGOUTPUT_MALFORMED_MESSAGE.TOO_SHORT",
            "length" -> data.length,
            "transaction" -> s"the commit LSN ${Lsn.format(lsn)}"
          )
      }
    case Keepalive =>
      // After it, no transaction with a lower commit LSN comes in this session.
      reach(keepaliveLsn(message), Nil)
      if (wantsReply(message)) send(session, askReply = false)
    case other =>
      throw new IllegalStateException(s"the server sent a replication message '$other'.")
  }

  private def reach(end: Long, changed: Iterable[Long]): Unit = {
    sessionLsn = Lsn.max(sessionLsn, end)
    if (Lsn.isBelow(readLsn, end) || changed.nonEmpty) {
      readLsn = Lsn.max(readLsn, end)
      events.read(readLsn, changed)
    }
  }

  // The messages of pgoutput.

  private def read(message: Array[Byte]): Unit = (message(0).toChar: @switch) match {
    case Tag.Insert | Tag.Update | Tag.Delete =>
      if (!isSkipped) change(BigEndian.uint32(message, 1), message)
      ordinal += 1
    case Tag.Begin =>
      begin = message
      origin = null
      lsn = BeginMessage.lsn(message)
      ordinal = 0
      isOpen = true
      // A renewed session can send again what is in the queues.
      isSkipped = Lsn.isBelow(lsn, readLsn)
    case Tag.Commit =>
      val changed = openQueues.keys.toSeq
      val end = CommitEntry.end(message)
      openQueues.values.foreach(_.commit(end))
      openQueues.clear()
      isOpen = false
      reach(end, changed)
      // Partitions that come and go would fill the memory.
      if (relations.size > SlotSession.MostRelations) renew()
      if (!tasks.isEmpty) runTasks()
    case Tag.Relation => relation(message)
    case Tag.Type     => types.update(BigEndian.uint32(message, 1), message)
    case Tag.Origin   => origin = message
    case Tag.Truncate =>
      if (!isSkipped) TruncateMessage.foreachTable(message)(change(_, message))
      ordinal += 1
    // PostgreSQL 18 sends Stream Abort for a transaction that was rolled back, also without streaming.
    case Tag.Message | Tag.StreamAbort => ()
    case other =>
      throw new PgOutputException(
        "PGOUTPUT_MALFORMED_MESSAGE.NOT_REQUESTED",
        "tag" -> other.toChar
      )
  }

  private def relation(message: Array[Byte]): Unit = {
    val sent = decoder.relation(SchemaMessage.outsideStream(message))
    val xid = Option(begin).map(BeginMessage.xid)
    val asked = events.hidden(sent.oid, sent.name, sent.columns.map(_.name), xid)
    val hidden = HiddenCells.withChars(asked, sent.columns)
    val shown = hidden.fold(message)(_.relation(message))
    val columns = decoder.relation(SchemaMessage.outsideStream(shown)).columns
    val used = columns.map(_.typeId).distinct.flatMap(types.get(_)).toIndexedSeq
    val definition = new TableMessages(shown, used)
    relations.update(sent.oid, new SentRelation(message, definition, hidden.orNull))
  }

  private def change(oid: Long, message: Array[Byte]): Unit = queues.getOrNull(oid) match {
    case null => events.unknown(oid)
    case queue =>
      if (!Lsn.isBelow(lsn, queue.from)) {
        if (!openQueues.contains(oid)) {
          openQueues.update(oid, queue)
          queue.begin(begin, origin)
        }
        val sent = relations.getOrElse(
          oid,
          throw new PgOutputException(
            "PGOUTPUT_MALFORMED_MESSAGE.NO_RELATION",
            "lsn" -> Lsn.format(lsn),
            "oid" -> oid
          )
        )
        val shown = if (sent.hidden == null) message else sent.hidden.change(message)
        queue.add(shown, ordinal, sent.definition)
      }
  }

  // Status updates.

  /**
   * Sends a status update if it is due. A server whose wal_sender_timeout is 0 sends an idle session nothing
   * by itself, so a regular update asks for an answer.
   */
  private def status(session: Session): Unit = {
    val isConfirming = confirmation != lastConfirmed && !Lsn.isBelow(sessionLsn, confirmation)
    val isDue = System.nanoTime() - lastStatus > statusInterval
    if (isConfirming || isDue) send(session, askReply = isDue)
  }

  /**
   * Sends a status update. It confirms an LSN once: if the job repeated an LSN that is below what the server has sent,
   * a fast shutdown of the server would never end. The third LSN, applied, is only for monitors.
   */
  private def send(session: Session, askReply: Boolean): Unit = {
    val wanted = confirmation
    val flushed = if (wanted == lastConfirmed || Lsn.isBelow(sessionLsn, wanted)) 0 else wanted
    val update = statusUpdate(sessionLsn, flushed, wanted, askReply)
    session.copy.writeToCopy(update, 0, update.length)
    session.copy.flushCopy()
    if (flushed != 0) lastConfirmed = flushed
    lastStatus = System.nanoTime()
  }

  /** The job ends in order: it confirms what is in the tables, if the session has reached it. */
  private def last(session: Session): Unit = {
    val deadline = System.nanoTime() + LastInterval
    while (confirmation != lastConfirmed && System.nanoTime() < deadline) {
      if (Lsn.isBelow(sessionLsn, confirmation)) {
        val message = session.copy.readFromCopy(false)
        if (message == null) idle(session)
        else if (message(0) == Keepalive) sessionLsn = Lsn.max(sessionLsn, keepaliveLsn(message))
      }
      status(session)
    }
  }
}

object SlotReader {

  /** Checks that a server has all below an LSN, unless it is the process that the slot was read from last. */
  def checkTimeline(server: Server, state: JobState, lsn: Long)(on: ReplicationConnection): Unit =
    if (!state.isReadFrom(server))
      SlotChecks.timeline(on, server, Seq(state.timeline), lsn): Unit

  /**
   * What the session has said of a table.
   *
   * @param message the Relation message
   * @param definition what the queue of the table gets of it
   * @param hidden what rewrites the messages of the table; null if they stay as they are
   */
  final private class SentRelation(
      val message: Array[Byte],
      val definition: TableMessages,
      val hidden: HiddenCells
  )

  /** What the reader asks the job, and reports to it. */
  trait Events {

    /** The newest state. The tables that it has can be ahead of what was read. */
    def state: JobState

    /** Fails if another process of the job has taken over. */
    def mayRead(): Unit

    /**
     * Runs the checks of the slot. If the state is older than that of another process of the job, which has moved the
     * slot, the checks can fail only when the session holds the slot: then this process takes over, and starts again.
     */
    def checking(hasSlot: Boolean)(checks: => Unit): Unit

    /** Whether a session of another process of the job may be ended. */
    def mayEnd: Boolean

    /** Fails if the server is not one that the job reads from. */
    def mayReadFrom(server: Server): Unit

    /** The server has all that was read, so the job goes on with it. */
    def continues(server: Server): Unit

    /** A session begins. */
    def reads(): Unit
    def connected(): Unit

    /** Whether the queues have no room, so that nothing can be read. */
    def isFull: Boolean

    /** Each transaction with a commit LSN below an LSN is whole in the queues. */
    def read(lsn: Long, changed: Iterable[Long]): Unit

    /** The reader has read a change of a table that has no queue. */
    def unknown(oid: Long): Unit

    /**
     * Returns what hides the columns of a table that a Relation message describes; None if all are shown.
     *
     * @param xid the transaction, if there is one
     */
    def hidden(
        oid: Long,
        name: TableName,
        columns: Seq[String],
        xid: Option[Long]
    ): Option[HiddenCells]

    /** Whether an error can pass, so that another session may be tried. */
    def mayTryAgain(error: Throwable): Boolean
    def waits(error: Throwable): Unit
    def pause(millis: Long): Unit
  }

  final private val BusyMillis = 10L
  final private val QuietMillis = 100L
  final private val SilentMillis = 250L
  final private val PauseMillis = 20L
  final private val FirstPause = 500L
  final private val MostPause = 60000L
  private val SecondsForSlot = java.time.Duration.ofSeconds(20)
  private val SettledInterval = TimeUnit.SECONDS.toNanos(5)
  private val HeardInterval = TimeUnit.MILLISECONDS.toNanos(100)
  private val BusyInterval = TimeUnit.SECONDS.toNanos(1)
  private val QuietInterval = TimeUnit.SECONDS.toNanos(10)
  private val QuestionInterval = TimeUnit.MILLISECONDS.toNanos(100)
  private val ProbeInterval = TimeUnit.SECONDS.toNanos(10)
  private val LastInterval = TimeUnit.SECONDS.toNanos(5)
}
