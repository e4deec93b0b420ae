package io.sparkpgoutput.lake.queue

import java.nio.file.Files
import java.util.Arrays

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages

/** Random histories of queues, each step compared with a model. */
class TableQueuePropertySuite extends AnyFunSuite {

  /** A queue, its model, the session that sends to it and the cut that the applier has. */
  final private class Table(random: Random, space: QueueSpace, oid: Long, largest: Int) {
    private val queue = new TableQueue(oid, 0, space)
    private val model = new QueueModel
    private val stream = new QueuedStream(random, largest)
    private var sending = 0
    private var change = -1
    private var taken = Option.empty[(Cut, Int)]

    def step(): Unit = {
      random.nextInt(10) match {
        case 0           => lose()
        case n if n < 6  => send(1 + random.nextInt(400))
        case n if n == 6 => take()
        case n if n < 9  => check()
        case _           => if (random.nextInt(3) == 0) taken = None else remove()
      }
      compare()
    }

    /** Sends messages of the stream, from where the session is. */
    private def send(messages: Int): Unit = (1 to messages).foreach { _ =>
      val transaction = stream(sending)
      if (change < 0) {
        queue.begin(transaction.begin, transaction.originMessage.orNull)
        model.begin(transaction)
        change = 0
      } else if (change < transaction.changes.size) {
        val sent = transaction.changes(change)
        queue.add(sent.message, sent.ordinal, QueuedStream.definition(sent.definition))
        if (model.open.nonEmpty) model.add(sent)
        change += 1
      } else {
        queue.commit(transaction.end)
        model.commit()
        sending += 1
        change = -1
      }
    }

    /** The next session begins with the open transaction, or with one that is whole in the queue. */
    private def lose(): Unit = {
      queue.abandon()
      model.abandon()
      change = -1
      sending = math.max(0, sending - random.nextInt(3))
    }

    private def take(): Unit = {
      val ends = model.whole.map(_.sent.end)
      val upTo = random.nextInt(4) match {
        case 0 if ends.nonEmpty => ends(random.nextInt(ends.size)) - random.nextInt(2)
        case 1                  => 0L
        case _                  => -1L // The highest LSN.
      }
      val maxBytes = random.nextInt(3) match {
        case 0 => Long.MaxValue
        case 1 => random.nextInt(2000).toLong
        case _ => math.max(0, model.all.map(_.bytes).sum - random.nextInt(3000))
      }
      val changes = random.nextInt(3) match {
        case 0 => math.max(0L, model.all.map(_.changes.toLong).sum - random.nextInt(50).toLong)
        case _ => Long.MaxValue
      }
      val limit = CutLimit(maxBytes, changes)
      val cut = queue.cut(upTo, limit)
      val count = model.cut(if (upTo < 0) Long.MaxValue else upTo, limit)
      assert(cut.map(_.transactions).getOrElse(0L) == count.toLong)
      taken = cut.map(_ -> count)
    }

    /** A cut gives the same each time, whatever the reader has done since. */
    private def check(): Unit = taken.foreach { case (cut, count) =>
      val transactions = model.whole.take(count)
      val expected = model.messages(count).iterator
      cut.foreach { (ordinal, message) =>
        val (expectedOrdinal, expectedMessage) = expected.next()
        assert(ordinal == expectedOrdinal)
        assert(Arrays.equals(message, expectedMessage))
      }
      assert(expected.isEmpty)
      assert(cut.changes == transactions.map(_.changes).sum.toLong)
      assert(cut.bytes == transactions.map(_.bytes).sum)
      assert(cut.end == transactions.last.sent.end)
      assert(cut.lastCommit == StreamMessages.timestamp(transactions.last.sent.lsn))
      assert(cut.xids.toSeq == transactions.map(_.sent.xid).sorted)
    }

    private def remove(): Unit = taken.foreach { case (cut, count) =>
      queue.remove(cut)
      model.remove(count)
      taken = None
    }

    private def compare(): Unit = {
      assert(queue.position == model.all.headOption.map(_.sent.lsn))
      assert(queue.oldest == model.whole.headOption.map(t => StreamMessages.timestamp(t.sent.lsn)))
      assert(queue.changes == model.all.map(_.changes).sum.toLong)
      assert(queue.bytes == model.all.map(_.bytes).sum)
    }

    /** Takes all whole transactions, or drops the queue, also with an open transaction. */
    def end(): Unit =
      if (random.nextInt(3) == 0) queue.drop()
      else {
        queue.abandon()
        model.abandon()
        Iterator
          .continually(queue.cut(-1L, CutLimit(100000)))
          .takeWhile(_.isDefined)
          .foreach { cut =>
            taken = cut.map(cut => (cut, cut.transactions.toInt))
            check()
            remove()
            compare()
          }
      }
  }

  test("a queue returns its changes, whatever happens to sessions, commits and memory") {
    var spilled = 0L
    (1 to 6).foreach { seed =>
      withClue(s"seed $seed: ") {
        val random = new Random(seed.toLong)
        val folder = Files.createTempDirectory("queue")
        // Without memory, each message is its own block in a file, which is slow.
        val memory = if (seed % 6 == 0) 0 else Seq(20000, 100000, 1000000)(random.nextInt(3))
        val largest = Seq(1000, 100000, 3000000)(random.nextInt(3))
        val space = new QueueSpace(memory.toLong, Long.MaxValue, folder.toFile)
        var hasFolder = false
        val tables =
          Seq.tabulate(1 + random.nextInt(3))(n => new Table(random, space, n.toLong, largest))
        (1 to (if (memory == 0) 30 else 100)).foreach { _ =>
          tables(random.nextInt(tables.size)).step()
          assert(space.memoryUsed <= memory)
          assert(!space.isFull)
          hasFolder |= space.diskUsed > 0
          spilled = math.max(spilled, space.diskUsed)
        }
        tables.foreach(_.end())
        assert(space.memoryUsed == 0)
        assert(space.diskUsed == 0)
        assert(folder.toFile.list().toSeq == Seq.empty)
        space.close()
        // The space removes the folder if it has asked for it.
        assert(!hasFolder || !Files.exists(folder))
      }
    }
    assert(spilled > 2 * 1024 * 1024, "Nothing went to files.")
  }
}
