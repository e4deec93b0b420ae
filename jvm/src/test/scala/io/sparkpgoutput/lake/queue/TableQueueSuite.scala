package io.sparkpgoutput.lake.queue

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}
import java.util.Arrays
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import scala.collection.mutable
import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages

class TableQueueSuite extends AnyFunSuite {
  private val Highest = -1L
  private val definition = QueuedStream.definition(1)

  private def withSpace(memory: Long, disk: Long = Long.MaxValue)(
      f: (QueueSpace, Path) => Unit
  ): Unit = {
    val folder = Files.createTempDirectory("queue").resolve("of_the_job")
    val space = new QueueSpace(memory, disk, folder.toFile)
    try f(space, folder)
    finally {
      space.close()
      Files.delete(folder.getParent)
    }
  }

  private def change(size: Int): Array[Byte] = {
    val message = new Array[Byte](size)
    message(0) = 'I'.toByte
    message
  }

  /** Queues a transaction of changes of this size. */
  private def put(queue: TableQueue, lsn: Long, sizes: Int*): Unit = {
    queue.begin(StreamMessages.begin(lsn, lsn), null)
    sizes.zipWithIndex.foreach { case (size, ordinal) =>
      queue.add(change(size), ordinal.toLong, definition)
    }
    queue.commit(lsn + 1)
  }

  private def tags(cut: Cut): String = {
    val tags = new mutable.StringBuilder
    cut.foreach((_, message) => tags += message(0).toChar)
    tags.result()
  }

  private def isInMemory(cut: Cut) = cut.blocks.forall(_.data != null)

  private def all(queue: TableQueue): Cut = queue.cut(Highest, CutLimit(Long.MaxValue)).get

  test("a new session sends the definition again, and the queue takes it only if it differs") {
    withSpace(1000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      def add(lsn: Long, definition: Int): Unit = {
        queue.begin(StreamMessages.begin(lsn, lsn), StreamMessages.origin("far"))
        queue.add(change(10), 0, QueuedStream.definition(definition))
        queue.commit(lsn + 1)
      }
      Seq(1, 1, 0, 1).zipWithIndex.foreach { case (definition, n) =>
        add(10L * (n + 1), definition)
      }
      assert(tags(all(queue)) == "BOYRIC" + "BOIC" + "BORIC" + "BOYRIC")
      queue.remove(queue.cut(11, CutLimit(Long.MaxValue)).get)
      assert(tags(all(queue)) == "BOYRIC" + "BORIC" + "BOYRIC")
      queue.remove(all(queue))
      add(100, 1)
      assert(tags(all(queue)) == "BOYRIC")
    }
  }

  test("transactions below the LSN at which the queue begins are not taken") {
    withSpace(1000000) { (space, _) =>
      val queue = new TableQueue(1, 100, space)
      put(queue, 99, 10)
      assert(queue.position.isEmpty && space.memoryUsed == 0)
      put(queue, 100, 10)
      assert(queue.position.contains(100L))
      assert(tags(all(queue)) == "BYRIC")
    }
  }

  test("LSNs are unsigned") {
    withSpace(1000000) { (space, _) =>
      val queue = new TableQueue(1, Long.MaxValue, space)
      put(queue, Long.MaxValue, 10)
      put(queue, Long.MinValue + 10, 10)
      assert(queue.cut(Long.MinValue, CutLimit(Long.MaxValue)).map(_.end).contains(Long.MinValue))
      assert(queue.cut(Highest, CutLimit(Long.MaxValue)).map(_.end).contains(Long.MinValue + 11))
      assert(queue.cut(1, CutLimit(Long.MaxValue)).isEmpty)
    }
  }

  test("calls of the reader in a wrong order are errors") {
    withSpace(1000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      assertThrows[IllegalStateException](queue.add(change(1), 0, definition))
      assertThrows[IllegalStateException](queue.commit(5))
      queue.begin(StreamMessages.begin(1, 1), null)
      assertThrows[IllegalStateException](queue.begin(StreamMessages.begin(2, 2), null))
    }
  }

  test("a transaction of many rows passes through a small memory and few files") {
    withSpace(4000000) { (space, folder) =>
      val queue = new TableQueue(1, 0, space)
      val rows = 600000
      val message = change(40)
      queue.begin(StreamMessages.begin(7, 7), null)
      (0 until rows).foreach { ordinal =>
        queue.add(message, ordinal.toLong, definition)
        if (ordinal % 1000 == 0) assert(space.memoryUsed <= 4000000)
      }
      assert(queue.cut(Highest, CutLimit(Long.MaxValue)).isEmpty)
      queue.commit(8)
      assert(folder.toFile.list().length == 2)
      val cut = queue.cut(Highest, CutLimit(1)).get
      assert(cut.changes == rows && !isInMemory(cut))
      assert(cut.xids.toSeq == Seq(7L))
      var next = 0L
      cut.foreach { (ordinal, _) =>
        if (ordinal != Cut.NoOrdinal) {
          assert(ordinal == next)
          next += 1
        }
      }
      assert(next == rows)
      queue.remove(cut)
      assert(space.diskUsed == 0 && space.memoryUsed == 0)
    }
  }

  test("the types of a definition are in each cut, wherever a block ends") {
    withSpace(1000000000) { (space, _) =>
      val overhead = 500 // of all but the first change
      (0 to overhead).foreach { left =>
        val queue = new TableQueue(1, 0, space)
        put(queue, 10, QueueBlock.Size - left - overhead / 2)
        (2 to 3).foreach { n =>
          queue.begin(StreamMessages.begin(n.toLong, n * 10L), null)
          queue.add(change(10), 0, QueuedStream.definition(2))
          queue.commit(n * 10L + 1)
        }
        queue.remove(queue.cut(11, CutLimit(Long.MaxValue)).get)
        val cut = queue.cut(21, CutLimit(Long.MaxValue)).get
        assert(tags(cut) == "BYYRIC", left)
        queue.remove(cut)
        assert(tags(all(queue)) == "BYYRIC", left)
        queue.drop()
      }
    }
  }

  test("a definition that is larger than a block is in each cut") {
    withSpace(1000000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      val large = QueuedStream.definition(QueueBlock.Size / 15)
      assert(large.types.map(_.length).sum > QueueBlock.Size)
      (1 to 2).foreach { n =>
        queue.begin(StreamMessages.begin(n.toLong, n * 10L), null)
        queue.add(change(10), 0, large)
        queue.commit(n * 10L + 1)
      }
      val first = queue.cut(11, CutLimit(Long.MaxValue)).get
      assert(tags(first) == s"B${"Y" * large.types.size}RIC")
      queue.remove(first)
      assert(tags(all(queue)) == s"B${"Y" * large.types.size}RIC")
    }
  }

  test("many small transactions need no memory except their bytes, and a cut is found fast") {
    withSpace(2000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      val count = 60000
      (1 to count).foreach(n => put(queue, n * 10L, 30))
      assert(space.memoryUsed <= 2000000)
      var taken = 0L
      while (taken < count) {
        val cut = queue.cut((taken + 1000) * 10 + 1, CutLimit(Long.MaxValue)).get
        assert(cut.transactions == 1000)
        queue.remove(cut)
        taken += 1000
        assert(queue.position == Option.when(taken < count)((taken + 1) * 10))
      }
      assert(space.diskUsed == 0 && space.memoryUsed == 0)
    }
  }

  test("the distinct transactions of a cut are found without an object for each") {
    val threads =
      ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]
    withSpace(100000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      val count = 100000
      // The counter of transactions can begin again.
      (1 to count).foreach { n =>
        queue.begin(StreamMessages.begin((count - n / 2).toLong, n * 10L), null)
        queue.commit(n * 10L + 1)
      }
      val cut = all(queue)
      val before = threads.getCurrentThreadAllocatedBytes
      val xids = cut.xids
      val used = threads.getCurrentThreadAllocatedBytes - before
      assert(xids.toSeq == (count / 2 to count).map(_.toLong))
      assert(used < 120L * count, used)
    }
  }

  test("if the memory is used up, the largest queue goes to files first") {
    withSpace(3000000) { (space, _) =>
      val small = new TableQueue(1, 0, space)
      val large = new TableQueue(2, 0, space)
      put(small, 10, 100)
      (1 to 5).foreach(n => put(large, n * 10L, 1000000))
      put(small, 20, 100)
      assert(isInMemory(all(small)) && !isInMemory(all(large)))
      assert(isInMemory(large.cut(Highest, CutLimit(1)).get), "what is taken next stays in memory")
    }
  }

  test("a thousand queues with a few changes need a few megabytes, and empty queues need none") {
    withSpace(100000000) { (space, _) =>
      val queues = Seq.tabulate(1000)(n => new TableQueue(n.toLong, 0, space))
      queues.foreach(put(_, 10, 100, 100))
      assert(space.memoryUsed <= 5000000)
      queues.foreach(queue => queue.remove(all(queue)))
      assert(space.memoryUsed == 0)
    }
  }

  test("a disk that is used up makes the space full until something is taken") {
    withSpace(1000000, 3000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      (1 to 3).foreach(n => put(queue, n * 10L, 900000))
      assert(!space.isFull && space.memoryUsed <= 1000000)
      (4 to 6).foreach(n => put(queue, n * 10L, 900000))
      assert(space.isFull && space.diskUsed <= 3000000)
      val cut = all(queue)
      assert(tags(cut) == "BYRIC" + "BIC" * 5)
      queue.remove(cut)
      assert(!space.isFull && space.diskUsed == 0 && space.memoryUsed == 0)
    }
  }

  test("a disk that cannot be written makes the space full until it can, and nothing is lost") {
    val parent = Files.createTempDirectory("queue")
    val obstacle = Files.createFile(parent.resolve("file"))
    val space = new QueueSpace(1000000, Long.MaxValue, new File(obstacle.toFile, "folder"))
    val queue = new TableQueue(1, 0, space)
    (1 to 3).foreach(n => put(queue, n * 10L, 900000))
    assert(space.isFull && space.diskUsed == 0)
    assert(!space.isStillFull, "another program can have used up the disk for a moment")
    assert(isInMemory(all(queue)) && tags(all(queue)) == "BYRICBICBIC")
    Files.delete(obstacle)
    Thread.sleep(200)
    assert(!space.isFull && space.diskUsed > 0)
    assert(tags(all(queue)) == "BYRICBICBIC")
    space.close()
    Files.delete(obstacle)
    Files.delete(parent)
  }

  test("a disk that cannot be written again, much later, is not full at once") {
    val parent = Files.createTempDirectory("queue")
    val obstacle = Files.createFile(parent.resolve("file"))
    val space = new QueueSpace(1000000, Long.MaxValue, new File(obstacle.toFile, "folder"))
    def fill(): TableQueue = {
      val queue = new TableQueue(1, 0, space)
      (1 to 3).foreach(n => put(queue, n * 10L, 900000))
      queue
    }
    val first = fill()
    assert(space.isFull)
    Thread.sleep(5200)
    assert(space.isStillFull)
    first.drop()
    assert(!space.isFull)
    fill()
    assert(space.isFull && !space.isStillFull)
    space.close()
    Files.delete(obstacle)
    Files.delete(parent)
  }

  test("a file that is lost is named, and the blocks that follow are written to another one") {
    withSpace(300000) { (space, folder) =>
      val queue = new TableQueue(1, 0, space)
      (1 to 3).foreach(n => put(queue, n * 10L, 900000))
      val lost = folder.resolve(folder.toFile.list().head)
      Files.delete(lost)
      assert(intercept[QueueFileNotFoundException](tags(all(queue))).path == lost)
      (4 to 6).foreach(n => put(queue, n * 10L, 900000))
      Thread.sleep(200)
      assert(!space.isFull && Files.notExists(lost) && folder.toFile.list().nonEmpty)
      queue.drop()
      assert(folder.toFile.list().isEmpty && space.diskUsed == 0)
    }
  }

  test("the folder is made again if it was removed while it was empty") {
    withSpace(300000) { (space, folder) =>
      def fill(): TableQueue = {
        val queue = new TableQueue(1, 0, space)
        (1 to 3).foreach(n => put(queue, n * 10L, 900000))
        assert(!space.isFull && folder.toFile.list().nonEmpty)
        queue
      }
      fill().drop()
      Files.delete(folder)
      fill().drop()
    }
  }

  test("a queue that is dropped frees all, and its cuts cannot be read") {
    withSpace(1000000) { (space, folder) =>
      val queue = new TableQueue(1, 0, space)
      (1 to 5).foreach(n => put(queue, n * 10L, 900000))
      val cut = all(queue)
      queue.begin(StreamMessages.begin(9, 900), null)
      assert(folder.toFile.list().nonEmpty)
      queue.drop()
      assert(space.memoryUsed == 0 && space.diskUsed == 0)
      assert(folder.toFile.list().isEmpty)
      assertThrows[IllegalStateException](tags(cut))
      queue.add(change(10), 0, definition)
      queue.commit(901)
      put(queue, 1000, 10)
      queue.remove(cut)
      queue.drop()
      assert(queue.position.isEmpty && queue.bytes == 0 && space.memoryUsed == 0)
      assert(queue.cut(Highest, CutLimit(1)).isEmpty)
    }
  }

  test("a cut can be removed only from the beginning of the queue") {
    withSpace(1000000) { (space, _) =>
      val queue = new TableQueue(1, 0, space)
      put(queue, 10, 10)
      put(queue, 20, 10)
      val cut = queue.cut(11, CutLimit(Long.MaxValue)).get
      queue.remove(cut)
      assertThrows[IllegalStateException](queue.remove(cut))
      assert(all(queue).transactions == 1)
    }
  }

  test("a reader and appliers work side by side") {
    implicit val threads: ExecutionContext = ExecutionContext.global
    withSpace(300000) { (space, _) =>
      val tables = 2
      val count = 1500
      val streams = Seq.tabulate(tables) { seed =>
        val stream = new QueuedStream(new Random(seed.toLong), 300000)
        stream(count - 1)
        stream
      }
      val queues = Seq.tabulate(tables)(n => new TableQueue(n.toLong, 0, space))
      val read = new AtomicLong(0)
      val isDone = new AtomicBoolean(false)

      val reader = Future {
        val random = new Random(3)
        (0 until count).foreach { n =>
          queues.zip(streams).foreach { case (queue, stream) =>
            val transaction = stream(n)
            if (random.nextInt(10) == 0) {
              queue.begin(transaction.begin, transaction.originMessage.orNull)
              transaction.changes.foreach { sent =>
                queue.add(sent.message, sent.ordinal, QueuedStream.definition(sent.definition))
              }
              queue.abandon()
            }
            queue.begin(transaction.begin, transaction.originMessage.orNull)
            transaction.changes.foreach { sent =>
              queue.add(sent.message, sent.ordinal, QueuedStream.definition(sent.definition))
            }
            queue.commit(transaction.end)
          }
          read.set(streams.map(_(n).end).min)
        }
        read.set(Long.MaxValue)
        isDone.set(true)
      }

      val appliers = queues.zip(streams).map { case (queue, stream) =>
        Future {
          val random = new Random(queue.oid)
          var transaction = 0
          while (!isDone.get || queue.position.isDefined) {
            val next = queue.cut(read.get, CutLimit(random.nextInt(500000).toLong))
            if (next.isEmpty) Thread.sleep(1)
            next.foreach { cut =>
              assert(queue.position.contains(stream(transaction).lsn))
              val until = transaction + cut.transactions.toInt
              val expected = (transaction until until).iterator.flatMap(stream(_).changes)
              cut.foreach { (ordinal, message) =>
                if (ordinal != Cut.NoOrdinal) {
                  val sent = expected.next()
                  assert(sent.ordinal == ordinal && Arrays.equals(sent.message, message))
                }
              }
              assert(expected.isEmpty)
              if (random.nextInt(5) > 0) {
                queue.remove(cut)
                transaction = until
              }
            }
          }
          assert(transaction == count)
        }
      }
      (reader +: appliers).foreach(Await.result(_, 2.minutes))
      assert(space.memoryUsed == 0 && space.diskUsed == 0)
    }
  }
}
