package io.sparkpgoutput.lake.queue

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.types.StructType

import org.scalatest.concurrent.Eventually.eventually
import org.scalatest.concurrent.PatienceConfiguration.Timeout
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{PgOutputException, SourceException}
import io.sparkpgoutput.lake.core.JobState
import io.sparkpgoutput.lake.job.TableFailures
import io.sparkpgoutput.protocol.XLogDataHeader
import io.sparkpgoutput.source.connection.FakeServer
import io.sparkpgoutput.source.connection.FakeServer._
import io.sparkpgoutput.source.session.SessionSettings
import io.sparkpgoutput.source.slot.{Server, SourceIdentity}

class SlotReaderSuite extends AnyFunSuite {
  private val waits = Timeout(Span(60, Seconds))
  private val id = "4b3c1f6a-5d0e-4c53-9f4e-0a4f0f3c0a01"

  /** A server with a slot, which a session holds until somebody ends its process. */
  private class Slot(first: Long, messages: Array[Byte]*) {

    /** What the server says at the end of its messages: it has sent what is below this LSN. */
    @volatile var sent: Long = first

    @volatile var holder = Option.empty[Int]
    @volatile var failsOnce = false

    /** The end of its WAL. */
    @volatile var flush = "0/FFFF"
    @volatile var confirmed = "0/64"
    val started = new ConcurrentLinkedQueue[Int]
    val ended = new ConcurrentLinkedQueue[Int]

    /** The sessions for which the server waits longer. */
    val patient = new ConcurrentLinkedQueue[Int]
    private val Terminate = """(?s).*pg_terminate_backend.* -- (\d+)""".r

    val server = new FakeServer({
      case (_, sql) if sql.contains("FROM pg_publication") =>
        Rows(Seq("pubname" -> "all", "oid" -> "1"))
      case (_, sql) if sql.contains("pg_replication_slots") && holder.nonEmpty && failsOnce =>
        failsOnce = false
        Failure("08006")
      case (_, sql) if sql.contains("pg_replication_slots") => state
      case (_, Terminate(pid)) =>
        ended.add(pid.toInt)
        holder = holder.filter(_ != pid.toInt)
        Rows(Seq("ended" -> "t"))
      case (_, "TIMELINE_HISTORY 2") => Rows(Seq("content" -> "1\t0/C8\tno recovery target\n"))
      case (pid, sql) if sql.startsWith("START_REPLICATION") =>
        holder = Some(pid)
        started.add(pid)
        Stream(messages :+ keepalive(sent): _*)
      case (pid, sql) if sql.contains("set_config") && sql.contains("wal_sender_timeout") =>
        patient.add(pid)
        Rows(Seq("set_config" -> "600000"))
    })

    private def state = Rows(Seq(
      "slot" ->
        s"""{"plugin": "pgoutput", "database": "shop", "confirmed_flush_lsn": "$confirmed",
           |"active_pid": ${holder.fold("null")(_.toString)}}""".stripMargin,
      "application_name" -> s"spark-pgoutput $id 1",
      "wait_event" -> null,
      "apply_lsn" -> null,
      "flush_lsn" -> flush,
      "keep_size" -> null,
      "oldest_process" -> null,
      "oldest_age" -> null,
      "standby_slots" -> null
    ))
  }

  private class Job extends SlotReader.Events {
    @volatile var state = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)
    @volatile var lsn = 0L
    @volatile var problem: Throwable = _
    override def mayRead(): Unit = ()
    override def checking(hasSlot: Boolean)(checks: => Unit): Unit = checks
    override def mayEnd: Boolean = false
    override def mayReadFrom(server: Server): Unit = ()
    override def continues(server: Server): Unit = state = state.copy(timeline = server.timeline)
    override def reads(): Unit = ()
    override def connected(): Unit = ()
    override def isFull: Boolean = false
    override def read(end: Long, changed: Iterable[Long]): Unit = lsn = end
    @volatile var unknowns = 0
    override def unknown(oid: Long): Unit = unknowns += 1

    /** The server cannot be asked once which columns are hidden. */
    @volatile var lacksAnswer = false
    override def hidden(
        oid: Long,
        name: TableName,
        columns: Seq[String],
        xid: Option[Long]
    ): Option[HiddenCells] = {
      if (lacksAnswer) {
        lacksAnswer = false
        throw new IOException("The connection was lost.")
      }
      None
    }
    override def mayTryAgain(error: Throwable): Boolean = TableFailures.isPassing(error)
    override def waits(error: Throwable): Unit = problem = error
    override def pause(millis: Long): Unit = Thread.sleep(10)
  }

  /** Runs a reader in a thread while something happens. */
  private def reading(slot: Slot, job: Job)(
      body: (SlotReader, AtomicReference[Throwable]) => Unit
  ): Unit = Using.resource(slot.server) { server =>
    val settings = SessionSettings(server.address, id, "1", "slot", Seq("all"), binary = false)
    val identity =
      SourceIdentity(id, "7", Seq(1), "shop", "slot", Map.empty, 100, new StructType)
    val reader = new SlotReader(server.address, settings, identity, job)
    val error = new AtomicReference[Throwable]
    val thread = new Thread(() =>
      try reader.run(100)
      catch { case found: Throwable => error.set(found) }
    )
    thread.start()
    try body(reader, error)
    finally {
      reader.stop()
      thread.interrupt()
      thread.join()
    }
  }

  test("a session that is lost just after it began does not keep the slot from the next one") {
    val (slot, job) = (new Slot(100), new Job)
    slot.failsOnce = true
    reading(slot, job) { (_, error) =>
      eventually(waits)(assert(
        slot.started.size == 2,
        s"${slot.started} ${slot.ended} ${job.problem} ${error.get}"
      ))
      assert(slot.ended.asScala.toSeq == Seq(slot.started.peek))
    }
  }

  test(
    "a process whose state is too old gets the slot before it takes over from the one that has moved it"
  ) {
    val slot = new Slot(300)
    slot.confirmed = "0/C8"
    slot.holder = Some(1)
    val holders = new ConcurrentLinkedQueue[Int]
    val job = new Job {
      override def mayEnd = true
      override def checking(hasSlot: Boolean)(checks: => Unit): Unit =
        try checks
        catch {
          case moved: SourceException if moved.getCondition == "PGOUTPUT_SLOT_MOVED" =>
            if (hasSlot) {
              slot.holder.foreach(holders.add)
              throw moved
            }
        }
    }
    reading(slot, job) { (_, error) =>
      eventually(waits)(assert(error.get != null))
      assert(error.get.getMessage.contains("PGOUTPUT_SLOT_MOVED"), error.get)
      assert(holders.asScala.toSeq == slot.started.asScala.toSeq && slot.started.size == 1)
      assert(slot.ended.contains(1))
    }
  }

  test("after a lost session, the server waits longer, because a message can have taken too long") {
    val (slot, job) = (new Slot(200), new Job)
    slot.failsOnce = true
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 200, s"${job.problem} ${error.get}"))
      assert(slot.started.size == 2)
      assert(slot.patient.asScala.toSeq == slot.started.asScala.toSeq.tail)
      reader.renew()
      eventually(waits)(assert(slot.started.size == 3))
      assert(slot.patient.size == 1)
    }
  }

  /** An XLogData message. */
  private def sent(tag: Char, size: Int)(put: ByteBuffer => Any): Array[Byte] = {
    val message = ByteBuffer.allocate(XLogDataHeader.Size + 1 + size)
    message.put(0, 'w'.toByte).put(XLogDataHeader.Size, tag.toByte).position(
      XLogDataHeader.Size + 1
    )
    put(message)
    message.array
  }

  test("a session that has described very many tables is renewed after its transaction") {
    val relations = (1 to 50001).map(oid =>
      sent('R', 10)(_.putInt(oid).put("\u0000t\u0000d\u0000\u0000".getBytes))
    )
    val messages = sent('B', 20)(_.putLong(200)) +: relations :+
      sent('C', 25)(_.put(0.toByte).putLong(200).putLong(201))
    val (slot, job) = (new Slot(100, messages: _*), new Job)
    reading(slot, job) { (_, error) =>
      eventually(waits)(assert(slot.started.size > 1, s"${job.problem} ${error.get}"))
      assert(job.lsn == 201 && job.problem == null)
    }
  }

  private def begin(lsn: Long) = sent('B', 20)(_.putLong(lsn))
  private def commit(lsn: Long) =
    sent('C', 25)(_.put(0.toByte).putLong(lsn).putLong(lsn + 1))
  private val begin200 = begin(200)
  private val commit200 = commit(200)
  private def insert = sent('I', 8)(_.putInt(16400).put('N'.toByte).putShort(0))

  /** Asks for a queue, and returns it when it begins. */
  private def begunQueue(reader: SlotReader, isNewSession: Boolean): AtomicReference[TableQueue] = {
    val space = new QueueSpace(1000000, 0, null)
    val begun = new AtomicReference[TableQueue]
    reader.beginQueue(16400, new TableQueue(16400, _, space), isNewSession)(begun.set(_))
    begun
  }

  test("a queue that needs a new session begins above the transaction that is being read") {
    val goesOn = new CountDownLatch(1)
    val messages = LazyList(begin200, insert).lazyAppendedAll {
      goesOn.await()
      Seq(insert, commit200)
    }
    val (slot, job) = (new Slot(201, messages: _*), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.unknowns == 1, s"${job.problem} ${error.get}"))
      val queue = begunQueue(reader, isNewSession = true)
      Thread.sleep(500)
      assert(slot.started.size == 1 && queue.get == null)
      goesOn.countDown()
      eventually(waits)(assert(queue.get != null, s"${job.problem} ${error.get}"))
      assert(slot.started.size == 2 && queue.get.from == 201 && job.unknowns == 2)
    }
  }

  test("a session is not renewed for a queue before it has reached what was read") {
    val (slot, job) = (new Slot(300), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 300, s"${job.problem} ${error.get}"))
      slot.sent = 150
      val first = begunQueue(reader, isNewSession = true)
      eventually(waits)(assert(first.get != null, s"${job.problem} ${error.get}"))
      slot.sent = 300
      val second = begunQueue(reader, isNewSession = true)
      Thread.sleep(1000)
      assert(slot.started.size == 2 && second.get == null, "it would read the same again for ever")
      reader.renew()
      eventually(waits)(assert(second.get != null && slot.started.size == 3))
    }
  }

  test("a queue does not claim the changes of a transaction that is sent again") {
    val (slot, job) = (new Slot(300, keepalive(300), begin200, insert), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 300, s"${job.problem} ${error.get}"))
      Thread.sleep(200)
      val queue = begunQueue(reader, isNewSession = false)
      eventually(waits)(assert(queue.get != null))
      assert(queue.get.from == 300)
    }
  }

  test("a queue begins in the next session if the server cannot be asked what it hides") {
    val relation = sent('R', 16)(_.putInt(16400).put("public\u0000t\u0000d\u0000\u0000".getBytes))
    val goesOn = new CountDownLatch(1)
    val messages = LazyList(begin200, relation, insert, commit200).lazyAppendedAll {
      goesOn.await()
      Seq(begin(300), insert, commit(300))
    }
    val (slot, job) = (new Slot(301, messages: _*), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 201, s"${job.problem} ${error.get}"))
      job.lacksAnswer = true
      val queue = begunQueue(reader, isNewSession = false)
      eventually(waits)(assert(slot.started.size == 2, s"${job.problem} ${error.get}"))
      assert(job.problem.isInstanceOf[IOException])
      goesOn.countDown()
      eventually(waits)(assert(job.lsn == 301, s"${job.problem} ${error.get}"))
      assert(queue.get != null && queue.get.from == 201 && queue.get.changes == 1)
    }
  }

  test("a server whose WAL ends below what an earlier session has read is refused") {
    val (slot, job) = (new Slot(300), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 300))
      slot.flush = "0/C8"
      reader.renew()
      eventually(waits)(error.get match {
        case found: PgOutputException => assert(found.getCondition == "PGOUTPUT_SERVER_BEHIND")
        case other                    => fail(s"$other ${job.problem}")
      })
    }
  }

  test("a server whose timeline branched off below what an earlier session has read is refused") {
    val (slot, job) = (new Slot(300), new Job)
    reading(slot, job) { (reader, error) =>
      eventually(waits)(assert(job.lsn == 300))
      slot.server.timeline = 2
      reader.renew()
      eventually(waits)(error.get match {
        case found: PgOutputException => assert(found.getCondition == "PGOUTPUT_TIMELINE")
        case other                    => fail(s"$other")
      })
      assert(job.state.timeline == 1, "the next start refuses the server too")
    }
  }

  test("a new timeline is noted when the server has all that an earlier session has read") {
    val (slot, job) = (new Slot(200), new Job)
    reading(slot, job) { (reader, _) =>
      eventually(waits)(assert(job.lsn == 200))
      assert(job.state.timeline == 1)
      slot.server.timeline = 2
      reader.renew()
      eventually(waits)(assert(
        job.state.timeline == 2 && slot.started.size == 2,
        s"${slot.started} ${slot.ended} ${job.problem}"
      ))
    }
  }
}
