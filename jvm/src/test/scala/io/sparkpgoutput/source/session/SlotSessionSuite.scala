package io.sparkpgoutput.source.session

import java.lang.reflect.Proxy
import java.nio.ByteBuffer
import java.sql.Connection
import java.util.concurrent.TimeUnit

import scala.reflect.ClassTag

import org.postgresql.copy.CopyDual
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.protocol.XLogDataHeader
import io.sparkpgoutput.source.connection._
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.slot.Slots

class SlotSessionSuite extends AnyFunSuite {

  /** An object whose methods return some values, and otherwise null. */
  private def stub[T](values: (String, AnyRef)*)(implicit tag: ClassTag[T]): T = Proxy
    .newProxyInstance(
      getClass.getClassLoader,
      Array(tag.runtimeClass),
      (_, method, _) => values.toMap.getOrElse(method.getName, null)
    )
    .asInstanceOf[T]

  /** A session whose server sends nothing. */
  private def silent(settings: SessionSettings) =
    new SlotSession(
      settings,
      new ReplicationConnection(stub[Connection]()),
      stub[CopyDual](),
      "test",
      statusInterval = TimeUnit.HOURS.toNanos(1)
    )

  test("a server is asked whether it is shutting down although the task takes messages") {
    val message = ByteBuffer.allocate(1 << 20).put(0, ReplicationProtocol.XLogData.toByte).array
    @volatile var questions = 0
    val address = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
    val session = new SlotSession(
      SessionSettings(address, "id", "run", "shop", Nil, binary = false),
      new ReplicationConnection(stub[Connection]()),
      stub[CopyDual]("readFromCopy" -> message, "isActive" -> Boolean.box(true)),
      "test",
      statusInterval = TimeUnit.HOURS.toNanos(1),
      shutdownQuestionInterval = TimeUnit.MILLISECONDS.toNanos(300)
    ) {
      override protected def isShuttingDown = { questions += 1; false }
    }
    session.startBatch(1)
    session.start()
    try {
      val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
      while (questions == 0 && System.nanoTime() < deadline) {
        assert(session.next(1) != null)
        Thread.sleep(20)
      }
      assert(questions > 0)
    } finally session.close()
  }

  test("a session that has described very many tables is not kept for the next batch") {
    val relation = ByteBuffer.allocate(XLogDataHeader.Size + 1)
      .put(0, ReplicationProtocol.XLogData.toByte).put(XLogDataHeader.Size, 'R'.toByte).array
    val address = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
    val settings = SessionSettings(address, "id", "tables", "shop", Nil, binary = false)
    val session = new SlotSession(
      settings,
      new ReplicationConnection(stub[Connection]()),
      stub[CopyDual]("readFromCopy" -> relation, "isActive" -> Boolean.box(true)),
      "test",
      statusInterval = TimeUnit.HOURS.toNanos(1)
    )
    session.startBatch(1)
    session.start()
    (1 to 50001).foreach(_ => assert(session.next(1) != null))
    SlotSessions.park(new KeptSession(session, null, BatchRead(settings, null, 0, 1, 0, null), 1))
    try assert(!session.isOpen)
    finally session.close()
  }

  test("a session does not continue with a batch that was planned on another timeline") {
    val address = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
    val settings = SessionSettings(address, "id", "run", "shop", Nil, binary = false)
    def read(timelines: Int*) =
      BatchRead(
        settings,
        Slots.source.copy(timelines = timelines),
        1,
        2,
        0,
        SlotOutput.RawMessages()
      )
    val kept = new KeptSession(silent(settings), null, read(1), 1)
    assert(kept.continues(read(1)))
    assert(!kept.continues(read(1, 2))) // the driver has accepted a promoted server
    kept.close()
  }

  test("the last sessions that an executor began for a source are known by their processes") {
    SlotSessions.begins("source", 17)
    assert(SlotSessions.isOver("source", 17))
    assert(!SlotSessions.isOver("source", 18))
    assert(!SlotSessions.isOver("other", 17))
    (1 to 1000).foreach(SlotSessions.begins("other", _))
    assert(!SlotSessions.isOver("source", 17)) // a long run keeps no more of them
  }

  test("a task that is done after the end of its query keeps no session") {
    val address = ServerAddress("jdbc:postgresql://db.example.org/shop", None, None)
    def kept(run: String) = {
      val settings = SessionSettings(address, "id", run, "shop", Nil, binary = false)
      new KeptSession(silent(settings), null, BatchRead(settings, null, 0, 1, 0, null), 0)
    }
    val ended = kept("first")
    SlotSessions.end(ended.read.settings)
    SlotSessions.park(ended)
    assert(!ended.session.isOpen)
    val next = kept("second")
    SlotSessions.park(next)
    assert(next.session.isOpen)
    SlotSessions.end(next.read.settings)
    assert(!next.session.isOpen)
  }
}
